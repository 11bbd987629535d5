"""Confidences: known values, laws of probability, and the step-by-step sum against the sum over worlds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EventError
from engine.events import EventBatch
from engine.reference.observed import ObservedEvent, observe
from engine.reference.worlds import (
    MAX_LISTED_WORLDS,
    can_be_before,
    confidence_by_steps,
    confidence_by_worlds,
    confidence_of,
    n_worlds,
)
from tests.engine.strategies import IMPRECISE, SCHEMA, WEIGHTED, streams
from tests.examples import examples


def event(
    lo_ms: int,
    hi_ms: int,
    *,
    seq: int = 0,
    clock: str | None = None,
    weights: list[float] | None = None,
    skew: int = 0,
) -> ObservedEvent:
    row = {"event_id": f"e{lo_ms}-{hi_ms}-{seq}", "type": "A", "t_lo_ms": lo_ms, "t_hi_ms": hi_ms, "source_rank": 0}
    row |= {"source_seq": seq, "clock_id": clock, "weights": weights, "skew_ms": skew}
    (observed,) = observe(EventBatch.from_rows([row], SCHEMA), SCHEMA)
    return observed


@pytest.mark.parametrize(
    ("sequence", "within_ms", "confidence"),
    [
        # Worked by hand. 1..10 before 5..14: 10 * 10 worlds, for b = 5..10 there are b - 1 earlier points, then 10.
        ([event(1, 10), event(5, 14)], None, Fraction(4 + 5 + 6 + 7 + 8 + 9 + 4 * 10, 100)),
        ([event(1, 3), event(3, 5)], None, Fraction(8, 9)),
        ([event(3, 3), event(3, 3, seq=1)], None, Fraction(1)),
        ([event(3, 3, seq=1), event(3, 3)], None, Fraction(0)),
        ([event(3, 3), event(3, 4)], None, Fraction(1, 2)),
        ([event(0, 1), event(2, 3)], 2, Fraction(3, 4)),
        ([event(5, 9)], 0, Fraction(1)),
        # Three alike: each of the 6 orders has C(3, 3) = 1 of 27 worlds.
        ([event(1, 3), event(1, 3, seq=1), event(1, 3, seq=2)], None, Fraction(1, 27)),
        ([event(0, 2, weights=[1, 0, 3]), event(1, 1)], None, Fraction(1, 4)),
        # One clock: the nominal order holds in every world, the other one in none.
        ([event(0, 9, clock="h"), event(1, 9, seq=1, clock="h")], None, Fraction(1)),
        ([event(1, 9, seq=1, clock="h"), event(0, 9, clock="h")], None, Fraction(0)),
        # a before b for certain; b in {1, 2} before c = 2 in half of the worlds, whatever a's time is.
        ([event(0, 2, clock="h"), event(1, 2, seq=1, clock="h"), event(2, 2, seq=2)], None, Fraction(1, 2)),
        # A clock that says 1 and is off by -1, 0 or 1: before 1 in one of three worlds.
        ([event(0, 2, clock="h", skew=1), event(1, 1)], None, Fraction(1, 3)),
        # One offset for both: 1 + o < 2 < 3 + o for o = 0 alone; each by itself would hold in two of three.
        ([event(0, 2, clock="h", skew=1), event(2, 2), event(2, 4, seq=2, clock="h", skew=1)], None, Fraction(1, 3)),
        ([event(0, 2, clock="h", skew=1), event(2, 4, seq=2, clock="h", skew=1)], 2, Fraction(1)),
        ([event(0, 2, clock="h", skew=1), event(2, 4, seq=2, clock="h", skew=1)], 1, Fraction(0)),
        # By its clock at 1 or 2, off by -1..1: at 0, 1, 2, 3 with 1, 2, 2, 1 of 6.
        ([event(0, 3, clock="h", skew=1), event(2, 2)], None, Fraction(1, 2)),
        ([event(0, 3, clock="h", skew=1, weights=[1, 3]), event(2, 2)], None, Fraction(1 * 2 + 3 * 1, 12)),
    ],
)
def test_known_values(sequence: list[ObservedEvent], within_ms: int | None, confidence: Fraction) -> None:
    assert confidence_by_worlds(sequence, within_ms, strict_ties=False) == confidence
    assert confidence_by_steps(sequence, within_ms, strict_ties=False) == confidence


def test_strict_ties_leave_equal_points_unordered() -> None:
    pair = [event(3, 3), event(3, 3, seq=1)]
    assert confidence_of(pair, None, strict_ties=True) == 0
    assert not can_be_before(pair[0], pair[1], strict_ties=True)


def test_long_intervals_are_summed_without_listing_worlds() -> None:
    # P(a < b) for two intervals of n points that start together: (n - 1) / 2n.
    pair = [event(0, 14_999), event(0, 14_999, seq=1)]
    assert n_worlds(pair) > MAX_LISTED_WORLDS
    assert confidence_of(pair, None, strict_ties=False) == Fraction(14_999, 30_000)


@settings(max_examples=examples(90), deadline=None)
@given(streams(WEIGHTED), st.one_of(st.none(), st.integers(0, 12)), st.booleans(), st.randoms(use_true_random=False))
def test_both_sums_agree(batch: EventBatch, within_ms: int | None, strict_ties: bool, random: object) -> None:
    sequence = observe(batch, SCHEMA)[:4]
    random.shuffle(sequence)  # type: ignore[attr-defined]
    if sequence:
        by_worlds = confidence_by_worlds(sequence, within_ms, strict_ties=strict_ties)
        assert confidence_by_steps(sequence, within_ms, strict_ties=strict_ties) == by_worlds
        assert 0 <= by_worlds <= 1


@settings(max_examples=examples(60), deadline=None)
@given(streams(IMPRECISE))
def test_orders_of_independent_events_are_disjoint(batch: EventBatch) -> None:
    """Of events without a common clock the confidences of all orders add up to P(all times differ)."""
    events = [e for e in observe(batch, SCHEMA)[:4] if not e.is_precise and e.clock_id is None]
    if not events:
        return
    orders = itertools.permutations(events)
    total = sum(confidence_by_worlds(order, None, strict_ties=False) for order in orders)
    assert total == _share_of_distinct(events)


def _share_of_distinct(events: Sequence[ObservedEvent]) -> Fraction:
    points = [list(e.times.items()) for e in events]
    total = Fraction(0)
    for world in itertools.product(*points):
        if len({time_ms for time_ms, _ in world}) == len(world):
            share = Fraction(1)
            for _, p in world:
                share *= p
            total += share
    return total


@settings(max_examples=examples(60), deadline=None)
@given(streams(IMPRECISE), st.booleans())
def test_a_longer_prefix_is_never_more_confident(batch: EventBatch, strict_ties: bool) -> None:
    sequence = observe(batch, SCHEMA)
    shares = [confidence_by_steps(sequence[:n], None, strict_ties=strict_ties) for n in range(1, len(sequence) + 1)]
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("weights", [[1.0], [0.0, 0.0, 0.0], [1.0, -1.0, 1.0], [1.0, float("nan"), 1.0]])
def test_weights_that_do_not_fit_are_refused(weights: list[float]) -> None:
    with pytest.raises(EventError, match=r"weights .* expected one finite number >= 0 per millisecond"):
        event(0, 2, weights=weights)
