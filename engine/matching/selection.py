"""Which of the listed matches count: SELECT FIRST and CONSUME, as gSPICE uses selection and consumption.

Both work on entries in listing order, window by window and partition by partition, before the output form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.matching.listed import Key, Matches, as_key
from engine.matching.output_forms import Entries, Window, as_window


def first_of_each_end(matches: Matches, entries: Entries) -> Entries:
    """SELECT FIRST: of the entries that end in one event of a partition and window the first in listing order."""
    last = matches.events.number[matches.last][entries.match]
    columns = (last, matches.listed.partition[entries.match], *entries.windows)
    order = np.lexsort(columns)  # stable: the first of a group is the first listed
    first = np.zeros(len(order), np.bool_)
    first[:1] = True
    for column in columns:
        ordered = column[order]
        first[1:] |= ordered[1:] != ordered[:-1]
    return entries.at(np.sort(order[first]))


class Consumption:
    """CONSUME: an event that an accepted match has bound to one of `components` is bound to it by no later match.

    Remembers consumed events by window, partition and component until `forget`.
    """

    def __init__(self, components: frozenset[int]) -> None:
        self._components = components
        self._consumed: dict[tuple[Window, Key], dict[tuple[int, int], int]] = {}

    def accepted(self, matches: Matches, entries: Entries) -> Entries:
        """The entries, in listing order, that bind no consumed event; what they bind is consumed then."""
        listed, events = matches.listed, matches.events
        kept: list[int] = []
        for at, match in enumerate(entries.match.tolist()):
            own = slice(listed.offsets[match], listed.offsets[match + 1])
            places = listed.rows[own].tolist()
            bound = {
                (component, int(events.number[place])): int(events.hi_ms[place])
                for component, place in zip(listed.components[own].tolist(), places, strict=True)
                if component in self._components
            }
            owner = entries.window(at), matches.keys[listed.partition[match]]
            consumed = self._consumed.setdefault(owner, {})
            if bound.keys().isdisjoint(consumed):
                consumed.update(bound)
                kept.append(at)
        return entries.at(np.array(kept, np.int64))

    def forget(self, before_ms: int) -> None:
        """Forget the events that ended before `before_ms`: no match to come can have them."""
        for owner, consumed in list(self._consumed.items()):
            recent = {bound: hi_ms for bound, hi_ms in consumed.items() if hi_ms >= before_ms}
            if recent:
                self._consumed[owner] = recent
            else:
                del self._consumed[owner]

    def save(self) -> list[Any]:
        """State as JSON values."""
        return [
            [window, key, [[*bound, hi_ms] for bound, hi_ms in consumed.items()]]
            for (window, key), consumed in self._consumed.items()
        ]

    def restore(self, state: list[Any]) -> None:
        """Take over what `save` returned."""
        self._consumed = {
            (as_window(window), as_key(key)): {(component, number): hi_ms for component, number, hi_ms in consumed}
            for window, key, consumed in state
        }


__all__ = ["Consumption", "first_of_each_end"]
