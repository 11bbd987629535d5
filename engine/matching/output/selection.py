"""Which of the listed matches count: SELECT FIRST and CONSUME, as gSPICE uses selection and consumption.

Both work on entries in listing order, window by window and partition by partition, before the output form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.events import Int64Array
from engine.kernels.columns.selection import unconsumed
from engine.matching.output.forms import Entries, Owners, as_window
from engine.matching.output.listed import Matches, as_key

_COMPONENTS = 1 << 12
"""More than a query has."""


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
        self._components = np.array(sorted(components), np.int64)
        self._owners = Owners()
        self._consumed: Int64Array = np.empty((0, 3), np.int64)  # owner, number * _COMPONENTS + component, t_hi_ms

    def accepted(self, matches: Matches, entries: Entries) -> Entries:
        """The entries, in listing order, that bind no consumed event; what they bind is consumed then."""
        listed, events = matches.listed, matches.events
        own = np.isin(listed.components, self._components)
        offsets = np.append(0, np.cumsum(own))[listed.offsets]
        rows = listed.rows[own]
        bound = events.number[rows] * _COMPONENTS + listed.components[own]
        owners = self._owners.numbers(matches, entries)
        kept, self._consumed = unconsumed(owners, entries.match, offsets, bound, events.hi_ms[rows], self._consumed)
        return entries.at(kept)

    def forget(self, before_ms: int) -> None:
        """Forget the events that ended before `before_ms`: no match to come can have them."""
        recent = self._consumed[:, 2] >= before_ms
        if len(self._owners) > 0 and not recent.all():
            self._consumed = self._consumed[recent]
        if 2 * len(np.unique(self._consumed[:, 0])) < len(self._owners):
            self._consumed[:, 0] = self._owners.keep(self._consumed[:, 0])[self._consumed[:, 0]]

    def save(self) -> dict[str, Any]:
        """State as JSON values."""
        owner, event, hi_ms = self._consumed.T.tolist()
        return {**self._owners.save(), "owner": owner, "event": event, "hi_ms": hi_ms}

    def restore(self, state: Any) -> None:
        """Take over what `save` returned, or what states of before have: window, key and events of each."""
        if isinstance(state, list):
            self._owners = Owners.of([(as_window(window), as_key(key)) for window, key, _ in state])
            rows = [
                (owner, number * _COMPONENTS + component, hi_ms)
                for owner, (_, _, consumed) in enumerate(state)
                for component, number, hi_ms in consumed
            ]
        else:
            self._owners = Owners.restored(state)
            rows = list(zip(state["owner"], state["event"], state["hi_ms"], strict=True))
        self._consumed = np.array(rows, np.int64).reshape(-1, 3)


__all__ = ["Consumption", "first_of_each_end"]
