"""What a collapsed row says of the matches behind it: the events of each component, and whether they say it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from engine.events import BoolArray, Float64Array, Int64Array
from engine.matching.output.listed import Matches
from engine.matching.output.orders import Steps, has_other_orders

_LARGEST_EXPONENT = 1_000
"""Powers of two beyond it are no number of listed matches."""


@dataclass(frozen=True, slots=True)
class Collapsing:
    """What COLLAPSED needs beside the matches: components that take several events, the sequences of components that a
    match may be (none when it may be something else: then no row is known to be exact), and TIES STRICT."""

    n_components: int
    kleene: frozenset[int]
    shapes: Sequence[Sequence[int]]
    strict_ties: bool


class Candidates(NamedTuple):
    """For n rows the events of each component: `bounds` int64 (n, n_components + 1) into `positions`, which are
    positions in `Matches.events`, int64 (m,), in stream order. exact: bool (n,), see `MatchRow`."""

    bounds: Int64Array
    positions: Int64Array
    exact: BoolArray

    def of(self, row: int) -> dict[int, Int64Array]:
        """Component -> its candidates, of those that have some."""
        bounds = self.bounds[row].tolist()
        own = enumerate(pairwise(bounds))
        return {component: self.positions[start:end] for component, (start, end) in own if end > start}


def candidates_of(matches: Matches, groups: Int64Array, count: Int64Array, collapsing: Collapsing) -> Candidates:
    """The candidates of rows of which each stands for count[k] matches, `groups` being their numbers row by row."""
    own = matches.listed.chosen(groups)
    row_of_match = np.repeat(np.arange(len(count)), count)
    row = np.repeat(row_of_match, np.diff(own.offsets))
    _, rank = np.unique(matches.events.number, return_inverse=True)
    n_ranks, n_components = len(matches.events.number) + 1, collapsing.n_components
    order = (row * n_components + own.components) * n_ranks + rank[own.rows]
    distinct, first = np.unique(order, return_index=True)
    slots = np.arange(len(count) * n_components + 1) * n_ranks
    ends = np.searchsorted(distinct, slots)
    bounds = np.hstack((ends[:-1].reshape(len(count), n_components), ends[n_components::n_components, None]))
    found = Candidates(bounds, own.rows[first], np.zeros(len(count), np.bool_))
    if not collapsing.shapes:
        return found
    return found._replace(exact=_exact(matches, groups, count, found, collapsing))


def _exact(
    matches: Matches, groups: Int64Array, count: Int64Array, found: Candidates, collapsing: Collapsing
) -> BoolArray:
    """Whether each row's matches are all combinations of its candidates that are in order."""
    exact: BoolArray = np.zeros(len(count), np.bool_)
    apart: BoolArray = np.zeros(len(count), np.bool_)
    if len(collapsing.shapes) == 1 and list(collapsing.shapes[0]) == list(range(collapsing.n_components)):
        apart = _stand_apart(matches, found, collapsing)
        exact[apart] = (_n_apart(np.diff(found.bounds, axis=1), collapsing.kleene) == count)[apart]
    of_each = groups[np.cumsum(count) - count]  # a match of each row
    firsts, lasts, steps = matches.first[of_each], matches.last[of_each], Steps()
    for row in np.flatnonzero(~apart).tolist():
        candidates: Mapping[int, Int64Array] = found.of(row)
        ends = int(firsts[row]), int(lasts[row])
        exact[row] = not has_other_orders(
            matches.events, ends, int(count[row]), candidates, collapsing.kleene, collapsing.shapes, steps,
            strict_ties=collapsing.strict_ties,
        )  # fmt: skip
    return exact


def _stand_apart(matches: Matches, found: Candidates, collapsing: Collapsing) -> BoolArray:
    """Rows of precise events where every candidate of a component comes before every one of the next: bool (n,).

    Then all events of a Kleene component can be chosen or not, each by itself.
    """
    events = matches.events
    order = (events.lo_ms if collapsing.strict_ties else events.number)[found.positions]
    precise = (events.lo_ms == events.hi_ms)[found.positions]
    n = len(found.bounds)
    row = np.repeat(np.arange(n), found.bounds[:, -1] - found.bounds[:, 0])
    ascends = np.ones(len(row), np.bool_)
    ascends[1:] = (order[1:] > order[:-1]) | (row[1:] != row[:-1])
    if collapsing.strict_ties:  # two that are level may be candidates of one single component
        slot = np.repeat(np.arange(n * collapsing.n_components), np.diff(found.bounds, axis=1).ravel())
        single = ~np.isin(slot % collapsing.n_components, list(collapsing.kleene))
        ascends[1:] |= single[1:] & (slot[1:] == slot[:-1])
    wrong = np.bincount(row[~(ascends & precise)], minlength=n) > 0
    apart: BoolArray = ~wrong
    apart[(np.diff(found.bounds, axis=1) == 0).any(axis=1)] = False
    return apart


def _n_apart(n_candidates: Int64Array, kleene: frozenset[int]) -> Float64Array:
    """Combinations of candidates that stand apart, float64 (n,), from their numbers by component (n, n_components).

    The first and the last event of all of them are given.
    """
    n, n_components = n_candidates.shape
    total = np.ones(n, np.float64)
    for component in range(n_components):
        own = n_candidates[:, component]
        n_given = int(component == 0) + int(component == n_components - 1)
        if component not in kleene:
            ways = np.ones(n) if n_given else own.astype(np.float64)
        else:
            free = np.clip(own - n_given, 0, _LARGEST_EXPONENT).astype(np.float64)
            ways = np.exp2(free) - (0.0 if n_given else 1.0)
        with np.errstate(over="ignore"):
            total = total * ways
    return total


__all__ = ["Candidates", "Collapsing", "candidates_of"]
