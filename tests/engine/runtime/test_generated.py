"""Queries on generated kernels find what they find on the precompiled ones.

The copies run as plain Python here, which takes no compiler; CLUSTERCEP_EXAMPLES says how many queries, and with
CLUSTERCEP_COMPILED=1 what is written out of each query, its predicates, is compiled: seconds for each.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numba
import numpy as np
import pytest

from engine import Engine, compile_query
from engine.errors import EngineError
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema
from engine.kernels.programs import generated as kernels
from engine.runtime import generated

COMPILED = os.environ.get("CLUSTERCEP_COMPILED") == "1"
N_EXAMPLES = int(os.environ.get("CLUSTERCEP_EXAMPLES", "5"))
SCHEMA = EventSchema.of({t: {"k": AttributeType.INT, "x": AttributeType.INT, "s": AttributeType.STRING} for t in "ABC"})
TERMS = ("a.x", "b[i].x", "b[i-1].x", "b[1].x", "count(b[..i-1])", "sum(b[..i-1].x)", "avg(b[..i-1].x)", "3", "0", "-1")
AT_END = ("a.x", "c.x", "sum(b[].x)", "max(b[].x)", "count(b[])", "stddev(b[].x)", "b[b.len].x", "2", "5")
STRATEGIES = ("skip_till_next_match", "partition_contiguity", "strict_contiguity")


@pytest.fixture(autouse=True)
def _plain_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    def load_plain(folder: Path, entries: tuple[Any, ...]) -> dict[Any, Any]:
        if COMPILED:
            kernels.load_package(folder, ())
            programs = importlib.import_module(f"{folder.name}.programs")
            assert hasattr(programs.evaluate, "py_func")
        with patch.object(numba.config, "DISABLE_JIT", True):
            return kernels.load_package(folder, entries)

    monkeypatch.setattr(generated, "default_folder", lambda: tmp_path)
    monkeypatch.setattr(generated, "load_package", load_plain)
    monkeypatch.setattr(generated, "compile_copies", lambda copies: None)
    monkeypatch.setattr(generated, "has_signatures", lambda entries: True)
    with np.errstate(all="ignore"):
        yield


def text_of(rng: np.random.Generator) -> str:
    def term(among: tuple[str, ...]) -> str:
        one, two = rng.choice(among, 2)
        return str(rng.choice([one, f"({one} {rng.choice(list('+-*/%'))} {two})"]))

    def conjunct(among: tuple[str, ...], must: str) -> str:
        compared = f"{term((*among, must))} {rng.choice(['<', '<=', '>', '>=', '!='])} {must}"
        return str(rng.choice([compared, f"NOT ({compared} AND {must} > 1)", f"({compared} OR {must} IN (1, 2, 4))"]))

    parts = ["[k]", conjunct(TERMS, "b[i].x"), conjunct(AT_END, "c.x"), "a.s != 'q'"]
    return (
        f"PATTERN SEQ(A a, B+ b[], C c) WHERE {rng.choice(STRATEGIES)} {{ {' AND '.join(parts)} }} WITHIN 12 "
        "RETURN a.k, sum(b[].x) * 2 AS s, avg(b[].x) AS m"
    )


def batches(rng: np.random.Generator) -> list[EventBatch]:
    rows = [
        {
            "event_id": str(n),
            "type": str(rng.choice(list("ABBBC"))),
            "t_lo_ms": n,
            "t_hi_ms": n,
            "k": int(rng.integers(2)),
            "x": [None, 0, 1, 2, 4, 5][rng.integers(6)],
            "s": [None, "p", "q"][rng.integers(3)],
        }
        for n in range(60)
    ]
    return [EventBatch.from_rows(rows[at : at + 20], SCHEMA) for at in range(0, 60, 20)]


@pytest.mark.parametrize("seed", range(N_EXAMPLES))
def test_generated_kernels_find_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = compile_query(text_of(rng), SCHEMA, name="q")
    plain, running = Engine([query], SCHEMA), Engine([query], SCHEMA, generated="now")
    for number, batch in enumerate(batches(rng)):
        watermark_ms = 20 * number + 20
        expected = [repr(row) for row in plain.process(batch, watermark_ms)]
        assert [repr(row) for row in running.process(batch, watermark_ms)] == expected, query.resolved
    assert running.statistics["q"].generated == "in use"
    assert [repr(row) for row in running.process(EventBatch.empty(), FOREVER_MS)] == [
        repr(row) for row in plain.finish()
    ]


def test_a_failure_is_told_and_the_precompiled_kernels_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    query = compile_query("PATTERN SEQ(A a, B b) WHERE skip_till_next_match { [k] } WITHIN 9", SCHEMA, name="q")
    tmp_path.chmod(0o777)
    running, plain = Engine([query], SCHEMA, generated="now", threads=2), Engine([query], SCHEMA)
    for batch in batches(rng):
        assert len(running.process(batch, FOREVER_MS)) == len(plain.process(batch, FOREVER_MS))
        break
    assert running.statistics["q"].generated.startswith("failed: ")
    assert "nobody else may write" in running.statistics["q"].generated
    assert plain.statistics["q"].generated == "off"


def test_in_the_background_one_query_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match {{ [k] AND a.x {} b.x }} WITHIN 9"
    queries = [compile_query(text.format(sign), SCHEMA, name=sign) for sign in ("<", ">", ">=")]
    processes: list[Process] = []

    class Process:
        def __init__(self, folder: Path) -> None:
            self.returncode: int | None = None
            processes.append(self)

        def poll(self) -> int | None:
            return self.returncode

        def communicate(self) -> tuple[bytes, bytes]:
            return b"", b"Traceback\nMemoryError\n"

    monkeypatch.setattr(generated, "start_compiling", Process)
    running = Engine(queries, SCHEMA, generated="background")

    def states() -> list[str]:
        running.process(EventBatch.empty(), 0)
        return [running.statistics[query.name].generated for query in queries]

    assert states() == ["compiling", "waiting", "waiting"]
    processes[0].returncode = 0
    assert states() == ["in use", "compiling", "waiting"]
    processes[1].returncode = 1
    assert states() == ["in use", "failed: compiling ended with 1: MemoryError", "compiling"]
    assert kernels.KernelSet().is_generated is False


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(EngineError, match="generated: found 'on', expected one of off, background, now"):
        Engine([], SCHEMA, generated="on")
