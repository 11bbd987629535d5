"""Rows without their events: in the order of the whole rows, with the digests of those rows' events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine import Engine, bindings_digest, brief_rows, compile_query, joined_rows
from engine.events import EventBatch, EventSchema
from engine.matching.output.match_row import MatchRow
from engine.matching.runs.rows import RunRows

SCHEMA = EventSchema.of({"A": {}, "B": {}, "C": {}})
RUNS = "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match WITHIN 1000"
MERGED = "PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match WITHIN 12"
SETS = "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_any_match WITHIN 6 OUTPUT SETS"
GROUPS = "PATTERN SEQ(A a, (SEQ(B b, C c))+) WHERE skip_till_next_match WITHIN 12"


def events(seed: int, n_events: int = 40) -> EventBatch:
    kinds = np.random.default_rng(seed).choice(["A", "B", "B", "C"], n_events)
    rows = [{"event_id": f"{t}\N{SNOWMAN}", "type": str(kind), "t_lo_ms": t} for t, kind in enumerate(kinds)]
    return EventBatch.from_rows(rows, SCHEMA)


def n_bound(row: MatchRow) -> int:
    return len(row.event_ids)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("text", [RUNS, MERGED, SETS, GROUPS])
def test_rows_with_many_events_come_without_them(text: str, seed: int) -> None:
    query = compile_query(text, SCHEMA, name="q")
    running = Engine([query], SCHEMA)
    batch = events(seed)
    rows = joined_rows(
        [
            running.process(batch.take(np.arange(25)), 25),
            running.process(batch.take(np.arange(25, 40)), 40),
            running.finish(),
        ]
    )
    whole = list(rows)
    assert whole
    most = sorted(sum(map(len, row.bindings.values())) for row in whole)[len(whole) // 2]
    found = list(brief_rows(rows, {"q"}, most))
    assert len(found) == len(whole)
    for (row, digest), full in zip(found, whole, strict=True):
        if sum(map(len, full.bindings.values())) > most:
            assert row == replace(full, bindings={}, candidates=None)
            assert digest == bindings_digest(full.bindings)
        else:
            assert (row, digest) == (full, None)
    assert any(digest for _, digest in found)
    assert [row for row, _ in brief_rows(rows, {"another"}, most)] == whole


def test_the_events_of_long_rows_are_not_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Engine([compile_query(RUNS, SCHEMA, name="q")], SCHEMA)
    kinds = ["A", *["B"] * 300]
    batch = EventBatch.from_rows(
        [{"event_id": str(t), "type": kind, "t_lo_ms": t} for t, kind in enumerate(kinds)], SCHEMA
    )
    rows = running.process(batch, 400)
    made: list[int] = []
    make = RunRows._rows

    def counted(self: RunRows, start: int) -> list[MatchRow]:
        made.append(len(self))
        return make(self, start)

    monkeypatch.setattr(RunRows, "_rows", counted)
    found = list(brief_rows(rows, {"q"}, 10))
    assert (len(found), made) == (300, [9])
    assert [n_bound(row) for row, _ in found[:9]] == list(range(2, 11))
    assert len({digest for _, digest in found[9:]}) == 291


def test_a_digest_tells_events_variables_and_groups_apart() -> None:
    different = [
        {"a": ("x",), "b": ("y",)},
        {"a": ("x", "y"), "b": ()},
        {"a": ("xy",), "b": ()},
        {"a": ("y",), "b": ("x",)},
        {"a": (("x",), ("y",))},
        {"a": (("x", "y"),)},
        {"b": (("x", "y"),)},
    ]
    assert len({bindings_digest(bindings) for bindings in different}) == len(different)
