"""Confidence of chains against counts of worlds in whole numbers, in one go and event by event."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kernels.confidence.ordering import Events
from engine.kernels.confidence.pieces import SHORT_MS
from engine.kernels.confidence.sequences import (
    NO_CHAIN_CAPACITY,
    Chain,
    begin_chain,
    confidence_of_chain,
    extend_chain,
    new_chain,
    wider_chain,
)
from engine.kernels.confidence.skew import match_confidence
from tests.engine.kernels.plain import as_python
from tests.examples import examples

TOLERANCE = 1e-12
ALWAYS = 2**40

Interval = tuple[int, int]


class Drawn(NamedTuple):
    """An event: interval, clock (-1: its own), shares of its milliseconds (None: uniform)."""

    lo_ms: int
    hi_ms: int
    clock: int = -1
    shares: tuple[int, ...] | None = None

    @property
    def points(self) -> tuple[int, ...]:
        return self.shares or (1,) * (self.hi_ms - self.lo_ms + 1)


def events_of(drawn: list[Drawn]) -> Events:
    weight_at = np.full(len(drawn), -1)
    weights: list[float] = []
    for row, event in enumerate(drawn):
        if event.shares is not None:
            weight_at[row] = len(weights)
            n_shares = sum(event.shares)
            weights += [share / n_shares for share in event.shares]
    return Events(
        lo_ms=np.array([event.lo_ms for event in drawn]),
        hi_ms=np.array([event.hi_ms for event in drawn]),
        clock=np.array([event.clock for event in drawn]),
        source_seq=np.arange(len(drawn)),
        weight_at=weight_at,
        weights=np.array(weights, np.float64),
        columns=np.empty((0, len(drawn))),
        strict=False,
    )


def known_order(i: Drawn, j: Drawn) -> bool | None:
    """Of i and the later row j: whether i is before j in all worlds, in none, or as their times say."""
    if i.lo_ms == i.hi_ms and j.lo_ms == j.hi_ms:
        return i.lo_ms <= j.lo_ms
    if i.clock >= 0 and i.clock == j.clock:
        return i.hi_ms <= j.hi_ms
    return None


def counted(drawn: list[Drawn], first_points: tuple[int, ...]) -> list[int]:
    """In how many worlds the events are in order, by the millisecond of the last one."""
    reached = list(first_points)
    for i, j in itertools.pairwise(drawn):
        order = known_order(i, j)
        below = [0, *itertools.accumulate(reached)]
        if order is None:
            ways = [below[min(max(t - i.lo_ms, 0), len(reached))] for t in range(j.lo_ms, j.hi_ms + 1)]
        else:
            ways = [below[-1] if order else 0] * len(j.points)
        reached = [share * n for share, n in zip(j.points, ways, strict=True)]
    return reached


def exact(drawn: list[Drawn], within_ms: int) -> Fraction:
    """The confidence from its definition, millisecond by millisecond."""
    first, last = drawn[0], drawn[-1]
    n_worlds = math.prod(sum(event.points) for event in drawn)
    if len(drawn) == 1 or last.hi_ms - first.lo_ms <= within_ms:
        return Fraction(sum(counted(drawn, first.points)), n_worlds)
    n_good = 0
    for at, share in enumerate(first.points):
        point = (0,) * at + (share,) + (0,) * (len(first.points) - at - 1)
        latest = first.lo_ms + at + within_ms
        n_good += sum(counted(drawn, point)[: max(latest - last.lo_ms + 1, 0)])
    return Fraction(n_good, n_worlds)


def found(drawn: list[Drawn], within_ms: int = ALWAYS) -> float:
    """By `chain_confidence`, and by `chain_mass` where the window is certain: no clock has a bound."""
    return float(match_confidence(events_of(drawn), np.arange(len(drawn)), len(drawn), within_ms))


class Search:
    """The form for a depth first search, with arrays that grow."""

    def __init__(self, drawn: list[Drawn]) -> None:
        self.events = events_of(drawn)
        with as_python():
            self.chain: Chain = new_chain(len(drawn) + 1)
            begin_chain(self.chain, 0)

    def extend(self, depth: int, row: int) -> float:
        with as_python():
            while (mass := extend_chain(self.chain, self.events, depth, row)) == NO_CHAIN_CAPACITY:
                self.chain = wider_chain(self.chain)
        return float(mass)

    def confidence(self, depth: int, within_ms: int) -> float:
        with as_python():
            while (found := confidence_of_chain(self.chain, self.events, depth, within_ms)) == NO_CHAIN_CAPACITY:
                self.chain = wider_chain(self.chain)
        return float(found)


@st.composite
def chains(draw: st.DrawFn, most: int = 6, longest: int = 8) -> list[Drawn]:
    """Events whose starts wander upwards, so that neighbours overlap in all ways."""
    drawn: list[Drawn] = []
    start = 0
    for _ in range(draw(st.integers(2, most))):
        lo = start + draw(st.integers(0, longest))
        length = draw(st.integers(1, longest))
        clock = draw(st.sampled_from([-1, -1, -1, 1]))
        shares = draw(st.none() | st.lists(st.integers(0, 9), min_size=length, max_size=length).filter(any))
        drawn.append(Drawn(lo, lo + length - 1, clock, None if shares is None else tuple(shares)))
        start += draw(st.integers(0, longest // 2))
    return drawn


@given(chains(), st.integers(1, 30), st.integers(0, 2**16))
def test_equals_the_share_of_worlds(drawn: list[Drawn], within_ms: int, detours: int) -> None:
    """At once and event by event, also after another event has been tried at the same depth."""
    assert found(drawn) == pytest.approx(float(exact(drawn, ALWAYS)), abs=TOLERANCE)
    assert found(drawn, within_ms) == pytest.approx(float(exact(drawn, within_ms)), abs=TOLERANCE)
    search = Search(drawn)
    for depth in range(len(drawn) - 1):
        if detours >> depth & 1 and search.extend(depth, len(drawn) - 1) > 0.0:
            search.confidence(depth + 1, within_ms)
        prefix = drawn[: depth + 2]
        mass = search.extend(depth, depth + 1)
        assert mass == pytest.approx(float(exact(prefix, ALWAYS)), abs=TOLERANCE)
        if mass == 0.0:
            break
        assert search.confidence(depth + 1, within_ms) == pytest.approx(float(exact(prefix, within_ms)), abs=TOLERANCE)


@settings(max_examples=examples(25))
@given(chains(most=5, longest=3 * SHORT_MS), st.integers(1, 4 * SHORT_MS))
def test_longer_than_what_goes_by_milliseconds(drawn: list[Drawn], within_ms: int) -> None:
    assert found(drawn) == pytest.approx(float(exact(drawn, ALWAYS)), rel=TOLERANCE)
    assert found(drawn, within_ms) == pytest.approx(float(exact(drawn, within_ms)), rel=TOLERANCE, abs=1e-15)


@given(chains(), st.integers(1, 30))
def test_never_grows_as_events_are_added(drawn: list[Drawn], within_ms: int) -> None:
    known = [found(drawn[:n], within_ms) for n in range(1, len(drawn) + 1)]
    if all(event.hi_ms - drawn[0].lo_ms <= within_ms for event in drawn):
        assert all(after <= before + TOLERANCE for before, after in itertools.pairwise(known))
    masses = [found(drawn[:n]) for n in range(1, len(drawn) + 1)]
    assert all(after <= before + TOLERANCE for before, after in itertools.pairwise(masses))
    assert all(share <= mass + TOLERANCE for share, mass in zip(known, masses, strict=True))


def test_precise_and_disjoint_events_are_certain() -> None:
    precise = [Drawn(t, t) for t in (3, 3, 5, 900, 10**9)]
    apart = [Drawn(20_000 * k, 20_000 * k + 14_999) for k in range(40)]
    for drawn in (precise, apart):
        assert found(drawn) == 1.0
        search = Search(drawn)
        assert [search.extend(depth, depth + 1) for depth in range(len(drawn) - 1)] == [1.0] * (len(drawn) - 1)


@pytest.mark.parametrize(("length", "step"), [(10, 3), (10, 8), (1_000, 310), (1_000, 0), (15_000, 14_000)])
def test_two_hundred_overlapping_events(length: int, step: int) -> None:
    """The relative error stays at rounding, down to where float64 ends."""
    drawn = [Drawn(step * k, step * k + length - 1) for k in range(200 if step else 120)]
    want = exact(drawn, ALWAYS)
    assert 0 < want < 1
    got = found(drawn)
    assert abs(Fraction(got) - want) < want * Fraction(1, 10**12)
    search = Search(drawn)
    masses = [search.extend(depth, depth + 1) for depth in range(len(drawn) - 1)]
    assert masses[-1] == pytest.approx(got, rel=TOLERANCE, abs=0.0)
    assert masses == sorted(masses, reverse=True)


def test_end_points_by_the_dozen() -> None:
    """Each of 40 events overlaps 20 others, and no two have an end in common."""
    drawn = [Drawn(97 * k, 97 * k + 1_999 + 31 * (k % 5)) for k in range(40)]
    want = exact(drawn, ALWAYS)
    assert found(drawn) == pytest.approx(float(want), rel=TOLERANCE, abs=0.0)
    search = Search(drawn)
    masses = [search.extend(depth, depth + 1) for depth in range(39)]
    assert masses[-1] == pytest.approx(float(want), rel=TOLERANCE, abs=0.0)


@pytest.mark.parametrize("within_ms", [37, 200, 333, 480, 599])
def test_a_window_inside_overlapping_events(within_ms: int) -> None:
    """No order is known, so that first and last depend on each other through all events."""
    drawn = [Drawn(60 * k, 60 * k + 289 + 7 * k) for k in range(6)]
    want = float(exact(drawn, within_ms))
    assert found(drawn, within_ms) == pytest.approx(want, rel=TOLERANCE)
    search = Search(drawn)
    for depth in range(5):
        search.extend(depth, depth + 1)
    assert search.confidence(5, within_ms) == pytest.approx(want, rel=TOLERANCE)


def test_a_window_over_long_events_that_overlap_in_pairs() -> None:
    """Three of 3,000 ms, then after a gap three more: first and last are independent given the order."""
    drawn = [Drawn(1_000 * k, 1_000 * k + 2_999) for k in range(3)]
    drawn += [Drawn(9_000 + 700 * k, 9_000 + 700 * k + 2_999) for k in range(3)]
    heads = counted([Drawn(-event.hi_ms, -event.lo_ms) for event in reversed(drawn[:3])], drawn[2].points)[::-1]
    tails = [0, *itertools.accumulate(counted(drawn[3:], drawn[3].points))]
    for within_ms in (9_000, 10_400, 11_111):
        n_good = sum(
            ways * tails[min(max(s + within_ms + 1 - drawn[-1].lo_ms, 0), 3_000)] for s, ways in enumerate(heads)
        )
        want = float(Fraction(n_good, 3_000**6))
        assert found(drawn, within_ms) == pytest.approx(want, rel=TOLERANCE)
        search = Search(drawn)
        for depth in range(5):
            search.extend(depth, depth + 1)
        assert search.confidence(5, within_ms) == pytest.approx(want, rel=TOLERANCE)


@pytest.mark.parametrize("within_ms", [21, 25, 28, 31, 36])
@pytest.mark.parametrize("last", [(30, 33), (30, 39), (30, 52)])
def test_a_window_between_two_that_are_apart(within_ms: int, last: Interval) -> None:
    drawn = [Drawn(0, 9), Drawn(15, 22), Drawn(18, 25), Drawn(*last)]
    for chosen in ([drawn[0], drawn[3]], drawn):
        want = float(exact(chosen, within_ms))
        assert found(chosen, within_ms) == pytest.approx(want, abs=TOLERANCE)
        search = Search(chosen)
        for depth in range(len(chosen) - 1):
            search.extend(depth, depth + 1)
        assert search.confidence(len(chosen) - 1, within_ms) == pytest.approx(want, abs=TOLERANCE)


def test_another_head_before_the_same_end() -> None:
    """What is kept of the events up to the first known order is that of the chain at hand."""
    drawn = [Drawn(0, 20), Drawn(5, 24), Drawn(11, 27), Drawn(40, 60), Drawn(43, 50)]
    search = Search(drawn)
    for second in (1, 2, 1):
        search.extend(0, second)
        for third in (3, 4):
            search.extend(1, third)
            want = float(exact([drawn[0], drawn[second], drawn[third]], 35))
            assert search.confidence(2, 35) == pytest.approx(want, abs=TOLERANCE)
    search.extend(0, 1)
    search.extend(1, 2)
    search.extend(2, 4)
    assert search.confidence(3, 35) == pytest.approx(float(exact([*drawn[:3], drawn[4]], 35)), abs=TOLERANCE)


def test_arrays_that_are_too_short_are_replaced() -> None:
    drawn = [Drawn(50 * k, 50 * k + 999) for k in range(30)]
    search = Search(drawn)
    before = len(search.chain.coefs)
    for depth in range(29):
        assert search.extend(depth, depth + 1) == pytest.approx(float(exact(drawn[: depth + 2], ALWAYS)), rel=TOLERANCE)
    assert len(search.chain.coefs) > before
