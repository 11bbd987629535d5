"""The columnar store of one query: the events that its runtime may still need, decoded to doubles.

Rows stand in stream order: for precise events a smaller row number is earlier. Strings are codes of the engine's
`Interner`, so that equality of strings is equality of doubles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import TIME_ATTRIBUTE, AttributeType, BoolArray, Float64Array, Int64Array, Value
from engine.kernels.columns.partitions import BROADCAST
from engine.plan.model import Plan, ReturnValue
from engine.stream.columns import StreamColumns
from engine.stream.event_ids import IdColumn
from engine.stream.interner import Interner, KnownTexts
from engine.stream.key_table import KeyTable
from engine.stream.row_numbers import each_once
from engine.stream.values import keys_as_arrow, numbers_as_arrow, typed_value

MovesBack = Callable[[Float64Array], Int64Array]
"""By how much times become earlier in partitions with these keys, float64 (width, n) -> int64 (n,)."""

_STATE_VERSION = 1

_SKEW = "skew_ms"
_PLACED = ("position", "previous")

FEW_ROWS = 256
"""Of fewer rows than this each id is looked up as it comes."""

_NO_ROWS: Int64Array = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class StoredEvents:
    """What rows of output need of a store as it was: it stays so whatever becomes of the store.

    strings: by code. known: the ids by row. keys: int64 (n, width), the bits of the keys by partition.
    """

    plan: Plan
    strings: KnownTexts
    known: IdColumn
    keys: Int64Array

    @property
    def ids(self) -> pa.ChunkedArray:
        """The ids by row."""
        return self.known.whole()

    def texts(self, rows: Int64Array) -> dict[int, str]:
        """The ids of these rows, each once."""
        distinct = each_once(rows)
        return dict(zip(distinct.tolist(), self.ids.take(pa.array(distinct, pa.int64())).to_pylist(), strict=True))

    def text_of_each(self, rows: Int64Array) -> list[str]:
        """The id of each of these rows; of an event that comes often the same object each time."""
        if len(rows) < FEW_ROWS:
            return self.ids.take(pa.array(rows)).to_pylist()  # type: ignore[no-any-return]
        distinct = each_once(rows)
        least = int(distinct[0])
        texts = np.empty(int(distinct[-1]) - least + 1, np.object_)
        texts[distinct - least] = self.ids.take(pa.array(distinct)).to_pylist()
        return texts[rows - least].tolist()  # type: ignore[no-any-return]

    def key_of(self, partition: int) -> tuple[tuple[str, Value], ...]:
        """The key of a partition as (attribute, value) pairs."""
        if partition == BROADCAST:
            return ()
        codes = self.keys[partition].view(np.float64).tolist()
        return tuple(
            (name, self.value(code, self.plan.attribute_types[name]))
            for name, code in zip(self.plan.key, codes, strict=True)
        )

    def value(self, number: float, kind: AttributeType) -> Value:
        """A double as the value of its type that it stands for; None for NULL, and for a result beyond all doubles."""
        return typed_value(self.strings, number, kind)

    def keys_as_arrow(self, partitions: Int64Array) -> pa.Array:
        """The keys of these partitions as a struct with one field per attribute."""
        kinds = [self.plan.attribute_types[name] for name in self.plan.key]
        return keys_as_arrow(self.plan.key, kinds, self.strings, self.keys, partitions)

    def values_as_arrow(self, returns: Sequence[ReturnValue], values: Float64Array) -> pa.Array:
        """Results of RETURN, float64 (n, n_returns), as a struct with one field each."""
        return numbers_as_arrow([item.name for item in returns], [item.type for item in returns], self.strings, values)


class EventStore:
    """Growing columns of the rows that one query keeps.

    Arrays are capacity-sized; the first `len(store)` entries are in use: t_lo_ms, t_hi_ms, partition, clock int64 (n,),
    type_index int64 (n,) into `types`, columns float64 (n_columns, n). `partition` is BROADCAST (-1) for broadcast
    types; clock is -1 for an event with a clock of its own. `weights` maps rows with a given distribution to it.
    `skew_ms` is as long as the other arrays once a row has skew, and empty before.
    """

    def __init__(self, plan: Plan, interner: Interner, *, placed: bool = False) -> None:
        """`placed`: rows have a position in the stream, which `append` counts, and room for the position of the event
        before them in their partition."""
        self.plan = plan
        self.interner = interner
        self._flat = (*self._FLAT, *(_PLACED if placed else ()))
        self.types: tuple[str, ...] = tuple(sorted(plan.types))
        self.names: tuple[str, ...] = plan.programs.columns
        self.ids = IdColumn()
        self.n_imprecise = 0
        """Rows whose time is an interval."""
        self.weights: dict[int, Float64Array] = {}
        self.skew_ms: Int64Array = _NO_ROWS
        self._n_seen = 0
        self._keys = KeyTable(len(plan.key))
        self._allocate(64)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_partitions(self) -> int:
        """Partitions that have a row; their numbers are 0..n_partitions - 1."""
        return len(self._keys)

    def _allocate(self, capacity: int) -> None:
        self.flat: Int64Array = np.empty((len(self._flat) + 1, capacity), np.int64)
        """The columns of integers, and last the number that a row had in its batch."""
        self.t_lo_ms: Int64Array = self.flat[0]
        self.t_hi_ms: Int64Array = self.flat[1]
        self.source_seq: Int64Array = self.flat[2]
        self.partition: Int64Array = self.flat[3]
        self.clock: Int64Array = self.flat[4]
        self.type_index: Int64Array = self.flat[5]
        self.position: Int64Array = _NO_ROWS
        self.previous: Int64Array = _NO_ROWS
        if "position" in self._flat:
            self.position, self.previous = self.flat[6], self.flat[7]
            self.previous[:] = -1
        self.columns: Float64Array = np.empty((len(self.names), capacity), np.float64)

    _FLAT = ("t_lo_ms", "t_hi_ms", "source_seq", "partition", "clock", "type_index")

    def append(self, stream: StreamColumns, rows: Int64Array) -> tuple[int, int]:
        """Add these rows of a batch, in this order; returns their row range [first, end) here.

        Every row of a keyed type has all key attributes (see `EarlyFilter`).
        """
        n_old, n_new = len(self), len(self) + len(rows)
        if n_new == n_old:
            self._n_seen += len(stream)
            return n_old, n_old
        self.reserve(n_new)
        added = slice(n_old, n_new)
        self.t_lo_ms[added] = stream.t_lo_ms[rows]
        self.t_hi_ms[added] = stream.t_hi_ms[rows]
        self.n_imprecise += int(np.count_nonzero(self.t_lo_ms[added] != self.t_hi_ms[added]))
        self.source_seq[added] = stream.source_seq[rows]
        self.clock[added] = stream.clocks_of(rows)
        self.type_index[added] = stream.type_index(self.types, rows)
        if "position" in self._flat:
            self.position[added] = self._n_seen + rows
        self._n_seen += len(stream)
        for number, name in enumerate(self.names):
            self.columns[number, added] = stream.column(name, self._kind(name))[rows]
        self.partition[added] = self._partition_numbers(stream, rows)
        self._keep_weights(stream, rows, n_old)
        self._keep_skew(stream, rows, added)
        self.ids.append(stream.ids_of(rows))
        return n_old, n_new

    @property
    def key_table(self) -> KeyTable:
        """The partitions by their keys."""
        return self._keys

    @property
    def n_seen(self) -> int:
        """Events of the batches that rows were taken from so far."""
        return self._n_seen

    def taken(self, stream: StreamColumns, end: int) -> None:
        """Precise rows of a batch have been written up to `end`, their partitions are known; their ids are added."""
        self._n_seen += len(stream)
        start = len(self)
        if end > start:
            rows = self.flat[-1, start:end].copy()
            self._keep_weights(stream, rows, start)
            self.ids.append_chosen(*stream.ids_and_rows(rows), len(stream))

    def key_of(self, partition: int) -> tuple[tuple[str, int | float | str | None], ...]:
        """The key of a partition as (attribute, value) pairs."""
        if partition == BROADCAST:
            return ()
        codes = self._keys.key(partition)
        return tuple(
            (name, self.value(code, self.plan.attribute_types[name]))
            for name, code in zip(self.plan.key, codes, strict=True)
        )

    def move_back(self, by: MovesBack) -> None:
        """Earlier times for the rows of each partition."""
        n = len(self)
        moved = np.append(by(self.keys(np.arange(self.n_partitions))), 0)[self.partition[:n]]
        self.t_lo_ms[:n] -= moved
        self.t_hi_ms[:n] -= moved

    def keys(self, partitions: Int64Array) -> Float64Array:
        """The keys of these partitions as doubles, float64 (width, n)."""
        return self._keys.columns(partitions)

    def value(self, number: float, kind: AttributeType) -> int | float | str | None:
        """A double as the value of its type that it stands for; None for NULL, and for a result beyond all doubles."""
        return typed_value(self.interner.known, number, kind)

    def as_it_is(self) -> StoredEvents:
        """Ids and keys of the rows that are here now, for rows of output."""
        return StoredEvents(self.plan, self.interner.known, self.ids.as_it_is(), self._keys.bits())

    def keep(self, mask: BoolArray) -> tuple[Int64Array, Int64Array]:
        """Drop the rows whose mask (n,) is False, and the partitions without a row.

        Returns the new number of each old row and of each old partition, -1 where dropped; one more entry stands at the
        end of both, so that indexing with -1 (no row, BROADCAST) gives -1.
        """
        kept = np.flatnonzero(mask)
        renumbered = np.full(len(mask) + 1, -1, np.int64)
        if len(kept):
            renumbered[kept] = np.arange(len(kept))
            self.flat[:-1, : len(kept)] = self.flat[:-1, kept]
            self.columns[:, : len(kept)] = self.columns[:, kept]
        if self.n_imprecise:
            self.n_imprecise = int(np.count_nonzero(self.t_lo_ms[: len(kept)] != self.t_hi_ms[: len(kept)]))
        if len(self.skew_ms):
            skews = self.skew_ms[kept]
            self._allocate_skew(skews if skews.any() else _NO_ROWS)
        self.ids = self.ids.keep(kept)
        self.weights = {int(renumbered[row]): w for row, w in self.weights.items() if mask[row]}
        return renumbered, self._forget_partitions()

    def keep_from(self, first: int) -> Int64Array:
        """Drop the rows before this one: as `keep`, quicker; returns the new numbers of partitions."""
        end = len(self)
        n = end - first
        self.flat[:-1, :n] = self.flat[:-1, first:end]
        self.columns[:, :n] = self.columns[:, first:end]
        if self.n_imprecise:
            self.n_imprecise = int(np.count_nonzero(self.t_lo_ms[:n] != self.t_hi_ms[:n]))
        if len(self.skew_ms):
            skews = self.skew_ms[first:end].copy()
            self._allocate_skew(skews if skews.any() else _NO_ROWS)
        self.ids = self.ids.keep(np.arange(first, end))
        self.weights = {row - first: w for row, w in self.weights.items() if row >= first}
        return self._forget_partitions()

    def save(self) -> pa.Table:
        """The rows as an Arrow table, with the keys of the partitions by number in its metadata."""
        n = len(self)
        data: dict[str, pa.Array] = {name: pa.array(getattr(self, name)[:n]) for name in self._flat}
        data["id"] = self.ids.array()
        data["weights"] = pa.array([self.weights.get(row) for row in range(n)], pa.list_(pa.float64()))
        for number, name in enumerate(self.names):
            data[f"column.{name}"] = pa.array(self.columns[number, :n])
        if len(self.skew_ms):
            data[_SKEW] = pa.array(self.skew_ms[:n])
        metadata = {"version": str(_STATE_VERSION), "keys": json.dumps(self._keys.all()), "n_seen": str(self._n_seen)}
        return pa.table(data).replace_schema_metadata(metadata)

    def restore(self, table: pa.Table) -> None:
        """Take over the rows that `save` wrote; raises StateError when they are of another version or query."""
        metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
        if metadata.get(b"version") != str(_STATE_VERSION).encode():
            raise StateError(f"saved events have version {metadata.get(b'version')!r}, expected {_STATE_VERSION}")
        expected = {*self._flat, "id", "weights", *(f"column.{name}" for name in self.names)}
        if "position" not in table.column_names:
            expected -= set(_PLACED)  # states of before had positions for some queries alone
        if set(table.column_names) - {_SKEW} != expected:
            raise StateError(f"saved events have columns {sorted(table.column_names)}, expected {sorted(expected)}")
        n = table.num_rows
        self._n_seen = int(metadata.get(b"n_seen", b"0"))
        self._allocate(max(64, n))
        for name in self._flat:
            if name in expected:
                getattr(self, name)[:n] = table.column(name).to_numpy()
        if len(self.position) and "position" not in expected:
            self.position[:n] = max(self._n_seen - 1, 0)
        self.n_imprecise = int(np.count_nonzero(self.t_lo_ms[:n] != self.t_hi_ms[:n]))
        for number, name in enumerate(self.names):
            self.columns[number, :n] = table.column(f"column.{name}").to_numpy()
        self._allocate_skew(table.column(_SKEW).to_numpy() if _SKEW in table.column_names else _NO_ROWS)
        self.ids = IdColumn(table.column("id").combine_chunks())
        given = table.column("weights").to_pylist()
        self.weights = {row: np.asarray(w, np.float64) for row, w in enumerate(given) if w is not None}
        self._keys = KeyTable(len(self.plan.key), json.loads(metadata[b"keys"]))

    # -------------------------------------------------------------- internals

    def reserve(self, n_rows: int) -> None:
        """Make room for so many rows."""
        if n_rows <= len(self.t_lo_ms):
            return
        flat, columns = self.flat, self.columns
        n = flat.shape[1]
        self._allocate(max(n_rows, 2 * n))
        self.flat[:, :n] = flat
        self.columns[:, :n] = columns
        self._allocate_skew(self.skew_ms)

    def _keep_weights(self, stream: StreamColumns, rows: Int64Array, start: int) -> None:
        weights = stream.weights
        if weights is None:
            return
        for at, row in enumerate(rows.tolist()):
            given = weights[row].as_py()
            if given is not None:
                self.weights[start + at] = np.asarray(given, np.float64)

    def _keep_skew(self, stream: StreamColumns, rows: Int64Array, added: slice) -> None:
        given = stream.skew_ms
        if given is None or not given[rows].any():
            return
        if not len(self.skew_ms):
            self.skew_ms = np.zeros(self.flat.shape[1], np.int64)
        self.skew_ms[added] = given[rows]

    def _allocate_skew(self, known: Int64Array) -> None:
        """Room for the skew of as many rows as for the rest, none if nothing has any; the first ones are known."""
        self.skew_ms = np.zeros(self.flat.shape[1], np.int64) if len(known) else _NO_ROWS
        self.skew_ms[: len(known)] = known

    def _kind(self, name: str) -> AttributeType:
        return AttributeType.INT if name == TIME_ATTRIBUTE else self.plan.attribute_types[name]

    def _partition_numbers(self, stream: StreamColumns, rows: Int64Array) -> Int64Array:
        broadcast = [code for code, name in enumerate(self.types) if name in self.plan.broadcast]
        if not broadcast:
            return self._keys.numbers(self._key_columns(stream, rows))
        keyed = ~np.isin(stream.type_index(self.types, rows), broadcast)
        numbers = np.full(len(rows), BROADCAST, np.int64)
        numbers[keyed] = self._keys.numbers(self._key_columns(stream, rows[keyed]))
        return numbers

    def _key_columns(self, stream: StreamColumns, rows: Int64Array) -> Float64Array:
        columns = [stream.column(name, self._kind(name))[rows] for name in self.plan.key]
        return np.stack(columns) if columns else np.empty((0, len(rows)), np.float64)

    def _forget_partitions(self) -> Int64Array:
        n = len(self)
        used = np.flatnonzero(np.bincount(self.partition[:n] + 1, minlength=1)[1:])
        renumbered = np.full(len(self._keys) + 1, BROADCAST, np.int64)
        renumbered[used] = np.arange(len(used))
        self.partition[:n] = renumbered[self.partition[:n]]
        self._keys.keep(used)
        return renumbered
