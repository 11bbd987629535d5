"""P(at least one of several matches) against the share of worlds, world by world, from the definition."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import StateError
from engine.uncertainty.existence import AtLeastOne, Method, at_least_one
from engine.uncertainty.implied import minimal
from engine.uncertainty.polynomial_sums import nodes_and_weights
from engine.uncertainty.possibilities import (
    Conditions,
    Negated,
    Part,
    Possibilities,
    TimedEvent,
    UnknownConditionsError,
    united,
)
from engine.uncertainty.sampled import share_of_worlds
from engine.uncertainty.union_probability import OutOfWorkError, UnionProbability
from tests.examples import examples

TOLERANCE = 1e-12

Match = tuple[list[int], list[tuple[int, int]]]
"""Numbers of events in order, and negated ones with their gaps."""


# ------------------------------------------------------------------ definition


def is_before(first: TimedEvent, second: TimedEvent, times: Sequence[int], *, strict_ties: bool) -> bool:
    if first.is_precise and second.is_precise:
        if strict_ties:
            return first.lo_ms < second.lo_ms
        return (first.lo_ms, first.number) < (second.lo_ms, second.number)
    if first.clock is not None and first.clock == second.clock:
        return (first.hi_ms, first.source_seq) < (second.hi_ms, second.source_seq)
    return times[first.number] < times[second.number]


def happens(events: Sequence[TimedEvent], match: Match, times: Sequence[int], within_ms: int, strict: bool) -> bool:
    chain, negated = match
    if times[chain[-1]] - times[chain[0]] > within_ms:
        return False
    for first, second in itertools.pairwise(chain):
        if not is_before(events[first], events[second], times, strict_ties=strict):
            return False
    for number, gap in negated:
        if gap >= 0:
            left = is_before(events[chain[gap]], events[number], times, strict_ties=strict)
        else:
            left = times[number] >= times[chain[-1]] - within_ms
        if gap < len(chain) - 1:
            right = is_before(events[number], events[chain[gap + 1]], times, strict_ties=strict)
        else:
            right = times[number] <= times[chain[0]] + within_ms
        if left and right:
            return False
    return True


def share(events: Sequence[TimedEvent], matches: Sequence[Match], within_ms: int, strict: bool) -> Fraction:
    total = Fraction(0)
    points = [range(event.lo_ms, event.hi_ms + 1) for event in events]
    for times in itertools.product(*points):
        if any(happens(events, match, times, within_ms, strict) for match in matches):
            probability = Fraction(1)
            for event, time_ms in zip(events, times, strict=True):
                if event.weights is None:
                    probability *= Fraction(1, event.hi_ms - event.lo_ms + 1)
                else:
                    probability *= Fraction(event.weights[time_ms - event.lo_ms]) / sum(map(Fraction, event.weights))
            total += probability
    return total


# ----------------------------------------------------------------------- drawn


@st.composite
def drawn_events(draw: st.DrawFn) -> list[TimedEvent]:
    n = draw(st.integers(1, 6))
    longest = 8 if n < 5 else 4
    starts = sorted(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    events = []
    for number, lo_ms in enumerate(starts):
        n_points = draw(st.sampled_from([1, 2, 3, longest]))
        weights = st.lists(st.integers(0, 3).map(float), min_size=n_points, max_size=n_points).filter(any).map(tuple)
        events.append(
            TimedEvent(
                event_id=f"e{number}",
                lo_ms=lo_ms,
                hi_ms=lo_ms + n_points - 1,
                number=number,
                clock=draw(st.sampled_from([None, None, "h1", "h2"])),
                source_seq=number,
                weights=draw(weights) if draw(st.integers(0, 4)) == 0 else None,
            )
        )
    return events


@st.composite
def drawn_matches(draw: st.DrawFn, n_events: int) -> list[Match]:
    matches = []
    for _ in range(draw(st.integers(1, 4))):
        order = draw(st.permutations(list(range(n_events))))
        length = draw(st.integers(1, n_events))
        chain, others = list(order[:length]), list(order[length:])
        negated: list[tuple[int, int]] = []
        if others and draw(st.booleans()):
            negated = draw(st.lists(st.tuples(st.sampled_from(others), st.integers(-1, length - 1)), max_size=2))
        matches.append((chain, negated))
    return matches


def possible(events: Sequence[TimedEvent], matches: Sequence[Match], within_ms: int, strict: bool) -> Possibilities:
    conditions = Conditions(within_ms, strict_ties=strict)
    return conditions.possibilities(
        [
            conditions.of_match([events[k] for k in chain], [Negated(events[k], gap) for k, gap in negated])
            for chain, negated in matches
        ]
    )


@settings(max_examples=examples(120), deadline=None)
@given(st.data(), drawn_events(), st.sampled_from([2, 4, 7, 30]), st.booleans())
def test_equals_the_share_of_worlds(
    data: st.DataObject, events: list[TimedEvent], within_ms: int, strict: bool
) -> None:
    matches = data.draw(drawn_matches(len(events)))
    found = possible(events, matches, within_ms, strict)
    truth = float(share(events, matches, within_ms, strict))
    result = at_least_one(found)
    assert result.method in (Method.EXACT, Method.CERTAIN)
    assert result.lower == result.upper == pytest.approx(truth, abs=TOLERANCE)
    assert (result.method is Method.CERTAIN) <= (truth == 1)
    text = found.to_json()
    assert text is not None
    assert Possibilities.from_json(text) == found


@settings(max_examples=examples(35), deadline=None)
@given(st.data(), drawn_events(), st.sampled_from([2, 4, 7, 30]), st.integers(0, 12))
def test_with_little_work_the_truth_is_between_the_bounds(
    data: st.DataObject, events: list[TimedEvent], within_ms: int, work_limit: int
) -> None:
    matches = data.draw(drawn_matches(len(events)))
    truth = float(share(events, matches, within_ms, False))
    result = at_least_one(possible(events, matches, within_ms, False), work_limit=work_limit, seed=3)
    assert result.lower - TOLERANCE <= truth <= result.upper + TOLERANCE
    if result.method is Method.ESTIMATE:
        assert result.estimate is not None
        assert result.standard_error is not None
        assert abs(result.estimate - truth) <= 6 * result.standard_error


# ------------------------------------------------------------- long intervals


def counted_worlds(found: Possibilities) -> float:
    """The share of worlds by laying all of them out as one array."""
    names = list(found.times)
    axes = [np.arange(found.times[name].lo_ms, found.times[name].hi_ms + 1) for name in names]
    at = dict(zip(names, np.meshgrid(*axes, indexing="ij", sparse=True), strict=True)) | {"": np.zeros(1, np.int64)}
    any_match = np.zeros([len(axis) for axis in axes], np.bool_)
    for match in found.matches:
        is_one = np.ones(any_match.shape, np.bool_)
        for x, y, at_most_ms in match.conditions:
            is_one &= at[x] - at[y] <= at_most_ms
        for choice in match.choices:
            is_one &= np.logical_or.reduce(np.broadcast_arrays(*(at[x] - at[y] <= c for x, y, c in choice)))
        any_match |= is_one
    return float(any_match.mean())


@settings(max_examples=examples(25), deadline=None)
@given(st.data(), st.sampled_from([20, 33, 60]))
def test_long_intervals_are_summed_by_their_pieces(data: st.DataObject, within_ms: int) -> None:
    starts = sorted(data.draw(st.lists(st.integers(0, 50), min_size=4, max_size=4)))
    lengths = data.draw(st.lists(st.integers(15, 30), min_size=4, max_size=4))
    events = [TimedEvent(f"e{n}", lo, lo + more, n) for n, (lo, more) in enumerate(zip(starts, lengths, strict=True))]
    found = possible(events, data.draw(drawn_matches(4)), within_ms, False)
    result = at_least_one(found)
    assert result.lower == pytest.approx(counted_worlds(found) if found.times else float(found.is_certain), abs=1e-12)
    assert result.lower == result.upper


def star(n_inner: int, length_ms: int, within_ms: int | None = None) -> Possibilities:
    """A start, n overlapping samples, an end: one match for each sample."""
    starts = [n * length_ms // 20 for n in range(n_inner)]
    inner = [TimedEvent(f"b{n}", lo_ms, lo_ms + length_ms - 1, n + 1) for n, lo_ms in enumerate(starts)]
    start = TimedEvent("a", 0, length_ms - 1, 0)
    end = TimedEvent("c", length_ms // 2, length_ms // 2 + length_ms - 1, n_inner + 1)
    return Conditions(within_ms).of_matches([[start, event, end] for event in inner])


@pytest.mark.parametrize("within_ms", [None, 15_000])
def test_the_work_does_not_depend_on_milliseconds(within_ms: int | None) -> None:
    def work(length_ms: int) -> int:
        found = star(6, length_ms, None if within_ms is None else length_ms)
        evaluator = UnionProbability(found.times, 100_000)
        assert 0.6 < evaluator.of(found.matches) < 0.9
        return evaluator.n_work

    assert work(15_000) == work(150_000) < 2_000


def test_discrete_times_approach_continuous_ones() -> None:
    """Three uniform times are in a given order with 1/6, less what ties take at a finite resolution."""
    n = 15_000
    events = [TimedEvent(f"e{k}", 0, n - 1, k) for k in range(3)]
    result = at_least_one(Conditions(None).of_matches([events]))
    assert result.lower == pytest.approx((n - 1) * (n - 2) / (6 * n * n), rel=1e-12)
    both = at_least_one(Conditions(None).of_matches([events, events[::-1]]))
    assert both.lower == pytest.approx((n - 1) * (n - 2) / (3 * n * n), rel=1e-12)


# ------------------------------------------------------------------ single parts


def test_independent_matches_multiply() -> None:
    """Two pairs of events that share none: 1 - (1 - p)(1 - q)."""
    pairs = [[TimedEvent(f"{k}x", 0, 9, k), TimedEvent(f"{k}y", 0, 9, 9 + k)] for k in range(2)]
    result = at_least_one(Conditions(None).of_matches(pairs))
    assert result == AtLeastOne(result.lower, result.lower, Method.EXACT)
    assert result.lower == pytest.approx(1 - 0.55**2, abs=TOLERANCE)


def test_a_certain_match_gives_one() -> None:
    chain = [TimedEvent("x", 0, 3, 0), TimedEvent("y", 4, 9, 1)]
    found = Conditions(None).of_matches([chain, chain[::-1]])
    assert found == Possibilities.certain()
    assert at_least_one(found) == AtLeastOne(1.0, 1.0, Method.CERTAIN)


def test_a_match_that_no_world_has_gives_nothing() -> None:
    chain = [TimedEvent("y", 4, 9, 1), TimedEvent("x", 0, 3, 0)]
    assert at_least_one(Conditions(None).of_matches([chain])) == AtLeastOne(0.0, 0.0, Method.EXACT)


def test_long_chains_follow_from_short_ones() -> None:
    start, end = TimedEvent("a", 0, 20, 0), TimedEvent("c", 10, 40, 9)
    inner = [TimedEvent(f"b{n}", 5 + n, 25 + n, n + 1) for n in range(4)]
    chains = [[start, *chosen, end] for n in range(1, 5) for chosen in itertools.combinations(inner, n)]
    found = Conditions(60).of_matches(chains)
    assert len(found.matches) == 15
    assert set(minimal(found.matches, found.times)) == set(Conditions(60).of_matches(chains[:4]).matches)


def test_the_order_of_one_clock_says_nothing_about_times() -> None:
    """x and y are in order by their clock whatever their times: a < x < y < c does not follow a < y."""
    a, c = TimedEvent("a", 0, 9, 0), TimedEvent("c", 0, 9, 3)
    x, y = TimedEvent("x", 0, 8, 1, clock="h"), TimedEvent("y", 1, 9, 2, clock="h")
    found = Conditions(None).of_matches([[a, x, y, c], [a, y, c]])
    assert len(minimal(found.matches, found.times)) == 2


def test_an_exact_record_moves_with_its_clock() -> None:
    """Two records of a clock with an offset of -5..5 keep their distance; a third is before both or between them."""
    x, y = TimedEvent("x", 5, 15, 0, clock="h", skew_ms=5), TimedEvent("y", 7, 17, 1, clock="h", skew_ms=5)
    z = TimedEvent("z", 11, 11, 2)
    between = at_least_one(Conditions(None).of_matches([[x, z, y]]))
    assert between.lower == pytest.approx(1 / 11, abs=TOLERANCE)  # x at 10, y at 12
    apart = TimedEvent("w", 5, 16, 3, clock="h", skew_ms=5)
    with pytest.raises(UnknownConditionsError, match="event w"):
        Conditions(None).of_matches([[apart, z]])


def test_parts_of_unknown_dependence_widen_the_bounds() -> None:
    half = Conditions(None).of_matches([[TimedEvent("x", 0, 9, 0), TimedEvent("y", 5, 5, 1)]])
    assert at_least_one(half).lower == 0.5
    both = at_least_one(united([half, Possibilities.known_by(0.6, 0.6)]))
    assert both == AtLeastOne(0.6, 1.0, Method.BOUNDS)
    assert at_least_one(Possibilities.known_by(0.25, 0.25)) == AtLeastOne(0.25, 0.25, Method.EXACT)
    assert at_least_one(united([half, Possibilities.known_by(1.0, 1.0)])).method is Method.CERTAIN
    assert Possibilities.from_json(Possibilities.known_by(0.1, 0.2).to_json() or "").parts == (Part(0.1, 0.2),)


def test_an_estimate_is_labelled_and_repeatable() -> None:
    events = [TimedEvent(f"e{n}", n * 10, n * 10 + 99, n) for n in range(7)]
    chains = [list(order) for order in itertools.permutations(events, 4)][::9]
    found = Conditions(None).of_matches(chains)
    with pytest.raises(OutOfWorkError):
        UnionProbability(found.times, 50).of(found.matches)
    result = at_least_one(found, work_limit=50, seed=11)
    assert result.method is Method.ESTIMATE
    assert result.seed == 11
    assert result.standard_error is not None
    assert result.estimate is not None
    assert result.lower < result.estimate < result.upper
    assert result == at_least_one(found, work_limit=50, seed=11)
    share, error = share_of_worlds(sorted(found.matches), found.times, seed=12)
    assert abs(share - result.estimate) <= 6 * (error + result.standard_error)
    assert share != result.estimate


@pytest.mark.parametrize("n_points", [1, 7, 19, 40, 15_000])
@pytest.mark.parametrize("degree", [0, 1, 6, 13])
def test_sums_of_polynomials_are_exact(n_points: int, degree: int) -> None:
    nodes, weights = nodes_and_weights(n_points, degree)
    assert len(set(nodes)) == len(nodes) == min(n_points, degree + 1)
    assert min(nodes) >= 0
    assert max(nodes) < n_points
    for power in range(degree + 1):
        truth = Fraction(sum(k**power for k in range(n_points)), n_points * max(n_points - 1, 1) ** power)
        value = sum(w * (k / max(n_points - 1, 1)) ** power for k, w in zip(nodes, weights, strict=True))
        assert value == pytest.approx(float(truth), abs=1e-13)


@pytest.mark.parametrize("text", ["", "{}", "[]", json.dumps({"times": [["x", 0]], "matches": [], "parts": []})])
def test_text_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(StateError, match="cannot be read"):
        Possibilities.from_json(text)
