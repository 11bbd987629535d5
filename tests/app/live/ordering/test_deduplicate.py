"""Deduplication beside a plain definition: dictionaries, one event at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.live.ordering.deduplicate import Deduplicator
from collectors.schema import load_event_types
from engine.events import EventBatch

SCHEMA = load_event_types()
SOURCES = ("job_history", "container_log", "yarn_rest")
ATTRIBUTES = ("host", "rack", "status")


class Plain:
    """The definition: of what waits and a batch's copies, the preferred source's first fills in from the rest."""

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[int, dict[str, Any]]] = {}
        self.released: set[str] = set()
        self.watermark_ms = -(2**62)
        self.n_seen = 0
        self.n_duplicate = 0
        self.late: list[str] = []

    def offer(self, rank: int, rows: list[dict[str, Any]]) -> None:
        late_now: set[str] = set()
        copies: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        on_time = {r["event_id"] for r in rows if r["event_id"] not in self.released and self.waits(r)}
        for row in rows:
            event_id = row["event_id"]
            self.n_seen += 1
            if event_id in self.released or event_id in late_now:
                self.n_duplicate += 1
            elif not self.waits(row) and (event_id in self.waiting or event_id in on_time):
                self.n_duplicate += 1  # dated earlier than the copy that waits
            elif not self.waits(row):
                late_now.add(event_id)
                self.late.append(event_id)
            else:
                known = [self.waiting[event_id]] if event_id in self.waiting else []
                self.n_duplicate += bool(copies.setdefault(event_id, known))
                copies[event_id].append((rank, row))
        for event_id, ranked in copies.items():
            ordered = sorted(ranked, key=lambda copy: copy[0])  # stable: of equal ones the first that came
            merged = dict(ordered[0][1])
            for name in ATTRIBUTES:
                merged[name] = next((row[name] for _, row in ordered if row[name] is not None), None)
            self.waiting[event_id] = ordered[0][0], merged
        self.released |= late_now

    def waits(self, row: dict[str, Any]) -> bool:
        return bool(row["t_lo_ms"] >= self.watermark_ms)

    def release(self, watermark_ms: int) -> dict[str, dict[str, Any]]:
        self.watermark_ms = max(self.watermark_ms, watermark_ms)
        found = {i: row for i, (_, row) in self.waiting.items() if row["t_lo_ms"] < self.watermark_ms}
        self.waiting = {i: waiting for i, waiting in self.waiting.items() if i not in found}
        self.released |= set(found)
        return found


events = st.builds(
    lambda n, delay, host, rack, status: {
        "event_id": f"e{n}",
        "type": "MapEnd",
        "t_lo_ms": n + delay,  # sources may date one event differently
        "t_hi_ms": n + delay,
        "host": host,
        "rack": rack,
        "status": status,
    },
    st.integers(0, 12),
    st.sampled_from([0, 0, 3]),
    *(st.sampled_from([None, "x", "y"]) for _ in ATTRIBUTES),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(range(len(SOURCES))), st.lists(events, max_size=6)),
        st.tuples(st.none(), st.integers(-1, 14)),
    ),
    max_size=12,
)


@given(steps, st.integers(0, 12))
def test_agrees_with_the_definition(script: list[tuple[int | None, Any]], restart_at: int) -> None:
    precedence = {name: rank for rank, name in enumerate(SOURCES)}
    dedup, plain = Deduplicator(precedence, 10**9, pane_ids=3), Plain()
    n_new: Counter[str] = Counter()
    n_duplicate: Counter[str] = Counter()
    late: list[str] = []
    for number, (rank, content) in enumerate(script):
        if number == restart_at:
            saved = {**dedup.save(), **dedup.sealed()}
            dedup = Deduplicator(precedence, 10**9, pane_ids=3)
            dedup.restore(saved)
        if rank is None:
            expected = plain.release(content)
            found = {row["event_id"]: row for row in dedup.release(content).table.to_pylist()}
            assert {i: {n: row.get(n) for n in ATTRIBUTES} for i, row in found.items()} == {
                i: {n: row[n] for n in ATTRIBUTES} for i, row in expected.items()
            }
        else:
            plain.offer(rank, content)
            offered = dedup.offer(SOURCES[rank], EventBatch.from_rows(content, SCHEMA))
            n_new += offered.n_new
            n_duplicate += offered.n_duplicate
            late += offered.late.strings("event_id").to_pylist()
        assert len(dedup) == len(plain.waiting)
    assert sorted(late) == sorted(plain.late)
    assert n_duplicate.total() == plain.n_duplicate
    assert n_new.total() + n_duplicate.total() + len(late) == plain.n_seen


def row(event_id: str, t_lo_ms: int, **attributes: Any) -> dict[str, Any]:
    return {"event_id": event_id, "type": "LoadStd", "t_lo_ms": t_lo_ms, "t_hi_ms": t_lo_ms + 5, **attributes}


def test_the_header_of_the_preferred_copy_stays_whole() -> None:
    dedup = Deduplicator({"a": 0, "b": 1}, 1_000)
    rough = row("e", 10, weights=[0.5, 0.5, 0, 0, 0, 0], clock_id="b", val=1.0)
    exact = {**row("e", 12), "t_hi_ms": 12, "n_hosts": 3}
    dedup.offer("b", EventBatch.from_rows([rough], SCHEMA))
    dedup.offer("a", EventBatch.from_rows([exact], SCHEMA))
    (found,) = dedup.release(100).table.to_pylist()
    assert (found["t_lo_ms"], found["t_hi_ms"], found["weights"], found["clock_id"]) == (12, 12, None, None)
    assert (found["val"], found["n_hosts"]) == (1.0, 3)


def test_ids_are_forgotten_after_their_time() -> None:
    dedup = Deduplicator({"a": 0}, remember_ms=100)
    dedup.offer("a", EventBatch.from_rows([row("e", 10)], SCHEMA))
    dedup.release(50)
    assert dedup.knows("e")
    dedup.release(115)
    assert dedup.knows("e")
    dedup.release(116)
    assert not dedup.knows("e")


def test_ids_of_samples_are_forgotten_earlier() -> None:
    dedup = Deduplicator({"a": 0}, remember_ms=1_000, brief_types={"LoadStd"}, brief_ms=100)
    life_cycle = {"event_id": "m", "type": "MapEnd", "t_lo_ms": 10, "t_hi_ms": 15}
    dedup.offer("a", EventBatch.from_rows([row("e", 10), life_cycle], SCHEMA))
    dedup.release(115)
    assert (dedup.knows("e"), dedup.knows("m")) == (True, True)
    dedup.release(116)
    assert (dedup.knows("e"), dedup.knows("m")) == (False, True)


def test_ids_of_a_checkpoint_of_version_1_are_known() -> None:
    before = Deduplicator({"a": 0}, remember_ms=100)
    before.offer("a", EventBatch.from_rows([row("waits", 60)], SCHEMA))
    before.release(50)
    ids = pa.table({"event_id": ["e", "forgotten"], "until_ms": pa.array([50, 49], pa.int64())})
    dedup = Deduplicator({"a": 0}, remember_ms=100)
    dedup.restore({"waiting": before.save()["waiting"], "released": ids})
    assert [dedup.knows(name) for name in ("e", "waits", "forgotten")] == [True, True, False]
    assert dedup.watermark_ms == 50


def test_waiting_ids_are_known() -> None:
    dedup = Deduplicator({"a": 0}, remember_ms=100)
    dedup.offer("a", EventBatch.from_rows([row("e", 10)], SCHEMA))
    assert dedup.knows("e")
    assert not dedup.knows("f")


@pytest.mark.parametrize("missing", ["waiting", "open"])
def test_a_state_without_a_part_is_refused(missing: str) -> None:
    saved = Deduplicator({"a": 0}, 100).save()
    del saved[missing]
    with pytest.raises(KeyError):
        Deduplicator({"a": 0}, 100).restore(saved)
