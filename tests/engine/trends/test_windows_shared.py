"""Trend queries of several windows over one graph: rows are those of each alone, whatever begins where."""

from __future__ import annotations

import pytest

from engine import CompiledQuery, Engine, compile_query
from engine.events import FOREVER_MS, EventBatch
from engine.plan.trends.model import TrendPlan
from engine.plan.trends.windows import joint_windows, plan_of_windows, windows_of
from engine.reference import reference_output
from engine.trends.runtime import TrendRuntime
from tests.engine.trends.evaluation import shown
from tests.engine.trends.sharing import by_query
from tests.engine.trends.trend_strategies import SCHEMA

WINDOWS = ((12, 4), (8, 4), (4, 4), (12, 12), (4, 8), (24, 12))
"""Among them one that overlaps itself, and one with gaps."""

PATTERNS = (
    "PATTERN A+ a WHERE a.x < NEXT(a).x",
    "PATTERN A+ a",
    "PATTERN SEQ(A+ a, B b) WHERE a.x <= NEXT(b).x AND a.y < NEXT(b).y",
    "PATTERN SEQ(NOT C, A+ a)",
    "PATTERN SEQ(A+ a, NOT C)",
    "PATTERN SEQ(A a, NOT SEQ(C, B), A d)",
)


def queries(pattern: str, windows: tuple[tuple[int, int], ...] = WINDOWS) -> list[CompiledQuery]:
    returned = ("COUNT(*)", "COUNT(*), SUM(a.x) AS s, MIN(a.y) AS least", "AVG(a.y) AS mean, MAX(a.x) AS most")
    return [
        compile_query(
            f"{pattern} GROUP BY g WITHIN {within} SLIDE {slide} RETURN {returned[number % 3]}",
            SCHEMA,
            name=f"q{number}",
        )
        for number, (within, slide) in enumerate(windows)
    ]


def events(first_ms: int, last_ms: int, *, interval_at: int | None = None) -> EventBatch:
    rows = [
        {
            "event_id": f"e{t}",
            "type": "AABAC"[t * t % 5],
            "t_lo_ms": t - t % 2,
            "t_hi_ms": t - t % 2 + (2 if t == interval_at else 0),
            "source_seq": t,
            "x": 5 * t % 11,
            "y": (7 * t % 13) / 2,
            "g": "uv"[t % 7 == 0],
            "h": 1,
        }
        for t in range(first_ms, last_ms)
    ]
    return EventBatch.from_rows(rows, SCHEMA)


def graphs_of(running: Engine) -> list[object]:
    runtimes = [running._runtimes[query.name] for query in running.queries]
    return [runtime._graph for runtime in runtimes if isinstance(runtime, TrendRuntime)]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_rows_are_those_of_each_query_alone_and_of_the_definitions(pattern: str) -> None:
    compiled = queries(pattern)
    running = Engine(compiled, SCHEMA)
    assert len(set(graphs_of(running))) == 1
    rows = []
    for first, last in ((0, 5), (5, 18), (18, 19), (19, 34)):
        rows += running.process(events(first, last), last - 1)
        state = running.save()
        running = Engine(compiled, SCHEMA)
        assert running.restore(state) == frozenset()
        assert len(set(graphs_of(running))) == 1  # put together again
    found = by_query([*rows, *running.finish()], compiled)
    for query in compiled:
        alone = Engine([query], SCHEMA)
        assert found[query.name] == list(alone.process(events(0, 34), FOREVER_MS))
        assert shown(found[query.name]) == shown(reference_output(query.resolved, events(0, 34)))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_query_goes_on_alone_from_what_was_saved_of_it(pattern: str) -> None:
    compiled = queries(pattern)
    together = Engine(compiled, SCHEMA)
    together.process(events(0, 23), 22)
    saved = together.save()
    found = by_query(together.process(events(23, 40), FOREVER_MS), compiled)
    for query in compiled:
        alone = Engine([query], SCHEMA)
        assert alone.restore(saved) == frozenset()
        assert list(alone.process(events(23, 40), FOREVER_MS)) == found[query.name]
        never_together = Engine([query], SCHEMA)
        never_together.process(events(0, 23), 22)
        own = never_together.save()
        for part in ("regions", "vertices", "numbers"):
            assert saved[f"{query.name}/{part}"].equals(own[f"{query.name}/{part}"]), (query.name, part)


def test_before_any_event_there_is_nothing_to_cut() -> None:
    compiled = queries(PATTERNS[0])
    running = Engine(compiled, SCHEMA)
    running.process(events(0, 0), 1)
    again = Engine(compiled, SCHEMA)
    assert again.restore(running.save()) == frozenset()
    assert len(set(graphs_of(again))) == 1
    found = by_query(again.process(events(2, 20), FOREVER_MS), compiled)
    assert found["q0"] == list(Engine(compiled[:1], SCHEMA).process(events(2, 20), FOREVER_MS))


def test_an_interval_gives_each_window_a_graph_of_its_own() -> None:
    """Of an interval that the end of a window cuts the window has a part, and so its length matters."""
    compiled = queries("PATTERN A+ a WHERE a.x < NEXT(a).x")
    running = Engine(compiled, SCHEMA)
    rows = list(running.process(events(0, 13), 12))
    assert len(set(graphs_of(running))) == 1
    later = events(13, 34, interval_at=20)
    rows += running.process(later, FOREVER_MS)
    assert len(set(graphs_of(running))) == len(compiled)
    found = by_query(rows, compiled)
    for query in compiled:
        alone = Engine([query], SCHEMA)
        assert found[query.name] == [*alone.process(events(0, 13), 12), *alone.process(later, FOREVER_MS)]


def test_graphs_go_together_where_one_has_less_to_do() -> None:
    def plans(*windows: tuple[int, int]) -> list[TrendPlan]:
        return [query.plan for query in queries(PATTERNS[0], windows) if isinstance(query.plan, TrendPlan)]

    tumbling = plans(*((10 * n, 10 * n) for n in range(1, 13)))
    whole = plan_of_windows(tumbling)
    assert whole is not None
    assert (whole.within_ms, whole.slide_ms, whole.n_windows) == (120, 10, 12)
    assert windows_of(whole) == tuple((10 * n, 10 * n) for n in range(1, 13))
    # 7 and 11 ms begin together every 77 ms alone: one graph would have 11 windows in place of 2
    assert plan_of_windows(plans((7, 7), (11, 11))) is None
    (joint,) = joint_windows(plans((7, 7), (40, 20), (20, 20), (11, 11)))
    assert joint[1] == [1, 2]


def test_what_later_events_take_and_what_people_are_told_of_is_for_each_window() -> None:
    texts = [
        f"PATTERN A+ a {where} WITHIN {within} SLIDE 4 RETURN COUNT(*) {notice}"
        for where, notice in (("WHERE skip_till_next_match { a.x < NEXT(a).x }", ""), ("", "ALERT warning 'found'"))
        for within in (4, 8)
    ]
    running = Engine([compile_query(text, SCHEMA, name=f"q{n}") for n, text in enumerate(texts)], SCHEMA)
    assert len(set(graphs_of(running))) == 4
