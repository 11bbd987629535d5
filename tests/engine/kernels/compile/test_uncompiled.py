"""The first query on a machine does not wait for the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.runtime import cold

pytestmark = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")

UNCOMPILED = """
import threading
from engine import Engine, compile_query
from engine.events import FOREVER_MS
from engine.kernels.compile import uncompiled
from engine.kernels.programs.blocks import select_where
from engine.runtime.warm import _SCHEMA, _events

THERE = threading.Event()
uncompiled.run_uncompiled_until(THERE.is_set, every_s=0.01)
TEXT = "PATTERN SEQ(A a, B+ b[], A c) WHERE {} {{ [k] AND a.x > 1 AND b[i].x >= b[i-1].x }} WITHIN 20"
for strategy in ("skip_till_any_match", "skip_till_next_match"):
    query = compile_query(TEXT.format(strategy), _SCHEMA, name="q")
    rows = Engine([query], _SCHEMA).process(_events(60, 0), FOREVER_MS)
    print(sorted(str(row.bindings) for row in rows))
print(select_where.signatures)
THERE.set()
for thread in threading.enumerate():
    if thread.name == "kernels":
        thread.join()
"""


def rows_of(strategy: str) -> str:
    from engine.events import FOREVER_MS
    from engine.runtime.warm import _SCHEMA, _events

    text = f"PATTERN SEQ(A a, B+ b[], A c) WHERE {strategy} {{ [k] AND a.x > 1 AND b[i].x >= b[i-1].x }} WITHIN 20"
    query = engine.compile_query(text, _SCHEMA, name="q")
    rows = engine.Engine([query], _SCHEMA).process(_events(60, 0), FOREVER_MS)
    return str(sorted(str(row.bindings) for row in rows))


def test_uncompiled_kernels_give_the_same_rows_and_compile_nothing(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", UNCOMPILED],
        env={**os.environ, "CLUSTERCEP_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    any_match, next_match, signatures = found.stdout.splitlines()
    assert any_match == rows_of("skip_till_any_match") != "[]"
    assert next_match == rows_of("skip_till_next_match") != "[]"
    assert signatures == "[]"
    assert not list(tmp_path.rglob("*.nbi"))


def test_a_process_in_the_background_compiles_unless_they_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    awaited: list[Any] = []
    monkeypatch.setattr(cold.subprocess, "Popen", lambda command, **_: started.append(command))
    monkeypatch.setattr(cold, "run_uncompiled_until", awaited.append)
    monkeypatch.delenv("CLUSTERCEP_COMPILE")
    monkeypatch.setattr(cold, "kernels_are_compiled", lambda: True)
    assert not cold.answer_while_compiling()
    assert not started
    monkeypatch.setattr(cold, "kernels_are_compiled", lambda: False)
    assert cold.answer_while_compiling()
    assert started == [[sys.executable, "-m", "engine.runtime.cold", "10"]]
    assert awaited == [cold.kernels_are_compiled]
    with cold.sole_compiler():
        cold.compile_in_background()
    assert len(started) == 1


def test_only_one_process_compiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from engine.kernels.compile import cache

    monkeypatch.setattr(cache.numba.config, "CACHE_DIR", str(tmp_path))
    with cache.sole_compiler() as first, cache.sole_compiler() as second:
        assert (first, second) == (True, False)
    assert not cache.kernels_are_compiled()
    cache.mark_compiled()
    assert cache.kernels_are_compiled()
