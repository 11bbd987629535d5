"""The run-based runtime: partitions that broadcast events entered before, compaction, growth, saved state."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine import compile_query
from engine.events import AttributeType, EventBatch, EventSchema
from engine.matching.base import Limits
from engine.matching.interner import Interner
from engine.matching.nfa import NfaRuntime
from engine.matching.rows import Binding, MatchRow
from engine.matching.run_rows import RunRows
from tests.engine.matching.feeding import advance

SCHEMA = EventSchema.of(
    {
        "A": {"k": AttributeType.STRING, "x": AttributeType.INT},
        "B": {"k": AttributeType.STRING, "x": AttributeType.INT},
        "N": {"k": AttributeType.STRING},
        "L": {"x": AttributeType.INT},
    }
)


class Stream:
    """A runtime that is fed event by event; `restart`: saved and restored, `compact`: compacted after each."""

    def __init__(
        self, text: str, *, restart: bool = False, compact: bool = False, limits: Limits | None = None
    ) -> None:
        self.query = compile_query(text, SCHEMA)
        self.interner = Interner()
        self.limits = limits or Limits()
        self.runtime = NfaRuntime(self.query.plan, self.interner, self.limits)
        self.restart, self.compact = restart, compact
        self.n_fed = 0

    def feed(self, kind: str, t: int, key: str | None = None, x: int | None = None) -> Sequence[MatchRow]:
        self.n_fed += 1
        row = {"event_id": str(self.n_fed), "type": kind, "t_lo_ms": t, "k": key, "x": x}
        return self.advance(EventBatch.from_rows([row], SCHEMA), t)

    def advance(self, batch: EventBatch, watermark_ms: int) -> Sequence[MatchRow]:
        if self.compact:
            self.runtime._compact_at = 0
        rows = advance(self.runtime, batch, watermark_ms)
        if self.restart:
            state = self.runtime.save()
            self.runtime = NfaRuntime(self.query.plan, self.interner, self.limits)
            self.runtime.restore(state)
        return rows


def ids(rows: Sequence[MatchRow]) -> list[dict[str, Binding]]:
    return [dict(row.bindings) for row in rows]


@pytest.fixture(params=["plain", "restart", "compact", "both"])
def how(request: pytest.FixtureRequest) -> dict[str, bool]:
    return {"restart": request.param in ("restart", "both"), "compact": request.param in ("compact", "both")}


def test_a_broadcast_start_serves_each_partition_once(how: dict[str, bool]) -> None:
    stream = Stream("PATTERN SEQ(L a, A b) WHERE skip_till_next_match { [k] } WITHIN 10", **how)
    assert stream.feed("L", 1) == []
    assert ids(stream.feed("A", 2, "p")) == [{"a": ("1",), "b": ("2",)}]
    assert stream.feed("A", 3, "p") == []  # the run of partition p has moved on
    assert ids(stream.feed("A", 4, "q")) == [{"a": ("1",), "b": ("4",)}]
    assert stream.feed("A", 12, "r") == []  # out of the window


def test_a_kleene_part_of_broadcast_events_goes_with_the_start(how: dict[str, bool]) -> None:
    stream = Stream(
        "PATTERN SEQ(L+ a[], A b) WHERE skip_till_next_match { [k] } WITHIN 10 RETURN sum(a[].x) AS n", **how
    )
    stream.feed("L", 1, x=1)
    stream.feed("L", 2, x=2)
    rows = stream.feed("A", 3, "p")
    assert [(row.bindings["a"], row.values["n"]) for row in rows] == [(("1", "2"), 3), (("2",), 2)]


def test_negated_events_are_kept_as_long_as_they_matter(how: dict[str, bool]) -> None:
    stream = Stream("PATTERN SEQ(A a, !N n, B b) WHERE skip_till_next_match { [k] } WITHIN 10", **how)
    stream.feed("A", 1, "p")
    stream.feed("N", 2, "p")
    stream.feed("A", 3, "p")
    assert ids(stream.feed("B", 4, "p")) == [{"a": ("3",), "b": ("4",)}]


def test_a_trailing_negation_is_decided_by_the_watermark(how: dict[str, bool]) -> None:
    stream = Stream("PATTERN SEQ(A a, B b, !N n) WHERE skip_till_next_match { [k] } WITHIN 10", **how)
    stream.feed("A", 1, "p")
    stream.feed("A", 2, "q")
    assert stream.feed("B", 3, "p") == []
    assert stream.feed("B", 4, "q") == []
    assert stream.feed("N", 11, "p") == []  # the last instant of the window of event 1
    assert stream.advance(EventBatch.empty(), 12) == []
    assert ids(stream.advance(EventBatch.empty(), 13)) == [{"a": ("2",), "b": ("4",)}]


@pytest.mark.parametrize(
    ("merges", "n_runs"),
    [
        (False, 2500),  # those that started at 1001, 1003, ..., 5999
        (True, 1000),  # in each of 500 partitions: the last start, and the others with what followed them
    ],
)
def test_many_runs_grow_and_are_dropped_with_their_window(merges: bool, n_runs: int) -> None:
    text = "PATTERN SEQ(A a, B+ b[], N c) WHERE skip_till_next_match { [k] } WITHIN 5000"
    stream = Stream(text, limits=Limits(merge_runs=merges))
    n = 6000
    rows = [{"event_id": str(t), "type": "A" if t % 2 else "B", "t_lo_ms": t, "k": f"k{t // 10}"} for t in range(n)]
    stream.advance(EventBatch.from_rows(rows, SCHEMA), n)
    assert stream.runtime.n_runs == n_runs
    assert stream.runtime.n_begun - stream.runtime.n_merged >= n_runs
    found = stream.advance(
        EventBatch.from_rows([{"event_id": "end", "type": "N", "t_lo_ms": n, "k": "k599"}], SCHEMA), n
    )
    # Starts at 5991, 5993, 5995, 5997 are followed by a B in their partition, 5999 is not.
    assert [row.bindings["a"] for row in found] == [("5991",), ("5993",), ("5995",), ("5997",)]
    stream.runtime._compact_at = 0
    stream.advance(EventBatch.empty(), 20_000)
    assert (stream.runtime.n_runs, stream.runtime.n_rows) == (0, 0)


def test_a_limit_is_reported_on_the_last_row() -> None:
    stream = Stream("PATTERN SEQ(A a, B b) WHERE skip_till_next_match { [k] } WITHIN 100", limits=Limits(max_rows=2))
    for t in (1, 2, 3):
        stream.feed("A", t, "p")
    rows = stream.feed("B", 4, "p")
    assert [(row.bindings["a"], row.capped) for row in rows] == [(("1",), False), (("2",), True)]


def test_no_row_is_made_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match { [k] } WITHIN 1000"
    made = []
    make = RunRows._rows

    def counted(self: RunRows, start: int) -> list[MatchRow]:
        made.append(len(self))
        return make(self, start)

    monkeypatch.setattr(RunRows, "_rows", counted)
    rows = [
        {"event_id": str(t), "type": "A" if t < 20 else "B", "t_lo_ms": t, "t_hi_ms": t, "k": "p"} for t in range(40)
    ]
    batch = EventBatch.from_rows(rows, SCHEMA)
    assert len(Stream(text).advance(batch, 41)) == 400
    assert made == []
    found = Stream(text, limits=Limits(max_rows=3)).advance(batch, 41)
    assert [(row.bindings["a"], row.capped) for row in found] == [(("0",), False), (("1",), False), (("2",), True)]
    assert made == [4, 2]  # the last row says that there are more


def test_events_without_the_key_are_left_out() -> None:
    stream = Stream("PATTERN SEQ(A a, B b) WHERE skip_till_next_match { [k] } WITHIN 100")
    stream.feed("A", 1, None)
    assert stream.feed("B", 2, None) == []
    assert stream.runtime.n_rows == 0
