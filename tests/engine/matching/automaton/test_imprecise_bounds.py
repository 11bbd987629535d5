"""What matches among imprecise events cost: paid for by the events of the stream, the same for every division, told.

Work is counted in steps, and in probabilities that were computed; never in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.compiled.query import compile_query
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema
from engine.kernels.confidence import ordering
from engine.matching.automaton import confidence as imprecise_confidence
from engine.matching.automaton.arrangement import Arrangements, neighbours
from engine.matching.protocol import Limits
from engine.matching.work_account import WorkAccount
from engine.plan.automaton.model import AutomatonPlan
from engine.runtime.engine import Engine
from engine.uncertainty import differences
from engine.uncertainty.differences import Budget, TooMuchWorkError
from tests.engine.matching.test_bounds import SCHEMA, Running, emitted, query

PATTERNS = (
    "SEQ(A a, (SEQ(B b, B+ c[]))+, C d)",
    "SEQ(A a, AND(B+ b[], C c), A d)",
    "AND(SEQ(A a, B b), C+ c[])",
    "SEQ(A a, !SEQ(N n, N+ m[]), (B b)+, C c)",
    "SEQ(A a, AND(B b, C c), !SEQ(N n, N+ m[]))",
    "SEQ((SEQ(A a, B b))+, !N n)",
    "SEQ((OR(A a, B+ b[]))+, C c)",
)
"""Repeated groups, AND, negated patterns between and at the end, alternatives that bind alike."""

Timed = tuple[str, int]
"""Type and width of an event; there is one every ten milliseconds."""


def batch(events: Sequence[Timed], *, first: int = 0) -> EventBatch:
    rows = [
        {
            "event_id": f"e{first + at}",
            "type": kind,
            "t_lo_ms": 10 * (first + at),
            "t_hi_ms": 10 * (first + at) + width_ms,
            "source_seq": first + at,
            "k": 1,
            "x": (7 * (first + at)) % 5,
        }
        for at, (kind, width_ms) in enumerate(events)
    ]
    return EventBatch.from_rows(rows, SCHEMA)


def whole(text: str, events: Sequence[Timed], limits: Limits) -> Running:
    running = Running(text, limits)
    running.give(batch(events), FOREVER_MS)
    return running


def drawn(widths: Sequence[int], most: int) -> st.SearchStrategy[list[Timed]]:
    return st.lists(st.tuples(st.sampled_from("AABBBCCN"), st.sampled_from(widths)), min_size=5, max_size=most)


timed, sometimes = drawn((0, 1, 12, 25, 60), 16), drawn((0, 0, 0, 0, 0, 25), 30)
FORMS = ("", "OUTPUT COUNT", "OUTPUT SETS", "SELECT FIRST", "OUTPUT NON_OVERLAPPING")
BUDGETS = (1_000, 6_000, 40_000, 300_000)


# ----------------------------------------------------------- the same for every division into steps


@given(
    st.sampled_from(PATTERNS), st.sampled_from(FORMS), st.sampled_from(BUDGETS), timed,
    st.sets(st.integers(1, 15), max_size=5), st.sets(st.integers(0, 5)),
)  # fmt: skip
def test_cuts_are_the_same_for_every_division_of_the_stream(
    pattern: str, form: str, budget: int, events: list[Timed], cuts: set[int], restarts: set[int]
) -> None:
    check_divisions(query(pattern, rest=f"WITHIN 90 ms {form}"), budget, events, cuts, restarts)


def check_divisions(text: str, budget: int, events: list[Timed], cuts: set[int], restarts: set[int]) -> None:
    limits = Limits(work_budget=budget)
    expected = whole(text, events, limits)
    running, n_unfinished = Running(text, limits), 0
    ends = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    for step, (start, end) in enumerate(pairwise(ends)):
        running.give(batch(events[start:end], first=start), FOREVER_MS if end == len(events) else 10 * end)
        if step in restarts and end < len(events):
            n_unfinished += running.runtime.n_unfinished
            running.restart()
    assert [emitted(row) for row in running.rows] == [emitted(row) for row in expected.rows]
    assert n_unfinished + running.runtime.n_unfinished == expected.runtime.n_unfinished


@given(
    st.sampled_from(PATTERNS), st.sampled_from((60, 600, *BUDGETS)), sometimes, st.sets(st.integers(1, 29), max_size=8),
    st.sets(st.integers(0, 8)),
)  # fmt: skip
def test_cuts_do_not_depend_on_the_step_in_which_an_imprecise_event_comes(
    pattern: str, budget: int, events: list[Timed], cuts: set[int], restarts: set[int]
) -> None:
    check_divisions(query(pattern, rest="WITHIN 50 ms"), budget, events, cuts, restarts)


@given(st.sampled_from(PATTERNS), st.sampled_from(BUDGETS), timed)
def test_what_is_told_is_true_and_a_cut_is_told(pattern: str, budget: int, events: list[Timed]) -> None:
    text = query(pattern, rest="WITHIN 90 ms")
    complete = whole(text, events, Limits(max_rows=10**6))
    cut = whole(text, events, Limits(work_budget=budget))
    # The same arrangement may be told with several confidences: each stands for worlds of its own.
    sure = sorted(repr((row.bindings, round(row.confidence, 12))) for row in complete.rows)
    found = sorted(repr((row.bindings, round(row.confidence, 12))) for row in cut.rows)
    assert set(found) <= set(sure)
    if complete.runtime.n_unfinished == cut.runtime.n_unfinished == 0:
        assert found == sure
    if len(found) < len(sure):
        assert cut.runtime.n_unfinished > 0
        lasts = {row.last_hi_ms for row in complete.rows} - {row.last_hi_ms for row in cut.rows if not row.capped}
        assert lasts  # no event whose matches are incomplete has rows that claim to be all


# ------------------------------------------------------------------ bounded by the events of the stream

HOSTILE = (
    ("SEQ(A a, (SEQ(B b, B+ c[]))+, C d)", "ABBC"),
    ("SEQ(A a, AND(B b, C c), A d)", "ABC"),
    ("SEQ(A a, AND(B+ b[], C c), !SEQ(N n, N+ m[]))", "ABCN"),
    ("SEQ(A a, !SEQ(N n, N+ m[]), (B b)+, C c)", "ANBNNC"),
)


@pytest.mark.parametrize("width_ms", [25, 400])
@pytest.mark.parametrize(("pattern", "kinds"), HOSTILE)
def test_confidences_are_paid_for_by_events(
    pattern: str, kinds: str, width_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_events, budget = 90, 20_000
    spent = 0
    pay = Budget.spend

    def spend(self: Budget, cells: int) -> None:
        nonlocal spent
        spent += cells + differences.PER_TABLE
        pay(self, cells)

    monkeypatch.setattr(Budget, "spend", spend)
    running = whole(
        query(pattern, rest="WITHIN 2 s"),
        [(kind, width_ms) for kind in (kinds * n_events)[:n_events]],
        Limits(work_budget=budget),
    )
    runtime = running.runtime
    assert runtime.n_unfinished > 0
    most, capacity, rate = WorkAccount(budget).terms.tolist()
    n_steps = 2 * (capacity + rate * n_events)  # two accounts
    # The last of an event's costs is known when it has come up; half a budget is the most for one probability.
    assert spent <= imprecise_confidence.CELLS_PER_STEP * (n_steps + most * 2)
    for account in (runtime._work, runtime._work_after):
        assert account.account[0] > -most


def test_sets_whose_orders_share_worlds_are_paid_for() -> None:
    """What is left for them is spent on some; the others are left out, and that is told."""
    text = query("AND(SEQ(A a, B+ b[]), C c)", rest="WITHIN 2 s OUTPUT SETS")
    events = [(kind, 25) for kind in 3 * "ABBC"]
    whole_rows = whole(text, events, Limits(max_rows=10**6)).rows
    running = Running(text, Limits(max_rows=10**6))
    account = running.runtime._results._united
    account.terms[:], account.account[0] = (2_000_000, 2_000_000, 1), 2_000_000
    running.give(batch(events), FOREVER_MS)
    assert account.account[0] < 1_000_000
    assert 0 < len(running.rows) < len(whole_rows)
    assert running.runtime.n_unfinished >= len(whole_rows) - len(running.rows)
    sure = {repr((row.bindings, round(row.confidence, 12))) for row in whole_rows}
    assert {repr((row.bindings, round(row.confidence, 12))) for row in running.rows} <= sure


def test_a_search_leaves_work_for_confidences() -> None:
    """An event whose search is cut tells the matches that were found."""
    running = whole(
        query("SEQ(A a, (SEQ(B b, B+ c[]))+, C d)", rest="WITHIN 9 s"),
        [(kind, 25) for kind in "A" + 40 * "B" + "C"],
        Limits(work_budget=20_000),
    )
    assert running.runtime.n_unfinished == 1
    assert len(running.rows) > 10
    assert all(row.capped for row in running.rows)


def test_an_event_of_no_key_looks_at_the_keys_around_it() -> None:
    """Not at all that there are."""
    n_keys = 300
    schema = EventSchema.of({"A": {"k": AttributeType.INT}, "B": {"k": AttributeType.INT}, "C": {}})
    rows = [
        {"event_id": f"e{at}", "type": kind, "t_lo_ms": 10 * at, "t_hi_ms": 10 * at + 1, "source_seq": at}
        | ({} if kind == "C" else {"k": at // 4})
        for at, kind in enumerate("ABBC" * n_keys)
    ]
    text = "PATTERN SEQ(A a, AND(B b, B c), C d) WHERE skip_till_any_match { [k] } WITHIN 35 ms"
    engine = Engine([compile_query(text, schema, name="q")], schema, limits=Limits(work_budget=1_000_000))
    found = [*engine.process(EventBatch.from_rows(rows, schema), 10**6), *engine.finish()]
    assert len(found) == 2 * n_keys
    assert engine.statistics["q"].n_unfinished == 0


# ----------------------------------------------------------------------------- parts


def test_a_budget_is_not_charged_for_what_is_not_computed() -> None:
    budget = Budget(10_000)
    with pytest.raises(TooMuchWorkError):
        budget.spend(20_000)
    assert budget.cells == 10_000
    budget.spend(1_000)
    assert budget.cells == 10_000 - 1_000 - differences.PER_TABLE


def precedes(arrangements: Arrangements, steps: Sequence[object], i: int, j: int) -> bool:
    """By definition: earlier on the path, and not in another operand of an AND around both, in one iteration."""
    one, other = steps[i], steps[j]
    depth = {(p.left, p.right): p.depth for p in arrangements._automaton.parallel}.get(
        (one.occurrence, other.occurrence)  # type: ignore[attr-defined]
    )
    same = depth is not None and one.iterations[:depth] == other.iterations[:depth]  # type: ignore[attr-defined]
    return i < j and not same


@given(st.sampled_from(PATTERNS[:3]), timed)
def test_the_order_of_a_match_is_that_of_its_path(pattern: str, events: list[Timed]) -> None:
    (plan,) = compile_query(query(pattern), SCHEMA).branches
    assert isinstance(plan, AutomatonPlan)
    arrangements = Arrangements(plan.states)
    walk, state = [], 0
    for kind, _ in events:  # any path through the automaton
        ways = [e for e, edge in enumerate(plan.states.edges) if edge.source == state and edge.target != 0]
        if not ways:
            break
        walk.append(ways[ord(kind) % len(ways)])
        state = plan.states.edges[walk[-1]].target
    steps = arrangements._walk(tuple(walk), (0,) * plan.states.n_counters)
    order, n = arrangements._order(steps), len(steps)
    before = np.array([[precedes(arrangements, steps, i, j) for j in range(n)] for i in range(n)], np.bool_)
    assert (order == before.reshape(n, n)).all()
    direct = [
        (i, j)
        for j in range(n)
        for i in range(j)
        if before[i, j] and not any(before[i, k] and before[k, j] for k in range(n))
    ]
    assert sorted(map(tuple, np.argwhere(neighbours(order)).tolist())) == sorted(direct)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(-1, 1), st.integers(0, 4)), max_size=12))
def test_blocks_are_those_that_looking_at_all_pairs_gives(intervals: list[tuple[int, int, int, int]]) -> None:
    """Of events that end in an order, each reaches to the last one that may come before it."""
    intervals = sorted(intervals)
    lo = np.array([start for start, *_ in intervals], np.int64)
    n = len(lo)
    events = ordering.Events(
        lo_ms=lo,
        hi_ms=lo + np.array([width for _, width, *_ in intervals], np.int64),
        clock=np.array([clock for *_, clock, _ in intervals], np.int64),
        source_seq=np.array([seq for *_, seq in intervals], np.int64),
        weight_at=np.full(n, -1),
        weights=np.empty(0),
        columns=np.empty((0, n)),
        strict=False,
    )
    rows, blocks, _ = ordering.search_order(events, np.arange(n))
    assert sorted(rows.tolist()) == list(range(n))
    assert (np.diff(events.hi_ms[rows]) >= 0).all()
    end, number, expected = -1, -1, []
    for a in range(n):
        number += a > end
        reached = [b for b in range(a, n) if b == a or ordering.may_precede(events, rows[b], rows[a])]
        end = max(end, reached[-1])
        expected.append(number)
    assert blocks.tolist() == expected
