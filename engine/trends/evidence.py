"""Of which events a row is: how many there are, and a sample. Events of the same windows are counted together, a pane.

An event is one of a window when a trend of that window comes to it, whether the trend goes on to its end or not. One
that is in several partitions of a group counts in each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import Int64Array
from engine.events import Value as EventValue
from engine.kernels.trends.arrays import FIRST_REACHED, LAST_REACHED, NEVER, REACHED_BY

SAMPLED = 10
"""Events of each end of a window that are shown."""

Group = tuple[EventValue, ...]
_Event = tuple[int, str, str]
"""Time, id and variable: in the order in which they are shown."""


class Reached(Protocol):
    """Events by partition, and in which windows a trend comes to each: see `Batch`."""

    @property
    def partition(self) -> Int64Array: ...
    @property
    def t_ms(self) -> Int64Array: ...
    @property
    def reached(self) -> Int64Array: ...


@dataclass(slots=True)
class _Pane:
    """Events that are in the same windows."""

    n_events: int = 0
    first: list[_Event] = field(default_factory=list)
    last: list[_Event] = field(default_factory=list)

    def add(self, n_events: int, first: Iterable[_Event], last: Iterable[_Event]) -> None:
        self.n_events += n_events
        self.first = sorted({*self.first, *first})[:SAMPLED]
        self.last = sorted({*self.last, *last})[-SAMPLED:]


@dataclass(frozen=True)
class Contributing:
    """The events of a window and group: ids of the first and the last ones by variable, and how many there are."""

    bindings: Mapping[str, tuple[str, ...]]
    n_events: int


class TrendEvidence:
    """What is known of the events of the windows that are open."""

    def __init__(self, variables: Sequence[str]) -> None:
        self._variables = variables
        self._panes: dict[Group, dict[tuple[int, int], _Pane]] = {}
        self._forgotten = NEVER
        """Windows up to this one are forgotten."""

    def add(self, batch: Reached, ids: np.ndarray, groups: Mapping[int, Group]) -> None:
        """Take the events of a batch that trends come to; `groups`: of each partition."""
        at = np.flatnonzero(batch.reached[REACHED_BY] >= 0)
        if not len(at):
            return
        first, last, state = batch.reached[[FIRST_REACHED, LAST_REACHED, REACHED_BY]][:, at]
        partition, t_ms = batch.partition[at], batch.t_ms[at]
        order = np.lexsort((t_ms, last, first, partition))
        key = np.stack([partition, first, last])[:, order]
        begins = np.flatnonzero(np.concatenate([[True], np.any(key[:, 1:] != key[:, :-1], axis=0)]))
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True):
            own, window = groups[int(key[0, begin])], (int(key[1, begin]), int(key[2, begin]))
            pane = self._panes.setdefault(own, {}).setdefault(window, _Pane())
            shown = (
                [(int(t_ms[k]), str(ids[at[k]]), self._variables[int(state[k])]) for k in order[part].tolist()]
                for part in self._ends(t_ms, order, begin, end)
            )
            pane.add(end - begin, *shown)

    @staticmethod
    def _ends(t_ms: Int64Array, order: Int64Array, begin: int, end: int) -> tuple[slice, slice]:
        """The first and the last ones of [begin, end) of the order, with all of the same time as the outermost."""
        times = t_ms[order[begin:end]]
        n = len(times)
        head = int(np.searchsorted(times, times[min(n, SAMPLED) - 1], "right"))
        tail = int(np.searchsorted(times, times[max(0, n - SAMPLED)], "left"))
        return slice(begin, begin + head), slice(begin + tail, end)

    def of(self, group: Group, window: int) -> Contributing:
        """The events of a window and group."""
        panes = [pane for (first, last), pane in self._panes.get(group, {}).items() if first <= window <= last]
        first, last = set[_Event](), set[_Event]()
        outermost = set[_Event]()
        for pane in sorted(panes, key=lambda pane: pane.first[0]):
            first.update(pane.first)
            outermost.add(pane.first[0])
            if len(outermost) > SAMPLED:  # what is in further panes comes later than so many
                break
        outermost.clear()
        for pane in sorted(panes, key=lambda pane: pane.last[-1], reverse=True):
            last.update(pane.last)
            outermost.add(pane.last[-1])
            if len(outermost) > SAMPLED:
                break
        found: dict[str, dict[str, None]] = {}
        for _, event_id, variable in sorted({*sorted(first)[:SAMPLED], *sorted(last)[-SAMPLED:]}):
            found.setdefault(variable, {})[event_id] = None
        n_events = sum(pane.n_events for pane in panes)
        return Contributing({name: tuple(events) for name, events in found.items()}, n_events)

    def forget(self, last_window: int) -> None:
        """Windows up to this one are told."""
        if last_window <= self._forgotten:
            return
        self._forgotten = last_window
        for group in list(self._panes):
            panes = {window: pane for window, pane in self._panes[group].items() if window[1] > last_window}
            if panes:
                self._panes[group] = panes
            else:
                del self._panes[group]

    # ------------------------------------------------------------------- state

    def save(self) -> pa.Table:
        """One row for each group and pane."""
        rows = [
            (json.dumps(group), *window, pane.n_events, json.dumps([pane.first, pane.last]))
            for group, panes in self._panes.items()
            for window, pane in panes.items()
        ]
        names = ("group", "first", "last", "n_events", "shown")
        kinds = (pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.string())
        columns = zip(*rows, strict=True) if rows else [()] * len(names)
        return pa.table({name: pa.array(c, kind) for name, c, kind in zip(names, columns, kinds, strict=True)})

    def restore(self, table: pa.Table) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        try:
            for row in table.to_pylist():
                first, last = ([(t, i, v) for t, i, v in part] for part in json.loads(row["shown"]))
                panes = self._panes.setdefault(tuple(json.loads(row["group"])), {})
                panes[row["first"], row["last"]] = _Pane(row["n_events"], first, last)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"saved events of trends do not fit: {error}") from None


__all__ = ["SAMPLED", "Contributing", "Group", "TrendEvidence"]
