"""The baselines of the shedding benchmark: their operator tells what the engine does, and holds the bound."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from benchmarks.shedding.simulation import BOUND, Load, WindowStrategy, shed, unshed
from benchmarks.shedding.windows import PositionUtilities, Stream, evaluated
from benchmarks.shedding.workload import (
    Pattern,
    Shape,
    Step,
    defenders,
    delayed_buses,
    negation,
    repeated_stocks,
    sequence,
    ten_stocks,
)
from engine.runtime.shedding.event_shedder import EventStrategy
from engine.runtime.shedding.run_shedder import RunStrategy


@pytest.mark.parametrize(
    "shape", [sequence("D1"), sequence("D8"), negation("D1"), ten_stocks(600), repeated_stocks(900)]
)
def test_windows_have_the_matches_of_the_engine(shape: Shape) -> None:
    stream = shape.stream(3_000, 5)
    columns = Stream.of(stream, shape.types, shape.attributes[0])
    operator = evaluated(shape.patterns, columns)
    known = unshed(shape, stream)
    assert known.matches.total() > 10
    assert Counter(tuple(columns.ids[event] for event in chosen) for chosen in operator.matches) == known.matches
    if shape.name != "negation":  # the engine looks for negated events when a match is decided
        assert operator.work / len(stream) == pytest.approx(known.cost, rel=0.05)


def test_espice_learns_which_position_of_a_type_matches() -> None:
    """Of two windows of 100 one has A, B at 10 and C, the other A and B at 60."""
    pattern = Pattern((Step(0, 1), Step(1, 1), Step(2, 1)), 100)
    n = 50
    t_ms = np.add.outer(400 * np.arange(n), np.array([0, 10, 20, 200, 260])).ravel()
    stream = Stream(np.tile([0, 1, 2, 0, 1], n), np.ones(5 * n), t_ms, tuple(map(str, range(5 * n))))
    shedder = PositionUtilities(3, np.random.default_rng(1))
    shedder.train((pattern,), stream, 5 * n)
    shedder.ask(1 / 3)
    assert [position for position in range(50) if shedder.drops(1, position)] == [30], "60 %: in no match"
    assert not any(shedder.drops(2, position) for position in range(50))


@pytest.mark.parametrize("rate", [1.2, 2.0])
def test_baselines_of_windows_hold_the_bound(rate: float) -> None:
    shape = sequence("D1")
    stream = shape.stream(3_000, 3)
    known = unshed(shape, stream)
    rows = {strategy: shed(shape, stream, known, strategy, Load(rate, 3)) for strategy in WindowStrategy}
    for row in rows.values():
        assert row["latency_max_ms"] <= 1_000 * BOUND.latency_s
        assert row["dropped"] > 0.05
    assert rows[WindowStrategy.ESPICE]["fn"] < rows[WindowStrategy.BY_TYPE]["fn"]


@pytest.mark.parametrize("shape", [defenders(2), delayed_buses(5, 500)], ids=["soccer", "bus"])
def test_any_n_of_many_is_shed_within_the_bound(shape: Shape) -> None:
    stream = shape.stream(4_000, 2)
    known = unshed(shape, stream)
    assert known.matches.total() > 80
    rows = {strategy: shed(shape, stream, known, strategy, Load(2.0, 2)) for strategy in RunStrategy}
    for row in rows.values():
        assert row["latency_max_ms"] <= 1_000 * BOUND.latency_s
        assert row["dropped"] > 0.1
        assert row["fp"] == 0
    assert rows[RunStrategy.PSPICE]["fn"] < rows[RunStrategy.RANDOM]["fn"] < 1
    rested = shed(shape, stream, known, RunStrategy.PSPICE, Load(0.8, 2))
    assert (rested["dropped"], rested["fn"], rested["fp"]) == (0, 0, 0), "no overload: nothing changes"


@pytest.mark.parametrize("shape", [defenders(2), delayed_buses(5, 500)], ids=["soccer", "bus"])
def test_events_of_any_n_of_many_are_shed_within_the_bound(shape: Shape) -> None:
    stream = shape.stream(2_000, 2)
    known = unshed(shape, stream)
    row = shed(shape, stream, known, EventStrategy.GSPICE_H, Load(2.0, 2))
    assert row["latency_max_ms"] <= 1_000 * BOUND.latency_s
    assert row["dropped"] > 0.1
    rested = shed(shape, stream, known, EventStrategy.GSPICE_H, Load(0.8, 2))
    assert (rested["dropped"], rested["fn"], rested["fp"]) == (0, 0, 0), "no overload: nothing changes"
