"""The bound held where the automaton evaluates: AND, repeated groups, alternatives; as runs and as kept events."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest

from engine import Engine, MatchRow, ModelTraining, SheddingModel, compile_query
from engine.errors import StateError
from engine.events import FOREVER_MS, EventBatch, Float64Array
from engine.matching.protocol import Limits
from engine.runtime.composition import compile_queries
from engine.runtime.shedding.run_shedder import RunShedder, RunStrategy
from engine.runtime.shedding.run_watch import Sampling
from engine.shedding.overload.detector import Bound
from tests.engine.runtime.shedding.simulated import SCHEMA, controlled, three_types
from tests.engine.runtime.shedding.test_stored_events import engine_of, part, shedder_of

AND = "PATTERN AND(A a, B b, C c) WHERE skip_till_next_match { b.x > a.x AND c.x = a.x + b.x } WITHIN 150"
REPEATED = "PATTERN SEQ(A a, (SEQ(B b, C c)){2,3}, A d) WHERE skip_till_next_match { d.x = a.x } WITHIN 120"
NEGATED = "PATTERN SEQ(A a, !AND(B m, B n), AND(A b, C c)) WHERE skip_till_next_match { c.x = a.x } WITHIN 100"
ALIKE = "b.x = a.x AND c.x = a.x AND d.x = a.x"
UNION = f"PATTERN SEQ(A a, OR(AND(B b, C c), A d)) WHERE skip_till_next_match {{ {ALIKE} }} WITHIN 150"
BY_RUNS = (AND, REPEATED, NEGATED, UNION)
ANY = "PATTERN ANY(2, A a, B b, C c) WHERE skip_till_any_match { [k] AND b.x = a.x AND c.x = a.x } WITHIN 30"
ALL = "PATTERN SEQ(A a, AND(B b, C c)) WHERE skip_till_any_match { [k] AND b.x = a.x AND c.x > 7 } WITHIN 30"
BY_EVENTS = (ANY, ALL)
FIVE = "PATTERN AND(A a, B b, C c, SEQ(A d, B e)) WHERE skip_till_next_match WITHIN 30"
NO_BOUND, BOUND = Bound(1e9, 0.0), Bound(0.2, 0.04)
OFTEN = Sampling(first_every=2, n_again=100)


def bindings(rows: list[MatchRow]) -> Counter[tuple[object, ...]]:
    return Counter((row.query, *sorted(row.bindings.items())) for row in rows)


def given(
    engine: Engine, stream: EventBatch, each_ms: int, per_s: float | None = None, *, finishes: bool = True
) -> list[MatchRow]:
    """The stream in steps of so many ms, one event each; per_s: they come at this rate."""
    rows: list[MatchRow] = []
    for start in range(0, len(stream), each_ms):
        released_s = None
        if per_s is not None:
            assert engine.overload is not None
            arrivals = np.arange(start, start + each_ms) / per_s
            engine.overload.clock.idle_s = max(engine.overload.clock.idle_s, float(arrivals[-1]))  # type: ignore[attr-defined]
            released_s = arrivals.tolist()
        rows += engine.process(part(stream, start, start + each_ms), start + each_ms, released_s=released_s)
    return rows + (list(engine.process(EventBatch.empty(), FOREVER_MS)) if finishes else [])


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("text", [*BY_RUNS, *BY_EVENTS])
def test_the_bound_holds_and_what_is_told_is_a_part_of_what_there_is(text: str) -> None:
    stream = three_types(1_500, 8)
    engine, plain = engine_of({"q": text}, BOUND), Engine([compile_query(text, SCHEMA, name="q")], SCHEMA)
    rows = given(engine, stream, 20, per_s=5_500.0)
    control = engine.overload
    assert control is not None
    assert control.statistics.n_shed_steps > 0
    assert control.statistics.longest_s <= BOUND.latency_s
    assert not shedder_of(engine).exempt
    loss = shedder_of(engine).loss["q"]
    assert (loss.n_runs if text in BY_RUNS else loss.n_events) > 50
    assert loss.n_partial_matches == loss.n_runs, "runs of an automaton are never merged"
    whole = bindings(given(plain, stream, 20))
    assert bindings(rows) <= whole
    assert sum(whole.values()) > 0


@pytest.mark.parametrize("text", [*BY_RUNS, *BY_EVENTS])
def test_without_overload_nothing_changes(text: str) -> None:
    """Rate 0 of shedding: rows, their order and the saved state are those of an engine without a bound."""
    stream = three_types(1_000, 7)
    engine, plain = engine_of({"q": text}, NO_BOUND), Engine([compile_query(text, SCHEMA, name="q")], SCHEMA)
    for start in range(0, 1_000, 50):
        step = part(stream, start, start + 50), start + 50
        assert list(engine.process(*step)) == list(plain.process(*step))
    mine, its = engine.save(), plain.save()
    assert its.keys() == mine.keys() - {"overload"}
    assert all(mine[name].equals(its[name], check_metadata=True) for name in its)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_lowest_are_dropped_over_queries_and_branches_and_shards(threads: int) -> None:
    texts = {"keyed": AND.replace("{ ", "{ [k] AND ").replace("150", "9000"), "union": UNION.replace("150", "400")}
    stream = three_types(2_000, 10)
    engine, _ = controlled(texts, NO_BOUND, threads=threads, sampling=Sampling(first_every=2, n_again=100))
    for start in range(0, 2_000, 1_000):
        engine.process(part(stream, start, start + 1_000), start + 1_000)
    shedder = shedder_of(engine)
    shedder.attach(engine._runtimes)
    assert {key for key, _ in shedder._parts} == {("keyed", 0), ("union", 0), ("union", 1)}
    assert sum(key == ("keyed", 0) for key, _ in shedder._parts) == threads
    assert shedder.is_trained

    def utilities() -> Float64Array:
        every = [part.runs_at_hand(shedder._utilities(key, part), 2_000).utility for key, part in shedder._parts]
        return np.sort(np.concatenate(every))

    before = utilities()
    n = int(np.isfinite(before).sum()) // 2
    assert n > 20
    assert shedder.drop(n, 2_000) == n
    assert utilities() == pytest.approx(before[n:])


def test_the_least_useful_are_dropped_first() -> None:
    """By what is lacking and what is left of the window more matches stay than by chance."""
    stream = three_types(4_000, 6, (0.7, 0.2, 0.1))
    n = {}
    for strategy in (RunStrategy.PSPICE, RunStrategy.RANDOM):
        engine = engine_of({"q": FIVE}, BOUND, strategy=strategy, sampling=OFTEN)
        n[strategy] = len(given(engine, stream, 20, per_s=2_500.0))
        assert shedder_of(engine).loss["q"].n_runs > 100
    assert n[RunStrategy.PSPICE] > n[RunStrategy.RANDOM]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"{REPEATED} OUTPUT COUNT", "runs"),
        (f"{AND.replace('b.x > a.x AND c.x = a.x + b.x', 'b.x > a.x')} OUTPUT COLLAPSED", "runs"),
        ("PATTERN SEQ(A a, AND(B b, C c)) WHERE skip_till_any_match { c.x > 7 } WITHIN 30 OUTPUT COUNT", "events"),
    ],
)
def test_counts_are_lower_bounds_after_something_was_dropped(text: str, what: str) -> None:
    stream = three_types(600, 8)
    whole = Engine([compile_query(text, SCHEMA, name="q")], SCHEMA).process(stream, FOREVER_MS)
    full = {(row.first_lo_ms, row.last_hi_ms): row.count for row in whole}
    engine = engine_of({"q": text}, NO_BOUND)
    early = engine.process(part(stream, 0, 300), 300)
    shedder = shedder_of(engine)
    shedder.attach(engine._runtimes)
    shedder.drop(shedder.load // 2, 300)
    assert (shedder.loss["q"].n_runs if what == "runs" else shedder.loss["q"].n_events) > 0
    rows = engine.process(part(stream, 300, 600), FOREVER_MS)
    assert all(row.count_exact for row in early)
    assert any(not row.count_exact for row in rows)
    assert any(row.count_exact for row in rows), "what began after the drop is complete"
    for row in rows:
        there = full[row.first_lo_ms, row.last_hi_ms]
        assert row.count == there or (row.count < there and not row.count_exact)


def test_a_restart_keeps_what_was_learned_and_lost() -> None:
    stream = three_types(2_000, 5)
    engine = engine_of({"q": AND}, BOUND)
    given(engine, stream, 20, per_s=5_500.0, finishes=False)
    shedder_of(engine).learn(least=1)
    saved = engine.save()
    again = engine_of({"q": AND}, BOUND)
    again.restore(saved)
    assert shedder_of(again).loss == shedder_of(engine).loss
    assert shedder_of(again).loss["q"].n_runs > 0
    shedder_of(again).attach(again._runtimes)
    mine, its = shedder_of(again).watch_of("q").utilities, shedder_of(engine).watch_of("q").utilities
    assert mine is not None
    assert its is not None
    assert mine.values.tolist() == its.values.tolist()
    assert again.save()["overload"].equals(saved["overload"])


def test_loss_is_estimated_as_it_is() -> None:
    """The matches that dropped runs were expected to become are about those that are missing."""
    stream = three_types(5_000, 9, (0.6, 0.2, 0.2))
    engine = engine_of({"q": FIVE}, BOUND, sampling=OFTEN)
    rows = given(engine, stream, 20, per_s=2_200.0)
    whole = given(Engine([compile_query(FIVE, SCHEMA, name="q")], SCHEMA), stream, 20)
    loss = shedder_of(engine).loss["q"]
    n_missing = len(whole) - len(rows)
    assert n_missing > 300
    assert loss.n_unvalued < 0.2 * loss.n_partial_matches
    assert loss.expected_matches == pytest.approx(n_missing, rel=0.25)


def test_a_model_from_history_has_the_states_of_the_automaton() -> None:
    texts = {"q": REPEATED, "union": UNION}
    queries = {query.name: query for query in compile_queries(texts, SCHEMA)}
    training = ModelTraining(queries, SCHEMA, Limits(), 0, lambda: 0.0)
    stream = three_types(1_500, 5)
    for start in range(0, len(stream), 100):
        training.take(EventBatch(stream.table.slice(start, 100)))
    model = training.finished(FOREVER_MS)
    assert SheddingModel.read(model.text(), queries).text() == model.text()
    states = {(name, of.branch): len(of.observed.n_offers) for name, of in model.runs}
    assert states["q", 0] == 7
    assert set(states) == {("q", 0), ("union", 0), ("union", 1)}
    other = {query.name: query for query in compile_queries({**texts, "q": REPEATED.replace("{2,3}", "{2,4}")}, SCHEMA)}
    with pytest.raises(StateError, match="q means something else"):
        SheddingModel.read(model.text(), other)


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN SEQ(A a, !B n, AND(B b, C c)) WHERE skip_till_any_match WITHIN 50",
        "PATTERN AND(A a, B b) WHERE skip_till_next_match WITHIN 50 EVENTS",
    ],
)
def test_what_is_exempt_still_is(text: str) -> None:
    """Without a negated event more would match; of windows of events, which move, nothing is given up."""
    engine = engine_of({"q": text}, NO_BOUND)
    engine.process(three_types(200, 3), 200)
    shedder = shedder_of(engine)
    shedder.attach(engine._runtimes)
    assert shedder.exempt == {"q"}
    assert shedder.load == 0


@pytest.mark.parametrize(("text", "what"), [(AND, "partial matches"), (ANY, "events kept for matches to come")])
def test_explain_says_what_is_dropped(text: str, what: str) -> None:
    assert compile_query(text, SCHEMA).evaluation.explain_shedding() == what


@pytest.mark.parametrize("pattern", ["ANY(2, few x, B y, C z)", "SEQ(few x, B y)"])
def test_matches_of_other_queries_are_not_dropped(pattern: str) -> None:
    """They are few, and their own events are dropped already."""
    few = "PATTERN SEQ(A a, C c) WHERE skip_till_any_match { [k] AND c.x > a.x } WITHIN 10 RETURN a.x AS x"
    over = f"PATTERN {pattern} WHERE skip_till_any_match WITHIN 30"
    both, alone = attached({"few": few, "over": over}), attached({"few": few})
    assert both.exempt == {"over"}
    assert both.load == alone.load > 0


def attached(texts: dict[str, str]) -> RunShedder:
    """To an engine with these queries that has had some events."""
    queries = compile_queries(texts, SCHEMA)
    engine = Engine(queries, SCHEMA)
    engine.process(three_types(400, 3), 400)
    shedder = RunShedder({query.name: query for query in queries}, clock=time.monotonic)
    shedder.attach(engine._runtimes)
    return shedder
