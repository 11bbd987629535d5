"""Conditions of a plain pattern by the step at which they can first be decided (SASE+ section 3.2, step 2)."""

from __future__ import annotations

from collections.abc import Sequence

from engine.reference.conditions import Condition
from engine.reference.expressions import Binding
from engine.reference.observed import ObservedEvent
from engine.reference.shape import Slot


class Placement:
    """A conjunct belongs to its last component in the pattern: to the event of a single one (`begin`), to each event
    b[i] of a Kleene one when it iterates over it or names b[1], and to the completed b (`proceed`) when it names b's
    last event or an aggregate over all of b.
    """

    def __init__(self, slots: Sequence[Slot], conditions: Sequence[Condition]) -> None:
        self.slots = slots
        self._at_event: dict[int, list[Condition]] = {k: [] for k in range(len(slots))}
        self._at_proceed: dict[int, list[Condition]] = {k: [] for k in range(len(slots))}
        number = {slot.variable: k for k, slot in enumerate(slots)}
        for condition in conditions:
            if not condition.applies_without(condition.variables - number.keys()):
                continue
            last = max((number[variable] for variable in condition.variables & number.keys()), default=0)
            at_proceed = self.slots[last].variable in condition.whole
            (self._at_proceed if at_proceed else self._at_event)[last].append(condition)

    def accepts_event(self, k: int, binding: Binding) -> bool:
        """Whether what slot k's newest event decides is true; it is in `binding` already."""
        variable = self.slots[k].variable
        i = len(binding[variable])
        for condition in self._at_event[k]:
            if self.slots[k].is_single and variable not in condition.iterated:
                if not condition.holds_for_all(binding):
                    return False
            elif variable in condition.iterated:
                if i in condition.instances(binding) and not condition.holds(binding, i):
                    return False
            elif i == 1 and not condition.holds_for_all(binding):
                return False
        return True

    def may_proceed(self, k: int, binding: Binding) -> bool:
        """Whether slot k may end here: it has events enough, and what its completion decides is true."""
        slot = self.slots[k]
        n_events = len(binding[slot.variable])
        if n_events < slot.at_least or not slot.allows(n_events):
            return False
        return all(condition.holds_for_all(binding) for condition in self._at_proceed[k])


def bind(binding: Binding, slot: Slot, event: ObservedEvent) -> dict[str, Sequence[ObservedEvent]]:
    """The binding with one more event for the slot's variable."""
    return {**binding, slot.variable: (*binding.get(slot.variable, ()), event)}


__all__ = ["Placement", "bind"]
