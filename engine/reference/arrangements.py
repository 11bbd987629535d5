"""Every way to lay distinct events out over a pattern, in no world's order: for imprecise events and nested queries.

An arrangement gives each component of each chosen body and iteration its events. Given up early is only what can be no
match: events of two partitions, and an event that is in no world after those that the pattern demands before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.reference.conditions import Keys
from engine.reference.observed import ObservedEvent
from engine.reference.places import Bound, Bounds, Kind, Place, Step, latest_before
from engine.reference.shape import Absent, Group, Item, Items, Shuffle, Slot
from engine.reference.worlds import can_be_before


@dataclass(frozen=True)
class Arranger:
    """Lays these events out; `with_keys` are events bound elsewhere whose partition key they must share.

    `candidates` gives for each variable the only events that it may have (None: any).
    """

    events: Sequence[ObservedEvent]
    keys: Keys
    strict_ties: bool
    with_keys: Sequence[ObservedEvent] = ()
    candidates: Mapping[str, Sequence[ObservedEvent]] | None = None

    def arrangements(self, items: Items, place: Place = (), bounds: Bounds = ()) -> Iterator[Bounds]:
        """What `bounds` become with all parts of a sequence."""
        yield from self._parts(items, 0, place, bounds)

    def _parts(self, items: Items, k: int, place: Place, bounds: Bounds) -> Iterator[Bounds]:
        if k == len(items):
            yield bounds
            return
        for extended in self._item(items[k], (*place, Step(Kind.PART, k)), bounds):
            yield from self._parts(items, k + 1, place, extended)

    def _item(self, item: Item, place: Place, bounds: Bounds) -> Iterator[Bounds]:
        match item:
            case Slot():
                yield from self._slot(item, 0, place, bounds)
            case Shuffle(operands=operands):
                yield from self._operands(operands, 0, place, bounds)
            case Group():
                yield from self._iterations(item, 0, place, bounds)
            case Absent():
                yield bounds

    def _slot(self, slot: Slot, n_events: int, place: Place, bounds: Bounds) -> Iterator[Bounds]:
        """The component has n events so far."""
        if n_events >= slot.at_least:
            yield bounds
        if slot.allows(n_events + 1):
            for event in self.events if self.candidates is None else self.candidates[slot.variable]:
                bound = Bound(slot.variable, event, (*place, Step(Kind.EVENT, n_events)))
                if event.event_type == slot.event_type and self._fits(bound, bounds):
                    yield from self._slot(slot, n_events + 1, place, (*bounds, bound))

    def _operands(self, operands: Sequence[Items], k: int, place: Place, bounds: Bounds) -> Iterator[Bounds]:
        if k == len(operands):
            yield bounds
            return
        for extended in self.arrangements(operands[k], (*place, Step(Kind.OPERAND, k)), bounds):
            yield from self._operands(operands, k + 1, place, extended)

    def _iterations(self, group: Group, n_iterations: int, place: Place, bounds: Bounds) -> Iterator[Bounds]:
        if n_iterations >= group.at_least:
            yield bounds
        if group.allows(n_iterations + 1):
            for number, body in enumerate(group.bodies):
                inside = (*place, Step(Kind.ITERATION, n_iterations, group.number, number))
                for extended in self.arrangements(body, inside, bounds):
                    yield from self._iterations(group, n_iterations + 1, place, extended)

    def _fits(self, bound: Bound, bounds: Bounds) -> bool:
        chosen = [other.event for other in bounds]
        if bound.event in chosen or not self.keys.agree((*self.with_keys, *chosen, bound.event)):
            return False
        return all(
            can_be_before(before.event, bound.event, strict_ties=self.strict_ties)
            for before in latest_before(bound.place, bounds)
        )


__all__ = ["Arranger"]
