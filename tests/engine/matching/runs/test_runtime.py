"""The run-based runtime: partitions that broadcast events entered before, compaction, growth, saved state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine import compile_query
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema
from engine.matching.output.match_row import Binding, MatchRow
from engine.matching.protocol import Limits
from engine.matching.runs.rows import RunRows
from engine.matching.runs.runtime import NfaRuntime
from engine.runtime.factory import make_runtime
from engine.stream.interner import Interner
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


LOOP = "PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match {{ [k] AND a[1].x = 0 {} }} WITHIN 12"
MERGING = (
    LOOP.format(""),
    LOOP.format("AND a[i].x > a[i-1].x"),
    LOOP.format("AND a[i].x >= min(a[..i-1].x)"),
    LOOP.format("AND a[i].x >= 0 AND b.x > avg(a[].x)") + " RETURN count(a[]) AS n, b.x",
    LOOP.format("AND b.x > a[i].x"),
    "PATTERN SEQ(A+ a[], B b, !N n) WHERE skip_till_next_match { [k] AND a[1].x = 0 } WITHIN 12",
    "PATTERN SEQ(A+ a[], !N n, B b) WHERE skip_till_next_match { [k] AND a[1].x = 0 } WITHIN 12",
    "PATTERN SEQ(A a, A b, B+ c[]) WHERE skip_till_next_match { [k] AND c[i].x >= b.x } WITHIN 12",
    "PATTERN SEQ(L l, A+ a[], B b) WHERE skip_till_next_match { [k] AND b.x >= l.x } WITHIN 12",
    "PATTERN SEQ(A+ a[], B b) WHERE partition_contiguity { [k] } WITHIN 12",
    "PATTERN SEQ(A+ a[], B b) WHERE strict_contiguity { a[i].x >= a[1].x } WITHIN 12 TIES STRICT",
)


def drawn_events(seed: int, n: int) -> EventBatch:
    random = np.random.default_rng(seed)
    kinds = random.choice(list("AAAAAAABBBNLL"), n).tolist()
    times = np.cumsum(random.integers(0, 3, n)).tolist()
    rows = [
        {"event_id": str(at), "type": kind, "t_lo_ms": t, "k": k, "x": x}
        for at, (kind, t, k, x) in enumerate(
            zip(kinds, times, random.choice(["p", "q"], n).tolist(), random.integers(0, 4, n).tolist(), strict=True)
        )
    ]
    for row in rows:
        for absent in {"L": ("k",), "N": ("x",)}.get(str(row["type"]), ()):
            row[absent] = None
    return EventBatch.from_rows(rows, SCHEMA)


def found_in(stream: Stream, events: EventBatch, n_pieces: int) -> list[tuple[object, ...]]:
    """What tells a match from others, in an order of its own; the stream comes in so many pieces."""
    rows: list[MatchRow] = []
    for piece in np.array_split(np.arange(len(events)), n_pieces):
        part = events.take(piece)
        rows += stream.advance(part, int(part.t_lo_ms[-1]))
    rows += stream.advance(EventBatch.empty(), FOREVER_MS)
    return sorted(
        (str(row.bindings), row.key, row.first_lo_ms, row.last_hi_ms, str(row.values)) for row in rows
    )  # fmt: skip


@pytest.mark.parametrize("text", MERGING)
def test_merging_changes_no_match(text: str, how: dict[str, bool]) -> None:
    events = drawn_events(len(text), 120)
    apart = Stream(text, limits=Limits(merge_runs=False), **how)
    merged = Stream(text, **how)
    expected = found_in(apart, events, 1)
    assert expected
    assert found_in(merged, events, 7) == expected
    assert apart.runtime.n_merged == 0
    assert merged.runtime.n_offered <= apart.runtime.n_offered


def test_runs_that_differ_in_nothing_are_one() -> None:
    runs = Stream(MERGING[0])
    for t in range(6):
        runs.feed("A", t, "p", 0)
    assert (runs.runtime.n_runs, runs.runtime.n_merged, runs.runtime.n_begun) == (1, 5, 6)
    assert [row.bindings["a"] for row in runs.feed("B", 6, "p")] == [tuple("123456"[k:]) for k in range(6)]
    # Those that started more than a window ago are no match any more, and in the end nothing is left of them.
    assert [row.bindings["a"] for row in runs.feed("B", 15, "p")] == [("4", "5", "6"), ("5", "6"), ("6",)]
    runs.compact = True
    runs.advance(EventBatch.empty(), 17)
    assert (runs.runtime.n_rows, runs.runtime.n_runs) == (1, 1)
    assert [row.bindings["a"] for row in runs.feed("B", 17, "p")] == [("6",)]


def test_a_run_is_merged_by_what_it_will_be_asked() -> None:
    runs = Stream(LOOP.format("AND a[i].x >= min(a[..i-1].x)"))
    runs.feed("A", 1, "p", 0)
    runs.feed("A", 2, "p", 0)  # both have 0 as their minimum
    assert runs.runtime.n_runs == 1
    counted = Stream(LOOP.format("") + " RETURN count(a[]) AS n")
    counted.feed("A", 1, "p", 0)
    counted.feed("A", 2, "p", 0)  # one event, and two
    assert counted.runtime.n_runs == 2


def test_partitions_that_rest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.matching.runs.runtime._LEAST_ROWS", 64)
    for strategy in ("skip_till_next_match", "partition_contiguity"):
        stream = Stream(f"PATTERN SEQ(A a, B b) WHERE {strategy} {{ [k] AND a.x > 0 }} WITHIN 50")
        n_found = 0
        for start in range(0, 6_000, 200):
            rows = [
                {"event_id": str(t), "type": "AB"[t % 2], "t_lo_ms": t, "k": f"k{t // 2}", "x": t // 2 % 2}
                for t in range(start, start + 200)
            ]
            n_found += len(stream.advance(EventBatch.from_rows(rows, SCHEMA), start + 200))
            assert stream.runtime.n_rows < 700
            assert stream.runtime.store.n_partitions < 700
            assert max(len(stream.runtime._memory.nodes), len(stream.runtime._memory.runs)) < 5_000
        assert n_found == 1_500


@pytest.mark.parametrize("pattern", ["SEQ(A a, B b)", "SEQ(A a, (SEQ(B b, A c))+, B d)"])
def test_what_is_not_needed_any_more_is_not_saved(pattern: str) -> None:
    """However long ago it was last given back: checkpoints of a steady stream are of one size."""
    query = compile_query(f"PATTERN {pattern} WHERE skip_till_next_match {{ [k] }} WITHIN 50", SCHEMA)
    runtime = make_runtime(query, Interner(), Limits())
    saved = []
    for start in range(0, 3_000, 100):
        rows = [
            {"event_id": str(t), "type": "AB"[t % 2], "t_lo_ms": t, "k": f"k{t // 7 % 3}", "x": 1}
            for t in range(start, start + 100)
        ]
        advance(runtime, EventBatch.from_rows(rows, SCHEMA), start + 100)
        saved.append(runtime.save()["store"].num_rows)
    assert max(saved) < 256 + 100
    assert min(saved) > 0


@pytest.mark.parametrize("strategy", ["skip_till_next_match", "partition_contiguity", "strict_contiguity"])
def test_a_partition_whose_runs_have_broadcast_events_alone_stays(strategy: str) -> None:
    """Its last event is a window back, the run began since: known anew, the partition would be given it once more."""
    stream = Stream(f"PATTERN SEQ(L a, B b) WHERE {strategy} {{ [k] }} WITHIN 3", compact=True)
    found = [
        row for kind, t, key in (("L", 3, None), ("B", 4, "p"), ("L", 9, None)) for row in stream.feed(kind, t, key)
    ]
    stream.advance(EventBatch.empty(), 10)
    found += [*stream.feed("B", 10, "p"), *stream.advance(EventBatch.empty(), FOREVER_MS)]
    assert ids(found) == [{"a": ("1",), "b": ("2",)}, {"a": ("3",), "b": ("4",)}]


def test_a_key_that_predicates_imply_is_not_seen(how: dict[str, bool]) -> None:
    named = "PATTERN SEQ(A a, B+ b[], N c) WHERE skip_till_next_match { [k] } WITHIN 12"
    implied = named.replace("[k]", "a.k = b[i].k AND a.k = c.k")
    events = drawn_events(5, 120)
    with_key, without = found_in(Stream(named, **how), events, 3), found_in(Stream(implied, **how), events, 5)
    assert with_key
    assert without == [(bindings, (), *rest) for bindings, _, *rest in with_key]


def test_events_that_extend_the_only_run_of_their_partition_by_definition() -> None:
    text = (
        "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match { [k] AND b[b.len].x > avg(b[].x) } WITHIN 20 "
        "RETURN count(b[].x) AS n, sum(b[].x) AS s, min(b[].x) AS low, max(b[].x) AS high, stddev(b[].x) AS spread "
        "HAVING sum(b[].x) > 6 TIES STRICT"
    )
    random = np.random.default_rng(7)
    keys, times = ("p", "q"), np.sort(random.integers(0, 30, 60)).tolist()
    values = [None if x == 5 else x for x in random.integers(0, 6, 60).tolist()]
    kinds = ["A", "A"] + ["B"] * 58
    rows = [
        {"event_id": str(n), "type": kinds[n], "t_lo_ms": times[n], "k": keys[n % 2], "x": values[n]} for n in range(60)
    ]
    expected: list[tuple[str, tuple[str, ...], tuple[float, ...]]] = []
    taken: dict[str, list[int]] = {key: [] for key in keys}
    last_ms = {"p": times[0], "q": times[1]}
    for n in range(2, 60):
        key = keys[n % 2]
        if times[n] - times[n % 2] > 20 or times[n] <= last_ms[key]:
            continue
        last_ms[key] = times[n]
        taken[key].append(n)
        given = [x for at in taken[key] if (x := values[at]) is not None]
        x = values[n]
        if x is not None and x > np.mean(given) and sum(given) > 6:
            numbers = (len(given), sum(given), min(given), max(given), float(np.std(given)))
            expected.append((str(n % 2), tuple(map(str, taken[key])), numbers))
    for cut in (60, 31, 7):
        stream = Stream(text)
        found: list[MatchRow] = []
        for start in range(0, 60, cut):
            part = rows[start : start + cut]
            found += stream.advance(EventBatch.from_rows(part, SCHEMA), part[0]["t_lo_ms"])
        assert [(*row.bindings["a"], row.bindings["b"]) for row in found] == [row[:2] for row in expected]
        for row, (_, _, numbers) in zip(found, expected, strict=True):
            assert tuple(row.values.values()) == pytest.approx(numbers)
    assert len(expected) > 5
