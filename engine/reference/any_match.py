"""Skip till any match: every ordered sequence of distinct events that satisfies the query (SASE+ section 3.1).

The definition is a search over all sequences. Three kinds of prefix are given up early, none of which can become a
match: an event of another type or key, a condition that is already decided and not true, and an event that is before
its predecessor in every world (or, among precise events, outside the window).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.reference.conditions import Keys
from engine.reference.expressions import Binding
from engine.reference.observed import ObservedEvent
from engine.reference.placement import Placement, bind
from engine.reference.shape import Slot
from engine.reference.worlds import can_be_before


@dataclass(frozen=True)
class Search:
    """What all sequences of one plain pattern share: events in stream order, keys, and how events are ordered."""

    events: Sequence[ObservedEvent]
    keys: Keys
    strict_ties: bool
    within_ms: int | None

    def sequences(self, placement: Placement) -> Iterator[Binding]:
        """Every binding of the pattern's slots whose conditions hold and whose neighbours can be in order."""
        yield from self._extend(placement, 0, {}, ())

    def _extend(
        self, placement: Placement, k: int, binding: Binding, sequence: tuple[ObservedEvent, ...]
    ) -> Iterator[Binding]:
        """Bindings that extend this prefix; slot k takes the next event."""
        slot = placement.slots[k]
        for event in self._followers(slot, sequence):
            extended = bind(binding, slot, event)
            if not placement.accepts_event(k, extended):
                continue
            prefix = (*sequence, event)
            if placement.may_proceed(k, extended):
                if k + 1 == len(placement.slots):
                    yield extended
                else:
                    yield from self._extend(placement, k + 1, extended, prefix)
            if slot.allows(len(extended[slot.variable]) + 1):
                yield from self._extend(placement, k, extended, prefix)

    def _followers(self, slot: Slot, sequence: tuple[ObservedEvent, ...]) -> Iterator[ObservedEvent]:
        for event in self.events:
            if event.event_type != slot.event_type or event in sequence:
                continue
            if sequence and not can_be_before(sequence[-1], event, strict_ties=self.strict_ties):
                continue
            if sequence and self._is_too_late(sequence[0], event):
                continue
            if self.keys.agree((*sequence, event)):
                yield event

    def _is_too_late(self, first: ObservedEvent, event: ObservedEvent) -> bool:
        """Outside the window in every world, and so is all that follows.

        Not among imprecise events of one clock: these are in order whatever their times are, so times may go back.
        """
        if self.within_ms is None or any(e.clock_id is not None and not e.is_precise for e in self.events):
            return False
        return first.is_precise and event.is_precise and event.lo_ms - first.lo_ms > self.within_ms


def events_of(binding: Binding, slots: Sequence[Slot]) -> tuple[ObservedEvent, ...]:
    """The bound events in pattern order."""
    return tuple(event for slot in slots for event in binding[slot.variable])


__all__ = ["Search", "events_of"]
