"""One batch of the stream, decoded once for all queries of an engine."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import wraps
from math import prod
from typing import Concatenate, ParamSpec, TypeVar, cast

import numpy as np
import pyarrow as pa

from engine.events import MAX_EXACT_INT, TIME_ATTRIBUTE, AttributeType, BoolArray, EventBatch, Float64Array, Int64Array
from engine.kernels.columns.decode import widen, widen_given
from engine.kernels.compile.types import Int32Array
from engine.kernels.runs.recent_starts import link_rows
from engine.stream.buffers import own_pool
from engine.stream.cuts import Cuts
from engine.stream.interner import Interner, is_one_text
from engine.stream.key_table import KeyTable
from engine.stream.texts import Texts

_NO_ROWS: Int64Array = np.empty(0, np.int64)
_MOST_AGAIN = 1 << 18
"""Doubles of columns of which the memory is used again by the next batch: more are not kept for it."""
_ZEROS = [np.zeros(0, np.int32)]
"""What `_zeros` gave last."""


P = ParamSpec("P")
R = TypeVar("R")


def _one_at_a_time(
    method: Callable[Concatenate[StreamColumns, P], R],
) -> Callable[Concatenate[StreamColumns, P], R]:
    """One thread makes what is missing while the others wait for it."""

    @wraps(method)
    def locked(stream: StreamColumns, /, *args: P.args, **keywords: P.kwargs) -> R:
        with stream.lock:
            return method(stream, *args, **keywords)

    return locked


def _zeros(n: int) -> Int32Array:
    """Codes of events that all have the first type, (n,), the same memory each time: nobody writes to it."""
    zeros = _ZEROS[0]
    if len(zeros) < n:
        zeros = np.zeros(n, np.int32)
        if n <= _MOST_AGAIN:
            _ZEROS[0] = zeros
    return zeros[:n]


@dataclass(frozen=True, slots=True)
class Partitions:
    """Partitions of one batch: their keys, and for each row its number there, -1 without all of the key, (n,).

    The table may get further keys, under the lock of the stream.
    """

    table: KeyTable
    numbers: Int64Array


@dataclass(frozen=True, slots=True)
class PartitionLists:
    """The precise rows of some types by partition: the first of each of the `len(first)` partitions, and for each row
    the one that follows it, -1 for none. `partitions` may get further keys, of which there is no row. n_rows: events of
    these types, precise or not."""

    partitions: Partitions
    first: Int64Array
    following: Int64Array
    n_rows: int


def read_only(values: Int64Array) -> Int64Array:
    """The same numbers, as those of a batch are: kernels are compiled for times that nobody writes to."""
    view = values.view()
    view.flags.writeable = False
    return view


class StreamColumns:
    """The columns of a batch as kernels take them; each is decoded when it is first asked for, and then shared.

    Rows are the batch's; strings are codes of the engine's interner, numbers doubles, NULL is NaN. Several threads may
    read it: what is made on demand is made under a lock.
    """

    follows: BoolArray | None = None
    """Where partitions are told apart otherwise than by the events that are here: whether each event follows the one
    before it in its partition at once, (n,)."""

    n_begin: int | None = None
    """How many of the first rows may begin a match, None: all. Other rows only go on with one."""

    def __init__(self, batch: EventBatch, interner: Interner) -> None:
        self.batch = batch
        self.interner = interner
        self.t_lo_ms: Int64Array = batch.t_lo_ms
        self.t_hi_ms: Int64Array = batch.t_hi_ms
        self.chosen: dict[tuple[str, ...], Int64Array] = {}
        """Rows by event type, local predicates and key, see `engine.stream.early_filter`."""
        self.parts: dict[Hashable, list[StreamColumns | None]] = {}
        """What several threads take of it each, by how it is divided: see `engine.stream.by_key` and `.slices`."""
        self.cuts: dict[tuple[int, int], Cuts] = {}
        """Where it is cut by time for a window and so many threads."""
        self.begun: dict[tuple[tuple[str, ...], int, int], Future[object]] = {}
        """Which of the parts another thread may be making."""
        self.made: dict[Hashable, object] = {}
        """What several queries make of it alike: see `once`."""
        self._columns: dict[str, Float64Array] = {}
        self._complete: set[str] = set()
        self._precise: bool | None = None
        self._longest_ms: int | None = None
        self._integers: tuple[Int64Array, Int32Array, Int64Array] | None = None
        self._weights: tuple[pa.ChunkedArray | None] | None = None
        self.lock = threading.RLock()
        self._source_seq: Int64Array | None = None
        self._event_ids: pa.Array | None = None
        self._clocks: Int64Array | None = None
        self._types: tuple[str, ...] | None = None
        self._type_codes: Int32Array = np.empty(0, np.int32)
        self._type_counts: Int64Array = _NO_ROWS
        self._type_texts: Texts | None = None
        self._rows_of_type: dict[str, Int64Array] = {}
        self._n_of_types: dict[frozenset[str], int] = {}
        self._rows_of_types: dict[frozenset[str], tuple[Int64Array, bool]] = {}
        self._partitions: dict[tuple[str, ...], Partitions] = {}
        self._partition_lists: dict[tuple[tuple[str, ...], frozenset[str]], PartitionLists] = {}
        self._stacked: dict[tuple[str, ...], Float64Array] = {}

    def __len__(self) -> int:
        return len(self.t_lo_ms)

    def once(self, meaning: Hashable, make: Callable[[], R]) -> R:
        """What is made by the first that asks for it, and nobody changes; others of the same meaning wait for it."""
        with self.lock:
            if meaning not in self.made:
                self.made[meaning] = make()
            return cast(R, self.made[meaning])

    @property
    @_one_at_a_time
    def source_seq(self) -> Int64Array:
        """Place of each record in its logical source, (n,)."""
        if self._source_seq is None:
            self._source_seq = self.batch.source_seq
        return self._source_seq

    @property
    @_one_at_a_time
    def event_ids(self) -> pa.Array:
        """The ids as an Arrow array."""
        if self._event_ids is None:
            self._event_ids = self.batch.strings("event_id")
        return self._event_ids

    def ids_of(self, rows: Int64Array) -> pa.Array:
        """The ids of some rows, in their order."""
        return self.event_ids if len(rows) == len(self) else self.event_ids.take(pa.array(rows, pa.int64()))

    def ids_and_rows(self, rows: Int64Array) -> tuple[pa.Array, Int64Array]:
        """Ids that are there, and where those of some rows stand among them."""
        return self.event_ids, rows

    @property
    def weights(self) -> pa.ChunkedArray | None:
        """The distributions given with events, None when there is none."""
        if self._weights is None:
            column = self.batch.table.column("weights")
            self._weights = (column if column.null_count < len(column) else None,)
        return self._weights[0]

    @property
    def skew_ms(self) -> Int64Array | None:
        """Bounds of the clocks' offsets, (n,), None when there is none; see `engine.events.SKEW`."""
        return self.batch.skew_ms

    @property
    @_one_at_a_time
    def clocks(self) -> Int64Array:
        """Codes of the clocks, -1 for an event with a clock of its own, (n,)."""
        if self._clocks is None:
            column = self.batch.strings("clock_id")
            if column.null_count == len(column):
                self._clocks = np.full(len(self), -1, np.int64)
            else:
                codes = self.interner.encode(column)
                self._clocks = np.where(np.isnan(codes), -1, codes).astype(np.int64)
        return self._clocks

    def clocks_of(self, rows: Int64Array) -> Int64Array:
        """As `clocks`, of these rows alone."""
        if self._clocks is None and self._has_no_clocks():
            return np.full(len(rows), -1, np.int64)
        return self.clocks[rows]

    @property
    def integers(self) -> tuple[Int64Array, Int32Array, Int64Array]:
        """t_lo_ms, the types' codes and clocks, each (n,); clocks are empty when no event has one.

        Times are read-only whoever made them: a kernel is compiled for one kind of them.
        """
        if self._integers is None:
            clocks = _NO_ROWS if self._clocks is None and self._has_no_clocks() else self.clocks
            self._integers = read_only(self.t_lo_ms), self.types_by_row[1], clocks
        return self._integers

    @property
    def sources(self) -> tuple[Int64Array, Int64Array]:
        """source_seq of some events, read-only, and where each row has its own among them, (n,), empty when by row."""
        return read_only(self.source_seq), _NO_ROWS

    def _has_no_clocks(self) -> bool:
        return bool(self.batch.table.column("clock_id").null_count == len(self))

    @property
    def is_precise(self) -> bool:
        """Whether no event's time is an interval."""
        if self._precise is None:
            lo_ms, hi_ms = self.t_lo_ms, self.t_hi_ms
            is_as_given = lo_ms is self.batch.t_lo_ms and hi_ms is self.batch.t_hi_ms
            self._precise = self.batch.is_precise if is_as_given else bool(np.array_equal(lo_ms, hi_ms))
        return self._precise

    @property
    def longest_ms(self) -> int:
        """The length of the longest interval."""
        if self.is_precise:
            return 0
        if self._longest_ms is None:
            self._longest_ms = int((self.t_hi_ms - self.t_lo_ms).max())
        return self._longest_ms

    def n_of_types(self, names: Iterable[str]) -> int:
        """Events of these types."""
        wanted = frozenset(names)
        found = self._n_of_types.get(wanted)
        if found is None:
            counted = self._counts_of_types()
            found = self._n_of_types[wanted] = sum(counted.get(name, 0) for name in wanted)
        return found

    def _counts_of_types(self) -> Mapping[str, int]:
        if self._types is None:
            for parts in self.parts.values():
                if len(known := [part for part in parts if part is not None]) == len(parts):
                    return sum((Counter(part._counts_of_types()) for part in known), Counter())
        return dict(zip(self._names(), self._type_counts.tolist(), strict=True))

    @_one_at_a_time
    def rows_of_type(self, event_type: str) -> Int64Array:
        """Row numbers of the events of a type, in order."""
        names = self._names()
        if event_type not in names:
            return _NO_ROWS
        found = self._rows_of_type.get(event_type)
        if found is None:
            code = names.index(event_type)
            found = np.flatnonzero(self._type_codes == code) if len(names) > 1 else np.arange(len(self), dtype=np.int64)
            self._rows_of_type[event_type] = found
        return found

    def has_only(self, types: Collection[str]) -> bool:
        """Whether every event is of one of these types."""
        return all(name in types for name in self._names())

    @_one_at_a_time
    def rows_of_types(self, types: frozenset[str]) -> tuple[Int64Array, bool]:
        """Row numbers of the events of some types, in order, and whether all of them are precise."""
        found = self._rows_of_types.get(types)
        if found is None:
            is_wanted = [name in types for name in self._names()]
            if self.has_only(types):
                rows: Int64Array = np.arange(len(self), dtype=np.int64)
            elif sum(is_wanted) == 1:
                rows = self.rows_of_type(self._names()[is_wanted.index(True)])
            else:
                rows = np.flatnonzero(np.array(is_wanted)[self._type_codes])
            found = rows, self.is_precise or bool((self.t_lo_ms[rows] == self.t_hi_ms[rows]).all())
            self._rows_of_types[types] = found
        return found

    def n_imprecise(self, types: Iterable[str]) -> int:
        """Events of these types whose time is an interval; those that several threads have count with one of them."""
        if self.is_precise:
            return 0
        imprecise = self._counted() & (self.t_lo_ms != self.t_hi_ms)
        return sum(int(imprecise[self.rows_of_type(name)].sum()) for name in types)

    def _counted(self) -> BoolArray:
        """Which rows no other thread counts, (n,)."""
        return np.ones(len(self), np.bool_)

    def of_type(self, rows: Int64Array, event_type: str) -> Int64Array:
        """Those of the rows whose events are of a type."""
        names = self._names()
        if event_type not in names:
            return _NO_ROWS
        return rows[self._type_codes[rows] == names.index(event_type)] if len(names) > 1 else rows

    @_one_at_a_time
    def partitions(self, key: tuple[str, ...], kinds: Mapping[str, AttributeType]) -> Partitions:
        """The partitions of the batch by these attributes, of the given types."""
        found = self._partitions.get(key)
        if found is None:
            table = KeyTable(len(key))
            numbers = table.numbers_or_none(self.stacked(key, kinds))
            found = self._partitions[key] = Partitions(table, numbers)
        return found

    @_one_at_a_time
    def partition_lists(
        self, key: tuple[str, ...], kinds: Mapping[str, AttributeType], types: frozenset[str]
    ) -> PartitionLists:
        """The rows of these types by their partitions, see `partitions`."""
        found = self._partition_lists.get((key, types))
        if found is None:
            partitions = self.partitions(key, kinds)
            every = self.has_only(types)
            rows = _NO_ROWS if every else self.rows_of_types(types)[0]
            first, following = link_rows(
                rows, every, partitions.numbers, self.t_lo_ms, self.t_hi_ms, len(partitions.table)
            )
            n_rows = len(self) if every else len(rows)
            found = self._partition_lists[key, types] = PartitionLists(partitions, first, following, n_rows)
        return found

    def stacked(self, names: tuple[str, ...], kinds: Mapping[str, AttributeType]) -> Float64Array:
        """Attributes of all rows, of the given types, (n_names, n)."""
        found = self._stacked.get(names)  # is there when it is filled: no lock is needed to see it
        return self._stack(names, kinds) if found is None else found

    @_one_at_a_time
    def _stack(self, names: tuple[str, ...], kinds: Mapping[str, AttributeType]) -> Float64Array:
        found = self._stacked.get(names)
        if found is None:
            found = self._doubles(len(names), len(self))
            for name, row in zip(names, found, strict=True):
                known = self._columns.get(name)
                if known is None:
                    self._decode(name, AttributeType.INT if name == TIME_ATTRIBUTE else kinds[name], row)
                    self._columns[name] = row
                else:
                    row[:] = known
            self._stacked[names] = found
        return found

    def type_index(self, types: Sequence[str], rows: Int64Array | None = None) -> Int64Array:
        """For each row, or each of `rows`, the position of its type in `types`, -1 for another type."""
        of_code = self.type_numbers(types)
        return of_code[self._type_codes if rows is None else self._type_codes[rows]]

    def type_numbers(self, types: Sequence[str]) -> Int64Array:
        """For each code of `types_by_row` the position of that type in `types`, -1 for another type."""
        positions = {name: position for position, name in enumerate(types)}
        return np.array([positions.get(name, -1) for name in self._names()], np.int64)

    @property
    def types_by_row(self) -> tuple[tuple[str, ...], Int32Array]:
        """The distinct types, and for each row the number of its own, (n,)."""
        return self._names(), self._type_codes

    def _names(self) -> tuple[str, ...]:
        """The distinct types; `_type_codes` says which is whose. Made without the lock, beside what needs it: threads
        that make it at once make the same, and codes are there before the names that say so."""
        if self._types is None:
            texts = self.batch.strings("type")
            if is_one_text(texts):
                self._type_codes, self._type_counts = _zeros(len(self)), np.array([len(self)])
                self._types = (texts[0].as_py(),)
                return self._types
            names, self._type_counts, self._type_codes = Texts(texts).numbered(None, self._codes())
            self._types = names
        return self._types

    @property
    @_one_at_a_time
    def type_texts(self) -> Texts:
        """The types as they are stored."""
        if self._type_texts is None:
            self._type_texts = Texts(self.batch.strings("type"))
        return self._type_texts

    def column(self, name: str, kind: AttributeType) -> Float64Array:
        """An attribute of all rows as doubles, (n,); NaN where it is absent."""
        found = self._columns.get(name)  # as in `stacked`
        return self._decoded(name, kind) if found is None else found

    @_one_at_a_time
    def _decoded(self, name: str, kind: AttributeType) -> Float64Array:
        found = self._columns.get(name)
        if found is None:
            found = self._doubles(len(self))
            self._decode(name, kind, found)
            self._columns[name] = found
        return found

    def is_complete(self, name: str) -> bool:
        """Whether a decoded attribute is known to be absent of no row."""
        return name in self._complete

    def _codes(self) -> Int32Array:
        """An array (n,) with anything in it."""
        return np.empty(len(self), np.int32)

    def _doubles(self, *shape: int) -> Float64Array:
        """As `_codes`, of this shape."""
        return own_pool().doubles(*shape) if prod(shape) <= _MOST_AGAIN else np.empty(shape, np.float64)

    def _decode(self, name: str, kind: AttributeType, into: Float64Array) -> None:
        if name == TIME_ATTRIBUTE:
            into[:] = self.t_hi_ms
        elif kind is AttributeType.STRING:
            into[:] = self.interner.encode(self.batch.strings(name))
        elif (values := self.batch.whole_numbers(name)) is not None:
            self._complete.add(name)
            self._check(name, *widen(values, into))
        elif (gappy := self.batch.gappy_whole_numbers(name)) is not None:
            self._check(name, *widen_given(*gappy, into))
        else:
            into[:] = self.batch.numbers(name)

    def _check(self, name: str, low: int, high: int) -> None:
        if max(-low, high) > MAX_EXACT_INT:
            self.batch.numbers(name)  # refuses it, with the value


class ShardColumns(StreamColumns):
    """Some rows of a batch as a stream of its own; what is decoded comes from the whole batch, and is decoded once.

    Several of them may be read at the same time, each by one thread.
    """

    def __init__(self, whole: StreamColumns, rows: Int64Array, t_lo_ms: Int64Array | None = None) -> None:
        """`t_lo_ms`: that of the rows, where it is known."""
        super().__init__(EventBatch.empty(), whole.interner)
        self._whole = whole
        self._rows = rows
        self.t_lo_ms = read_only(whole.t_lo_ms[rows] if t_lo_ms is None else t_lo_ms)
        self._precise = whole.is_precise or None
        self.n_begin = None if whole.n_begin is None else int(np.searchsorted(rows, whole.n_begin))
        self.t_hi_ms = self.t_lo_ms if self._precise else read_only(whole.t_hi_ms[rows])

    @property
    def source_seq(self) -> Int64Array:
        """See `StreamColumns`."""
        if self._source_seq is None:
            whole = self._whole.source_seq
            self._source_seq = whole[self._rows]
        return self._source_seq

    @property
    def sources(self) -> tuple[Int64Array, Int64Array]:
        """See `StreamColumns`."""
        return read_only(self._whole.source_seq), self._rows

    @property
    def event_ids(self) -> pa.Array:
        """See `StreamColumns`."""
        return self.ids_of(np.arange(len(self), dtype=np.int64))

    def ids_of(self, rows: Int64Array) -> pa.Array:
        """See `StreamColumns`."""
        whole = self._whole.event_ids
        return whole.take(pa.array(self._rows[rows], pa.int64()))

    def ids_and_rows(self, rows: Int64Array) -> tuple[pa.Array, Int64Array]:
        """See `StreamColumns`."""
        return self._whole.event_ids, self._rows[rows]

    def _has_no_clocks(self) -> bool:
        return self._whole._has_no_clocks()

    @property
    def weights(self) -> pa.ChunkedArray | None:
        """See `StreamColumns`."""
        weights = self._whole.weights
        return None if weights is None else weights.take(pa.array(self._rows, pa.int64()))

    @property
    def skew_ms(self) -> Int64Array | None:
        """See `StreamColumns`."""
        skew_ms = self._whole.skew_ms
        return None if skew_ms is None else skew_ms[self._rows]

    @property
    def clocks(self) -> Int64Array:
        """See `StreamColumns`."""
        if self._clocks is None:
            whole = self._whole.clocks
            self._clocks = whole[self._rows]
        return self._clocks

    def clocks_of(self, rows: Int64Array) -> Int64Array:
        """See `StreamColumns`."""
        return self._whole.clocks_of(self._rows[rows])

    def _names(self) -> tuple[str, ...]:
        if self._types is None:
            types, codes = self._whole.types_by_row
            self._type_codes = codes[self._rows]
            self._type_counts = np.bincount(self._type_codes, minlength=len(types))
            self._types = types
        return self._types

    def _decode(self, name: str, kind: AttributeType, into: Float64Array) -> None:
        whole = self._whole.column(name, kind)
        if self._whole.is_complete(name):
            self._complete.add(name)
        into[:] = whole[self._rows]
