"""Negated patterns whose trends are asked of neighbours and have negations, against all trends by definition; what is
kept of them, and who shares it."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given, settings

from engine import Engine, compile_query
from engine.compiled.query import CompiledQuery
from engine.errors import QueryError, StateError
from engine.events import FOREVER_MS, EventBatch
from engine.plan.trends.model import TrendPlan
from engine.plan.trends.windows import plan_of_windows
from engine.reference import reference_output
from engine.trends.runtime import TrendRuntime
from tests.engine.trends.evaluation import check, evaluated, shown
from tests.engine.trends.trend_strategies import SCHEMA, TrendCase, absence_cases
from tests.examples import examples

RISING = "PATTERN SEQ(A p, NOT SEQ(B n, C+ c, A m), A q) WHERE n.x < NEXT(c).x AND c.x < NEXT(c).x AND c.x < NEXT(m).x"
NESTED = "PATTERN SEQ(A p, NOT SEQ(B n, C c, NOT SEQ(A a, A b), B m), A q)"


@settings(max_examples=examples(200), deadline=None)
@given(absence_cases())
def test_rows_are_those_of_the_definitions(case: TrendCase) -> None:
    query = _planned(case)
    assert shown(evaluated(query, case.stream, SCHEMA)) == shown(reference_output(query.resolved, case.stream))


@settings(max_examples=examples(100), deadline=None)
@given(absence_cases())
def test_neither_cuts_nor_restarts_change_rows(case: TrendCase) -> None:
    check(_planned(case), case)


def _planned(case: TrendCase) -> CompiledQuery:
    try:
        return compile_query(case.query, SCHEMA)
    except QueryError:
        assume(False)
        raise


def events(n: int, types: str, seed: int = 0) -> EventBatch:
    """One every millisecond, of types and values by chance."""
    chance = random.Random(seed)
    rows = [
        {
            "event_id": f"e{t}",
            "type": chance.choice(types),
            "t_lo_ms": t,
            "t_hi_ms": t,
            "x": chance.randrange(9),
            "g": "u",
        }
        for t in range(1, n)
    ]
    return EventBatch.from_rows(
        [{k: v for k, v in row.items() if k != "g" or row["type"] != "D"} for row in rows], SCHEMA
    )


@pytest.mark.parametrize("pattern", [RISING, NESTED])
@pytest.mark.parametrize("types", ["ABC", "AAABBBBBBCCCCC", "BBBBBBBBBBBBCA"])
def test_longer_streams(pattern: str, types: str) -> None:
    """In which events are held, found again and forgotten in regions that move."""
    query = compile_query(f"{pattern} WITHIN 30 SLIDE 10 RETURN COUNT(*) AS n, SUM(p.x) AS s", SCHEMA)
    stream = events(150, types)
    expected = shown(reference_output(query.resolved, stream))
    assert len(expected) > 3
    assert shown(evaluated(query, stream, SCHEMA)) == expected
    assert shown(evaluated(query, stream, SCHEMA, (20, 21, 55, 90, 91, 130), restarts=True)) == expected


@pytest.mark.parametrize("pattern", [RISING, NESTED])
def test_what_is_kept_does_not_grow(pattern: str) -> None:
    """No A ends the negated pattern's windows or trends: what is too old for any open window goes."""
    query = compile_query(f"{pattern} WITHIN 50 SLIDE 50 RETURN COUNT(*)", SCHEMA)
    stream = events(4000, "BC")
    running = Engine([query], SCHEMA)
    kept = []
    for begin in range(0, 4000, 20):
        running.process(stream.where((stream.t_lo_ms >= begin) & (stream.t_lo_ms < begin + 20)), begin + 20)
        kept.append(running.statistics["query"].n_kept)
    assert 0 < max(kept[100:]) <= max(kept[:20]) + 20
    assert max(kept) <= 100


def test_what_a_finished_trend_makes_useless_is_forgotten() -> None:
    """After B C a trend is finished; earlier ones that go on cut off no more than it does."""
    query = compile_query(
        "PATTERN SEQ(A p, NOT SEQ(B n, C c), A q) WHERE n.x <= NEXT(c).x WITHIN 1000 SLIDE 1000 RETURN COUNT(*)", SCHEMA
    )
    rows = [
        {"event_id": f"e{t}", "type": "BC"[t % 2], "t_lo_ms": t, "t_hi_ms": t, "x": 1, "g": "u"} for t in range(10, 400)
    ]
    running = Engine([query], SCHEMA)
    stream = EventBatch.from_rows(rows, SCHEMA)
    for begin in range(0, 400, 10):
        running.process(stream.where((stream.t_lo_ms >= begin) & (stream.t_lo_ms < begin + 10)), begin + 10)
        assert running.statistics["query"].n_kept <= 11


@pytest.mark.parametrize("pattern", [RISING, NESTED])
def test_queries_of_one_window_share_a_graph_and_those_of_several_do_not(pattern: str) -> None:
    texts = [
        f"{pattern} WITHIN 30 SLIDE 10 RETURN COUNT(*) AS n",
        f"{pattern} WITHIN 30 SLIDE 10 RETURN SUM(q.x) AS s, MAX(p.y) AS most",
        f"{pattern} WITHIN 20 SLIDE 10 RETURN COUNT(*) AS n",
    ]
    queries = [compile_query(text, SCHEMA, name=f"q{number}") for number, text in enumerate(texts)]
    plans = [query.plan for query in queries if isinstance(query.plan, TrendPlan)]
    assert plan_of_windows([plans[0], plans[2]]) is None
    running = Engine(queries, SCHEMA)
    stream = events(120, "AABBBCC")
    rows = list(running.process(stream.where(stream.t_lo_ms < 60), 60))
    runtimes = [running._runtimes[query.name] for query in queries]
    assert [runtime.is_shared for runtime in runtimes if isinstance(runtime, TrendRuntime)] == [True, True, False]
    state, running = running.save(), Engine(queries, SCHEMA)
    assert running.restore(state) == frozenset()
    rows += running.process(stream.where(stream.t_lo_ms >= 60), FOREVER_MS)
    for query in queries:
        expected = shown(reference_output(query.resolved, stream))
        assert shown([row for row in rows if row.query == query.name]) == expected


def test_a_state_without_what_is_kept_is_refused() -> None:
    query = compile_query(f"{RISING} WITHIN 30 SLIDE 10 RETURN COUNT(*)", SCHEMA)
    running = Engine([query], SCHEMA)
    running.process(events(20, "AABBBCC"), 20)
    state = running.save()
    name = next(name for name in state if name.endswith("/held"))
    with pytest.raises(StateError, match="events of negated patterns"):
        Engine([query], SCHEMA).restore({**state, name: state[name].slice(1)})
    with pytest.raises(StateError, match="held"):
        Engine([query], SCHEMA).restore({each: table for each, table in state.items() if each != name})
