"""P(at least one of several possible matches), exactly.

Matches that share no uncertain time are independent: 1 - prod(1 - P). Matches that do are told apart by the time t of
one of them: given t, its conditions are bounds of the other times, and what is left falls apart further. P(rest | t) is
piecewise a polynomial in t: between two neighbouring end points of intervals (moved along the windows that lead to t)
the number of favourable worlds depends on the order of the other times there and on how many milliseconds lie before
and after t, so that the degree is at most the number of times that can be there. Its sum over a piece follows from as
many values as it has coefficients (`engine.uncertainty.polynomial_sums`): the cost depends on the number of end points,
not on milliseconds. Single milliseconds are summed only where given weights tell them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from engine.events import BoolArray, Float64Array
from engine.uncertainty.linked import linked
from engine.uncertainty.polynomial_sums import nodes_and_weights
from engine.uncertainty.possibilities import ORIGIN, PossibleMatch, TimeConstraint, TimeDistribution

_MAX_SHIFTS = 256
"""Distances between two times that conditions may add up to before the evaluation is given up."""

_MAX_CENTRES = 16

Matches = frozenset[PossibleMatch]


class OutOfWorkError(Exception):
    """The work limit was reached before the result."""


class UnionProbability:
    """Evaluates unions of matches over independent times; `n_work` counts matches looked at, up to `work_limit`."""

    def __init__(self, times: Mapping[str, TimeDistribution], work_limit: int) -> None:
        self.times = times
        self.work_limit = work_limit
        self.n_work = 0
        self._known: dict[Matches, float] = {}
        self._sums: dict[str, Float64Array] = {}

    def of(self, matches: Iterable[PossibleMatch]) -> float:
        """P(at least one happens), 0 for none. Raises OutOfWorkError."""
        simple = self.simplified(matches)
        if any(match.is_certain for match in simple):
            return 1.0
        missing = 1.0
        for component in components(simple):
            missing *= 1.0 - self.of_component(frozenset(component))
        return 1.0 - missing

    def of_component(self, component: Matches) -> float:
        """The same for simplified matches of which each shares a time with another."""
        known = self._known.get(component)
        if known is not None:
            return known
        self.n_work += len(component)
        if self.n_work > self.work_limit:
            raise OutOfWorkError
        if len(component) == 1:
            (match,) = component
            result = 1.0
            for part in _independent_parts(match):
                result *= self._of_linked(frozenset((part,)))
        else:
            result = self._of_linked(component)
        self._known[component] = result
        return result

    # --------------------------------------------------------- one time at a time

    def _of_linked(self, matches: Matches) -> float:
        variables = sorted({variable for match in matches for variable in match.variables()})
        if len(variables) == 1 and len(matches) == 1:
            (match,) = matches
            if not match.choices:
                lo_ms, hi_ms = self._bounds(match, variables[0])
                return self._mass(variables[0], lo_ms, hi_ms)
        centre = _centre(matches, variables)
        points, weights = self._points(centre, matches, variables)
        star = self._star(centre, matches, points)
        if star is not None:
            self.n_work += 1 + len(points) * len(matches) // 64
            return float(weights @ star)
        total = 0.0
        for time_ms, weight in zip(points.tolist(), weights.tolist(), strict=True):
            total += weight * self.of(_given(match, centre, time_ms) for match in matches)
        return total

    def _points(
        self, centre: str, matches: Matches, variables: Sequence[str]
    ) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Float64Array]:
        """Times of `centre` and their weights, such that any function that arises here is summed exactly."""
        own = self.times[centre]
        shifts = self._shifts(centre, matches)
        walls = {own.lo_ms, own.hi_ms + 1}
        for variable in variables:
            ends = self._ends(variable, matches)
            for shift in shifts.get(variable, ()):
                walls.update(end - shift for end in ends if own.lo_ms < end - shift <= own.hi_ms)
        points: list[int] = []
        weights: list[float] = []
        for start, end in pairwise(sorted(walls)):
            degree = sum(
                any(
                    self.times[variable].lo_ms <= end - 1 + shift and start + shift <= self.times[variable].hi_ms
                    for shift in shifts.get(variable, ())
                )
                for variable in variables
                if variable != centre
            )
            nodes, shares = nodes_and_weights(end - start, degree)
            mass = self._mass(centre, start, end - 1)
            if mass:
                points += [start + node for node in nodes]
                weights += [mass * share for share in shares]
        if self.n_work + len(points) > self.work_limit:
            raise OutOfWorkError
        return np.array(points, np.int64), np.array(weights)

    def _shifts(self, centre: str, matches: Matches) -> dict[str, set[int]]:
        """Variable -> the s for which t[variable] is compared with t[centre] + s, along any way of conditions."""
        links: dict[str, set[tuple[str, int]]] = {}
        for x, y, at_most_ms in _all_conditions(matches):
            if ORIGIN not in (x, y):
                shift = at_most_ms + (at_most_ms < 0)  # t[x] against t[y] + shift
                links.setdefault(x, set()).add((y, -shift))
                links.setdefault(y, set()).add((x, shift))
        own = self.times[centre]
        found: dict[str, set[int]] = {centre: {0}}
        waiting = [(centre, 0)]
        n_found = 1
        while waiting:
            variable, shift = waiting.pop()
            for other, further in links.get(variable, ()):
                moved = shift + further
                times = self.times[other]
                if times.hi_ms + 1 < own.lo_ms + moved or own.hi_ms + 1 + moved < times.lo_ms:
                    continue
                if moved not in found.setdefault(other, set()):
                    found[other].add(moved)
                    waiting.append((other, moved))
                    n_found += 1
                    if n_found > _MAX_SHIFTS:
                        raise OutOfWorkError
        return found

    def _ends(self, variable: str, matches: Matches) -> set[int]:
        """Where the distribution or a bound of this time begins or ends: the first millisecond of each piece."""
        lo_ms, hi_ms, weights = self.times[variable]
        ends = {lo_ms, hi_ms + 1}
        if weights is not None:
            ends.update(lo_ms + at for at in range(1, len(weights)) if weights[at] != weights[at - 1])
        for x, y, at_most_ms in _all_conditions(matches):
            if x == variable and y == ORIGIN:
                ends.add(at_most_ms + 1)
            elif y == variable and x == ORIGIN:
                ends.add(-at_most_ms)
        return ends

    def _star(
        self, centre: str, matches: Matches, points: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> Float64Array | None:
        """P(at least one | t[centre]) at all points at once, where the other times are then independent of each other.

        None where they are not: conditions between two others, choices, or a time that matches share beside others.
        """
        if any(match.choices for match in matches):
            return None
        for x, y, _ in _all_conditions(matches):
            if centre not in (x, y) and ORIGIN not in (x, y):
                return None
        others = {match: match.variables() - {centre} for match in matches}
        sharing = Counter(variable for named in others.values() for variable in named)
        if any(len(named) > 1 and any(sharing[v] > 1 for v in named) for named in others.values()):
            return None
        missing = np.ones(len(points))
        shared: dict[str, list[tuple[Float64Array, Float64Array]]] = {}
        for match, named in others.items():
            within, bounds = self._bounds_given(match, centre, sorted(named), points)
            if len(named) == 1 and sharing[(variable := next(iter(named)))] > 1:
                lo, hi = bounds[variable]
                shared.setdefault(variable, []).append((lo, np.where(within, hi, lo - 1)))
                continue
            happens = within.astype(np.float64)
            for variable, (lo, hi) in bounds.items():
                happens *= self._masses(variable, lo, hi)
            missing *= 1.0 - happens
        for variable, intervals in shared.items():
            missing *= 1.0 - self._covered(variable, intervals)
        return 1.0 - missing

    def _bounds_given(
        self,
        match: PossibleMatch,
        centre: str,
        named: Sequence[str],
        points: np.ndarray[tuple[int], np.dtype[np.int64]],
    ) -> tuple[BoolArray, dict[str, tuple[Float64Array, Float64Array]]]:
        """Whether `centre` may be at each point, and the bounds of the other times then."""
        within = np.ones(len(points), np.bool_)
        lo = {v: np.full(len(points), float(self.times[v].lo_ms)) for v in named}
        hi = {v: np.full(len(points), float(self.times[v].hi_ms)) for v in named}
        for x, y, at_most_ms in match.conditions:
            if x == centre and y == ORIGIN:
                within &= points <= at_most_ms
            elif y == centre and x == ORIGIN:
                within &= points >= -at_most_ms
            elif y in (centre, ORIGIN):
                np.minimum(hi[x], (points if y == centre else 0) + at_most_ms, out=hi[x])
            else:
                np.maximum(lo[y], (points if x == centre else 0) - at_most_ms, out=lo[y])
        return within, {v: (lo[v], hi[v]) for v in named}

    def _covered(self, variable: str, intervals: Sequence[tuple[Float64Array, Float64Array]]) -> Float64Array:
        """P(the time is in at least one of the intervals), point by point."""
        lo = np.array([each for each, _ in intervals])
        hi = np.array([each for _, each in intervals])
        order = np.argsort(lo, axis=0, kind="stable")
        lo, hi = np.take_along_axis(lo, order, 0), np.take_along_axis(hi, order, 0)
        reached = np.full(lo.shape[1], float(self.times[variable].lo_ms - 1))
        total = np.zeros(lo.shape[1])
        for start, end in zip(lo, hi, strict=True):
            total += self._masses(variable, np.maximum(start, reached + 1), end)
            np.maximum(reached, end, out=reached)
        return total

    # ------------------------------------------------------------ single times

    def _mass(self, variable: str, lo_ms: int, hi_ms: int) -> float:
        """P(the time is in [lo_ms, hi_ms])."""
        first, last, weights = self.times[variable]
        lo_ms, hi_ms = max(lo_ms, first), min(hi_ms, last)
        if lo_ms > hi_ms:
            return 0.0
        if weights is None:
            return (hi_ms - lo_ms + 1) / (last - first + 1)
        sums = self._sums_of(variable, weights)
        return float(sums[hi_ms - first + 1] - sums[lo_ms - first])

    def _masses(self, variable: str, lo: Float64Array, hi: Float64Array) -> Float64Array:
        """`_mass` of many intervals inside the distribution's, empty ones included."""
        first, last, weights = self.times[variable]
        if weights is None:
            return np.asarray(np.maximum(hi - lo + 1.0, 0.0) / (last - first + 1))
        sums = self._sums_of(variable, weights)
        start = np.clip(lo - first, 0, len(weights)).astype(np.int64)
        end = np.clip(hi - first + 1, 0, len(weights)).astype(np.int64)
        return np.asarray(np.where(end > start, sums[end] - sums[start], 0.0))

    def _sums_of(self, variable: str, weights: Sequence[float]) -> Float64Array:
        sums = self._sums.get(variable)
        if sums is None:
            sums = self._sums[variable] = np.append(0.0, np.cumsum(weights))
        return sums

    def _bounds(self, match: PossibleMatch, variable: str) -> tuple[int, int]:
        lo_ms, hi_ms, _ = self.times[variable]
        for x, y, at_most_ms in match.conditions:
            if x == variable and y == ORIGIN:
                hi_ms = min(hi_ms, at_most_ms)
            elif y == variable and x == ORIGIN:
                lo_ms = max(lo_ms, -at_most_ms)
        return lo_ms, hi_ms

    # ---------------------------------------------------------------- simplifying

    def simplified(self, matches: Iterable[PossibleMatch]) -> list[PossibleMatch]:
        """Without impossible matches, without conditions that hold anyway, without matches that imply another one."""
        found: dict[PossibleMatch, None] = {}
        for match in matches:
            simple = self._normal(match)
            if simple is not None:
                if simple.is_certain:
                    return [simple]
                found[simple] = None
        if len(found) < 2:
            return list(found)
        ordered = sorted(found, key=lambda match: len(match.conditions) + len(match.choices))
        return self._not_implied(self._not_implied(ordered)[::-1])

    def _not_implied(self, matches: Sequence[PossibleMatch]) -> list[PossibleMatch]:
        """Without those that one kept before them is known to happen with."""
        kept: list[tuple[PossibleMatch, set[str]]] = []
        for match in matches:
            named, box = match.variables(), self._box(match.conditions)
            assert box is not None, "simplified matches are possible"
            if not any(own <= named and _implies(match, box, other) for other, own in kept):
                kept.append((match, named))
        return [match for match, _ in kept]

    def _normal(self, match: PossibleMatch) -> PossibleMatch | None:
        conditions, choices = set(match.conditions), match.choices
        while True:
            box = self._box(conditions)
            if box is None:
                return None
            pairs = set()
            for condition in conditions:
                if ORIGIN in (condition.x, condition.y):
                    continue
                holds = _known(condition, box)
                if holds is False:
                    return None
                if holds is None:
                    pairs.add(condition)
            open_choices = set()
            chosen = False
            for choice in choices:
                ways = [(way, _known(way, box)) for way in choice]
                if any(known for _, known in ways):
                    continue
                left = frozenset(way for way, known in ways if known is None)
                if not left:
                    return None
                if len(left) == 1:
                    conditions |= left
                    chosen = True
                else:
                    open_choices.add(left)
            choices = frozenset(open_choices)
            if not chosen:
                return PossibleMatch(frozenset(pairs | self._unary(box)), choices)

    def _box(self, conditions: Iterable[TimeConstraint]) -> dict[str, tuple[int, int]] | None:
        """The interval of every time that the conditions leave, None when one of them is empty."""
        box: dict[str, tuple[int, int]] = _Intervals(self.times)
        for x, y, at_most_ms in conditions:
            if y == ORIGIN:
                if x == ORIGIN:
                    if at_most_ms < 0:
                        return None
                    continue
                lo_ms, hi_ms = box[x]
                box[x] = (lo_ms, min(hi_ms, at_most_ms))
            elif x == ORIGIN:
                lo_ms, hi_ms = box[y]
                box[y] = (max(lo_ms, -at_most_ms), hi_ms)
        return None if any(lo_ms > hi_ms for lo_ms, hi_ms in box.values()) else box

    def _unary(self, box: Mapping[str, tuple[int, int]]) -> set[TimeConstraint]:
        bounds = set()
        for variable, (lo_ms, hi_ms) in box.items():
            if variable != ORIGIN:
                own = self.times[variable]
                if lo_ms > own.lo_ms:
                    bounds.add(TimeConstraint(ORIGIN, variable, -lo_ms))
                if hi_ms < own.hi_ms:
                    bounds.add(TimeConstraint(variable, ORIGIN, hi_ms))
        return bounds


class _Intervals(dict[str, tuple[int, int]]):
    """Intervals by variable, from the distributions where nothing else was said."""

    def __init__(self, times: Mapping[str, TimeDistribution]) -> None:
        super().__init__()
        self.times = times

    def __missing__(self, variable: str) -> tuple[int, int]:
        if variable == ORIGIN:
            return (0, 0)
        own = self.times[variable]
        return (own.lo_ms, own.hi_ms)


def _implies(match: PossibleMatch, box: Mapping[str, tuple[int, int]], other: PossibleMatch) -> bool:
    """Whether `other` is known to be one wherever `match`, whose times are in `box`, is."""
    for condition in other.conditions:
        if condition not in match.conditions and not _known(condition, box):
            return False
    return all(
        choice in match.choices or any(way in match.conditions or _known(way, box) for way in choice)
        for choice in other.choices
    )


def _known(condition: TimeConstraint, box: Mapping[str, tuple[int, int]]) -> bool | None:
    x_lo, x_hi = box[condition.x]
    y_lo, y_hi = box[condition.y]
    if x_hi - y_lo <= condition.at_most_ms:
        return True
    return False if x_lo - y_hi > condition.at_most_ms else None


def _given(match: PossibleMatch, variable: str, time_ms: int) -> PossibleMatch:
    """The match where this time is known."""

    def put(condition: TimeConstraint) -> TimeConstraint:
        x, y, at_most_ms = condition
        if x == variable:
            return TimeConstraint(ORIGIN, y, at_most_ms - time_ms)
        return TimeConstraint(x, ORIGIN, at_most_ms + time_ms) if y == variable else condition

    return PossibleMatch(
        frozenset(map(put, match.conditions)), frozenset(frozenset(map(put, choice)) for choice in match.choices)
    )


def _all_conditions(matches: Iterable[PossibleMatch]) -> Iterator[TimeConstraint]:
    for match in matches:
        yield from match.conditions
        for choice in match.choices:
            yield from choice


def components(matches: Sequence[PossibleMatch]) -> list[list[PossibleMatch]]:
    """Groups of matches of which each shares an uncertain time with another of its group."""
    return linked(matches, lambda match: set(match.variables()))


def _independent_parts(match: PossibleMatch) -> list[PossibleMatch]:
    """One match as several that share no time and must all happen."""
    parts = [PossibleMatch(frozenset((condition,))) for condition in match.conditions]
    parts += [PossibleMatch(frozenset(), frozenset((choice,))) for choice in match.choices]
    return [
        PossibleMatch(
            frozenset(condition for part in group for condition in part.conditions),
            frozenset(choice for part in group for choice in part.choices),
        )
        for group in components(parts)
    ]


def _centre(matches: Matches, variables: Sequence[str]) -> str:
    """The time that, once known, leaves the smallest groups of times that depend on each other."""
    occurs = Counter(v for condition in _all_conditions(matches) for v in (condition.x, condition.y) if v != ORIGIN)
    if len(variables) <= 2:
        return max(variables, key=lambda v: (occurs[v], v))
    edges = {tuple(sorted((c.x, c.y))) for c in _all_conditions(matches) if ORIGIN not in (c.x, c.y)}
    edges |= {
        pair
        for match in matches
        for choice in match.choices
        for pair in pairwise(sorted({v for c in choice for v in (c.x, c.y)} - {ORIGIN}))
    }
    if len(matches) > 1:
        edges |= {pair for match in matches for pair in pairwise(sorted(match.variables()))}
    candidates = sorted(variables, key=lambda v: (-occurs[v], v))[:_MAX_CENTRES]
    return min(candidates, key=lambda v: (_largest_without(v, variables, edges, matches), -occurs[v], v))


def _largest_without(centre: str, variables: Sequence[str], edges: Iterable[tuple[str, ...]], matches: Matches) -> int:
    """The size of the largest group of times that stays linked without `centre`."""
    group = {variable: variable for variable in variables}

    def head(variable: str) -> str:
        while group[variable] != variable:
            variable = group[variable]
        return variable

    if len(matches) > 1:
        linked: Iterable[Sequence[str]] = [sorted(match.variables() - {centre}) for match in matches]
    else:
        linked = [pair for pair in edges if centre not in pair]
    for named in linked:
        for first, second in pairwise(named):
            group[head(first)] = head(second)
    return max(Counter(head(variable) for variable in variables if variable != centre).values(), default=0)


__all__ = ["Matches", "OutOfWorkError", "UnionProbability", "components"]
