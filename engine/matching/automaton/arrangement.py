"""What the pattern of an automaton demands of the events of one match: their partial order, and where nothing may be.

It is read off the edges that the match took: an event comes after all before it on its path, but for those of other
operands of an AND around both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.events import BoolArray
from engine.plan.automaton.model import Automaton, AutomatonEdge

Counters = tuple[int, ...]

_MOST_KEPT = 200_000
"""Events of all arrangements that are kept: some tens of MiB."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The position of a negated pattern: after the events `left` and before `right` of the match (numbers along its
    path); an empty side is bounded by the window. `counters`: the iterations that it is in."""

    negation: int
    left: tuple[int, ...]
    right: tuple[int, ...]
    counters: Counters


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The order of n events along a path. `pairs`: neighbours, the first before the second; `firsts` and `lasts`: those
    that none must precede or follow. `is_sequence`: the pattern orders all of them."""

    pairs: tuple[tuple[int, int], ...]
    firsts: tuple[int, ...]
    lasts: tuple[int, ...]
    is_sequence: bool
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    """An event of the path: its occurrence, the iterations of the groups around it, the counters before and after."""

    occurrence: int
    iterations: Counters
    before: Counters
    after: Counters


class Arrangements:
    """The arrangements of one automaton, each worked out once."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._parallel = {(pair.left, pair.right): pair.depth for pair in automaton.parallel}
        n = len(automaton.occurrences)
        self._depth = np.full((n, n), -1, np.int64)
        for pair in automaton.parallel:
            self._depth[pair.left, pair.right] = pair.depth
        self._n_kept = 0
        self._of_matches: dict[tuple[tuple[int, ...], int], Arrangement] = {}
        self._of_parts: dict[tuple[tuple[int, ...], Counters], Arrangement] = {}

    @property
    def are_sequences(self) -> bool:
        """Whether the pattern orders all events of every match."""
        return not self._parallel

    def of_match(self, edges: Sequence[int], end: int) -> Arrangement:
        """The arrangement of a match that took these edges and the exit `end`."""
        key = tuple(edges), end
        found = self._of_matches.get(key)
        if found is None:
            self._forget_if_many(len(key[0]))
            steps = self._walk(key[0], (0,) * self._automaton.n_counters)
            found = self._of_matches[key] = self._arranged(steps, self._gaps(steps, key[0], end))
        return found

    def of_part(self, edges: Sequence[int], counters: Counters) -> Arrangement:
        """The arrangement of what matches a negated pattern, without gaps."""
        key = tuple(edges), counters
        found = self._of_parts.get(key)
        if found is None:
            self._forget_if_many(len(key[0]))
            found = self._of_parts[key] = self._arranged(self._walk(*key), ())
        return found

    def _forget_if_many(self, n: int) -> None:
        """Before another arrangement of n events is kept: those of long lists would be ever more."""
        if self._n_kept > _MOST_KEPT:
            self._of_matches.clear()
            self._of_parts.clear()
            self._n_kept = 0
        self._n_kept += n

    def _walk(self, edges: tuple[int, ...], counters: Counters) -> list[_Step]:
        steps: list[_Step] = []
        for number in edges:
            edge: AutomatonEdge = self._automaton.edges[number]
            after = list(counters)
            for action in edge.actions:
                after[action.counter] = 1 if action.restart else counters[action.counter] + 1
            path = self._automaton.paths[self._automaton.occurrences[edge.occurrence].variable]
            steps.append(_Step(edge.occurrence, tuple(after[g] for g in path), counters, tuple(after)))
            counters = tuple(after)
        return steps

    def _arranged(self, steps: Sequence[_Step], gaps: tuple[Gap, ...]) -> Arrangement:
        n = len(steps)
        if not self._parallel:
            pairs = tuple((i, i + 1) for i in range(n - 1))
            return Arrangement(pairs, (0,), (n - 1,), True, gaps)
        order = self._order(steps)
        pairs = tuple((int(i), int(j)) for j, i in np.argwhere(neighbours(order).T))
        firsts, lasts = _numbers(order.sum(axis=0) == 0), _numbers(order.sum(axis=1) == 0)
        is_sequence = len(pairs) == n - 1 and all(i + 1 == j for i, j in pairs)
        return Arrangement(pairs, firsts, lasts, is_sequence, gaps)

    def _order(self, steps: Sequence[_Step]) -> BoolArray:
        """Which of n events the pattern puts before which, (n, n)."""
        n = len(steps)
        order = np.triu(np.ones((n, n), np.bool_), 1)
        if not self._parallel:
            return order
        occurrences = np.array([step.occurrence for step in steps], np.int64)
        depth = self._depth[occurrences[:, None], occurrences[None, :]]
        same = np.ones((n, n), np.bool_)  # of the iterations of the groups around, outermost first
        for d in range(int(depth.max(initial=-1)) + 1):
            order &= (depth != d) | ~same
            own = np.array([step.iterations[d] if d < len(step.iterations) else -1 for step in steps], np.int64)
            same &= own[:, None] == own[None, :]
        return order

    def _gaps(self, steps: Sequence[_Step], edges: tuple[int, ...], end: int) -> tuple[Gap, ...]:
        crossed: list[tuple[int, int, Counters]] = []
        for at, number in enumerate(edges):
            for crossing in self._automaton.edges[number].crossings:
                counters = steps[at].after if crossing.iteration_begun else steps[at].before
                crossed.append((at, crossing.negation, counters))
        last = steps[-1].after
        crossed += [(len(steps), c.negation, last) for c in self._automaton.exits[end].crossings]
        order = self._order(steps) if crossed else None
        return tuple(self._gap(steps, order, *each) for each in crossed) if order is not None else ()

    def _gap(self, steps: Sequence[_Step], order: BoolArray, at: int, negation: int, counters: Counters) -> Gap:
        """The position of a negated pattern that is passed on the way to event `at`."""
        beside = dict(self._automaton.negations[negation].beside)

        def is_beside(step: _Step) -> bool:
            depth = beside.get(step.occurrence)
            if depth is None:
                return False
            path = self._automaton.paths[self._automaton.occurrences[step.occurrence].variable]
            return step.iterations[:depth] == tuple(counters[g] for g in path[:depth])

        apart = np.array([not (beside and is_beside(step)) for step in steps], np.bool_)
        before = np.flatnonzero(apart[:at])
        after = at + np.flatnonzero(apart[at:])
        left = before[~order[np.ix_(before, before)].any(axis=1)]
        right = after[~order[np.ix_(after, after)].any(axis=0)]
        return Gap(negation, tuple(left.tolist()), tuple(right.tolist()), counters)


def neighbours(order: BoolArray) -> BoolArray:
    """Which events are before which with none between, (n, n), from which are before which."""
    times = order.astype(np.float32)
    return np.asarray(order & ~(times @ times > 0))


def _numbers(chosen: BoolArray) -> tuple[int, ...]:
    return tuple(np.flatnonzero(chosen).tolist())


__all__ = ["Arrangement", "Arrangements", "Gap", "neighbours"]
