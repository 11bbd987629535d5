"""Confidence with negated events against sums over the match's times, by milliseconds and by end points."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.events import Float64Array
from engine.kernels.confidence.absence import TOO_MUCH_WORK, _by_milliseconds, absent_confidence
from engine.kernels.confidence.absent_pieces import MOST_EXPANDED, NOT_BY_END_POINTS, absent_by_end_points
from engine.kernels.confidence.ordering import may_precede
from tests.engine.kernels.confidence.test_confidence import ALWAYS, Drawn, events_of, known_order
from tests.engine.kernels.plain import as_python

TOLERANCE = 1e-12


def enough() -> Float64Array:
    """Work without an end."""
    return np.array([0.0, np.inf])


def is_before(events: list[Drawn], i: int, i_ms: int, j: int, j_ms: int) -> bool:
    """In a world: rows i and j, either of which may be the earlier row."""
    order = known_order(events[i], events[j]) if i < j else known_order(events[j], events[i])
    if order is None:
        return i_ms < j_ms
    return order if i < j else not order


def exact(drawn: list[Drawn], n: int, within_ms: int, gaps: list[int]) -> Fraction:
    """Rows 0..n - 1 are the match, row n + k is negated in gaps[k]: from the definition."""
    total = Fraction(0)
    for times in itertools.product(*(range(event.lo_ms, event.hi_ms + 1) for event in drawn[:n])):
        if times[-1] - times[0] > within_ms:
            continue
        if not all(is_before(drawn, k, times[k], k + 1, times[k + 1]) for k in range(n - 1)):
            continue
        share = Fraction(1)
        for event, at in zip(drawn, times, strict=False):
            share *= Fraction(event.points[at - event.lo_ms], sum(event.points))
        for row, gap in enumerate(gaps, n):
            event = drawn[row]
            n_outside = sum(
                ways
                for ways, at in zip(event.points, range(event.lo_ms, event.hi_ms + 1), strict=True)
                if not in_place(drawn, n, within_ms, times, row, gap, at)
            )
            share *= Fraction(n_outside, sum(event.points))
        total += share
    return total


def in_place(
    drawn: list[Drawn], n: int, within_ms: int, times: tuple[int, ...], row: int, gap: int, at_ms: int
) -> bool:
    after = at_ms >= times[-1] - within_ms if gap < 0 else is_before(drawn, gap, times[gap], row, at_ms)
    if gap == n - 1:
        return after and at_ms <= times[0] + within_ms
    return after and is_before(drawn, row, at_ms, gap + 1, times[gap + 1])


@st.composite
def with_negated(draw: st.DrawFn) -> tuple[list[Drawn], int, int, list[int]]:
    """Events of a match, then negated ones near their gaps; how many of the former; the window; the gaps."""
    n = draw(st.integers(1, 3))
    length = st.integers(1, draw(st.sampled_from([4, 8])))
    drawn: list[Drawn] = []
    start = 0
    for _ in range(n):
        lo = start + draw(st.integers(0, 7))
        drawn.append(Drawn(lo, lo + draw(length) - 1, draw(st.sampled_from([-1, -1, -1, 1]))))
        start += draw(st.integers(0, 6))
    within_ms = draw(st.sampled_from([ALWAYS, 4, 9, 15]))
    gaps = draw(st.lists(st.integers(-1, n - 1), min_size=1, max_size=3))
    for gap in gaps:
        near = drawn[max(gap, 0)].lo_ms
        if gap in (-1, n - 1) and within_ms != ALWAYS and draw(st.booleans()):
            near = drawn[n - 1].lo_ms - within_ms if gap < 0 else drawn[0].lo_ms + within_ms
        lo = near + draw(st.integers(-6, 6))
        drawn.append(Drawn(lo, lo + draw(length) - 1, draw(st.sampled_from([-1, -1, -1, 1]))))
    return drawn, n, within_ms, gaps


@given(with_negated())
def test_both_ways_equal_the_definition(case: tuple[list[Drawn], int, int, list[int]]) -> None:
    drawn, n, within_ms, gaps = case
    events = events_of(drawn)
    assume(all(may_precede(events, k, k + 1) for k in range(n - 1)))
    arguments = (events, np.arange(n), n, within_ms, np.arange(n, len(drawn)), np.array(gaps))
    want = float(exact(drawn, n, within_ms, gaps))
    with as_python():
        assert absent_confidence(*arguments, enough()) == pytest.approx(want, abs=TOLERANCE)
        assert _by_milliseconds(*arguments) == pytest.approx(want, abs=TOLERANCE)
        found = absent_by_end_points(*arguments, enough())
    assert found == NOT_BY_END_POINTS or found == pytest.approx(want, abs=TOLERANCE)


CASES = [
    # The match, the window, the negated events with their gaps.
    ([(0, 9), (5, 14)], ALWAYS, [((3, 12), 0), ((8, 20), 0)]),
    ([(0, 9), (20, 29), (25, 40)], ALWAYS, [((4, 14), 0), ((12, 22), 0), ((26, 30), 1)]),
    ([(0, 9), (20, 29)], 24, [((5, 27), 0)]),
    ([(0, 9), (12, 29), (31, 40)], 34, [((4, 10), 0), ((33, 50), 1), ((28, 33), 1)]),
    ([(0, 9), (5, 12), (20, 29)], 24, [((3, 10), 0), ((28, 33), 2), ((-8, 1), -1)]),
    ([(0, 9), (20, 29)], ALWAYS, [((-3, 4), -1)]),
    ([(0, 9), (20, 29)], 25, [((20, 30), 1), ((22, 33), 1), ((1, 4), -1), ((-9, 3), -1)]),
    ([(0, 6), (3, 9), (4, 12)], 14, [((2, 8), 1), ((0, 16), 2)]),
]


@pytest.mark.parametrize(("match", "within_ms", "negated"), CASES)
def test_by_end_points_there_is_an_answer(
    match: list[tuple[int, int]], within_ms: int, negated: list[tuple[tuple[int, int], int]]
) -> None:
    drawn = [Drawn(*interval) for interval in match] + [Drawn(*interval) for interval, _ in negated]
    gaps = [gap for _, gap in negated]
    n = len(match)
    arguments = (events_of(drawn), np.arange(n), n, within_ms, np.arange(n, len(drawn)), np.array(gaps))
    with as_python():
        found = absent_by_end_points(*arguments, enough())
    assert found == pytest.approx(float(exact(drawn, n, within_ms, gaps)), abs=TOLERANCE)


@pytest.mark.parametrize("n_ms", [100, 15_000])
def test_one_of_three_alike_is_negated_between_two(n_ms: int) -> None:
    """s < t and not s < r < t: all three over the same milliseconds, by counting; the same with two of them."""
    events = events_of([Drawn(0, n_ms - 1)] * 4)
    one = Fraction(math.comb(n_ms, 2), n_ms**2) - Fraction(math.comb(n_ms, 3), n_ms**3)
    with as_python():
        found = absent_confidence(events, np.arange(2), 2, ALWAYS, np.array([2]), np.array([0]), enough())
    assert found == pytest.approx(float(one), rel=TOLERANCE)
    # With t - s = d there are d - 1 milliseconds between, which neither may have.
    n_good = sum((n_ms - d) * (n_ms - d + 1) ** 2 for d in range(1, n_ms))
    with as_python():
        found = absent_confidence(events, np.arange(2), 2, ALWAYS, np.array([2, 3]), np.array([0, 0]), enough())
    assert found == pytest.approx(float(Fraction(n_good, n_ms**4)), rel=TOLERANCE)


def test_long_intervals_apart_with_a_window_and_a_negation_at_the_end() -> None:
    """No r in (last, first + WITHIN], r over the milliseconds of the last one's step and the next: by counting."""
    n_ms, within_ms = 3_000, 9_000
    events = events_of([Drawn(0, n_ms - 1), Drawn(7_000, 7_000 + n_ms - 1), Drawn(8_000, 8_000 + 2 * n_ms - 1)])
    first, last = np.arange(n_ms)[:, None], np.arange(7_000, 7_000 + n_ms)[None, :]
    inside = last - first <= within_ms
    n_between = np.clip(np.minimum(first + within_ms, 8_000 + 2 * n_ms - 1) - np.maximum(last, 7_999), 0, None)
    n_good = int((inside * (2 * n_ms - n_between)).sum())
    with as_python():
        found = absent_confidence(events, np.arange(2), 2, within_ms, np.array([2]), np.array([1]), enough())
    assert found == pytest.approx(float(Fraction(n_good, 2 * n_ms**3)), rel=TOLERANCE)


def test_what_would_take_too_long_is_said() -> None:
    """Given distributions go by milliseconds: 15,000 by 15,000 of them between two neighbours."""
    long = Drawn(0, 14_999, shares=(1,) * 15_000)
    events = events_of([long, long, long])
    arguments = (events, np.arange(2), 2, 10_000, np.array([2]), np.array([0]))
    with as_python():
        assert absent_confidence(*arguments, enough()) == TOO_MUCH_WORK
        assert absent_by_end_points(*arguments, enough()) == NOT_BY_END_POINTS
    alike = events_of([Drawn(0, 299)] * (3 + MOST_EXPANDED))
    many = np.arange(2, 3 + MOST_EXPANDED)
    with as_python():
        found = absent_by_end_points(alike, np.arange(2), 2, ALWAYS, many, np.zeros_like(many), enough())
    assert found == NOT_BY_END_POINTS


def test_a_long_match_costs_what_is_near_the_negated_events() -> None:
    """What is certainly in order falls apart: a hundred events before cost one look each."""
    n = 100
    apart = [Drawn(1_000 * k, 1_000 * k + 300) for k in range(n)]
    near = [Drawn(1_000 * n, 1_000 * n + 300), Drawn(1_000 * n + 200, 1_000 * n + 500)]
    negated = Drawn(1_000 * n + 100, 1_000 * n + 400)
    work = enough()
    with as_python():
        found = absent_confidence(
            events_of([*apart, *near, negated]), np.arange(n + 2), n + 2, ALWAYS, np.array([n + 2]), np.array([n]), work
        )
        alone = absent_confidence(
            events_of([*near, negated]), np.arange(2), 2, ALWAYS, np.array([2]), np.array([0]), enough()
        )
    assert found == pytest.approx(alone, abs=TOLERANCE)
    assert work[0] < 10 * n


def test_work_that_is_not_allowed_is_not_done() -> None:
    events = events_of([Drawn(0, 299), Drawn(100, 399), Drawn(50, 350)])
    work = np.array([0.0, 50.0])
    with as_python():
        found = absent_confidence(events, np.arange(2), 2, ALWAYS, np.array([2]), np.array([0]), work)
    assert found == TOO_MUCH_WORK
    assert work[0] < 2_000
