"""Confidences against sums of exact fractions, written down from the definition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EventError
from tests.engine.kernels.plain import as_python
from tests.engine.uncertainty.sequence_confidence import sequence_confidence
from tests.examples import examples

TOLERANCE = 1e-12

Interval = tuple[int, int]


@pytest.fixture(scope="module", autouse=True)
def _uncompiled() -> Iterator[None]:
    """What engines call has its confidences inside: the function for programs alone would be compiled for this."""
    with as_python():
        yield


def by_worlds(intervals: list[Interval], within: int) -> Fraction:
    """The share of worlds with strictly increasing times inside the window, world by world."""
    ranges = [range(lo, hi + 1) for lo, hi in intervals]
    n_good = sum(
        all(s < t for s, t in itertools.pairwise(times)) and times[-1] - times[0] <= within
        for times in itertools.product(*ranges)
    )
    return Fraction(n_good, math.prod(map(len, ranges)))


def by_steps(intervals: list[Interval]) -> Fraction:
    """The chain rule in exact fractions, without a window."""
    lo, hi = intervals[0]
    reached = {t: Fraction(1, hi - lo + 1) for t in range(lo, hi + 1)}
    for lo, hi in intervals[1:]:
        share = Fraction(1, hi - lo + 1)
        reached = {
            t: share * sum((p for s, p in reached.items() if s < t), start=Fraction(0)) for t in range(lo, hi + 1)
        }
    return sum(reached.values(), start=Fraction(0))


intervals = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6)).map(lambda p: (p[0], p[0] + p[1])), min_size=1)


@settings(max_examples=examples(90), deadline=None)
@given(intervals.filter(lambda drawn: len(drawn) <= 4), st.integers(0, 16))
def test_equals_the_share_of_worlds(drawn: list[Interval], within: int) -> None:
    assert sequence_confidence(drawn, within) == pytest.approx(float(by_worlds(drawn, within)), abs=TOLERANCE)


@settings(max_examples=examples(35), deadline=None)
@given(intervals, st.data())
def test_the_confidence_of_a_prefix_never_grows(drawn: list[Interval], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(drawn)))
    assert sequence_confidence(drawn, 10**6) <= sequence_confidence(drawn[:n], 10**6) + TOLERANCE


def test_long_chains_keep_their_accuracy() -> None:
    """60 events, each overlapping its next three."""
    chain = [(7 * k, 7 * k + 23) for k in range(60)]
    exact = by_steps(chain)
    assert sequence_confidence(chain, 10**6) == pytest.approx(float(exact), rel=1e-12)
    assert 0 < exact < Fraction(1, 100)


def test_fifteen_second_intervals() -> None:
    """Two samples of one step: P(s < t) is (n - 1) / 2n; half a step apart it is 1 - (half - 1/2 terms) by counting."""
    n = 15_000
    assert sequence_confidence([(0, n - 1), (0, n - 1)], 10**6) == pytest.approx((n - 1) / (2 * n), abs=TOLERANCE)
    apart = sum(min(n, n + 7_500 - 1 - s) for s in range(n)) / n**2
    assert sequence_confidence([(0, n - 1), (7_500, 7_500 + n - 1)], 10**6) == pytest.approx(apart, abs=TOLERANCE)


def test_a_window_that_cuts_long_intervals() -> None:
    """last - first <= 20,000 for a step of 15,000 ms, a point, and another step: by counting the pairs."""
    n, within = 15_000, 20_000
    inside = sum(min(max(0, s + within - 30_000 + 1), n) for s in range(n)) / n**2
    steps = [(0, n - 1), (20_000, 20_000), (30_000, 30_000 + n - 1)]
    assert sequence_confidence(steps, within) == pytest.approx(inside, abs=TOLERANCE)


def test_weights_are_shares() -> None:
    """First at 0 or 2 with 1/4 and 3/4, second at 1 or 3 with equal shares: 1/4 + 3/4 * 1/2."""
    found = sequence_confidence([(0, 2), (1, 3)], 10, weights=[[1, 0, 3], [2, 0, 2]])
    assert found == pytest.approx(0.25 + 0.375, abs=TOLERANCE)


def test_one_clock_and_ties_have_a_known_order() -> None:
    overlapping = [(0, 9), (5, 14)]
    assert sequence_confidence(overlapping, 100) == pytest.approx(float(by_worlds(overlapping, 100)), abs=TOLERANCE)
    assert sequence_confidence(overlapping, 100, clocks=[3, 3]) == 1.0
    assert sequence_confidence([(5, 14), (0, 9)], 100, clocks=[3, 3]) == 0.0
    assert sequence_confidence([(4, 4), (4, 4)], 100) == 1.0
    assert sequence_confidence([(4, 4), (4, 4)], 100, strict_ties=True) == 0.0
    assert sequence_confidence([(4, 4), (4, 5)], 100) == 0.5


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(EventError, match=r"\(5, 4\)"):
        sequence_confidence([(0, 1), (5, 4)], 10)
    with pytest.raises(EventError, match="do not fit"):
        sequence_confidence([(0, 1)], 10, weights=[[1.0]])
    with pytest.raises(EventError, match="do not fit"):
        sequence_confidence([(0, 1)], 10, weights=[[0.0, 0.0]])
