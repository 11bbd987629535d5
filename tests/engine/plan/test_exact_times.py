"""Queries that need exact times say so, why, and what to use instead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine import Engine, compile_query
from engine.events import EventBatch
from engine.plan.exact_times import exact_times
from tests.conformance.runtimes import run_match, write_case
from tests.engine.strategies import SCHEMA

NEEDING = [
    ("skip_till_next_match", "5 ms", "skip_till_next_match", "use skip_till_any_match"),
    ("partition_contiguity { [k] }", "5 ms", "partition_contiguity", "use skip_till_any_match"),
    ("strict_contiguity", "5 ms", "strict_contiguity", "use skip_till_any_match"),
    ("skip_till_any_match", "5 EVENTS", "WITHIN n EVENTS", "use a window in time"),
]


def text(strategy: str, window: str) -> str:
    return f"PATTERN SEQ(A a, B b) WHERE {strategy} WITHIN {window}"


@pytest.mark.parametrize(("strategy", "window", "construct", "remedy"), NEEDING)
def test_the_engine_counts_what_it_leaves_out(strategy: str, window: str, construct: str, remedy: str) -> None:
    query = compile_query(text(strategy, window), SCHEMA, name="q")
    engine = Engine([query], SCHEMA)
    rows = [
        {"event_id": "a", "type": "A", "t_lo_ms": 1, "t_hi_ms": 2, "k": "p"},
        {"event_id": "b", "type": "B", "t_lo_ms": 2, "t_hi_ms": 3, "k": "p"},
        {"event_id": "c", "type": "C", "t_lo_ms": 2, "t_hi_ms": 3, "k": "p"},
    ]
    assert not [*engine.process(EventBatch.from_rows(rows, SCHEMA), 9), *engine.finish()]
    assert engine.statistics["q"].n_rejected == 2
    needed = query.exact_times
    assert needed is not None
    assert needed.construct == construct
    assert needed.remedy.startswith(remedy)


@pytest.mark.parametrize(("strategy", "window", "construct", "remedy"), NEEDING)
def test_explain_says_it(strategy: str, window: str, construct: str, remedy: str) -> None:
    (line,) = [
        each for each in compile_query(text(strategy, window), SCHEMA).explain().split("\n") if each.startswith("times")
    ]
    assert "exact ones alone, other events are left out and counted" in line
    assert construct in line
    assert remedy in line


def test_a_window_in_time_and_any_match_need_none() -> None:
    query = compile_query(text("skip_till_any_match", "5 ms"), SCHEMA)
    assert exact_times(query.resolved.query) is None
    assert "times      exact ones, or intervals" in query.explain()


def test_trends_take_intervals_but_those_that_depend_on_each_other() -> None:
    query = compile_query("PATTERN A+ WITHIN 5 ms SLIDE 5 ms RETURN COUNT(*)", SCHEMA)
    assert exact_times(query.resolved.query) is None
    (line,) = [each for each in query.explain().split("\n") if each.startswith("times")]
    assert "others are left out and counted: for trends intervals of one clock must not overlap" in line
    assert "precise events only" not in query.explain()


@pytest.mark.parametrize(("strategy", "window", "construct", "remedy"), NEEDING)
def test_match_says_it_with_the_number(strategy: str, window: str, construct: str, remedy: str, tmp_path: Path) -> None:
    events: Sequence[dict[str, object]] = [
        {"id": "1", "type": "A", "t_lo": 1, "t_hi": 3, "k": "p"},
        {"id": "2", "type": "B", "t": 2, "k": "p"},
    ]
    for runtime in ("auto", "compiled"):
        result = run_match(*write_case(tmp_path, text(strategy, window), events), runtime)
        assert f"{construct} is not defined over imprecise events; found 1" in result.message
        assert remedy in result.message
        assert "oracle" not in result.message
