"""Whether a collapsed row is exact: the matches behind it are all combinations of its candidates that are in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.events import Int64Array
from engine.matching.output.listed import MatchedEvents

_MOST_STEPS = 200_000
"""Steps of the search among imprecise events, above which a row is called not exact."""
_MOST_STEPS_TOGETHER = 2_000_000
"""Of all rows that are made together: a second or two."""


@dataclass
class Steps:
    """What is left for the rows that are made together."""

    left: int = _MOST_STEPS_TOGETHER


def has_other_orders(
    events: MatchedEvents,
    ends: tuple[int, int],
    n_matches: int,
    candidates: Mapping[int, Int64Array],
    kleene: Collection[int],
    shapes: Collection[Sequence[int]],
    steps: Steps,
    *,
    strict_ties: bool,
) -> bool:
    """Whether combinations of candidates are in order without being a match; True as well when that takes too long.

    A combination has one event per component, of those in `kleene` at least one, component after component as one of
    `shapes` has them, from the first to the last event that all matches of the row share. `ends`: the positions of
    these two in `events`. `candidates`: positions by component.
    """
    first, last = ends
    positions = np.concatenate(list(candidates.values()))
    parts = [
        {component: candidates[component] for component in shape} for shape in shapes if candidates.keys() >= set(shape)
    ]
    if (events.lo_ms[positions] == events.hi_ms[positions]).all():
        order = events.lo_ms if strict_ties else events.number
        return sum(_n_of_precise(order, part, kleene, first, last) for part in parts) != n_matches
    if len(parts) > 1:
        return True  # of several shapes it is not looked for
    return _Search(events, candidates, kleene, first, last, strict_ties, steps).exceeds(n_matches)


def _n_of_precise(
    order: Int64Array, candidates: Mapping[int, Int64Array], kleene: Collection[int], first: int, last: int
) -> int:
    """How many increasing sequences there are: per component and event, the ways to end there."""
    before: list[tuple[int, int]] = []  # (order, ways) of the component before
    for depth, component in enumerate(candidates):
        events = sorted({int(order[position]) for position in candidates[component]})
        multiplicity = {rank: int((order[candidates[component]] == rank).sum()) for rank in events}
        ways: list[tuple[int, int]] = []
        passed, n_before, n_own = 0, 0, 0
        for rank in events:
            while passed < len(before) and before[passed][0] < rank:
                n_before += before[passed][1]
                passed += 1
            begun = int(rank == order[first]) if depth == 0 else n_before * multiplicity[rank]
            taken = n_own * multiplicity[rank] if component in kleene else 0
            ways.append((rank, begun + taken))
            n_own += begun + taken
        before = ways
    # No candidate but the first and the last event of the group is level with these: nothing could come between.
    return dict(before).get(int(order[last]), 0)


class _Search:
    """Depth first over the sequences of imprecise events that are in order in some world."""

    def __init__(
        self,
        events: MatchedEvents,
        candidates: Mapping[int, Int64Array],
        kleene: Collection[int],
        first: int,
        last: int,
        strict_ties: bool,
        steps: Steps,
    ) -> None:
        self._events = events
        self._parts = [[int(position) for position in candidates[component]] for component in sorted(candidates)]
        self._numbers = {position: int(events.number[position]) for part in self._parts for position in part}
        self._kleene = [component in kleene for component in sorted(candidates)]
        self._ends = int(events.number[first]), int(events.number[last])
        self._strict_ties = strict_ties
        self._steps = steps
        self._stop_at = max(steps.left - _MOST_STEPS, 0)
        self._found = 0

    def exceeds(self, n: int) -> bool:
        """Whether there are more sequences than n; True as well when the search takes too long."""
        for position in self._parts[0]:
            if self._numbers[position] == self._ends[0]:
                self._extend(0, [position], n)
        return self._found > n or self._is_over

    @property
    def _is_over(self) -> bool:
        return self._steps.left < self._stop_at

    def _extend(self, depth: int, sequence: list[int], n: int) -> None:
        self._steps.left -= 1
        if self._found > n or self._is_over:
            return
        is_end = depth + 1 == len(self._parts)
        if is_end and self._numbers[sequence[-1]] == self._ends[1]:
            self._found += 1
        following = ([depth] if self._kleene[depth] else []) + ([] if is_end else [depth + 1])
        used = {self._numbers[position] for position in sequence}
        for part in following:
            for position in self._parts[part]:
                if self._numbers[position] not in used and self._may_precede(sequence[-1], position):
                    self._extend(part, [*sequence, position], n)

    def _may_precede(self, first: int, second: int) -> bool:
        events = self._events
        lo, hi = events.lo_ms, events.hi_ms
        if lo[first] == hi[first] and lo[second] == hi[second]:
            if self._strict_ties:
                return bool(lo[first] < lo[second])
            return self._numbers[first] < self._numbers[second]
        if events.clock[first] >= 0 and events.clock[first] == events.clock[second]:
            return bool((hi[first], events.source_seq[first]) < (hi[second], events.source_seq[second]))
        return bool(lo[first] < hi[second])


__all__ = ["Steps", "has_other_orders"]
