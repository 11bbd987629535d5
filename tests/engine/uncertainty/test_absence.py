"""Probabilities of demanded differences, and of negated parts that are absent, against the worlds one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.uncertainty.absence import joint_probability
from engine.uncertainty.differences import Budget, Difference, Time, TooMuchWorkError
from tests.examples import examples

TOLERANCE = 1e-12


def by_worlds(
    times: dict[int, Time], demanded: Sequence[Difference], parts: Sequence[Sequence[Difference]] = ()
) -> float:
    """The definition."""
    total = 0.0
    for points in itertools.product(*(range(len(time.shares)) for time in times.values())):
        at = {number: times[number].lo_ms + point for number, point in zip(times, points, strict=True)}

        def holds(d: Difference, at: dict[int, int] = at) -> bool:
            return at[d.after] - at[d.before] >= d.least_ms

        if all(map(holds, demanded)) and not any(all(map(holds, part)) for part in parts):
            total += math.prod(times[n].shares[point] for n, point in zip(times, points, strict=True))
    return total


def shares(weights: Sequence[int]) -> Time:
    return Time(0, np.array(weights, np.float64) / sum(weights))


TIMES = st.builds(
    lambda lo_ms, weights: Time(lo_ms, np.array(weights, np.float64) / sum(weights)),
    st.integers(0, 6),
    st.lists(st.integers(0, 3), min_size=1, max_size=5).filter(any),
)


@st.composite
def _differences(draw: st.DrawFn, before: Sequence[int], after: Sequence[int]) -> Difference:
    one = draw(st.sampled_from(list(before)))
    other = draw(st.sampled_from([number for number in after if number != one]))
    return Difference(*draw(st.permutations([one, other])), draw(st.integers(-4, 3)))


@st.composite
def _cases(draw: st.DrawFn) -> tuple[dict[int, Time], list[Difference], range, list[list[Difference]]]:
    n_match, n_negated = draw(st.integers(1, 4)), draw(st.sampled_from([0, 1, 2, 2]))
    times = {number: draw(TIMES) for number in range(n_match + n_negated)}
    match, negated = range(n_match), range(n_match, n_match + n_negated)
    demanded = draw(st.lists(_differences(match, match), max_size=5)) if n_match > 1 else []
    parts = []
    if n_negated:
        # With negated events alone nothing of the match bounds them: their place is certain.
        around = [_differences(negated, times)] + ([_differences(negated, negated)] if n_negated > 1 else [])
        of_one = st.one_of([st.lists(each, min_size=1, max_size=4) for each in around])
        parts = draw(st.lists(of_one, max_size=3))
    return times, demanded, negated, parts


@given(_cases())
@settings(max_examples=examples(90), deadline=None)
def test_demands_and_absences_are_the_share_of_worlds(
    case: tuple[dict[int, Time], list[Difference], range, list[list[Difference]]],
) -> None:
    times, demanded, negated, parts = case
    found = joint_probability(times, demanded, negated, parts)
    assert found == pytest.approx(by_worlds(times, demanded, parts), abs=TOLERANCE)


def test_a_part_that_nothing_of_the_match_bounds_counts() -> None:
    """Two negated events are in order in 1 of 4 worlds, in place whatever the match's times are."""
    times = {0: Time(0, np.ones(1)), 1: shares([1, 1]), 2: shares([1, 1])}
    assert joint_probability(times, [], [1, 2], [[Difference(1, 2, 1)]]) == pytest.approx(3 / 4, abs=TOLERANCE)
    certain = [[Difference(1, 2, 1)], [Difference(2, 1, 0)]]
    assert joint_probability(times, [], [1, 2], certain) == 0.0


def test_a_long_tree_of_demands_costs_the_sum_of_its_intervals() -> None:
    """Twenty overlapping intervals of 15,000 ms after one event."""
    times = {number: Time(0, np.full(15_000, 1 / 15_000)) for number in range(21)}
    demanded = [Difference(0, number, 1) for number in range(1, 21)]
    budget = Budget()
    found = joint_probability(times, demanded, budget=budget)
    expected = sum((14_999 - t) ** 20 for t in range(15_000)) / 15_000**21
    assert found == pytest.approx(expected, abs=TOLERANCE)
    assert Budget().cells - budget.cells < 1_000_000


def test_a_cycle_of_long_intervals_is_too_much_work() -> None:
    times = {number: Time(0, np.full(15_000, 1 / 15_000)) for number in range(4)}
    demanded = [Difference(0, 1, 1), Difference(0, 2, 1), Difference(1, 3, 1), Difference(2, 3, 1)]
    with pytest.raises(TooMuchWorkError):
        joint_probability(times, demanded)


def test_parts_between_many_wide_events_are_too_much() -> None:
    """A table over the times around them would have more cells than any memory, and than a number holds."""
    n = 10
    times = {number: shares([1] * 400) for number in range(n + 1)}
    parts = [[Difference(number, n, 1) for number in range(n) if number % 2 == odd] for odd in range(2)]
    with pytest.raises(TooMuchWorkError):
        joint_probability(times, [], [n], parts)


def test_what_holds_in_no_world_is_exactly_nothing() -> None:
    times = {0: shares([1, 0, 2]), 1: shares([1, 0, 0])}
    assert joint_probability(times, [Difference(0, 1, 1)]) == 0.0
    assert joint_probability(times, [Difference(0, 1, 0), Difference(1, 0, 1)]) == 0.0
