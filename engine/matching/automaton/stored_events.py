"""What the events that an automaton keeps under skip till any match are worth, see `engine.matching.stored_worth`.

A first event is worth the last ones to come of those variables that may be last where it was the first: of ANY(2, A, B)
an A the B's. An event that stands between the first and the last ones is worth the first ones before it, too.
"""

from __future__ import annotations

import numpy as np

from engine.events import BoolArray, Float64Array
from engine.matching.stored_worth import Pair, expected_pairs
from engine.plan.automaton.model import Automaton, AutomatonEdge, AutomatonPlan
from engine.stream.early_filter import Masks
from engine.stream.store import EventStore


class StoredWorth:
    """Of one plan. `lasts`: by variable whose event may be the first of a match of several, those that may be the last
    one then. `middle`: those that may stand between both."""

    def __init__(self, plan: AutomatonPlan) -> None:
        self.lasts: dict[int, set[int]] = {}
        self.middle: set[int] = set()
        self._within_ms = plan.within_ms
        self._walk(plan.states)

    def _walk(self, automaton: Automaton) -> None:
        edges: list[list[AutomatonEdge]] = [[] for _ in range(automaton.n_states)]
        for edge in automaton.edges:
            edges[edge.source].append(edge)
        ends = {end.state for end in automaton.exits}
        for begin in edges[0]:
            variable = automaton.occurrences[begin.occurrence].variable
            waiting = [begin.target]
            reached = set(waiting)
            for state in waiting:
                for edge in edges[state]:
                    taken = automaton.occurrences[edge.occurrence].variable
                    if edge.target in ends:
                        self.lasts.setdefault(variable, set()).add(taken)
                    if edges[edge.target]:
                        self.middle.add(taken)
                    if edge.target not in reached:
                        reached.add(edge.target)
                        waiting.append(edge.target)

    def of(self, store: EventStore, masks: Masks, now_ms: int) -> Float64Array:
        """By row the pairs of a first and a last event to come that it may be in, float64 (n,): `expected_pairs`."""
        begin = masks.begin[:, : len(store)]
        pairs = [Pair(begin[first], _any_of(begin, lasts)) for first, lasts in sorted(self.lasts.items())]
        return expected_pairs(store, pairs, _any_of(begin, self.middle), self._within_ms, now_ms)


def _any_of(begin: BoolArray, variables: set[int]) -> BoolArray:
    found: BoolArray = np.any(begin[sorted(variables)], axis=0)
    return found


__all__ = ["StoredWorth"]
