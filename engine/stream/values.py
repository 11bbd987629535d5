"""Doubles as the values that they stand for: one by one, and whole columns as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.events import AttributeType, Float64Array, Int64Array, Value
from engine.kernels.columns.gathered import begin_texts, copy_texts
from engine.kernels.columns.lists import number_rows, whole_numbers
from engine.kernels.columns.partitions import BROADCAST
from engine.stream.interner import KnownTexts

_BEYOND_INT64 = 2.0**63
_MOST_INT64 = 2**63 - 1
_MOST_SPAN = 1 << 20
_ARROW_TYPES = {
    np.dtype(kind).char: arrow
    for kind, arrow in ((np.int32, pa.int32()), (np.int64, pa.int64()), (np.float64, pa.float64()))
}
IntArray = npt.NDArray[np.int32]
_TEXTS_TYPE = pa.string()
_NOTHING = pa.struct([])
_MOST_TEXTS = 2048
_MOST_BYTES = 1 << 15
_NOWHERE = np.zeros(1, np.int32)
_NO_BYTES = np.empty(0, np.uint8)


def typed_value(strings: KnownTexts, number: float, kind: AttributeType) -> Value:
    """A double as the value of its type that it stands for; None for NULL, and for a result beyond all doubles."""
    if not np.isfinite(number):
        return None
    if kind is AttributeType.STRING:
        return strings.text(int(number))
    return int(number) if kind is AttributeType.INT else float(number)


def column_of(numbers: IntArray | Int64Array | Float64Array) -> pa.Array:
    """A column (n,) without NULL; it shares the memory where that lies together. What `pa.array` asks of an array, of
    pandas among others, takes longer than the rows of a small block."""
    memory = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(_ARROW_TYPES[numbers.dtype.char], len(numbers), [None, memory], 0)


def texts_at(texts: pa.Array, rows: Int64Array) -> pa.Array:
    """The texts at these positions, (n,). What `take` does before it begins takes longer than a few short texts do."""
    if texts.null_count or texts.type != _TEXTS_TYPE or len(rows) > _MOST_TEXTS:
        return texts.take(column_of(rows))
    offsets, given = text_memory(texts)
    begins = np.empty(len(rows) + 1, np.int32)
    n_bytes = begin_texts(offsets, rows, begins)
    if n_bytes > _MOST_BYTES:
        return texts.take(column_of(rows))  # a text at a time, in place of a byte
    copied = np.empty(n_bytes, np.uint8)
    copy_texts(offsets, given, rows, begins, copied)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(begins), pa.py_buffer(copied), None, 0)


def text_memory(texts: pa.Array) -> tuple[IntArray, npt.NDArray[np.uint8]]:
    """Where each text begins, and after the last one, int32 (n + 1,), and the bytes, uint8; both read-only."""
    _, begins, given = texts.buffers()
    offsets = np.frombuffer(begins, np.int32, len(texts) + 1, texts.offset * 4) if len(texts) else _NOWHERE
    data = _NO_BYTES if given is None or not given.size else np.frombuffer(given, np.uint8)
    offsets.flags.writeable = data.flags.writeable = False  # kernels are compiled for arrays that are not
    return offsets, data


def keys_as_arrow(
    names: Sequence[str], kinds: Sequence[AttributeType], strings: KnownTexts, keys: Int64Array, partitions: Int64Array
) -> pa.Array:
    """The keys of these partitions, (n,), as a struct with a field per attribute; keys: their bits by partition."""
    if not names or not len(partitions):
        return numbers_as_arrow(names, kinds, strings, np.empty((len(partitions), len(names))))
    numbers = keys.view(np.float64)
    columns = []
    for k, kind in enumerate(kinds):
        ints = np.empty(len(partitions), np.int64)
        if kind is AttributeType.INT and whole_numbers(numbers, partitions, k, ints):
            columns.append(column_of(ints))
        else:
            columns.append(_AS_ARROW[kind](strings, np.where(partitions == BROADCAST, np.nan, numbers[partitions, k])))
    return pa.StructArray.from_arrays(columns, list(names))


def numbers_as_arrow(
    names: Sequence[str], kinds: Sequence[AttributeType], strings: KnownTexts, numbers: Float64Array
) -> pa.Array:
    """Doubles (n, width) as what they stand for: a struct with a field per name. NULL is not finite."""
    if not names:
        return pa.Array.from_buffers(_NOTHING, len(numbers), [None], 0)
    columns = (np.ascontiguousarray(numbers[:, k]) for k in range(len(kinds)))
    return pa.StructArray.from_arrays(
        [_AS_ARROW[kind](strings, column) for kind, column in zip(kinds, columns, strict=True)], list(names)
    )


def _ints(strings: KnownTexts, numbers: Float64Array) -> pa.Array:
    with np.errstate(invalid="ignore"):
        ints = numbers.astype(np.int64)
    if (ints == numbers).all() and ints.max(initial=0) < _MOST_INT64:
        return column_of(ints)
    known = np.isfinite(numbers)
    if (np.abs(numbers[known]) >= _BEYOND_INT64).any():
        return pa.array([typed_value(strings, number, AttributeType.INT) for number in numbers.tolist()], pa.int64())
    return pa.array(np.where(known, ints, 0), mask=~known)


def _floats(_strings: KnownTexts, numbers: Float64Array) -> pa.Array:
    known = np.isfinite(numbers)
    return column_of(numbers) if known.all() else pa.array(numbers, mask=~known)


def _texts(strings: KnownTexts, numbers: Float64Array) -> pa.Array:
    """Each text is looked up once: codes lie close together, as those of one stream are given one after the other."""
    codes = np.where(np.isfinite(numbers), numbers, -1.0).astype(np.int64)
    low = int(codes.min(initial=0))
    span = int(codes.max(initial=0)) - low + 1
    if span <= _MOST_SPAN:
        numbered = np.empty(len(codes), np.int32)
        distinct = np.empty(min(span, len(codes)), np.int64)
        n = number_rows(codes, low, np.full(span, -1, np.int32), numbered, distinct, 0)
        distinct, positions = distinct[:n], column_of(numbered)
    else:
        distinct, inverse = np.unique(codes, return_inverse=True)
        positions = column_of(inverse)
    texts = [None if code < 0 else strings.text(code) for code in distinct.tolist()]
    return pa.array(texts, pa.string()).take(positions)


_OWN: WeakValueDictionary[int, pa.Table] = WeakValueDictionary()
"""Tables that `with_own_memory` has made, by their identity, as long as they are there."""


def with_own_memory(table: pa.Table) -> pa.Table:
    """The same table, which shares no memory with the arrays that it was made of: they may be written again.

    One that was made here is returned as it is.
    """
    if _OWN.get(id(table)) is table:
        return table
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    own = pa.ipc.open_stream(sink.getvalue()).read_all()
    _OWN[id(own)] = own
    return own


_AS_ARROW = {AttributeType.INT: _ints, AttributeType.FLOAT: _floats, AttributeType.STRING: _texts}


__all__ = [
    "column_of",
    "keys_as_arrow",
    "numbers_as_arrow",
    "text_memory",
    "texts_at",
    "typed_value",
    "with_own_memory",
]
