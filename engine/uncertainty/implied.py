"""Leaving out matches that can only happen when another one does.

A match whose conditions follow from those of another adds nothing to the other's absence: of the chains of a Kleene
component the short ones remain. What follows from conditions is their shortest-path closure: t_x - t_y <= c and
t_y - t_z <= d give t_x - t_z <= c + d; the end points of intervals are such conditions too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from engine.events import Int64Array
from engine.uncertainty.possibilities import ORIGIN, PossibleMatch, TimeDistribution

_FAR_MS = 2**60

_MAX_VARIABLES = 64
"""Matches with conditions on more times than this are compared as they are written."""


def minimal(matches: Iterable[PossibleMatch], times: Mapping[str, TimeDistribution]) -> list[PossibleMatch]:
    """The matches that no other one is implied by, in an order of their own; their union is the same."""
    ordered = sorted(set(matches), key=lambda m: (len(m.conditions) + len(m.choices), _written(m)))
    kept: list[tuple[PossibleMatch, set[str]]] = []
    for match in ordered:
        named = match.variables()
        near = [other for other, own in kept if own <= named]
        if not near or not any(map(_Closure(match, times).implies, near)):
            kept.append((match, named))
    return [match for match, _ in kept]


def _written(match: PossibleMatch) -> tuple[object, ...]:
    return sorted(match.conditions), sorted(sorted(choice) for choice in match.choices)


class _Closure:
    """What follows from the conditions of one match."""

    def __init__(self, match: PossibleMatch, times: Mapping[str, TimeDistribution]) -> None:
        self._match = match
        named = {ORIGIN} | {v for c in match.conditions for v in (c.x, c.y)}
        self._at = {variable: at for at, variable in enumerate(sorted(named))}
        self._distances = None if len(named) > _MAX_VARIABLES else self._shortest(times)

    def _shortest(self, times: Mapping[str, TimeDistribution]) -> Int64Array:
        """Entry x, y: the least c known for t_x - t_y <= c."""
        n = len(self._at)
        least = np.full((n, n), _FAR_MS, np.int64)
        np.fill_diagonal(least, 0)
        origin = self._at[ORIGIN]
        for variable, at in self._at.items():
            if variable != ORIGIN:
                least[at, origin] = times[variable].hi_ms
                least[origin, at] = -times[variable].lo_ms
        for x, y, at_most_ms in self._match.conditions:
            least[self._at[x], self._at[y]] = min(least[self._at[x], self._at[y]], at_most_ms)
        for via in range(n):
            np.minimum(least, least[:, via, None] + least[None, via, :], out=least)
        return least

    def implies(self, other: PossibleMatch) -> bool:
        """Whether `other` happens wherever this match does (it may, where False is returned)."""
        if not all(self._holds(x, y, at_most_ms) for x, y, at_most_ms in other.conditions):
            return False
        return all(
            choice in self._match.choices or any(self._holds(*way) for way in choice) for choice in other.choices
        )

    def _holds(self, x: str, y: str, at_most_ms: int) -> bool:
        if self._distances is None or x not in self._at or y not in self._at:
            return any(c.x == x and c.y == y and c.at_most_ms <= at_most_ms for c in self._match.conditions)
        return bool(self._distances[self._at[x], self._at[y]] <= at_most_ms)


__all__ = ["minimal"]
