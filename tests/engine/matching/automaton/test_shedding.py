"""Runs of the automaton observed, valued and dropped, and events that it keeps where there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import compile_query
from engine.errors import StateError
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema, Int64Array
from engine.matching.automaton.runtime import AutomatonRuntime
from engine.matching.automaton.stored_events import StoredWorth
from engine.matching.output.match_row import MatchRow
from engine.matching.protocol import Limits, Runtime
from engine.matching.shedding import DropsStored, KeepsRuns
from engine.plan.automaton.model import AutomatonPlan
from engine.plan.automaton.run_states import run_states
from engine.runtime.factory import make_runtime
from engine.shedding.partial_matches.transitions import RunObservations, Transitions
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from tests.engine.matching.runs.test_shedding import SCHEMA, WITHIN_MS, Watcher, batch_of, events_strategy, flat

PATTERNS = (
    "AND(A a, B b, C c)",
    "AND(A a, B{2,3} b[])",
    "SEQ(A a, (SEQ(B b, C c)){1,2}, D d)",
    "SEQ(A a, !N n, AND(B b, C c))",
    "SEQ(AND(A a, B b), !D d)",
    "SEQ(A a, (OR(B b, C c)){2,3})",
)
DIFFER = "repeats(b[..i-1].k) = 0"
"""No two events of b have the same k."""
CASES = [*((pattern, "") for pattern in PATTERNS), ("SEQ(A a, B{2,2} b[])", DIFFER), ("AND(A a, B{2,3} b[])", DIFFER)]


def plan_of(pattern: str, *, strategy: str = "skip_till_next_match", where: str = "") -> AutomatonPlan:
    condition = f" {{ {where} }}" if where else ""
    plan = compile_query(f"PATTERN {pattern} WHERE {strategy}{condition} WITHIN {WITHIN_MS}", SCHEMA).plan
    assert isinstance(plan, AutomatonPlan)
    return plan


def runtime_of(
    pattern: str, *, keyed: bool = True, clauses: str = "", strategy: str = "skip_till_next_match", where: str = ""
) -> AutomatonRuntime:
    key = f" {{ {where} }}" if where else " { [k] }" if keyed else ""
    query = compile_query(f"PATTERN {pattern} WHERE {strategy}{key} WITHIN {WITHIN_MS} {clauses}", SCHEMA)
    runtime = make_runtime(query, Interner(), Limits())
    assert isinstance(runtime, AutomatonRuntime)
    return runtime


def advance(runtime: Runtime, batch: EventBatch, watermark_ms: int) -> list[MatchRow]:
    return list(runtime.advance(StreamColumns(batch, runtime.store.interner), watermark_ms))  # type: ignore[attr-defined]


def bindings(rows: Sequence[MatchRow]) -> Counter[tuple[tuple[str, object], ...]]:
    return Counter(tuple(sorted((name, ids) for name, ids in row.bindings.items())) for row in rows)


def in_steps(events: list[tuple[str, int, int]]) -> list[tuple[EventBatch, int]]:
    """The events of each time, and the watermark after them."""
    batch, times = batch_of(events), np.array([t for _, t, _ in events])
    return [(batch.where(times == t), t + 1) for t in dict.fromkeys(times.tolist())]


# ------------------------------------------------------------------- states


@pytest.mark.parametrize(
    ("pattern", "n"),
    [
        ("AND(A a, B b)", 2),  # a is there, b is there
        ("AND(A a, B b, C c)", 6),  # one of three, two of three
        ("AND(A a, B{2,4} b[])", 9),  # a; one to four b without and with a: those of four are over with it
        ("AND(A a, B{2,} b[])", 5),  # two b and more are alike
        ("SEQ(A a, (SEQ(B b, C c)){2,3}, D d)", 7),  # a; b and c of each of three iterations
        ("SEQ(A a, !N n, AND(B b, C c))", 3),  # what is negated has no runs
    ],
)
def test_runs_are_told_apart_by_what_is_there_and_by_counters_as_far_as_bounds_do(pattern: str, n: int) -> None:
    assert run_states(plan_of(pattern).states).n == n


def test_counters_are_told_apart_until_no_bound_is_left() -> None:
    automaton = plan_of("SEQ(A a, (SEQ(B b, C c)){2,3}, D d)").states
    states = run_states(automaton)
    inside = [edge.target for edge in automaton.edges if automaton.occurrences[edge.occurrence].variable == 2]
    (after_c,) = set(inside)
    assert len({states.of(after_c, [n]) for n in (1, 2, 3)}) == 3
    assert states.of(after_c, [3]) == states.of(after_c, [7])


@pytest.mark.parametrize("most", [1, 2, 3, 5, 64])
@pytest.mark.parametrize("pattern", [*PATTERNS, "AND(A a, B{50,60} b[])", "AND(A a, B b, C c, D d, N n, A e)"])
def test_there_are_no_more_states_than_may_be_and_the_numbers_have_no_hole(pattern: str, most: int) -> None:
    states = run_states(plan_of(pattern).states, most)
    assert states.n <= most
    assert set(states.numbers[states.numbers >= 0].tolist()) == set(range(states.n))


def test_of_many_operands_what_counts_is_how_many_events_are_lacking() -> None:
    """256 sets of operands that are there, and none: one to seven of eight lack seven to one."""
    automaton = plan_of("AND(A a, B b, C c, D d, N n, A e, B f, C g)").states
    states = run_states(automaton)
    assert states.n == 7
    depth = {0: 0}
    for edge in automaton.edges:  # sorted by source; the sources of a shuffle come before their targets
        depth.setdefault(edge.target, depth[edge.source] + 1)
    found = {(n, states.of(state, [0] * automaton.n_counters)) for state, n in depth.items() if 0 < n < 8}
    assert len(found) == len(dict(found)) == 7


def test_of_any_n_of_many_a_run_is_told_apart_by_how_many_it_has() -> None:
    """Whichever they are: 1 to 40 events of b, and the event before them; of hundreds by how many it lacks."""
    automaton = plan_of("SEQ(A a, B{40,40} b[])", where=DIFFER).states
    states = run_states(automaton)
    inside = max(edge.target for edge in automaton.edges)
    assert len({states.of(inside, [n]) for n in range(1, 41)}) == 40
    hundreds = plan_of("SEQ(A a, B{300,300} b[])", where=DIFFER).states
    states = run_states(hundreds)
    inside = max(edge.target for edge in hundreds.edges)
    assert 1 < states.n <= 64
    assert len({states.of(inside, [n]) for n in range(1, 300)}) > 5


# ---------------------------------------------------------------- observing


def expected_of_and(kinds: str, events: Sequence[tuple[str, int, int]]) -> Counter[tuple[str, str]]:
    """From what is there to what is there after an event, by the definition of skip till next match: for an AND of
    distinct types; "" for what is there after the last one."""
    found: Counter[tuple[str, str]] = Counter()
    runs: list[tuple[int, str, int]] = []  # key, what is there, start
    for kind, t, key in events:
        if kind not in kinds:
            continue
        after: list[tuple[int, str, int]] = []
        for k, there, start in runs:
            if k != key:
                after.append((k, there, start))
            elif t - start <= WITHIN_MS:
                now = there if kind in there else "".join(sorted(there + kind))
                found[there, now if len(now) < len(kinds) else ""] += 1
                after += [(k, now, start)] if len(now) < len(kinds) else []
        runs = [*after, (key, kind, t)]
    return found


@given(events=events_strategy)
def test_observed_is_what_runs_do(events: list[tuple[str, int, int]]) -> None:
    runtime = runtime_of("AND(A a, B b, C c)")
    watcher = Watcher(runtime.n_run_states)
    runtime.watch_runs(watcher)
    advance(runtime, batch_of(events), FOREVER_MS)
    names, automaton = {0: ""}, runtime.plan.states
    for edge in automaton.edges:
        taken = automaton.occurrences[edge.occurrence].component.event_type
        names.setdefault(edge.target, "".join(sorted(names[edge.source] + taken)))
    numbers = {names[state]: run_states(automaton).of(state, []) for state in range(1, 7)} | {"": 6}
    expected = np.zeros((6, 7), np.int64)
    for (before, after), n in expected_of_and("ABC", events).items():
        expected[numbers[before], numbers[after]] += n
    assert watcher.n_next.tolist() == expected.tolist()
    assert watcher.n_offers.tolist() == expected.sum(axis=1).tolist()


def test_the_three_types_of_the_paper_as_and_and_as_a_repetition() -> None:
    """A, B and C come equally often: as in the paper's example a run that lacks one goes on with 1/3 and stays with
    2/3; one of AND(A, B, C) that lacks two goes on with 2/3."""
    kinds = np.random.default_rng(3).choice(list("ABC"), 6_000)
    events = [(str(kind), n, 0) for n, kind in enumerate(kinds)]
    for pattern, lacking, rates in (
        ("AND(A a, B b, C c)", {0: 2, 1: 2, 2: 2, 3: 1, 4: 1, 5: 1}, {2: 2 / 3, 1: 1 / 3}),
        ("SEQ(A a, (OR(B b, C c)){2,2})", {0: 2, 1: 1}, {2: 2 / 3, 1: 2 / 3}),
    ):
        runtime = runtime_of(pattern, keyed=False)
        watcher = Watcher(runtime.n_run_states)
        runtime.watch_runs(watcher)
        advance(runtime, batch_of(events), len(events))
        transitions = Transitions.of(RunObservations(watcher.n_offers, watcher.n_next))
        for state, n in lacking.items():
            moved = 1.0 - transitions.onward[state, state]
            assert moved == pytest.approx(rates[n], abs=0.04), (pattern, state)


@given(events=events_strategy, every=st.integers(1, 5), keyed=st.booleans(), pattern=st.sampled_from(PATTERNS))
def test_rows_and_state_are_the_same_when_observed(
    events: list[tuple[str, int, int]], every: int, keyed: bool, pattern: str
) -> None:
    plain, watched = runtime_of(pattern, keyed=keyed), runtime_of(pattern, keyed=keyed)
    watched.watch_runs(Watcher(watched.n_run_states, every))
    watched.count_arrivals()
    half = len(events) // 2
    for part in (events[:half], events[half:]):
        at_ms = FOREVER_MS if part is not events[:half] else events[half][1]
        batch = batch_of([e for e in part if e[1] < at_ms])
        assert advance(plain, batch, at_ms) == advance(watched, batch, at_ms)
    mine, its = watched.save(), plain.save()
    assert mine.keys() == its.keys()
    assert all(mine[name].equals(its[name], check_metadata=True) for name in its)


@pytest.mark.parametrize("strategy", ["skip_till_next_match", "partition_contiguity", "strict_contiguity"])
@given(events=events_strategy)
def test_as_many_matches_are_observed_as_runs_complete(strategy: str, events: list[tuple[str, int, int]]) -> None:
    """Those of one event alone are of no run; of the others each is counted, by the run that it came of."""
    key = strategy != "strict_contiguity"
    for pattern in ("AND(A a, B b, C c)", "AND(A a, B{2,3} b[])", "SEQ(A a, (OR(B b, C c)){1,2})"):
        runtime = runtime_of(pattern, strategy=strategy, keyed=key)
        watcher = Watcher(runtime.n_run_states)
        runtime.watch_runs(watcher)
        rows = advance(runtime, batch_of(events), FOREVER_MS)
        assert watcher.n_next[:, -1].sum() == len(rows)


def test_what_broadcast_events_begin_is_observed_in_each_partition() -> None:
    """An N has no key: its runs are those of every partition known; a match of each is one of its own."""
    keyed = {"k": AttributeType.INT}
    schema = EventSchema.of({"A": keyed, "B": keyed, "N": {"x": AttributeType.INT}})
    query = compile_query(f"PATTERN AND(N n, A a, B b) WHERE skip_till_next_match {{ [k] }} WITHIN {WITHIN_MS}", schema)
    runtime = make_runtime(query, Interner(), Limits())
    assert isinstance(runtime, AutomatonRuntime)
    assert runtime.plan.broadcast == {"N"}
    watcher = Watcher(runtime.n_run_states)
    runtime.watch_runs(watcher)
    runtime.count_arrivals()
    events = [("A", 1, 0), ("A", 2, 1), ("N", 3, None), ("B", 4, 0), ("B", 5, 1)]
    given = [{"event_id": str(t), "type": kind, "t_lo_ms": t, "k": k} for kind, t, k in events]
    rows = advance(runtime, EventBatch.from_rows(given, schema), 6)
    assert len(rows) == 2
    assert watcher.n_next[:, -1].sum() == 2
    at_hand = runtime.runs_at_hand(flat(runtime.n_run_states), 6)
    assert np.isinf(at_hand.utility).any(), "the run of no partition stands for those to come"
    assert np.isfinite(at_hand.utility).any()


def test_a_run_goes_on_with_what_it_has_not_seen_and_stays_with_what_it_has() -> None:
    """Any three b of different k after an a: of k 1, 1, 2, 3 the second one changes nothing."""
    runtime = runtime_of("SEQ(A a, B{3,3} b[])", where=DIFFER)
    watcher = Watcher(runtime.n_run_states)
    runtime.watch_runs(watcher)
    rows = advance(runtime, batch_of([("A", 0, 0), ("B", 1, 1), ("B", 2, 1), ("B", 3, 2), ("B", 4, 3)]), FOREVER_MS)
    assert [row.bindings["b"] for row in rows] == [("1", "3", "4")]
    states, middle = run_states(runtime.plan.states), max(edge.target for edge in runtime.plan.states.edges)
    one, two = (states.of(middle, [n]) for n in (1, 2))
    assert (watcher.n_next[one, one], watcher.n_next[one, two], watcher.n_next[two, -1]) == (1, 1, 1)
    assert runtime.n_offered == 4, "one run, four events after its first"


@pytest.mark.parametrize(
    ("pattern", "where", "n_runs"),
    [
        ("SEQ(A a, B{2,2} b[])", DIFFER, [1, 1, 0, 0]),
        ("SEQ(A a, B{1,3} b[])", DIFFER, [1, 1, 1, 0]),
        ("SEQ(A a, (OR(B b, C c)){2,2})", "", [1, 1, 0, 0]),
        ("SEQ(A a, (OR(B b, C c)){2,})", "", [1, 1, 1, 1]),
    ],
)
def test_a_run_that_may_take_nothing_more_is_gone(pattern: str, where: str, n_runs: list[int]) -> None:
    """It would be offered all that comes until its window ends, and be the first to be dropped."""
    runtime = runtime_of(pattern, keyed=False, where=where)
    found = []
    for part, watermark_ms in in_steps([("A", 0, 0), *(("B", t, t) for t in range(1, 4))]):
        advance(runtime, part, watermark_ms)
        found.append(runtime.n_runs)
    assert found == n_runs


# ----------------------------------------------------------------- dropping


def test_utility_is_looked_up_by_state_and_events_left() -> None:
    runtime = runtime_of("AND(A a, B{2,3} b[])", keyed=False)
    runtime.count_arrivals()
    advance(runtime, batch_of([("A", 0, 0), ("B", 3, 0), ("B", 4, 0), ("A", 6, 0)]), 7)
    rate = runtime._shed_runs._arrivals.per_ms(1)[0]  # type: ignore[union-attr]
    states = run_states(runtime.plan.states)
    at_hand = runtime.runs_at_hand(flat(states.n), 7)
    memory = runtime._memory.state
    for run, utility in zip(at_hand.numbers.tolist(), at_hand.utility, strict=True):
        node, path = int(memory.runs[run, 1]), []
        while node >= 0:
            path.append(int(memory.nodes[node, 1]))
            node = int(memory.nodes[node, 2])
        taken = [runtime.plan.states.edges[edge].occurrence for edge in path]
        state = states.of(int(memory.runs[run, 0]), [taken.count(1)])
        start_ms = int(runtime.store.t_lo_ms[memory.runs[run, 2]])
        assert utility == pytest.approx(100 * state + rate * (start_ms + WITHIN_MS - 7))
    assert at_hand.n_partial_matches.tolist() == [1.0] * runtime.n_runs
    assert runtime.n_runs >= 4


def test_the_dropped_are_those_that_were_chosen_and_the_rest_goes_on() -> None:
    events = [("A", t, t) for t in range(4)] + [("B", 4 + t, t) for t in range(4)]
    runtime = runtime_of("AND(A a, B b)")
    assert isinstance(runtime, KeepsRuns)
    runtime.count_arrivals()
    advance(runtime, batch_of(events[:4]), 4)
    at_hand = runtime.runs_at_hand(flat(2), 4)
    # One unbroken order of starts: the oldest have the fewest events left.
    order = np.argsort(at_hand.utility, kind="stable")
    runtime.drop_runs(at_hand.numbers[order[:2]])
    left = runtime.runs_at_hand(flat(2), 4)
    assert np.sort(left.utility) == pytest.approx(np.sort(at_hand.utility)[2:])
    rows = advance(runtime, batch_of(events[4:]), FOREVER_MS)
    assert len(rows) == 2


@given(events=events_strategy, seed=st.integers(0, 2**31), data=st.data())
def test_dropping_runs_tells_nothing_that_is_no_match(
    events: list[tuple[str, int, int]], seed: int, data: st.DataObject
) -> None:
    """OUTPUT ALL and SETS without SELECT FIRST or CONSUME: what is told is a part of what would be."""
    random = np.random.default_rng(seed)
    pattern, where = data.draw(st.sampled_from(CASES))
    clauses = data.draw(st.sampled_from(["", "OUTPUT SETS"]))
    strategy = data.draw(st.sampled_from(["skip_till_next_match", "partition_contiguity"]))
    unshed = runtime_of(pattern, clauses=clauses, strategy=strategy, where=where)
    whole = bindings(advance(unshed, batch_of(events), FOREVER_MS))
    shed = runtime_of(pattern, clauses=clauses, strategy=strategy, where=where)
    shed.count_arrivals()
    shed.watch_runs(Watcher(shed.n_run_states))
    found: list[MatchRow] = []
    for part, watermark_ms in in_steps(events):
        found += advance(shed, part, watermark_ms)
        at_hand = shed.runs_at_hand(flat(shed.n_run_states), watermark_ms)
        assert len(at_hand.numbers) == len(set(at_hand.numbers.tolist())) == shed.n_runs
        chosen = at_hand.numbers[random.random(len(at_hand.numbers)) < 0.3]
        shed.drop_runs(chosen)
        assert shed.n_runs == len(at_hand.numbers) - len(chosen)
        if random.random() < 0.3:
            shed.restore(shed.save())
    found += advance(shed, EventBatch.empty(), FOREVER_MS)
    assert bindings(found) <= whole


def test_negated_events_are_kept_when_all_runs_are_dropped() -> None:
    """Or a run that begins before one of them would complete."""
    runtime = runtime_of("SEQ(A a, !D d, AND(B b, C c))", keyed=False)
    runtime.count_arrivals()
    advance(runtime, batch_of([("A", 1, 0), ("D", 2, 0)]), 3)
    kept = runtime.runs_at_hand(flat(runtime.n_run_states), 3)
    runtime.drop_runs(kept.numbers)
    assert runtime.n_runs == 0
    assert runtime.store.ids.array().to_pylist() == ["0", "1"]


def test_utilities_of_another_query_are_refused() -> None:
    with pytest.raises(StateError, match=r"utilities of 3 states .* whose runs have 2"):
        runtime_of("AND(A a, B b)").runs_at_hand(flat(3), 0)


# ------------------------------------------------- kept events, where there are no runs


@pytest.mark.parametrize(
    ("pattern", "lasts", "middle"),
    [
        ("AND(A a, B b)", {"a": "b", "b": "a"}, ""),
        ("AND(A a, B b, C c)", {"a": "bc", "b": "ac", "c": "ab"}, "abc"),
        ("SEQ(A a, AND(B b, C c))", {"a": "bc"}, "bc"),
        ("SEQ(AND(A a, B b), C c)", {"a": "c", "b": "c"}, "ab"),
    ],
)
def test_which_events_are_the_first_the_last_and_between(pattern: str, lasts: dict[str, str], middle: str) -> None:
    plan = plan_of(pattern, strategy="skip_till_any_match")
    names, found = plan.states.variables, StoredWorth(plan)
    assert {names[first]: "".join(sorted(names[v] for v in of)) for first, of in found.lasts.items()} == lasts
    assert "".join(sorted(names[v] for v in found.middle)) == middle


def test_an_event_is_worth_the_last_ones_of_the_other_operands() -> None:
    """Three B's and an A in a window: an A may expect three last events for each that a B may."""
    runtime = runtime_of("AND(A a, B b)", strategy="skip_till_any_match", keyed=False)
    assert isinstance(runtime, DropsStored)
    advance(runtime, batch_of([("A", 8, 0), ("B", 8, 0), ("B", 8, 0), ("B", 8, 0)]), 9)
    worth = runtime.stored_worth(9)
    assert worth.tolist() == pytest.approx([3 * worth[1], worth[1], worth[2], worth[3]], rel=1e-3)
    assert worth[1] == pytest.approx(1 - 1 / (WITHIN_MS + 1), rel=1e-3)


@given(events=events_strategy, seed=st.integers(0, 2**31), data=st.data())
def test_exactly_the_matches_of_dropped_events_are_lost(
    events: list[tuple[str, int, int]], seed: int, data: st.DataObject
) -> None:
    """All that are told later, and none else."""
    random = np.random.default_rng(seed)
    pattern = data.draw(st.sampled_from(["AND(A a, B b)", "AND(A a, B{2,3} b[])", "SEQ(A a, (OR(B b, C c)){1,2})"]))
    whole, shed = (runtime_of(pattern, strategy="skip_till_any_match") for _ in range(2))
    gone: set[str] = set()
    for part, watermark_ms in in_steps(events):
        expected = [
            row for row in advance(whole, part, watermark_ms) if gone.isdisjoint(row.event_ids)
        ]  # fmt: skip
        assert advance(shed, part, watermark_ms) == expected
        worth = shed.stored_worth(watermark_ms)
        chosen: Int64Array = np.flatnonzero(np.isfinite(worth) & (random.random(len(worth)) < 0.3))
        ids = shed.store.ids.array().to_pylist()
        gone |= {ids[row] for row in chosen}
        n = shed.n_stored
        shed.drop_stored(chosen)
        assert shed.n_stored == n - len(chosen)
        if random.random() < 0.3:
            shed.restore(shed.save())
