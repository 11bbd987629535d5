"""The states that load shedding tells the runs of an automaton apart by (pSPICE III-C1, for what is no sequence).

A run is in a state of the automaton, so those of AND are the states of the shuffle: what of which operand is there. Its
counters belong to it as far as a bound to come can tell them apart: of `{3,5}` one to five events, of `{3,}` one, two
and more. Runs that can never complete (too many events of `{,3}`, none of what must follow) are told apart by that.

Where these are more than `MOST_RUN_STATES`, runs are told apart by the state of the automaton and the events that they
lack at least, in steps of two, four and so on; where these states alone are more, by the events that they lack. Where
there are too many to go through, counters do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.events import Int64Array
from engine.plan.automaton.model import Automaton, AutomatonEdge, Exit, Guard

MOST_RUN_STATES = 64
"""A model is made in a tenth of a second with so many."""
_MOST_LOOKED_AT = 20_000
"""States with their counters that are gone through."""

_Position = tuple[int, tuple[int, ...]]
"""A state of the automaton, and its counters as far as they count."""


@dataclass(frozen=True)
class RunStates:
    """Which of `n` states a run is in: numbers[first[s] + sum over its counters c of min(c, tops[s]) * strides[s]], s
    its state in the automaton; -1 for what is no run.

    first: int64 (n_states,); tops, strides: int64 (n_states, n_counters); numbers: int64 (n_positions,).
    """

    n: int
    first: Int64Array
    tops: Int64Array
    strides: Int64Array
    numbers: Int64Array

    def of(self, state: int, counters: Sequence[int]) -> int:
        """The number of a run's state."""
        position = self.first[state] + int(
            (np.minimum(np.array(counters, np.int64), self.tops[state]) * self.strides[state]).sum()
        )
        return int(self.numbers[position])


def run_states(automaton: Automaton, most: int = MOST_RUN_STATES) -> RunStates:
    """Those of an automaton, `most` at most: in the order in which events can lead to them."""
    tops = _tops(automaton)
    if _n_positions(tops) > _MOST_LOOKED_AT:
        tops = np.zeros_like(tops)
    walk = _Walk(automaton, tops)
    positions = walk.reached()
    runs = [position for position in positions if walk.edges[position[0]]]
    classes: Sequence[int] = range(len(runs))
    if len(runs) > most:
        lacking = walk.lacking(positions)
        classes = _classes([state for state, _ in runs], [lacking[position] for position in runs], most)
    strides, first = _strides(tops), np.append(0, np.cumsum(np.prod(tops + 1, axis=1)))[:-1].astype(np.int64)
    numbers = np.full(_n_positions(tops), -1, np.int64)
    for (state, counters), number in zip(runs, classes, strict=True):
        numbers[first[state] + int((np.array(counters, np.int64) * strides[state]).sum())] = number
    return RunStates(max(1, len(set(classes))), first, tops, strides, numbers)


class _Walk:
    """The ways through an automaton, whatever the conditions on its events."""

    def __init__(self, automaton: Automaton, tops: Int64Array) -> None:
        self.edges: list[list[AutomatonEdge]] = [[] for _ in range(automaton.n_states)]
        for edge in automaton.edges:
            self.edges[edge.source].append(edge)
        self._exits: list[list[Exit]] = [[] for _ in range(automaton.n_states)]
        for end in automaton.exits:
            self._exits[end.state].append(end)
        self._tops: list[tuple[int, ...]] = [tuple(of_state) for of_state in tops.tolist()]
        self._start = (0, (0,) * automaton.n_counters)

    def reached(self) -> list[_Position]:
        """All that events can lead to, breadth first."""
        waiting = self._next(self._start)
        found = set(waiting)
        for position in waiting:
            new = [after for after in self._next(position) if after not in found]
            found.update(new)
            waiting += new
        return waiting

    def lacking(self, positions: Sequence[_Position]) -> Mapping[_Position, int]:
        """How many events each lacks to a further match, at least; one more than any where there can be none."""
        before: dict[_Position, list[_Position]] = {}
        for position in positions:
            for after in self._next(position):
                before.setdefault(after, []).append(position)
        lacking: dict[_Position, int] = {}
        waiting, n = [position for position in positions if self._is_end(position)], 0
        while waiting:
            n += 1
            waiting = list(
                dict.fromkeys(
                    source for position in waiting for source in before.get(position, ()) if source not in lacking
                )
            )  # fmt: skip
            lacking |= dict.fromkeys(waiting, n)
        return {position: lacking.get(position, n + 1) for position in positions}

    def _next(self, position: _Position) -> list[_Position]:
        """Each once."""
        state, counters = position
        after: dict[_Position, None] = {}
        for edge in self.edges[state]:
            if not self._passes(edge.guards, position):
                continue
            new = list(counters)
            for action in edge.actions:
                new[action.counter] = 1 if action.restart else new[action.counter] + 1
            after[edge.target, tuple(map(min, new, self._tops[edge.target]))] = None
        return list(after)

    def _is_end(self, position: _Position) -> bool:
        return any(self._passes(end.guards, position) for end in self._exits[position[0]])

    def _passes(self, guards: Sequence[Guard], position: _Position) -> bool:
        """True of a counter that is not told apart here."""
        state, counters = position
        return all(
            self._tops[state][guard.counter] == 0
            or (guard.low <= counters[guard.counter] and (guard.high is None or counters[guard.counter] <= guard.high))
            for guard in guards
        )


def _n_positions(tops: Int64Array) -> int:
    return int(sum(np.prod(of_state + 1.0) for of_state in tops))


def _strides(tops: Int64Array) -> Int64Array:
    """Of mixed numbers, the last counter first."""
    strides = np.ones_like(tops)
    for counter in range(tops.shape[1] - 2, -1, -1):
        strides[:, counter] = strides[:, counter + 1] * (tops[:, counter + 1] + 1)
    return strides


def _tops(automaton: Automaton) -> Int64Array:
    """From which value on no bound to come tells a counter from a higher one, int64 (n_states, n_counters); 0: none
    comes before it starts again."""
    tops = np.zeros((automaton.n_states, automaton.n_counters), np.int64)
    at_edges = [(edge.source, edge.guards) for edge in automaton.edges]
    for state, guards in (*at_edges, *((end.state, end.guards) for end in automaton.exits)):
        for guard in guards:
            bound = guard.low if guard.high is None else max(guard.low, guard.high + 1)
            tops[state, guard.counter] = max(tops[state, guard.counter], bound)
    goes_on = np.ones((len(automaton.edges), automaton.n_counters), np.bool_)
    for number, edge in enumerate(automaton.edges):
        goes_on[number, [action.counter for action in edge.actions if action.restart]] = False
    sources = np.array([edge.source for edge in automaton.edges], np.int64)
    targets = np.array([edge.target for edge in automaton.edges], np.int64)
    while True:
        further = tops.copy()
        np.maximum.at(further, sources, np.where(goes_on, tops[targets], 0))
        if np.array_equal(further, tops):
            return tops
        tops = further


def _classes(states: Sequence[int], lacking: Sequence[int], most: int) -> list[int]:
    """By state of the automaton and events lacking, in steps of as few as there is room for; else by these alone.
    Numbered in the order in which they come."""
    width, highest = 1, max(lacking)
    classes: list[tuple[int, int]] = list(zip(states, lacking, strict=True))
    while len(set(classes)) > most and width <= highest:
        width *= 2
        classes = [(state, n // width) for state, n in zip(states, lacking, strict=True)]
    if len(set(classes)) > most:
        width = -(-(highest + 1) // most)
        classes = [(0, n // width) for n in lacking]
    numbers = {found: number for number, found in enumerate(dict.fromkeys(classes))}
    return [numbers[found] for found in classes]


__all__ = ["MOST_RUN_STATES", "RunStates", "run_states"]
