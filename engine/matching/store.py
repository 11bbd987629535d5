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
from engine.events import TIME_ATTRIBUTE, AttributeType, BoolArray, Float64Array, Int64Array
from engine.matching.interner import Interner
from engine.matching.key_table import KeyTable
from engine.matching.rows import Value
from engine.matching.stream import StreamColumns
from engine.plan.model import Plan, ReturnValue

BROADCAST = -1
"""Partition number of events that enter every partition."""

NO_PARTITION = -2
"""Partition number of events whose key no first event has had."""

MovesBack = Callable[[Float64Array], Int64Array]
"""By how much times become earlier in partitions with these keys, float64 (width, n) -> int64 (n,)."""

_STATE_VERSION = 1


class IdColumn:
    """Event ids by row, kept as Arrow so that no Python string per event is made until one is asked for."""

    def __init__(self, ids: pa.Array | None = None) -> None:
        self._chunks: list[pa.Array] = [] if ids is None else [ids]
        self._n = 0 if ids is None else len(ids)
        self._column: pa.ChunkedArray | None = None

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, row: int) -> str:
        return str(self.whole()[int(row)].as_py())

    def of(self, rows: Int64Array) -> tuple[str, ...]:
        """The ids of these rows, in their order."""
        return tuple(self.whole().take(pa.array(rows, pa.int64())).to_pylist())

    def append(self, ids: pa.Array) -> None:
        """Add the ids of a batch."""
        self._chunks.append(ids)
        self._n += len(ids)
        self._column = None

    def take(self, rows: Int64Array) -> IdColumn:
        """The ids of these rows, in their order."""
        return IdColumn(self.whole().take(pa.array(rows, pa.int64())).combine_chunks())

    def array(self) -> pa.Array:
        """All ids."""
        return self.whole().combine_chunks()

    def whole(self) -> pa.ChunkedArray:
        """All ids; later additions do not change it."""
        if self._column is None:
            if len(self._chunks) > 64:
                self._chunks = [pa.chunked_array(self._chunks).combine_chunks()]
            self._column = pa.chunked_array(self._chunks, pa.string())
        return self._column


@dataclass(frozen=True, eq=False)
class StoredEvents:
    """What rows of output need of a store as it was: it stays so whatever becomes of the store.

    ids: Arrow, by row. keys: int64 (n, width), the bits of the keys by partition.
    """

    plan: Plan
    interner: Interner
    ids: pa.ChunkedArray
    keys: Int64Array

    def texts(self, rows: Int64Array) -> dict[int, str]:
        """The ids of these rows, each once."""
        distinct = np.unique(rows)
        return dict(zip(distinct.tolist(), self.ids.take(pa.array(distinct, pa.int64())).to_pylist(), strict=True))

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
        return typed_value(self.interner, number, kind)

    def keys_as_arrow(self, partitions: Int64Array) -> pa.Array:
        """The keys of these partitions as a struct with one field per attribute."""
        numbers = self.keys[partitions].view(np.float64)
        kinds = [self.plan.attribute_types[name] for name in self.plan.key]
        return self._as_struct(list(self.plan.key), kinds, numbers)

    def values_as_arrow(self, returns: Sequence[ReturnValue], values: Float64Array) -> pa.Array:
        """Results of RETURN, float64 (n, n_returns), as a struct with one field each."""
        return self._as_struct([item.name for item in returns], [item.type for item in returns], values)

    def _as_struct(self, names: list[str], kinds: list[AttributeType], numbers: Float64Array) -> pa.Array:
        if not names:
            return pa.array([{}] * len(numbers), pa.struct([]))
        arrays = [
            pa.array([self.value(number, kind) for number in numbers[:, k].tolist()], kind.arrow)
            for k, kind in enumerate(kinds)
        ]
        return pa.StructArray.from_arrays(arrays, names)


def typed_value(interner: Interner, number: float, kind: AttributeType) -> Value:
    """A double as the value of its type that it stands for; None for NULL, and for a result beyond all doubles."""
    if not np.isfinite(number):
        return None
    if kind is AttributeType.STRING:
        return interner.text(int(number))
    return int(number) if kind is AttributeType.INT else float(number)


class EventStore:
    """Growing columns of the rows that one query keeps.

    Arrays are capacity-sized; the first `len(store)` entries are in use: t_lo_ms, t_hi_ms, partition, clock int64 (n,),
    type_index int64 (n,) into `types`, columns float64 (n_columns, n). `partition` is BROADCAST (-1) for broadcast
    types; clock is -1 for an event with a clock of its own. `weights` maps rows with a given distribution to it.
    """

    def __init__(self, plan: Plan, interner: Interner, *, placed: bool = False) -> None:
        """`placed`: rows have a position in the stream, which `append` counts, and room for the position of the event
        before them in their partition."""
        self.plan = plan
        self.interner = interner
        self._flat = (*self._FLAT, *(("position", "previous") if placed else ()))
        self.types: tuple[str, ...] = tuple(sorted(plan.types))
        self.names: tuple[str, ...] = plan.programs.columns
        self.ids = IdColumn()
        self.n_imprecise = 0
        """Rows whose time is an interval."""
        self.weights: dict[int, Float64Array] = {}
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
        self.t_lo_ms: Int64Array = np.empty(capacity, np.int64)
        self.t_hi_ms: Int64Array = np.empty(capacity, np.int64)
        self.source_seq: Int64Array = np.empty(capacity, np.int64)
        self.partition: Int64Array = np.empty(capacity, np.int64)
        self.clock: Int64Array = np.empty(capacity, np.int64)
        self.type_index: Int64Array = np.empty(capacity, np.int64)
        placed = capacity if "position" in self._flat else 0
        self.position: Int64Array = np.empty(placed, np.int64)
        self.previous: Int64Array = np.full(placed, -1, np.int64)
        self.columns: Float64Array = np.empty((len(self.names), capacity), np.float64)

    _FLAT = ("t_lo_ms", "t_hi_ms", "source_seq", "partition", "clock", "type_index")

    def append(self, stream: StreamColumns, rows: Int64Array, partitions: Int64Array | None = None) -> tuple[int, int]:
        """Add these rows of a batch, in this order; returns their row range [first, end) here.

        Every row of a keyed type has all key attributes (see `EarlyFilter`). partitions: of these rows, where known.
        """
        n_old, n_new = len(self), len(self) + len(rows)
        if n_new == n_old:
            self._n_seen += len(stream)
            return n_old, n_old
        self._reserve(n_new)
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
        if partitions is None:
            partitions = self._partition_numbers(stream, rows)
        self.partition[added] = partitions
        weights = stream.weights
        if weights is not None:
            for at, row in enumerate(rows.tolist()):
                given = weights[row].as_py()
                if given is not None:
                    self.weights[n_old + at] = np.asarray(given, np.float64)
        self.ids.append(stream.ids_of(rows))
        return n_old, n_new

    def partitions_of(self, stream: StreamColumns, starts: Int64Array, rows: Int64Array) -> Int64Array:
        """The partitions of rows that may be added; one that has no number yet gets one for a first event alone.

        Returns int64 (n,): BROADCAST for the events of every partition, NO_PARTITION where there is none.
        """
        if not self.plan.key:
            self._partition_numbers(stream, rows[:1])
            return np.zeros(len(rows), np.int64)
        self._partition_numbers(stream, starts)
        before_first = any(negation.after < 0 for negation in self.plan.negations)
        shared_first = self.plan.steps[0].event_type in self.plan.broadcast
        return self._partition_numbers(stream, rows, known=not (before_first or shared_first))

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
        return typed_value(self.interner, number, kind)

    def as_it_is(self) -> StoredEvents:
        """Ids and keys of the rows that are here now, for rows of output."""
        return StoredEvents(self.plan, self.interner, self.ids.whole(), self._keys.bits())

    def keep(self, mask: BoolArray) -> tuple[Int64Array, Int64Array]:
        """Drop the rows whose mask (n,) is False, and the partitions without a row.

        Returns the new number of each old row and of each old partition, -1 where dropped; one more entry stands at the
        end of both, so that indexing with -1 (no row, BROADCAST) gives -1.
        """
        renumbered = np.append(np.where(mask, np.cumsum(mask) - 1, -1), -1).astype(np.int64)
        kept = np.flatnonzero(mask)
        for name in self._flat:
            array = getattr(self, name)
            array[: len(kept)] = array[kept]
        self.columns[:, : len(kept)] = self.columns[:, kept]
        if self.n_imprecise:
            self.n_imprecise = int(np.count_nonzero(self.t_lo_ms[: len(kept)] != self.t_hi_ms[: len(kept)]))
        self.ids = self.ids.take(kept)
        self.weights = {int(renumbered[row]): w for row, w in self.weights.items() if mask[row]}
        return renumbered, self._forget_partitions()

    def save(self) -> pa.Table:
        """The rows as an Arrow table, with the keys of the partitions by number in its metadata."""
        n = len(self)
        data: dict[str, pa.Array] = {name: pa.array(getattr(self, name)[:n]) for name in self._flat}
        data["id"] = self.ids.array()
        data["weights"] = pa.array([self.weights.get(row) for row in range(n)], pa.list_(pa.float64()))
        for number, name in enumerate(self.names):
            data[f"column.{name}"] = pa.array(self.columns[number, :n])
        metadata = {"version": str(_STATE_VERSION), "keys": json.dumps(self._keys.all()), "n_seen": str(self._n_seen)}
        return pa.table(data).replace_schema_metadata(metadata)

    def restore(self, table: pa.Table) -> None:
        """Take over the rows that `save` wrote; raises StateError when they are of another version or query."""
        metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
        if metadata.get(b"version") != str(_STATE_VERSION).encode():
            raise StateError(f"saved events have version {metadata.get(b'version')!r}, expected {_STATE_VERSION}")
        expected = {*self._flat, "id", "weights", *(f"column.{name}" for name in self.names)}
        if set(table.column_names) != expected:
            raise StateError(f"saved events have columns {sorted(table.column_names)}, expected {sorted(expected)}")
        n = table.num_rows
        self._n_seen = int(metadata.get(b"n_seen", b"0"))
        self._allocate(max(64, n))
        for name in self._flat:
            getattr(self, name)[:n] = table.column(name).to_numpy()
        self.n_imprecise = int(np.count_nonzero(self.t_lo_ms[:n] != self.t_hi_ms[:n]))
        for number, name in enumerate(self.names):
            self.columns[number, :n] = table.column(f"column.{name}").to_numpy()
        self.ids = IdColumn(table.column("id").combine_chunks())
        given = table.column("weights").to_pylist()
        self.weights = {row: np.asarray(w, np.float64) for row, w in enumerate(given) if w is not None}
        self._keys = KeyTable(len(self.plan.key), json.loads(metadata[b"keys"]))

    # -------------------------------------------------------------- internals

    def _reserve(self, n_rows: int) -> None:
        if n_rows <= len(self.t_lo_ms):
            return
        n = len(self)
        old = {name: getattr(self, name)[:n] for name in self._flat}
        columns = self.columns[:, :n]
        self._allocate(max(n_rows, 2 * len(self.t_lo_ms)))
        for name, values in old.items():
            getattr(self, name)[:n] = values
        self.columns[:, :n] = columns

    def _kind(self, name: str) -> AttributeType:
        return AttributeType.INT if name == TIME_ATTRIBUTE else self.plan.attribute_types[name]

    def _partition_numbers(self, stream: StreamColumns, rows: Int64Array, *, known: bool = False) -> Int64Array:
        def look_up(keys: Float64Array) -> Int64Array:
            if known:
                return self._keys.numbers_where(keys, np.zeros(keys.shape[1], np.bool_), NO_PARTITION)
            return self._keys.numbers(keys)

        broadcast = [code for code, name in enumerate(self.types) if name in self.plan.broadcast]
        if not broadcast:
            return look_up(self._key_columns(stream, rows))
        keyed = ~np.isin(stream.type_index(self.types, rows), broadcast)
        numbers = np.full(len(rows), BROADCAST, np.int64)
        numbers[keyed] = look_up(self._key_columns(stream, rows[keyed]))
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
