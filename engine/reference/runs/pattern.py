"""Runs over precise events for any pattern: the selection strategies as SASE+ section 3.2, step 3, defines them.

Every event that can begin the pattern starts a run. At each later event every edge whose formula holds is followed. The
formula of an edge is what it decides: the instances of conjuncts all of whose terms have their value in the new state.
The event is ignored as the strategy says: always under skip till any match; when no edge that the state must follow
holds under skip till next match; when it is of another partition under partition contiguity; never under strict
contiguity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.language.ast import Strategy
from engine.reference.conditions import Keys
from engine.reference.contexts import ScopedCondition
from engine.reference.observed import ObservedEvent
from engine.reference.places import Bound, Bounds, precedes
from engine.reference.runs.sequence import partitions
from engine.reference.runs.states import Edge, State, edges, first_edges, is_finished, may_end, may_ignore, open_lists
from engine.reference.shape import Items, slots_of
from engine.reference.worlds import can_be_before


@dataclass(frozen=True)
class PatternRun:
    """What a run has selected, in the order of the stream, and its state."""

    bounds: Bounds
    state: State


@dataclass(frozen=True)
class PatternRuns:
    """What all runs of one branch share."""

    branch: Items
    conditions: Sequence[ScopedCondition]
    keys: Keys
    strategy: Strategy
    strict_ties: bool
    within_ms: int | None

    def matches(self, events: Sequence[ObservedEvent]) -> Iterator[Bounds]:
        """The events of all accepting runs, before negation; the same may come more than once."""
        by_any_match = self.strategy is Strategy.SKIP_TILL_ANY_MATCH  # what agrees is no matter of partitions there
        for key in [{}] if by_any_match else partitions(events, self.keys, slots_of(self.branch)):
            for start, event in enumerate(events):
                yield from self._matches_from(event, events[start + 1 :], key)

    def _matches_from(
        self, first: ObservedEvent, following: Sequence[ObservedEvent], key: Mapping[str, ObservedEvent]
    ) -> Iterator[Bounds]:
        runs = [run for _, run in self._followed(list(first_edges(self.branch)), (), first, key)]
        yield from self._accepted(runs)
        for event in following:
            if self.within_ms is not None and event.lo_ms - first.lo_ms > self.within_ms:
                return
            kept: list[PatternRun] = []
            begun: list[PatternRun] = []
            for run in runs:
                if is_finished(run.state):
                    continue
                followed = self._followed(list(edges(run.state)), run.bounds, event, key)
                begun += [new for _, new in followed]
                if self._may_ignore(run, event, [edge for edge, _ in followed], key):
                    kept.append(run)
            yield from self._accepted(begun)
            runs = [*kept, *begun]
            if not runs:
                return

    def _followed(
        self, possible: Sequence[Edge], bounds: Bounds, event: ObservedEvent, key: Mapping[str, ObservedEvent]
    ) -> list[tuple[Edge, PatternRun]]:
        """The edges whose formula holds for the event, each with the run that has followed it."""
        if not self.keys.is_member(event, key) or not self.keys.agree([*(b.event for b in bounds), event]):
            return []
        followed = []
        for edge in possible:
            if event.event_type != edge.slot.event_type or not self._is_in_order(edge, bounds, event):
                continue
            extended = (*bounds, Bound(edge.slot.variable, event, edge.place))
            still_open = frozenset(open_lists(edge.state))
            if all(condition.decided_holds(extended, still_open) for condition in self.conditions):
                followed.append((edge, PatternRun(extended, edge.state)))
        return followed

    def _is_in_order(self, edge: Edge, bounds: Bounds, event: ObservedEvent) -> bool:
        return all(
            can_be_before(bound.event, event, strict_ties=self.strict_ties)
            for bound in bounds
            if precedes(bound.place, edge.place)
        )

    def _may_ignore(
        self, run: PatternRun, event: ObservedEvent, followed: Sequence[Edge], key: Mapping[str, ObservedEvent]
    ) -> bool:
        match self.strategy:
            case Strategy.SKIP_TILL_ANY_MATCH:
                return True
            case Strategy.SKIP_TILL_NEXT_MATCH:
                return may_ignore(run.state, {(edge.place, edge.slot) for edge in followed})
            case Strategy.PARTITION_CONTIGUITY:
                return not self.keys.is_member(event, key)
            case Strategy.STRICT_CONTIGUITY:
                return False

    def _accepted(self, runs: Sequence[PatternRun]) -> Iterator[Bounds]:
        for run in runs:
            if may_end(run.state) and all(condition.holds(run.bounds) for condition in self.conditions):
                yield run.bounds


__all__ = ["PatternRuns"]
