"""P(at least one match): how sure it is that something happened at all (DESIGN 6).

Matches are possible in some worlds only; several of them may share uncertain events. Exactly where the work limit
allows it (`engine.uncertainty.union_probability`), otherwise between bounds, or estimated from drawn worlds where that
says more; the result tells which.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.uncertainty.implied import minimal
from engine.uncertainty.possibilities import CERTAIN, Possibilities, PossibleMatch
from engine.uncertainty.sampled import N_WORLDS, share_of_worlds
from engine.uncertainty.union_probability import Matches, OutOfWorkError, UnionProbability, components

WORK_LIMIT = 5_000
"""Matches looked at, given times of others, before bounds take the position of the exact result: about 0.3 s."""

MAX_MATCHES = 200
"""More matches than this are not compared with each other: those left over only raise the upper bound."""

_SINGLE_LIMIT = 100
_N_PARTNERS = 3
_STANDARD_ERRORS = 4
"""An estimate is told when the bounds are farther apart than this many of its standard errors."""


class Method(StrEnum):
    """How the probability is known."""

    CERTAIN = "certain"
    EXACT = "exact"
    BOUNDS = "bounds"
    ESTIMATE = "estimate"


@dataclass(frozen=True, slots=True)
class AtLeastOne:
    """P(at least one match happened): between `lower` and `upper`, which always hold and are equal when it is exact.

    `estimate`: from drawn worlds, with its standard error and the seed that they were drawn with, for Method.ESTIMATE.
    """

    lower: float
    upper: float
    method: Method
    estimate: float | None = None
    standard_error: float | None = None
    seed: int | None = None

    @classmethod
    def between(cls, lower: float, upper: float) -> AtLeastOne:
        """From bounds alone. What rounds to 1 is not called certain: there are worlds without a match."""
        return cls(lower, upper, Method.EXACT if lower == upper else Method.BOUNDS)


@dataclass(frozen=True, slots=True)
class _Component:
    lower: float
    upper: float
    estimate: float
    standard_error: float = 0.0


def at_least_one(
    possibilities: Possibilities, *, work_limit: int = WORK_LIMIT, seed: int = 0, n_worlds: int = N_WORLDS
) -> AtLeastOne:
    """How sure it is that one of these matches happened; `n_worlds`, of `seed`, may be drawn, none of 0."""
    if possibilities.is_certain:
        return AtLeastOne(1.0, 1.0, Method.CERTAIN)
    evaluator = UnionProbability(possibilities.times, work_limit)
    chosen = sorted(possibilities.matches, key=lambda m: len(m.conditions) + len(m.choices))
    chosen, others = chosen[:MAX_MATCHES], chosen[MAX_MATCHES:]
    simple = minimal(evaluator.simplified(chosen), possibilities.times)
    if CERTAIN in simple:
        return AtLeastOne(1.0, 1.0, Method.CERTAIN)
    found = [_component(evaluator, group, seed, n_worlds) for group in sorted(components(simple), key=len)]
    lower, upper = _one_of(c.lower for c in found), _one_of(c.upper for c in found)
    upper += sum(_single(evaluator, match)[1] for match in others)
    parts = possibilities.parts
    lower = max([lower, *(part.lower for part in parts)])
    upper = max(lower, min(1.0, upper + sum(part.upper for part in parts)))
    if not n_worlds:
        return AtLeastOne.between(lower, upper)
    if others:
        estimate, error = share_of_worlds([*simple, *others], possibilities.times, seed, n_worlds)
    else:
        estimate, error = _one_of(c.estimate for c in found), _error(found)
    if parts or upper - lower <= _STANDARD_ERRORS * error:
        return AtLeastOne.between(lower, upper)
    estimate = min(max(estimate, lower), upper)
    return AtLeastOne(lower, upper, Method.ESTIMATE, estimate, error, seed)


def _one_of(probabilities: Iterable[float]) -> float:
    """P(at least one of independent events)."""
    each = list(probabilities)
    return each[0] if len(each) == 1 else 1.0 - math.prod(1.0 - p for p in each)


def _error(found: Sequence[_Component]) -> float:
    """The standard error of `_one_of` of independent estimates."""
    variance = 0.0
    for at, component in enumerate(found):
        without = math.prod(1.0 - other.estimate for k, other in enumerate(found) if k != at)
        variance += (without * component.standard_error) ** 2
    return math.sqrt(variance)


def _component(evaluator: UnionProbability, group: Sequence[PossibleMatch], seed: int, n_worlds: int) -> _Component:
    try:
        exact = min(evaluator.of_component(frozenset(group)), 1.0)
    except OutOfWorkError:
        lower, upper = _bounds(evaluator, group)
        if not n_worlds:
            return _Component(lower, upper, lower)
        estimate, error = share_of_worlds(group, evaluator.times, seed, n_worlds)
        return _Component(lower, upper, min(max(estimate, lower), upper), error)
    return _Component(exact, exact, exact)


# ------------------------------------------------------------------ bounds


def _bounds(evaluator: UnionProbability, group: Sequence[PossibleMatch]) -> tuple[float, float]:
    """Of the union of matches that share times.

    From below: the union of those that the work allows, and of those that share nothing. From above: the former and,
    for each match beside it, what it adds to the one of them that it overlaps most (as Hunter's and Worsley's bound).
    """
    singles = {match: _single(evaluator, match) for match in group}
    ranked = sorted(group, key=lambda match: -singles[match][0])
    union, n_in = _first_of(evaluator, ranked, singles)
    lower = max(union, _disjoint(ranked, {match: lower for match, (lower, _) in singles.items()}))
    upper = union if n_in else 0.0
    for match in ranked[n_in:]:
        upper += _added(evaluator, match, ranked[: min(n_in, _N_PARTNERS)], singles)
        if upper >= 1.0:
            break
    return lower, max(lower, min(1.0, upper))


def _single(evaluator: UnionProbability, match: PossibleMatch) -> tuple[float, float]:
    """Bounds of one match's probability."""
    try:
        exact = _within(evaluator, frozenset((match,)))
    except OutOfWorkError:
        return 0.0, min(_within(evaluator, frozenset((PossibleMatch(frozenset((c,))),))) for c in match.conditions)
    return exact, exact


def _within(evaluator: UnionProbability, matches: Matches) -> float:
    return min(1.0, UnionProbability(evaluator.times, _SINGLE_LIMIT).of(matches))


def _first_of(
    evaluator: UnionProbability, ranked: Sequence[PossibleMatch], singles: dict[PossibleMatch, tuple[float, float]]
) -> tuple[float, int]:
    """(P(one of the first n happens), n) for as many as a part of the work allows."""
    best = (0.0, 0)
    if singles[ranked[0]][0] == singles[ranked[0]][1]:
        best = (singles[ranked[0]][0], 1)
    n = 2
    while n < len(ranked):
        try:
            smaller = UnionProbability(evaluator.times, max(_SINGLE_LIMIT, evaluator.work_limit // 4))
            best = (min(1.0, smaller.of(ranked[:n])), n)
        except OutOfWorkError:
            break
        n *= 2
    return best


def _disjoint(ranked: Sequence[PossibleMatch], lower: dict[PossibleMatch, float]) -> float:
    """P(one of some matches that share no time), the most probable ones first."""
    named: set[str] = set()
    missing = 1.0
    for match in ranked:
        own = match.variables()
        if named.isdisjoint(own):
            named |= own
            missing *= 1.0 - lower[match]
    return 1.0 - missing


def _added(
    evaluator: UnionProbability,
    match: PossibleMatch,
    partners: Sequence[PossibleMatch],
    singles: dict[PossibleMatch, tuple[float, float]],
) -> float:
    """The most that a match adds to a union which has the partners."""
    least = singles[match][1]
    for partner in partners:
        lower, upper = singles[partner]
        if lower == upper:
            try:
                least = min(least, _within(evaluator, frozenset((match, partner))) - lower)
            except OutOfWorkError:
                continue
    return max(least, 0.0)


__all__ = ["MAX_MATCHES", "WORK_LIMIT", "AtLeastOne", "Method", "at_least_one"]
