"""What the pattern of an automaton demands of the events of one match: their partial order, and where nothing may be.

It is read off the edges that the match took: an event comes after all before it on its path, but for those of other
operands of an AND around both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.plan.automaton_model import Automaton, AutomatonEdge

Counters = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """The place of a negated pattern: after the events `left` and before `right` of the match (numbers along its path);
    an empty side is bounded by the window. `counters`: the iterations that it is in."""

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
            steps = self._walk(key[0], (0,) * self._automaton.n_counters)
            found = self._of_matches[key] = self._arranged(steps, self._gaps(steps, key[0], end))
        return found

    def of_part(self, edges: Sequence[int], counters: Counters) -> Arrangement:
        """The arrangement of what matches a negated pattern, without gaps."""
        key = tuple(edges), counters
        found = self._of_parts.get(key)
        if found is None:
            found = self._of_parts[key] = self._arranged(self._walk(*key), ())
        return found

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
        precedes = self._order(steps)
        pairs = [(i, j) for j in range(n) for i in latest([i for i in range(j) if precedes(i, j)], precedes)]
        lasts = latest(range(n), precedes)
        is_sequence = len(pairs) == n - 1 and all(i + 1 == j for i, j in pairs)
        return Arrangement(tuple(pairs), tuple(earliest(range(n), precedes)), tuple(lasts), is_sequence, gaps)

    def _order(self, steps: Sequence[_Step]) -> Callable[[int, int], bool]:
        def precedes(i: int, j: int) -> bool:
            depth = self._parallel.get((steps[i].occurrence, steps[j].occurrence))
            return i < j and (depth is None or steps[i].iterations[:depth] != steps[j].iterations[:depth])

        return precedes

    def _gaps(self, steps: Sequence[_Step], edges: tuple[int, ...], end: int) -> tuple[Gap, ...]:
        found: list[Gap] = []
        for at, number in enumerate(edges):
            for crossing in self._automaton.edges[number].crossings:
                counters = steps[at].after if crossing.iteration_begun else steps[at].before
                found.append(self._gap(steps, at, crossing.negation, counters))
        last = steps[-1].after
        found += [self._gap(steps, len(steps), c.negation, last) for c in self._automaton.exits[end].crossings]
        return tuple(found)

    def _gap(self, steps: Sequence[_Step], at: int, negation: int, counters: Counters) -> Gap:
        """The place of a negated pattern that is passed on the way to event `at`."""
        beside = dict(self._automaton.negations[negation].beside)

        def is_beside(step: _Step) -> bool:
            depth = beside.get(step.occurrence)
            if depth is None:
                return False
            path = self._automaton.paths[self._automaton.occurrences[step.occurrence].variable]
            return step.iterations[:depth] == tuple(counters[g] for g in path[:depth])

        precedes = self._order(steps)
        before = [k for k in range(at) if not is_beside(steps[k])]
        after = [k for k in range(at, len(steps)) if not is_beside(steps[k])]
        return Gap(negation, tuple(latest(before, precedes)), tuple(earliest(after, precedes)), counters)


def latest(numbers: Sequence[int], precedes: Callable[[int, int], bool]) -> list[int]:
    """Those that precede no other one."""
    return [i for i in numbers if not any(precedes(i, j) for j in numbers)]


def earliest(numbers: Sequence[int], precedes: Callable[[int, int], bool]) -> list[int]:
    """Those that no other one precedes."""
    return [j for j in numbers if not any(precedes(i, j) for i in numbers)]


__all__ = ["Arrangement", "Arrangements", "Gap"]
