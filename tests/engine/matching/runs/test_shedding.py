"""Runs of the run-based runtime observed, valued and dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import compile_query
from engine.errors import StateError
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema, Int64Array
from engine.matching.arrivals import Arrivals
from engine.matching.output.match_row import MatchRow
from engine.matching.protocol import Limits
from engine.matching.runs.runtime import NfaRuntime
from engine.matching.shedding import KeepsRuns, RunUtilities
from engine.stream.interner import Interner
from tests.engine.matching.feeding import advance

SCHEMA = EventSchema.of({name: {"k": AttributeType.INT} for name in "ABCDN"})
WITHIN_MS = 12


@dataclass
class Watcher:
    """Looks at every event, or at those that `every` leaves."""

    n_states: int
    every: int = 1
    protected: int = 0
    n_offers: Int64Array = field(init=False)
    n_next: Int64Array = field(init=False)
    n_taken: int = 0
    seconds: list[float | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.n_offers = np.zeros(self.n_states, np.int64)
        self.n_next = np.zeros((self.n_states, self.n_states + 1), np.int64)

    def clock(self) -> float:
        self.n_taken += 1
        return float(self.n_taken)

    def positions(self, n_offered: int) -> Int64Array:
        return np.arange(0, n_offered, self.every)

    def take(self, n_offers: Int64Array, n_next: Int64Array, seconds: float | None) -> None:
        self.n_offers += n_offers
        self.n_next += n_next
        self.seconds.append(seconds)


def runtime_of(pattern: str, *, keyed: bool = True, merge: bool = True, clauses: str = "") -> NfaRuntime:
    key = " { [k] }" if keyed else ""
    text = f"PATTERN {pattern} WHERE skip_till_next_match{key} WITHIN {WITHIN_MS} {clauses}"
    plan = compile_query(text, SCHEMA).plan
    return NfaRuntime(plan, Interner(), Limits(merge_runs=merge))  # type: ignore[arg-type]


def batch_of(events: Sequence[tuple[str, int, int]]) -> EventBatch:
    """Events as (type, time, key)."""
    rows = [{"event_id": str(n), "type": kind, "t_lo_ms": t, "k": k} for n, (kind, t, k) in enumerate(events)]
    return EventBatch.from_rows(rows, SCHEMA)


def bindings(rows: Sequence[MatchRow]) -> Sequence[object]:
    return sorted(sorted((name, ids) for name, ids in row.bindings.items()) for row in rows)


def expected(kinds: str, kleene: str, events: Sequence[tuple[str, int, int]]) -> tuple[Int64Array, Int64Array]:
    """Offers and what came of them, run by run from the definition of skip till next match: for a sequence of distinct
    types, those in `kleene` with a closure."""
    n = len(kinds)
    n_offers, n_next = np.zeros(n, np.int64), np.zeros((n, n + 1), np.int64)
    runs: list[tuple[int, int, int]] = []  # key, state, start
    for kind, t, key in events:
        if kind not in kinds:
            continue
        to = kinds.index(kind)
        after: list[tuple[int, int, int]] = []
        for k, state, start in runs:
            if k != key:
                after.append((k, state, start))
                continue
            if t - start > WITHIN_MS:
                continue
            n_offers[state] += 1
            if state == to and kind in kleene:
                n_next[state, state] += 1
                after.append((k, state, start))
                n_next[state, n] += to == n - 1
            elif to == state + 1:
                if kinds[state] in kleene:  # the looping run is left behind
                    n_next[state, state] += 1
                    after.append((k, state, start))
                if to < n - 1 or kind in kleene:
                    n_next[state, to] += 1
                    after.append((k, to, start))
                n_next[state, n] += to == n - 1
            else:
                n_next[state, state] += 1
                after.append((k, state, start))
        if to == 0 and (n > 1 or kind in kleene):
            after.append((key, 0, t))
        runs = after
    return n_offers, n_next


events_strategy = st.lists(
    st.tuples(st.sampled_from("ABCD"), st.integers(0, 4), st.integers(0, 1)), min_size=1, max_size=40
).map(
    lambda drawn: [
        (kind, t, key)
        for (kind, _, key), t in zip(drawn, np.cumsum([gap for _, gap, _ in drawn]).tolist(), strict=True)
    ]
)


@pytest.mark.parametrize(
    ("pattern", "kinds", "kleene"),
    [
        ("SEQ(A a, B b, C c)", "ABC", ""),
        ("SEQ(A a, B+ b[], C c)", "ABC", "B"),
        ("SEQ(A a, B b, C+ c[])", "ABC", "C"),
        ("SEQ(A+ a[], B b)", "AB", "A"),
    ],
)
@given(events=events_strategy)
def test_observed_is_what_runs_do(pattern: str, kinds: str, kleene: str, events: list[tuple[str, int, int]]) -> None:
    """Without merging each partial match is a run."""
    runtime = runtime_of(pattern, merge=False)
    watcher = Watcher(runtime.n_run_states)
    runtime.watch_runs(watcher)
    advance(runtime, batch_of(events), FOREVER_MS)
    n_offers, n_next = expected(kinds, kleene, events)
    # An event of which the partition has no run yet, or that no edge accepts, reaches no run.
    reached = [e for e in events if e[0] in kinds]
    assert watcher.n_offers.tolist() == n_offers.tolist(), reached
    assert watcher.n_next.tolist() == n_next.tolist()


@given(events=events_strategy, every=st.integers(1, 5), keyed=st.booleans())
def test_rows_are_the_same_when_observed(events: list[tuple[str, int, int]], every: int, keyed: bool) -> None:
    for pattern in ("SEQ(A a, B+ b[], C c)", "SEQ(A a, !B n, C c)", "SEQ(A+ a[], C c, !D n)"):
        plain, watched = runtime_of(pattern, keyed=keyed), runtime_of(pattern, keyed=keyed)
        watched.watch_runs(Watcher(watched.n_run_states, every))
        half = len(events) // 2
        for part in (events[:half], events[half:]):
            at_ms = FOREVER_MS if part is not events[:half] else events[half][1]
            batch = batch_of([e for e in part if e[1] < at_ms])
            assert list(advance(plain, batch, at_ms)) == list(advance(watched, batch, at_ms))


def test_merged_runs_are_counted_where_they_come_from() -> None:
    runtime = runtime_of("SEQ(A a, B b, C c)")
    watcher = Watcher(3)
    runtime.watch_runs(watcher)
    advance(runtime, batch_of([("A", 1, 0), ("A", 2, 0), ("A", 3, 0), ("B", 4, 0), ("C", 5, 0)]), 6)
    assert runtime.n_merged == 2
    # 0 + 1 + 2 offers by the A's, 3 by B; the one that they have become is offered C.
    assert watcher.n_offers.tolist() == [6, 1, 0]
    assert watcher.n_next.tolist() == [[3, 3, 0, 0], [0, 0, 0, 1 * 1], [0, 0, 0, 0]]


def test_time_is_told_per_event_unless_a_sample_is_watched() -> None:
    for protected, emitted in ((0, 1.0), (2, None)):
        runtime = runtime_of("SEQ(A a, B b)")
        watcher = Watcher(2, protected=protected)
        runtime.watch_runs(watcher)
        advance(runtime, batch_of([("A", 1, 0), ("B", 2, 0)]), 3)
        assert set(watcher.seconds) == {emitted}


def flat(n_states: int, protected: int = 0) -> RunUtilities:
    """Utility = 100 * state + events left."""
    values = 100.0 * np.arange(n_states)[:, None] + 2.0 * np.arange(60)[None, :]
    return RunUtilities(np.ascontiguousarray(values), 2, protected)


def test_utility_is_looked_up_by_state_and_events_left() -> None:
    runtime = runtime_of("SEQ(A a, B b, C c)", keyed=False)
    runtime.count_arrivals()
    advance(runtime, batch_of([("A", 0, 0), ("A", 3, 0), ("B", 4, 0), ("A", 6, 0)]), 7)
    rate = runtime._arrivals.per_ms(1)[0]  # type: ignore[union-attr]
    at_hand = runtime.runs_at_hand(flat(3), 7)
    # The two that took B have been merged, and are worth both: as the one of them that began last.
    assert dict(zip(at_hand.utility.round(6), at_hand.n_partial_matches, strict=True)) == pytest.approx(
        {round(2 * (100 + rate * (3 + 12 - 7)), 6): 2.0, round(rate * (6 + 12 - 7), 6): 1.0}
    )
    # When the window of the first is over, only the second one counts.
    assert runtime.runs_at_hand(flat(3), 13).n_partial_matches.tolist() == [1.0, 1.0]


def test_what_is_dropped_matches_no_more_and_the_rest_does() -> None:
    events = [("A", t, t) for t in range(4)] + [("B", 4 + t, t) for t in range(4)]
    runtime = runtime_of("SEQ(A a, B b)")
    assert isinstance(runtime, KeepsRuns)
    advance(runtime, batch_of(events[:4]), 4)
    at_hand = runtime.runs_at_hand(flat(2), 4)
    assert runtime.n_runs == 4
    # One unbroken order of starts: the oldest have the fewest events left.
    order = np.argsort(at_hand.utility, kind="stable")
    runtime.drop_runs(at_hand.numbers[order[:2]])
    assert runtime.n_runs == 2
    rows = advance(runtime, batch_of(events[4:]), FOREVER_MS)
    assert len(rows) == 2


@given(events=events_strategy, seed=st.integers(0, 2**31), data=st.data())
def test_dropping_runs_tells_nothing_that_is_no_match(
    events: list[tuple[str, int, int]], seed: int, data: st.DataObject
) -> None:
    """OUTPUT ALL and SETS without SELECT FIRST or CONSUME: what is told is a part of what would be."""
    random = np.random.default_rng(seed)
    pattern = data.draw(
        st.sampled_from(["SEQ(A a, B b, C c)", "SEQ(A a, B+ b[], C c)", "SEQ(A a, !B n, C c)", "SEQ(A a, C c, !B n)"])
    )
    clauses = data.draw(st.sampled_from(["", "OUTPUT SETS"]))
    whole = bindings(advance(runtime_of(pattern, clauses=clauses), batch_of(events), FOREVER_MS))
    shed = runtime_of(pattern, clauses=clauses)
    shed.count_arrivals()
    found: list[MatchRow] = []
    ids = batch_of(events)
    for n, (_, t, _) in enumerate(events):
        if n and events[n - 1][1] == t:
            continue
        same = [k for k, e in enumerate(events) if e[1] == t]
        found += advance(shed, ids.where(np.isin(np.arange(len(events)), same)), t + 1)
        at_hand = shed.runs_at_hand(flat(shed.n_run_states), t + 1)
        assert len(at_hand.numbers) == len(set(at_hand.numbers.tolist())) == shed.n_runs
        chosen = at_hand.numbers[random.random(len(at_hand.numbers)) < 0.3]
        shed.drop_runs(chosen)
        assert shed.n_runs == len(at_hand.numbers) - len(chosen)
        if random.random() < 0.3:
            shed.restore(shed.save())
    found += advance(shed, EventBatch.empty(), FOREVER_MS)
    remaining = list(whole)
    for one in bindings(found):
        assert one in remaining
        remaining.remove(one)


def test_a_sample_is_never_dropped() -> None:
    runtime = runtime_of("SEQ(A a, B b)")
    advance(runtime, batch_of([("A", t % 12, t) for t in range(400)]), 12)
    at_hand = runtime.runs_at_hand(flat(2, protected=4), 12)
    share = np.isinf(at_hand.utility).mean()
    assert 0 < share < 0.6
    assert np.isfinite(runtime.runs_at_hand(flat(2), 12).utility).all()


def test_utilities_of_another_query_are_refused() -> None:
    with pytest.raises(StateError, match=r"utilities of 2 states .* whose runs have 3"):
        runtime_of("SEQ(A a, B b, C c)").runs_at_hand(flat(2), 0)


def test_a_partition_is_expected_to_go_on_for_as_long_as_it_has() -> None:
    """Two events a second for 100 s of a window of 1,000 s: 200 more, not 2,000; and as many of one that is new."""
    arrivals = Arrivals(1_000_000)
    times = np.arange(0, 100_001, 500)
    arrivals.take(times, np.zeros(len(times), np.int64), 1)
    old, new = arrivals.per_ms(2) * 1_000_000
    assert old == pytest.approx(200, rel=0.1)
    assert new == pytest.approx(200, rel=0.1)
    times = np.arange(100_500, 3_000_001, 500)
    arrivals.take(times, np.zeros(len(times), np.int64), 1)
    assert arrivals.per_ms(1)[0] * 1_000_000 == pytest.approx(2_000, rel=0.1), "it has been there for a window"


def test_rates_are_those_of_partitions_and_of_all_where_little_is_known() -> None:
    random = np.random.default_rng(5)
    arrivals = Arrivals(10_000)
    n_seen = 0
    for step in range(40):
        times, keys = [], []
        for key, rate in enumerate((0.01, 0.1)):
            n = random.poisson(rate * 1_000)
            times += (step * 1_000 + np.sort(random.integers(0, 1_000, n))).tolist()
            keys += [key] * n
        order = np.argsort(times, kind="stable")
        arrivals.take(np.array(times)[order], np.array(keys)[order], 3)
        n_seen += len(times)
    slow, quick, unknown = arrivals.per_ms(3)
    assert slow == pytest.approx(0.01, rel=0.35)
    assert quick == pytest.approx(0.1, rel=0.1)
    assert slow < unknown < quick, "nothing known of the third: the rate of all"
    arrivals.keep(np.array([1]))
    assert arrivals.per_ms(2)[0] == pytest.approx(quick, rel=0.15)
    assert Arrivals(10).per_ms(2).tolist() == [0.0, 0.0]
