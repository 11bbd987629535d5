"""A latency bound held by dropping partial matches, on a simulated clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from engine import Engine, Limits, MatchRow, compile_queries, compile_query
from engine.events import FOREVER_MS, EventBatch, Float64Array
from engine.runtime.shedding.run_shedder import RunShedder, RunStrategy
from engine.runtime.shedding.run_watch import RunWatch, Sampling
from engine.shedding.overload.detector import Bound
from tests.engine.runtime.shedding.simulated import SCHEMA, CostModel, controlled, drive, three_types, throughput

SEQUENCE = {"q": "PATTERN SEQ(A a, B b, C c) WHERE skip_till_next_match { b.x > a.x AND c.x = a.x + b.x } WITHIN 150"}
LONG = {"q": "PATTERN SEQ(A a, B b, C c, B d, C e, B f) WHERE skip_till_next_match WITHIN 30"}
BOUND = Bound(1.0, 0.2)


def bindings(rows: list[MatchRow]) -> Counter[tuple[object, ...]]:
    return Counter((row.query, *sorted(row.bindings.items())) for row in rows)


@dataclass(frozen=True)
class Unshed:
    """A stream that comes faster than it can be evaluated, and what an engine without a bound does with it."""

    stream: EventBatch
    arrivals_s: Float64Array
    matches: Counter[tuple[object, ...]]
    longest_s: float


@cache
def unshed(jumps: bool) -> Unshed:
    """Of `SEQUENCE`, for all strategies: without a bound there is none."""
    stream = three_types(6_000, 5)
    per_s = throughput(SEQUENCE, stream)
    rate = np.full(len(stream), 1.6)
    if jumps:
        rate = np.where(np.arange(len(stream)) < 2_500, 0.8, 2.0)
    arrivals: Float64Array = np.cumsum(1.0 / (rate * per_s))
    whole = controlled(SEQUENCE, None)[0].process(stream, FOREVER_MS)
    unbounded, idle = controlled(SEQUENCE, None)
    longest_s = float(drive(unbounded, idle, stream, arrivals).latencies_s.max())
    return Unshed(stream, arrivals, bindings(list(whole)), longest_s)


@pytest.mark.parametrize("jumps", [False, True])
def test_without_a_bound_events_wait_for_longer(jumps: bool) -> None:
    assert unshed(jumps).longest_s > BOUND.latency_s


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("strategy", list(RunStrategy))
@pytest.mark.parametrize("jumps", [False, True])
def test_the_bound_holds_under_overload(strategy: RunStrategy, jumps: bool) -> None:
    without = unshed(jumps)
    stream, arrivals = without.stream, without.arrivals_s
    engine, clock = controlled(SEQUENCE, BOUND, strategy=strategy)
    driven = drive(engine, clock, stream, arrivals)
    assert driven.latencies_s.max() <= BOUND.latency_s
    assert engine.overload is not None
    assert engine.overload.statistics.n_shed_steps > 0
    assert engine.overload.statistics.achievable_s is None
    assert not bindings(driven.rows) - without.matches, "a match was told that is none"


def test_the_least_useful_are_dropped_first() -> None:
    """pSPICE keeps more of the matches than without the processing time, and that more than dropping at random does."""
    stream = three_types(8_000, 6, (0.6, 0.2, 0.2))
    per_s = throughput(LONG, stream)
    n = {}
    for strategy in RunStrategy:
        engine, clock = controlled(LONG, BOUND, strategy=strategy)
        n[strategy] = len(drive(engine, clock, stream, np.arange(len(stream), dtype=np.float64) / (1.4 * per_s)).rows)
    assert n[RunStrategy.PSPICE] > n[RunStrategy.PSPICE_WITHOUT_TIME] > n[RunStrategy.RANDOM]


def test_without_overload_nothing_changes() -> None:
    """Rate 0 of shedding: rows, their order and the saved state are those of an engine without a bound."""
    stream = three_types(3_000, 7)
    plain = Engine([compile_query(SEQUENCE["q"], SCHEMA, name="q")], SCHEMA, limits=Limits(merge_runs=False))
    engine, clock = controlled(SEQUENCE, Bound(1e9, 0.0))
    arrivals = np.arange(len(stream)) * 1e-9
    rows = list(plain.process(stream, 3_000))
    driven = drive(engine, clock, stream, arrivals)
    assert driven.rows == [*rows, *plain.finish()]
    assert engine.overload is not None
    assert engine.overload.statistics.n_shed_steps == 0
    mine, its = engine.save(), plain.save()
    assert its.keys() == mine.keys() - {"overload"}
    assert all(mine[part].equals(its[part]) for part in its)


def test_counts_are_lower_bounds_after_runs_were_dropped() -> None:
    texts = {"q": "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match { c.x > a.x } WITHIN 60 OUTPUT COUNT"}
    stream = three_types(4_000, 8)
    per_s = throughput(texts, stream)
    engine, clock = controlled(texts, BOUND)
    driven = drive(engine, clock, stream, np.arange(len(stream), dtype=np.float64) / (2.5 * per_s))
    unshed = controlled(texts, None)[0].process(stream, FOREVER_MS)
    whole = {(*row.event_ids[:1], row.last_hi_ms): row for row in unshed}
    n_flagged = sum(not row.count_exact for row in driven.rows)
    assert n_flagged > 0
    for row in driven.rows:
        full = whole[(*row.event_ids[:1], row.last_hi_ms)]
        assert row.count <= full.count
        assert row.count == full.count or not row.count_exact


@cache
def long_stream() -> tuple[EventBatch, float, int]:
    """A stream for `LONG`, the events a second that are evaluated without a bound, and how many matches there are."""
    stream = three_types(8_000, 9, (0.6, 0.2, 0.2))
    return stream, throughput(LONG, stream), len(controlled(LONG, None)[0].process(stream, FOREVER_MS))


@pytest.mark.parametrize("strategy", [RunStrategy.PSPICE, RunStrategy.RANDOM])
def test_loss_is_estimated_as_it_is(strategy: RunStrategy) -> None:
    """The matches that the dropped runs were expected to become are about those that are missing."""
    stream, per_s, n_whole = long_stream()
    engine, clock = controlled(LONG, BOUND, strategy=strategy)
    driven = drive(engine, clock, stream, np.arange(len(stream), dtype=np.float64) / (1.4 * per_s))
    assert engine.overload is not None
    loss = engine.overload.shedder.loss["q"]
    n_missing = n_whole - len(driven.rows)
    assert n_missing > 500
    # Of partial matches by a price a fifth more; by a number 7 % more at this rate, 17 % at 180 %.
    assert loss.expected_matches == pytest.approx(n_missing, rel=0.25)
    assert loss.n_runs == loss.n_partial_matches, "nothing was merged"


def test_the_lowest_are_chosen_over_all_shards() -> None:
    texts = {"q": "PATTERN SEQ(A a, B b, C c) WHERE skip_till_next_match { [k] AND b.x > a.x } WITHIN 9000"}
    stream = three_types(5_000, 10)
    engine, _ = controlled(texts, Bound(1e9, 0.0), threads=2)
    assert engine.overload is not None
    shedder = engine.overload.shedder
    for until in (2_500, 5_000):  # divided by key from the first batch on, that is short against the window
        part = stream.where((stream.t_lo_ms >= until - 2_500) & (stream.t_lo_ms < until))
        engine.process(part, until)
    shedder.attach(engine._runtimes)
    assert len({id(part) for _, part in shedder._parts}) == 2
    assert shedder.is_trained
    before = [part.runs_at_hand(shedder._utilities(key, part), 5_000).utility for key, part in shedder._parts]
    every = np.sort(np.concatenate(before))
    n = int(np.isfinite(every).sum()) // 2
    assert shedder.drop(n, 5_000) == n
    after = [part.runs_at_hand(shedder._utilities(key, part), 5_000).utility for key, part in shedder._parts]
    assert np.sort(np.concatenate(after)) == pytest.approx(every[n:])
    assert all(len(now) < len(then) for now, then in zip(after, before, strict=True))


def test_queries_that_keep_no_runs_are_named() -> None:
    texts = {**SEQUENCE, "any": "PATTERN SEQ(A a, !B b, C c) WHERE skip_till_any_match WITHIN 5"}
    engine, clock = controlled(texts, BOUND)
    drive(engine, clock, three_types(300, 1), np.arange(300) * 0.001)
    assert engine.overload is not None
    assert engine.overload.shedder.exempt == {"any"}


def test_unions_shed_branch_by_branch() -> None:
    texts = {"q": "PATTERN SEQ(A a, OR(B b, C c), C d) WHERE skip_till_next_match { d.x > a.x } WITHIN 150"}
    stream = three_types(5_000, 12)
    engine, _ = controlled(texts, BOUND)
    assert engine.overload is not None
    engine.process(stream, 5_000)
    shedder = engine.overload.shedder
    shedder.attach(engine._runtimes)
    assert {key for key, _ in shedder._parts} == {("q", 0), ("q", 1)}
    n = shedder.n_runs
    assert shedder.drop(n // 2, 5_000) == n // 2


def test_a_bound_that_cannot_be_met_is_told() -> None:
    """Events alone cost more than there is time."""
    engine, clock = controlled(SEQUENCE, BOUND, costs=CostModel(per_event_s=1e-3, per_offer_s=1e-6))
    stream = three_types(3_000, 3)
    drive(engine, clock, stream, np.arange(len(stream), dtype=np.float64) / 5_000.0)
    assert engine.overload is not None
    achievable_s = engine.overload.statistics.achievable_s
    assert achievable_s is not None
    assert achievable_s > BOUND.latency_s


def test_what_may_be_missing_is_known_after_a_restart() -> None:
    stream = three_types(4_000, 5)
    per_s = throughput(SEQUENCE, stream)
    engine, clock = controlled(SEQUENCE, BOUND)
    arrivals = np.arange(len(stream), dtype=np.float64) / (2.0 * per_s)
    half = 3_000
    drive_half = stream.where(np.arange(len(stream)) < half)
    assert engine.overload is not None
    for start in range(0, half, 50):
        clock.idle_s += max(0.0, arrivals[start + 49] - clock())
        part = drive_half.where((np.arange(half) >= start) & (np.arange(half) < start + 50))
        engine.process(part, start + 50, released_s=arrivals[start : start + 50].tolist())
    last_ms = engine.overload.shedder.loss["q"].last_ms
    assert last_ms is not None
    again, _ = controlled(SEQUENCE, BOUND)
    again.restore(engine.save())
    assert again.overload is not None
    assert again.overload.shedder.loss["q"].last_ms == last_ms
    again.overload.shedder.attach(again._runtimes)
    mine, its = again.overload.shedder.watch_of("q"), engine.overload.shedder.watch_of("q")
    assert mine.utilities is not None
    assert its.utilities is not None
    assert mine.utilities.values.tolist() == its.utilities.values.tolist()
    assert again.save()["overload"].equals(engine.save()["overload"])


def test_models_follow_a_drift_and_not_chance() -> None:
    watch = RunWatch(2, 1.0, Sampling(n_again=100), lambda: 0.0)

    def see(completes: int, n: int) -> None:
        """Of ten runs in each state so many go on."""
        for _ in range(n):
            watch.take(
                np.array([10, 10]),
                np.array([[10 - completes, completes, 0], [0, 10 - completes, completes]]),
                1e-6,
            )

    see(3, 100)
    assert watch.learn(50, counts_time=True)
    see(3, 100)
    assert watch.learn(50, counts_time=True), "twice as many to learn from"
    before = watch.utilities
    see(3, 100)
    assert not watch.learn(50, counts_time=True)
    assert watch.utilities is before
    see(6, 100)
    assert watch.learn(50, counts_time=True)
    assert watch._used is not None
    assert watch._used.completed[1] == pytest.approx(0.6), "what was true before the drift is forgotten"
    assert watch.n_trained == 3


def test_a_state_that_is_seldom_met_does_not_look_as_if_it_had_drifted() -> None:
    """A run is in the second state before one of twenty events: what these few do is chance, and is not to throw away
    what was learned of the others."""
    random = np.random.default_rng(3)
    watch = RunWatch(2, 1.0, Sampling(n_again=150), lambda: 0.0)
    n_seen = 0
    for _ in range(40):
        for _ in range(150):
            offers, found = np.array([10, 0]), np.array([[10, 0, 0], [0, 0, 0]])
            if random.random() < 0.05:
                offers[1] = 1
                found[1, 1 + int(random.random() < 0.5)] = 1
            watch.take(offers, found, 1e-6)
        n_seen += 150
        watch.learn(50, counts_time=True)
    assert watch._n_all == n_seen, "nothing was forgotten"


@pytest.mark.parametrize("batches", [[5, 5, 5], [1] * 15, [15], [2, 7, 6]])
def test_every_so_many_events_are_looked_at_however_they_come(batches: list[int]) -> None:
    watch = RunWatch(1, 1.0, Sampling(first_every=4), lambda: 0.0)
    start, looked_at = 0, []
    for n in batches:
        looked_at += [start + position for position in watch.positions(n).tolist()]
        start += n
    assert looked_at == [0, 4, 8, 12]


@pytest.mark.parametrize(
    ("clauses", "is_whole"),
    [
        ("SEQ(A x, !made n, B z) WHERE skip_till_any_match WITHIN 100", True),
        ("SEQ(A x, made n, B z) WHERE skip_till_any_match WITHIN 100", False),
        ("SEQ(A x, made n, B z) WHERE skip_till_any_match WITHIN 100 SELECT FIRST", True),
        ("SEQ(A x, made n, B z) WHERE skip_till_any_match WITHIN 100 LIMIT 2", True),
        ("SEQ(A x, made n, B z) WHERE skip_till_any_match WITHIN 100 OUTPUT NON_OVERLAPPING", True),
        ("SEQ(A x, made n, B z) WHERE skip_till_next_match WITHIN 100", True),
        ("SEQ(made m, made n) WHERE strict_contiguity WITHIN 100", True),
        ("made n WHERE skip_till_next_match WITHIN 100", False),
        ("made+ WITHIN 100 SLIDE 100 RETURN AVG(made.x)", True),
    ],
)
def test_nothing_is_dropped_of_what_another_query_must_have_whole(clauses: str, is_whole: bool) -> None:
    """A match that is missing would make another one where it is negated, or was the first to be selected, and change
    what trends come to."""
    texts = {
        "made": "PATTERN SEQ(A a, B b) WHERE skip_till_next_match WITHIN 100 RETURN a.x AS x",
        "user": f"PATTERN {clauses}",
    }
    queries = {query.name: query for query in compile_queries(texts, SCHEMA)}
    shedder = RunShedder(queries, clock=lambda: 0.0)
    assert ("made" in shedder.exempt) is is_whole
    engine = Engine(list(queries.values()), SCHEMA)
    engine.process(three_types(200, 3), 10)
    shedder.attach(engine._runtimes)
    assert ("made" in {name for (name, _), _ in shedder._parts}) is not is_whole


def test_runs_are_worth_the_weights_of_all_queries_that_use_their_matches() -> None:
    """Of two queries that are alike, the one of which two others use the matches keeps its runs."""
    pair = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { b.x >= 10 AND b.k = a.k } WITHIN 400 RETURN a.x AS x"
    user = "PATTERN SEQ(A x, made n, B z) WHERE skip_till_any_match { x.x >= 10 AND z.x >= 10 } WITHIN 100 WEIGHT 2"
    texts = {"made": pair, "alone": pair, "one": user, "other": user.replace("10", "9")}
    queries = {query.name: query for query in compile_queries(texts, SCHEMA)}
    sampling = Sampling(first_every=1, n_again=50)
    shedder = RunShedder(
        queries, strategy=RunStrategy.PSPICE_WITHOUT_TIME, sampling=sampling, clock=lambda: 0.0, seed=1
    )
    assert shedder._weights == {"made": 5.0, "alone": 1.0, "one": 2.0, "other": 2.0}
    engine = Engine(list(queries.values()), SCHEMA, limits=Limits(merge_runs=False))
    stream = three_types(900, 3)
    for start in range(0, 900, 100):
        shedder.attach(engine._runtimes)
        engine.process(EventBatch(stream.table.slice(start, 100)), start + 100)
        shedder.learn()
    shedder.attach(engine._runtimes)
    n_runs = {name: part.n_runs for (name, _), part in shedder._parts}
    assert shedder.is_trained
    assert n_runs["made"] == n_runs["alone"] >= 10
    n_dropped = shedder._drop_runs(n_runs["alone"] // 2, 900)
    assert n_dropped == n_runs["alone"] // 2
    assert shedder.loss["alone"].n_runs > 0.7 * n_dropped, "of the other one those whose windows are nearly over"


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 10 OUTPUT TOP 2 BY CONFIDENCE",
        "PATTERN SEQ(A a, B b) WHERE skip_till_next_match WITHIN 10 OUTPUT TOP 2 BY CONFIDENCE",
        "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 10 SLIDE 5 OUTPUT TOP 2 BY CONFIDENCE",
    ],
)
def test_rows_that_are_held_back_are_told_with_the_mark_of_what_was_dropped_before(text: str) -> None:
    engine, _ = controlled({"q": text}, Bound(1e9, 0.0))
    control = engine.overload
    assert control is not None
    rows = [
        {
            "event_id": f"e{t}",
            "type": "AB"[t % 2],
            "t_lo_ms": t,
            "t_hi_ms": t,
            "source_rank": 0,
            "source_seq": t,
            "x": 1,
            "k": 1,
        }
        for t in range(200)
    ]
    n_early = 0
    for at in range(0, 200, 4):
        emitted = engine.process(EventBatch.from_rows(rows[at : at + 4], SCHEMA), at + 4)
        if at == 4:
            control.shedder.lost_events(8)
        elif at > 4:
            n_early += _marked(emitted, control.missing_until_ms)
    n_early += _marked(engine.finish(), control.missing_until_ms)
    assert n_early > 0


def _marked(emitted: Sequence[MatchRow], missing_until_ms: Mapping[str, int]) -> int:
    """How many began before the drop; all of them say so."""
    early = [row for row in emitted if row.first_lo_ms <= 8]
    assert not early or missing_until_ms.get("q", -1) >= 8
    return len(early)
