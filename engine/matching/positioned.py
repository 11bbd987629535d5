"""The stream that a runtime sees in windows of events: the events of all partitions, their times positions in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from engine.events import AttributeType, BoolArray, Float64Array, Int64Array
from engine.matching.output.listed import Cut
from engine.stream.columns import ShardColumns, StreamColumns, read_only

_LEAST_ROWS = 1024
"""Fewer rows are not looked at for what may be forgotten."""


class PositionedColumns(ShardColumns):
    """Some rows of a batch, in this order and perhaps several times, whose times are their positions in a partition.

    `key`: the attributes of the partitions, whose values, (width, n), every row has, whatever its type. The attribute
    `timestamp` stays what it is.
    """

    def __init__(
        self,
        whole: StreamColumns,
        rows: Int64Array,
        positions: Int64Array,
        key: Sequence[str] = (),
        values: Float64Array | None = None,
        follows: BoolArray | None = None,
    ) -> None:
        super().__init__(whole, rows)
        self.t_lo_ms = self.t_hi_ms = read_only(positions)
        self._key = tuple(key)
        self._key_values = values
        self.follows = follows

    def _decode(self, name: str, kind: AttributeType, into: Float64Array) -> None:
        if name not in self._key or self._key_values is None:
            super()._decode(name, kind, into)
            return
        self._complete.add(name)
        into[:] = self._key_values[self._key.index(name)]


@dataclass
class Sequels:
    """The number of the last event of each partition that a runtime has seen, -2 without one: what comes at once has
    the next number."""

    latest: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))

    def follow(self, partition: Int64Array, number: Int64Array) -> BoolArray:
        """Whether each event follows the one before it in its partition at once."""
        n = max(len(self.latest), int(partition.max(initial=-1)) + 1)
        self.latest = np.append(self.latest, np.full(n - len(self.latest), -2, np.int64))
        order = np.lexsort((number, partition))
        of, numbers = partition[order], number[order]
        is_first = np.append(True, of[1:] != of[:-1])[: len(of)]
        before = np.where(is_first, self.latest[of], np.append(-2, numbers[:-1])[: len(of)])
        found: BoolArray = np.empty(len(of), np.bool_)
        found[order] = numbers == before + 1
        is_last = np.append(is_first[1:], True)[: len(of)]
        self.latest[of[is_last]] = numbers[is_last]
        return found


_SAVED = ("numbers", "partition", "place", "time_ms", "stream_number")
"""Names in a saved state, which stay as they are: those of the columns below, in their order."""


@dataclass
class PositionedRows:
    """The rows that a runtime was given, numbered in the order in which it got them: partition and position there, time
    and number in the whole stream. Those that no match to come can have are forgotten."""

    n: int = 0
    numbers: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    partition: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    position: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    time_ms: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    stream_number: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    _n_kept: int = 0

    _COLUMNS = ("numbers", "partition", "position", "time_ms", "stream_number")

    def append(
        self, partition: Int64Array, position: Int64Array, time_ms: Int64Array, stream_number: Int64Array
    ) -> None:
        """The next rows."""
        added = (self.n + np.arange(len(partition)), partition, position, time_ms, stream_number)
        self.n += len(partition)
        for name, column in zip(self._COLUMNS, added, strict=True):
            setattr(self, name, np.concatenate([getattr(self, name), column]))

    def at(self, numbers: Int64Array) -> tuple[Int64Array, BoolArray]:
        """Where rows with these numbers stand in the columns, and whether they have not been forgotten."""
        found = np.minimum(np.searchsorted(self.numbers, numbers), max(len(self.numbers) - 1, 0))
        return found, np.equal(self.numbers[found], numbers)

    def cut_in_stream(self, cut: Cut) -> Cut:
        """Events of which matches are missing, by their numbers and times in the whole stream."""
        if not cut:
            return ()
        signed = np.array([number for number, _ in cut], np.int64)
        is_first = signed < 0
        at, is_there = self.at(np.where(is_first, ~signed, signed))
        at, is_first = at[is_there], is_first[is_there]
        numbers = np.where(is_first, ~self.stream_number[at], self.stream_number[at])
        return tuple(zip(numbers.tolist(), self.time_ms[at].tolist(), strict=True))

    @property
    def is_to_be_looked_at(self) -> bool:
        """Whether so many rows have come that looking at all of them for what may be forgotten is worth it."""
        return len(self.numbers) >= 2 * self._n_kept + _LEAST_ROWS

    def keep(self, mask: BoolArray) -> None:
        """Forget the rows whose mask is False."""
        kept = np.flatnonzero(mask)
        for name in self._COLUMNS:
            setattr(self, name, getattr(self, name)[kept])
        self._n_kept = len(kept)

    def save(self) -> pa.Table:
        """State as an Arrow table."""
        columns = zip(_SAVED, self._COLUMNS, strict=True)
        table = pa.table({saved: pa.array(getattr(self, name), pa.int64()) for saved, name in columns})
        return table.replace_schema_metadata({"n": str(self.n)})

    def restore(self, table: pa.Table) -> None:
        """Take over what `save` returned."""
        metadata: Mapping[bytes, bytes] = table.schema.metadata
        self.n = int(metadata[b"n"])
        for name, saved in zip(self._COLUMNS, _SAVED, strict=True):
            setattr(self, name, np.array(table.column(saved).to_numpy(), np.int64))


__all__ = ["PositionedColumns", "PositionedRows", "Sequels"]
