"""Strict contiguity, partition contiguity and skip till next match: runs of the NFAb (SASE+ section 3.2, step 3).

Every event that can begin the pattern starts a run. At each later event every edge whose formula holds is followed:
take, and proceed with the begin of the next component (step 6: proceeding looks at the current event). The event is
ignored as the strategy says: never; when it is of another partition; when the begin edge (at a single component or
b[1]) or the take edge (at b[i]) does not hold. A trailing Kleene component is a match at every take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from engine.language.ast import Strategy
from engine.reference.conditions import Keys
from engine.reference.expressions import Binding
from engine.reference.observed import ObservedEvent
from engine.reference.placement import Placement, bind
from engine.reference.shape import Slot
from engine.reference.worlds import can_be_before


@dataclass(frozen=True)
class Run:
    """A run: what it selected, the last selected event, and its state.

    `k` is the slot it waits to begin, or, when `is_looping`, the Kleene slot that may take more.
    """

    k: int
    is_looping: bool
    binding: Binding
    last: ObservedEvent


def runs_matches(
    events: Sequence[ObservedEvent], keys: Keys, placement: Placement, strategy: Strategy, *, strict_ties: bool
) -> Iterator[Binding]:
    """The bindings of all accepting runs over precise events in stream order, before window and negation.

    A binding may come more than once (from partitions that differ only in events it does not have).
    """
    for key in partitions(events, keys, placement.slots):
        automaton = _Automaton(keys, key, placement, strategy, strict_ties)
        for start in range(len(events)):
            yield from automaton.matches_from(events, start)


def partitions(
    events: Sequence[ObservedEvent], keys: Keys, slots: Iterable[Slot]
) -> Iterator[Mapping[str, ObservedEvent]]:
    """Every partition: an event that carries one of its known values for each key attribute that a component has."""
    attributes = keys.constrained(frozenset(slot.event_type for slot in slots))
    choices: list[list[ObservedEvent]] = []
    for name in attributes:
        by_value = {
            event.values[name]: event
            for event in events
            if name in keys.of((event,)) and event.values.get(name) is not None
        }
        choices.append(list(by_value.values()))
    for chosen in product(*choices):
        yield dict(zip(attributes, chosen, strict=True))


@dataclass(frozen=True)
class _Automaton:
    keys: Keys
    key: Mapping[str, ObservedEvent]
    placement: Placement
    strategy: Strategy
    strict_ties: bool

    def matches_from(self, events: Sequence[ObservedEvent], start: int) -> Iterator[Binding]:
        """Matches of the run that begins at events[start], if one does."""
        begun = self._begin(0, {}, None, events[start])
        yield from self._accepted([begun] if begun is not None else [])
        runs = [begun] if begun is not None and not self._is_final(begun) else []
        for event in events[start + 1 :]:
            moved = [self._step(run, event) for run in runs]
            yield from self._accepted([run for new, _ in moved for run in new])
            runs = [run for new, kept in moved for run in (*new, *kept) if not self._is_final(run)]
            if not runs:
                return

    def _step(self, run: Run, event: ObservedEvent) -> tuple[list[Run], list[Run]]:
        """(runs that selected the event, the run itself when the event is ignored)."""
        if not run.is_looping:
            begun = self._begin(run.k, run.binding, run.last, event)
            if begun is not None:
                return [begun], []
            return [], [run] if self._may_ignore(event) else []
        taken = self._take(run, event)
        selected = [taken] if taken is not None else []
        if run.k + 1 < len(self.placement.slots) and self.placement.may_proceed(run.k, run.binding):
            begun = self._begin(run.k + 1, run.binding, run.last, event)
            selected += [begun] if begun is not None else []
        return selected, [run] if taken is None and self._may_ignore(event) else []

    def _may_ignore(self, event: ObservedEvent) -> bool:
        """The ignore edge's formula, where the state's own begin or take formula is false."""
        if self.strategy is Strategy.PARTITION_CONTIGUITY:
            return not self.keys.is_member(event, self.key)
        return self.strategy is Strategy.SKIP_TILL_NEXT_MATCH

    def _begin(self, k: int, binding: Binding, last: ObservedEvent | None, event: ObservedEvent) -> Run | None:
        if not self._fits(k, last, event):
            return None
        extended = bind(binding, self.placement.slots[k], event)
        if not self.placement.accepts_event(k, extended):
            return None
        if self.placement.slots[k].is_single:
            return self._run_after_single(k, extended, event)
        return Run(k, True, extended, event)

    def _run_after_single(self, k: int, binding: Binding, event: ObservedEvent) -> Run | None:
        """A single component has no proceed edge: what its completion decides is part of its begin formula."""
        return Run(k + 1, False, binding, event) if self.placement.may_proceed(k, binding) else None

    def _take(self, run: Run, event: ObservedEvent) -> Run | None:
        if not self._fits(run.k, run.last, event):
            return None
        slot = self.placement.slots[run.k]
        extended = bind(run.binding, slot, event)
        if slot.allows(len(extended[slot.variable])) and self.placement.accepts_event(run.k, extended):
            return Run(run.k, True, extended, event)
        return None

    def _fits(self, k: int, last: ObservedEvent | None, event: ObservedEvent) -> bool:
        if event.event_type != self.placement.slots[k].event_type or not self.keys.is_member(event, self.key):
            return False
        return last is None or can_be_before(last, event, strict_ties=self.strict_ties)

    def _accepted(self, runs: Sequence[Run]) -> Iterator[Binding]:
        n_slots = len(self.placement.slots)
        for run in runs:
            loops_at_end = run.is_looping and run.k + 1 == n_slots
            if self._is_final(run) or (loops_at_end and self.placement.may_proceed(run.k, run.binding)):
                yield run.binding

    def _is_final(self, run: Run) -> bool:
        return not run.is_looping and run.k == len(self.placement.slots)


__all__ = ["Run", "partitions", "runs_matches"]
