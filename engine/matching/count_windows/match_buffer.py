"""Matches in windows of events that wait for further events of their partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from engine.events import Int64Array
from engine.matching.output.listed import Matches, no_matches


class MatchBuffer:
    """Matches, and for each (set of partitions, partition there, position of the event that it waits for)."""

    def __init__(self, n_returns: int, depth: int) -> None:
        self._n_returns = n_returns
        self._depth = depth
        self.matches = no_matches(n_returns, depth)
        self._due: Int64Array = np.empty((0, 3), np.int64)

    def joined(self, found: Matches, due: Int64Array) -> Matches:
        """These wait, too; returns all that do."""
        whole = Matches.joined([self.matches, found])
        self.matches = whole.without_cut()
        self._due = np.concatenate([self._due, due])
        return whole

    def released(self, found: Matches, due: Int64Array, ends: Sequence[Int64Array], *, ended: bool) -> Matches:
        """These wait, too; returns those for which the event has come. `ends`: how many events partitions have had."""
        whole = self.joined(found, due)
        return whole.chosen(self.forget(ends, ended=ended))

    def forget(self, ends: Sequence[Int64Array], *, ended: bool) -> Int64Array:
        """Wait no longer with those for which the event has come; returns their numbers."""
        due = np.full(len(self._due), ended)
        for number, of_partition in enumerate(ends):
            own = np.flatnonzero(self._due[:, 0] == number)
            due[own] |= self._due[own, 2] < of_partition[self._due[own, 1]]
        self.matches = self.matches.chosen(np.flatnonzero(~due)).compact()
        self._due = self._due[~due]
        return np.flatnonzero(due)

    def save(self) -> dict[str, pa.Table]:
        """State as Arrow tables."""
        saved = self.matches.save()
        names = ("due_number", "due_partition", "due_place")
        due = pa.table({name: pa.array(self._due[:, at]) for at, name in enumerate(names)})
        return {"waiting_events": saved["events"], "waiting_matches": saved["matches"], "waiting_due": due}

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned."""
        saved = {"events": state["waiting_events"], "matches": state["waiting_matches"]}
        self.matches = Matches.restored(saved, self._n_returns, self._depth)
        columns = [column.to_numpy() for column in state["waiting_due"].columns]
        self._due = np.stack(columns, axis=1).astype(np.int64)


__all__ = ["MatchBuffer"]
