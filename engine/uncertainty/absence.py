"""P(a match is one and what is negated is absent): demands that must hold, and groups of demands that must not.

A negated part is in its place when the demands about its events all hold: its own order, after what precedes it and
before what follows it. Parts that share no event are independent once the times of the match are given, so each such
group is a factor over the times that bound it. A single negated event in one place is a sum of two tails; where several
parts share events, or one event has several positions, the factor is made by inclusion and exclusion.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from engine.events import Float64Array
from engine.uncertainty.differences import (
    Budget,
    Difference,
    Elimination,
    Table,
    Time,
    TooMuchWorkError,
    between,
    narrowed,
    undecided,
)
from engine.uncertainty.linked import linked

MAX_TERMS = 4_096
"""Terms of one inclusion and exclusion."""
PER_CHECK = 100
"""Cells in the time in which a demand is looked at to see whether several can hold together."""
NOTHING = 1e-13
"""A difference of sums that is less is rounding."""

Part = Sequence[Difference]
"""Demands that must not all hold."""


def joint_probability(
    times: Mapping[int, Time],
    demanded: Sequence[Difference],
    negated: Collection[int] = (),
    parts: Sequence[Part] = (),
    budget: Budget | None = None,
) -> float:
    """P(all of `demanded` hold and of each of `parts` one does not), the times being independent.

    `negated`: the times of negated events, at least one in each demand of a part. Raises TooMuchWorkError.
    """
    return _Joint(times, set(negated), budget or Budget()).probability(demanded, parts)


class _Joint:
    """`negated`: the numbers of the times of negated events."""

    def __init__(self, times: Mapping[int, Time], negated: set[int], budget: Budget) -> None:
        self._times = dict(times)
        self._negated = negated
        self._budget = budget
        self._is_difference = False

    def probability(self, demanded: Sequence[Difference], parts: Sequence[Part]) -> float:
        of_match = {number: time for number, time in self._times.items() if number not in self._negated}
        left = undecided(demanded, of_match)
        narrow = None if left is None else narrowed(of_match, left)
        if left is None or narrow is None:
            return 0.0
        self._times.update(narrow)
        left = undecided(left, self._times)
        possible = [own for part in parts if (own := undecided(part, self._times)) is not None]
        if left is None or any(not part for part in possible):
            return 0.0
        tables = [self._absence(group) for group in self._groups(possible)]
        elimination = Elimination(self._times, left, tables, self._budget)
        elimination.sum_out(narrow)
        result = elimination.constant
        return 0.0 if self._is_difference and result < NOTHING else result

    def _groups(self, parts: Sequence[Part]) -> list[list[Part]]:
        """The parts, together when they share negated events."""
        return linked(parts, lambda part: {number for d in part for number in (d.before, d.after)} & self._negated)

    def _absence(self, parts: Sequence[Part]) -> Table:
        """P(none of the parts is in its place), given the times of the match around them."""
        negated = {number for part in parts for d in part for number in (d.before, d.after)} & self._negated
        if len(parts) == 1 and len(negated) == 1:
            return self._outside(parts[0], negated.pop())
        self._is_difference = True
        over = tuple(sorted({n for part in parts for d in part for n in (d.before, d.after)} - negated))
        shape = [len(self._times[number].shares) for number in over]
        self._budget.spend(math.prod(shape))
        values = np.ones(shape)
        n_terms = 0
        waiting: list[tuple[int, tuple[Difference, ...], float]] = [(0, (), -1.0)]
        while waiting:
            start, demanded, sign = waiting.pop()
            for number in range(start, len(parts)):
                joined = tuple(dict.fromkeys((*demanded, *parts[number])))
                self._budget.spend(PER_CHECK * len(joined))
                if narrowed(self._times, joined) is None:
                    continue
                n_terms += 1
                if n_terms > MAX_TERMS:
                    raise TooMuchWorkError
                values = values + sign * self._in_place(joined, over)
                waiting.append((number + 1, joined, -sign))
        return Table(over, np.clip(values, 0.0, 1.0))

    def _in_place(self, demanded: Sequence[Difference], over: tuple[int, ...]) -> Float64Array:
        """P(all of these hold), given the times in `over`."""
        negated = {number for d in demanded for number in (d.before, d.after)} & self._negated
        elimination = Elimination(self._times, list(demanded), [], self._budget)
        elimination.sum_out(negated)
        found = elimination.table()
        shape = [len(self._times[number].shares) if number in found.times else 1 for number in over]
        self._budget.spend(math.prod(len(self._times[number].shares) for number in over))
        return found.values.reshape(shape)

    def _outside(self, part: Part, number: int) -> Table:
        """P(a single event is before all that its place allows or after it), given the times that bound the
        position."""
        time = self._times[number]
        over = tuple(sorted({n for d in part for n in (d.before, d.after)} - {number}))
        self._budget.spend(math.prod(len(self._times[other].shares) for other in over))
        n = len(time.shares)
        first: Any = None
        stop: Any = None
        for d in part:
            other = d.before if d.after == number else d.after
            axis = [1] * len(over)
            axis[over.index(other)] = -1
            bounding = self._times[other]
            at = (bounding.lo_ms + np.arange(len(bounding.shares))).reshape(axis) - time.lo_ms
            if d.after == number:
                bound = at + d.least_ms
                first = bound if first is None else np.maximum(first, bound)
            else:
                bound = at - d.least_ms + 1
                stop = bound if stop is None else np.minimum(stop, bound)
        shares = time.shares.reshape([-1] + [1] * len(over))
        values = np.zeros([len(self._times[other].shares) for other in over])
        start = np.clip(0 if first is None else first, 0, n)
        end = np.clip(n if stop is None else stop, 0, n)
        values = values + between(shares, None, start) + between(shares, np.maximum(start, end), None)
        return Table(over, values)


__all__ = ["MAX_TERMS", "joint_probability"]
