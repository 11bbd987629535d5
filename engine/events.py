"""Events as columns: batches of events over Arrow.

A batch holds events of any types together: header columns that every event has, and one column per attribute name,
null where the event's type lacks it. No Python object stands for an event on a hot path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import EventError
from engine.event_types import (
    HEADER_NAMES,
    MAX_EXACT_INT,
    TIME_ATTRIBUTE,
    AttributeType,
    EventSchema,
    lone_surrogate,
)

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
Value = int | float | str | None
"""Of an attribute, or of a term of RETURN."""
BoolArray = npt.NDArray[np.bool_]

FOREVER_MS = 2**62
"""The watermark of a source that will send nothing more."""


HEADER = pa.schema(
    [
        pa.field("event_id", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("t_lo_ms", pa.int64(), nullable=False),
        pa.field("t_hi_ms", pa.int64(), nullable=False),
        # Position among events of one millisecond: rank of the logical source, then the record's position in it.
        pa.field("source_rank", pa.int32(), nullable=False),
        pa.field("source_seq", pa.int64(), nullable=False),
        # Events of one clock keep the order (nominal time, source_seq) with certainty; null: a clock of its own.
        pa.field("clock_id", pa.string()),
        # Probabilities of the milliseconds t_lo..t_hi; null: uniform.
        pa.field("weights", pa.list_(pa.float64())),
        # Evidence for people: where the record stands ("file:line", REST path) and its text; never part of identity.
        pa.field("origin", pa.string()),
        pa.field("raw", pa.string()),
    ]
)

SKEW = pa.field("skew_ms", pa.int64())
"""A further header column of batches with events whose clock may be off: the clock's time differs from the true one by
an unknown offset, the same for all its events, between -skew_ms and skew_ms (null: 0). t_lo_ms..t_hi_ms then holds all
times that are possible: the nominal interval, skew_ms wider on both sides; `weights` are those of the nominal times."""


_FEW = 4
"""Pieces of a batch that are left apart until a column is read."""


@dataclass(frozen=True, eq=False)
class EventBatch:
    """Events as columns.

    `table` has the HEADER columns in order, then, in any order, SKEW if some event has it, and attribute columns
    (int64, double or string; null = absent or unknown). Rows need not be ordered; `sorted()` gives stream order.
    """

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @classmethod
    def empty(cls) -> EventBatch:
        """A batch without events and without attributes."""
        return cls(_no_events())

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any], schema: EventSchema) -> EventBatch:
        """Build from arrays or lists by column name.

        Header columns that are left out become: t_hi_ms = t_lo_ms, source_rank = 0, source_seq = row number, the
        others null. Raises EventError when a needed column is missing, an attribute is not in `schema`, or a value
        does not have its column's type.
        """
        for needed in ("event_id", "type", "t_lo_ms"):
            if needed not in columns:
                raise EventError(f"event columns lack {needed!r}; found {sorted(columns)}")
        n_rows = len(columns["event_id"])
        defaults: dict[str, Any] = {
            "t_hi_ms": columns["t_lo_ms"],
            "source_rank": np.zeros(n_rows, np.int32),
            "source_seq": np.arange(n_rows, dtype=np.int64),
        }
        arrays: list[pa.Array] = []
        fields: list[pa.Field] = []
        for field in HEADER:
            values = columns.get(field.name, defaults.get(field.name))
            arrays.append(pa.nulls(n_rows, field.type) if values is None else _column(field.name, values, field.type))
            fields.append(field)
        known = schema.attributes
        for name, values in columns.items():
            if name in HEADER.names:
                continue
            if name == SKEW.name:
                skews = _column(name, values, SKEW.type)
                if pc.any(pc.not_equal(skews, 0)).as_py():
                    arrays.append(skews)
                    fields.append(SKEW)
                continue
            if name not in known:
                raise EventError(f"no event type has the attribute {name!r}; known: {', '.join(sorted(known))}")
            arrays.append(_column(name, values, known[name].arrow))
            fields.append(pa.field(name, known[name].arrow))
        batch = cls(pa.Table.from_arrays(arrays, schema=pa.schema(fields)))
        batch.validate()
        return batch

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]], schema: EventSchema) -> EventBatch:
        """Build from one mapping per event (for parsers of small files and for tests, not for hot paths)."""
        if not rows:
            return cls.empty()
        names = [n for n in (*HEADER_NAMES, *schema.attributes) if any(n in row for row in rows)]
        unknown = {n for row in rows for n in row} - set(names)
        if unknown:
            raise EventError(f"no event type has the attribute(s) {sorted(unknown)}")
        columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in names}
        if "t_hi_ms" in columns:
            columns["t_hi_ms"] = [row["t_lo_ms"] if row.get("t_hi_ms") is None else row["t_hi_ms"] for row in rows]
        return cls.from_columns(columns, schema)

    @classmethod
    def concat(cls, batches: Iterable[EventBatch]) -> EventBatch:
        """One batch with the rows of all, in their order; attribute columns are united."""
        given = [batch for batch in batches if len(batch)]
        if len(given) <= 1:
            return given[0] if given else cls.empty()
        tables = [batch.table for batch in given]
        joined = pa.concat_tables(tables, promote_options="default")
        # A few pieces are put together column by column when one is read: most are never.
        return cls(joined if len(tables) <= _FEW and _n_chunks(joined) <= _FEW else joined.combine_chunks())

    def validate(self) -> None:
        """Raise EventError for the first event whose header is null; what its times are is for `engine.admission`."""
        for name in ("event_id", "type", "t_lo_ms", "t_hi_ms"):
            if self.table.column(name).null_count:
                row = int(np.flatnonzero(self.table.column(name).is_null().to_numpy())[0])
                raise EventError(f"event in row {row}: {name} is missing")

    @cached_property
    def t_lo_ms(self) -> Int64Array:
        """Earliest possible times, shape (n,)."""
        return self._int64("t_lo_ms")

    @cached_property
    def t_hi_ms(self) -> Int64Array:
        """Latest possible times, inclusive, shape (n,)."""
        return self._int64("t_hi_ms")

    @cached_property
    def is_precise(self) -> bool:
        """Whether no event's time is an interval."""
        lo_ms, hi_ms = self.t_lo_ms, self.t_hi_ms
        return lo_ms.ctypes.data == hi_ms.ctypes.data or bool(np.array_equal(lo_ms, hi_ms))

    @cached_property
    def is_ascending(self) -> bool:
        """Whether each event has a later `t_lo_ms` than the one before it."""
        return bool((self.t_lo_ms[1:] > self.t_lo_ms[:-1]).all())

    @cached_property
    def skew_ms(self) -> Int64Array | None:
        """Bounds of the clocks' offsets, shape (n,); None when no event has any."""
        if not self.has(SKEW.name) or self.table.column(SKEW.name).null_count == len(self):
            return None
        skew_ms = np.asarray(_whole(self.table.column(SKEW.name)).fill_null(0).to_numpy(zero_copy_only=False))
        return skew_ms if skew_ms.any() else None

    @property
    def source_seq(self) -> Int64Array:
        """Place of each record in its logical source, shape (n,)."""
        return self._int64("source_seq")

    @property
    def source_rank(self) -> Int64Array:
        """Rank of each record's logical source, shape (n,)."""
        return self._int64("source_rank")

    def has(self, name: str) -> bool:
        """True when there is a column of this name."""
        return name in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.table.column_names)

    def numbers(self, name: str) -> Float64Array:
        """A numeric attribute as doubles, shape (n,); NaN where it is null or the batch has no such column."""
        if not self.has(name):
            return np.full(len(self), np.nan)
        column = _whole(self.table.column(name))
        if pa.types.is_integer(column.type):
            biggest = pc.max(pc.abs_checked(column)).as_py()
            if biggest is not None and biggest > MAX_EXACT_INT:
                raise EventError(f"attribute {name}: {biggest} is beyond 2^53 and would not be compared exactly")
        return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)

    def whole_numbers(self, name: str) -> Int64Array | None:
        """An attribute of whole numbers without nulls as it is stored, shape (n,); None for another."""
        if not self.has(name):
            return None
        column = _whole(self.table.column(name))
        return None if column.null_count or not pa.types.is_int64(column.type) else column.to_numpy()

    def gappy_whole_numbers(self, name: str) -> tuple[Int64Array, npt.NDArray[np.uint8], int] | None:
        """An attribute of whole numbers with nulls as it is stored, shape (n,), and the bits that say which are none,
        from the given bit on; None for another."""
        if not self.has(name):
            return None
        column = _whole(self.table.column(name))
        if not column.null_count or not pa.types.is_int64(column.type):
            return None
        bits, values = column.buffers()
        stored = np.frombuffer(values, np.int64)[column.offset : column.offset + len(column)]
        given = np.frombuffer(bits, np.uint8)
        stored.flags.writeable = given.flags.writeable = False  # kernels are compiled for arrays that are not
        return stored, given, column.offset

    def strings(self, name: str) -> pa.Array:
        """A string column as an Arrow array of length n (nulls where the batch has no such column)."""
        if not self.has(name):
            return pa.nulls(len(self), pa.string())
        return _whole(self.table.column(name))

    def take(self, rows: Int64Array) -> EventBatch:
        """The events of these row numbers, in that order."""
        return EventBatch(self.table.take(pa.array(rows, pa.int64())))

    def where(self, mask: BoolArray) -> EventBatch:
        """The events whose mask is True."""
        if mask.all():
            return self
        return EventBatch(self.table.filter(pa.array(mask)) if mask.any() else self.table.schema.empty_table())

    def parted(self, watermark_ms: int) -> tuple[EventBatch, EventBatch]:
        """The events before the watermark in stream order, and those that wait for a later one."""
        if not self._is_sorted():
            ready = self.t_lo_ms < watermark_ms
            return self.where(ready).sorted(), self.where(~ready)
        n_ready = int(np.searchsorted(self.t_lo_ms, watermark_ms))
        if n_ready == len(self):
            return self, EventBatch.empty()
        return EventBatch(self.table.slice(0, n_ready)), EventBatch(self.table.slice(n_ready))

    def of_types(self, names: Iterable[str]) -> EventBatch:
        """The events whose type is one of `names`."""
        wanted = pc.is_in(self.table.column("type"), value_set=pa.array(sorted(names), pa.string()))
        return EventBatch(self.table.filter(wanted))

    def sorted(self) -> EventBatch:
        """Stream order: t_lo_ms, source_rank, source_seq, then event_id so that the order is total."""
        if self._is_sorted():
            return self
        keys = [(name, "ascending") for name in ("t_lo_ms", "source_rank", "source_seq", "event_id")]
        return EventBatch(self.table.sort_by(keys))

    def _is_sorted(self) -> bool:
        """Whether the rows are known to stand in stream order, ids not looked at."""
        if self.is_ascending:
            return True
        tied: BoolArray | None = None  # None: all are
        for name in ("t_lo_ms", "source_rank", "source_seq"):
            values = _whole(self.table.column(name)).to_numpy(zero_copy_only=False)
            if values[0] == values[-1] and (values == values[0]).all():
                continue
            if tied is not None and (values[1:] > values[:-1]).all():
                return True
            falls, equal = values[1:] < values[:-1], values[1:] == values[:-1]
            if tied is not None:
                falls &= tied
                equal &= tied
            if falls.any():
                return False
            if not equal.any():
                return True
            tied = equal
        return False

    def rows(self) -> Iterator[dict[str, Any]]:
        """One mapping per event without its nulls (for evidence and messages, not for hot paths)."""
        for row in self.table.to_pylist():
            yield {name: value for name, value in row.items() if value is not None}

    def _int64(self, name: str) -> Int64Array:
        column = _whole(self.table.column(name))
        if not pa.types.is_int64(column.type):
            column = column.cast(pa.int64())
        return np.asarray(column.to_numpy(zero_copy_only=False))


@cache
def _no_events() -> pa.Table:
    """Made once, as it takes as long as filtering a small batch, and when it is needed: Arrow imports pandas for it."""
    return HEADER.empty_table()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece; one that is so already is not copied."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _n_chunks(table: pa.Table) -> int:
    return max((column.num_chunks for column in table.columns), default=0)


def _column(name: str, values: Any, arrow_type: pa.DataType) -> pa.Array:
    try:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if isinstance(values, pa.Array):
            return values.cast(arrow_type)
        return pa.array(values, arrow_type, from_pandas=isinstance(values, np.ndarray))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise EventError(f"column {name}: expected {arrow_type} values: {error}") from error
    except UnicodeEncodeError as error:
        raise EventError(f"column {name}: {error.object!a} is no Unicode text; remove the lone surrogate") from None


__all__ = [
    "FOREVER_MS",
    "HEADER",
    "HEADER_NAMES",
    "MAX_EXACT_INT",
    "SKEW",
    "TIME_ATTRIBUTE",
    "AttributeType",
    "BoolArray",
    "EventBatch",
    "EventSchema",
    "Float64Array",
    "Int64Array",
    "Value",
    "lone_surrogate",
]
