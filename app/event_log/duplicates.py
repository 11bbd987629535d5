"""Copies of one event: an id counts once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.event_log.layout import ORDER

_SAME = ("event_id", "t_lo_ms", "t_hi_ms", "source_rank", "source_seq")
"""What merging takes for the same copy: rows that differ in time are told apart by the span that is asked for."""


def in_order(table: pa.Table) -> pa.Table:
    """Stream order; of rows with one id only the first in that order."""
    return first_of_each_id(table.sort_by(list(ORDER)))


def first_of_each_id(table: pa.Table) -> pa.Table:
    """The rows whose id no row before them has."""
    repeated = _repeated_rows(table)
    if not len(repeated):
        return table
    ids = table.column("event_id").take(pa.array(repeated)).to_pylist()
    return _without(table, repeated, ids)


def without_copies(table: pa.Table) -> pa.Table:
    """The rows but those that repeat id, times and place of a row before them."""
    repeated = _repeated_rows(table)
    if not len(repeated):
        return table
    rows = table.select(_SAME).take(pa.array(repeated)).to_pylist()
    return _without(table, repeated, [tuple(row.values()) for row in rows])


class SeenIds:
    """Drops copies across parts of a stream; only ids that may come twice are remembered."""

    def __init__(self, doubtful: pa.Array) -> None:
        """`doubtful`: ids that may come twice, as a string array."""
        self._doubtful = doubtful
        self._seen: set[str] = set()

    def first_only(self, table: pa.Table) -> pa.Table:
        """The rows whose id neither a row before them nor a part before has."""
        if not len(self._doubtful) or not table.num_rows:
            return table
        mask = pc.is_in(table.column("event_id"), value_set=self._doubtful).to_numpy()
        rows = np.flatnonzero(mask)
        keep = np.ones(table.num_rows, np.bool_)
        for row, event_id in zip(rows, table.column("event_id").take(pa.array(rows)).to_pylist(), strict=True):
            keep[row] = event_id not in self._seen
            self._seen.add(event_id)
        return table if keep.all() else table.filter(pa.array(keep))


def _repeated_rows(table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Row numbers of all rows whose id occurs more than once."""
    if not table.num_rows:
        return np.empty(0, np.int64)
    codes = table.column("event_id").combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.bincount(codes)[codes] > 1)


def _without(table: pa.Table, rows: np.ndarray[tuple[int], np.dtype[np.int64]], names: list[object]) -> pa.Table:
    """Without those of `rows` whose name an earlier one has."""
    seen: set[object] = set()
    keep = np.ones(table.num_rows, np.bool_)
    for row, name in zip(rows, names, strict=True):
        keep[row] = name not in seen
        seen.add(name)
    return table.filter(pa.array(keep))
