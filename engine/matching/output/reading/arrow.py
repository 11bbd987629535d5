"""Rows in bulk, as Arrow: ids of events as lists over one dictionary."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.columns.lists import count_by_step, number_both, span_of, split_by_step
from engine.stream.event_ids import IdColumn
from engine.stream.values import column_of, texts_at

Int32Array = npt.NDArray[np.int32]
IntArray = TypeVar("IntArray", Int32Array, Int64Array)
Numbers = TypeVar("Numbers", np.int32, np.int64, np.float64)

IDS = pa.dictionary(pa.int32(), pa.string())
"""Of the ids in a list: an event may be in millions of matches."""

_LISTS = pa.list_(IDS)
_NO_ROWS: Int64Array = np.empty(0, np.int64)
MOST_IN_LIST = 2**31 - 1
"""Ids in all lists of a column; beyond it the column is one of large lists."""
_FEW_BYTES = 1 << 16
_MOST_CONSTANT = 1 << 20
_MOST_SPAN = 1 << 20
_FEW_TOGETHER = 1 << 12
"""Ids that are put together where they do not lie together, for some of them to be looked up."""
_SPARSE = 16
"""Rows that lie so far apart, in a span as long as that, are sorted rather than marked in it."""


def coded(ids: IdColumn, rows: Int64Array, others: Int64Array = _NO_ROWS) -> tuple[pa.Array, Int32Array, Int32Array]:
    """The ids of the rows in both groups, each once, and for each group (m,) the positions of its rows' ids among them.

    Where so many stand so close together, these are all ids from the first to the last one: nothing is looked up.
    """
    low, high = span_of(rows, others)
    n = len(rows) + len(others)
    if high - low < n:
        codes, other_codes = capacity_for(np.int32, len(rows)), capacity_for(np.int32, len(others))
        np.subtract(rows, low, out=codes, casting="unsafe")  # small: the span is less than the rows
        np.subtract(others, low, out=other_codes, casting="unsafe")
        return ids.between(low, high + 1), codes, other_codes
    if high - low < _MOST_SPAN or high - low < _SPARSE * n:
        number_of = np.full(high - low + 1, -1, np.int32)
        distinct = np.empty(min(len(number_of), n), np.int64)
        codes, other_codes = capacity_for(np.int32, len(rows)), capacity_for(np.int32, len(others))
        distinct = distinct[: number_both(rows, others, low, number_of, codes, other_codes, distinct)]
    else:
        distinct, positions = np.unique(np.concatenate((rows, others)), return_inverse=True)
        codes, other_codes = np.split(positions.astype(np.int32), [len(rows)])
    if high - low < _FEW_TOGETHER:
        return texts_at(ids.between(low, high + 1), distinct - low), codes, other_codes
    whole = ids.whole()
    texts = (whole.chunk(0) if whole.num_chunks == 1 else whole).take(column_of(distinct))
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts, codes, other_codes


def id_lists(dictionary: pa.Array, offsets: Int64Array | Int32Array, codes: Int32Array) -> pa.Array:
    """A list per row: list k has the ids dictionary[codes[offsets[k] : offsets[k + 1]]]."""
    values = _coded_texts(dictionary, codes)
    if offsets[-1] > MOST_IN_LIST:
        return pa.LargeListArray.from_arrays(column_of(offsets), values)
    memory = pa.py_buffer(np.ascontiguousarray(offsets, np.int32))
    return pa.Array.from_buffers(_LISTS, len(offsets) - 1, [None, memory], children=[values])


def id_each(dictionary: pa.Array, codes: Int32Array) -> pa.Array:
    """A list of one id per row: dictionary[codes[k]]."""
    positions = _POSITIONS.memory(len(codes) + 1)
    return pa.Array.from_buffers(_LISTS, len(codes), [None, positions], children=[_coded_texts(dictionary, codes)])


def _coded_texts(dictionary: pa.Array, codes: Int32Array) -> pa.Array:
    memory = pa.py_buffer(np.ascontiguousarray(codes, np.int32))
    return pa.DictionaryArray.from_buffers(IDS, len(codes), [None, memory], dictionary, 0)


def certainty(n: int) -> pa.Array:
    """The confidence of n precise matches: 1 each."""
    return _ONES.first(n)


def capacity_for(kind: type[Numbers], *shape: int) -> npt.NDArray[Numbers]:
    """An array that is to be filled and becomes part of a table: large ones are Arrow's memory, which it uses again,
    where the C library returns it to the system and a page that is written first costs more than what is written."""
    n_bytes = math.prod(shape) * np.dtype(kind).itemsize
    if n_bytes < _FEW_BYTES:
        return np.empty(shape, kind)
    return np.frombuffer(pa.allocate_buffer(n_bytes), kind).reshape(shape)


class _Constant:
    """A column of which every block has the beginning: made once, and anew when a longer one is asked for."""

    def __init__(self, kind: pa.DataType, make: Callable[[int], Int32Array | Float64Array]) -> None:
        self._kind = kind
        self._make = make
        self._made = 0, pa.py_buffer(make(0))

    def memory(self, n: int) -> pa.Buffer:
        """What holds n entries and perhaps more."""
        length, memory = self._made
        if length < n:
            length = max(n, min(2 * n, _MOST_CONSTANT))
            memory = pa.py_buffer(self._make(length))
            if length <= _MOST_CONSTANT:
                self._made = length, memory
        return memory

    def first(self, n: int) -> pa.Array:
        """n entries."""
        return pa.Array.from_buffers(self._kind, n, [None, self.memory(n)], 0)


_POSITIONS = _Constant(pa.int32(), lambda n: np.arange(n, dtype=np.int32))
_ONES = _Constant(pa.float64(), np.ones)


def lists_by_step(
    dictionary: pa.Array, names: Sequence[str], bounds: Int64Array, steps: Int64Array, codes: Int32Array
) -> pa.Array:
    """Bindings as a struct of lists, from matches event by event.

    names: by component. bounds: int64 (n + 1,), the events of match k are those of bounds[k] : bounds[k + 1]; steps:
    int64 (m,), their components; codes: int32 (m,).
    """
    n_steps = len(names)
    offsets = np.empty((n_steps, len(bounds)), np.int64)
    count_by_step(bounds, steps, offsets)
    ends = np.cumsum(offsets[:, -1])
    starts = ends - offsets[:, -1]
    split = np.empty(len(codes), np.int32)
    split_by_step(bounds, steps, codes, offsets, starts, np.empty(n_steps, np.int64), split)
    arrays = [id_lists(dictionary, offsets[k], split[starts[k] : ends[k]]) for k in range(n_steps)]
    return pa.StructArray.from_arrays(arrays, list(names))


def steps_around(offsets: Int64Array, kleene: int, n_steps: int) -> Int64Array:
    """The component of each event of matches of which one component alone has several: int64 (offsets[-1],)."""
    of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    from_begin = np.arange(offsets[-1]) - offsets[of]
    from_end = offsets[of + 1] - 1 - np.arange(offsets[-1])
    after = n_steps - 1 - kleene
    steps = np.where(from_begin < kleene, from_begin, kleene)
    found: Int64Array = np.where(from_end < after, n_steps - 1 - from_end, steps)
    return found


def ranges(starts: Int64Array, ends: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Ranges one after the other: where each begins, int64 (n + 1,), and all their numbers."""
    lengths = ends - starts
    bounds = np.append(0, np.cumsum(lengths))
    return bounds, np.arange(bounds[-1]) + np.repeat(starts - bounds[:-1], lengths)


def with_ends(
    first: IntArray, last: IntArray, is_one: BoolArray, bounds: Int64Array, between: IntArray
) -> tuple[Int64Array, IntArray]:
    """The numbers between the ends of pairs with those of the ends: their bounds, int64 (n + 1,), and numbers.

    first, last: (n,); is_one: bool (n,), the two are the same event. bounds: int64 (n + 1,) into `between`.
    """
    n_ends = np.where(is_one, 1, 2)
    own = np.append(0, np.cumsum(np.diff(bounds) + n_ends))
    codes = np.empty(own[-1], between.dtype)
    is_between = np.ones(len(codes), np.bool_)
    codes[own[:-1]], codes[own[1:] - 1] = first, last
    is_between[own[:-1]] = is_between[own[1:] - 1] = False
    codes[is_between] = between
    return own, codes


def encoded(array: pa.Array) -> pa.Array:
    """Ids, in lists however deep and in structs of them, over dictionaries: of one type with `id_lists`."""
    return array.cast(_encoded(array.type))


def _encoded(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_encoded(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_encoded(kind.value_type))
    return IDS if pa.types.is_string(kind) else kind


def table_of(
    columns: Mapping[str, pa.Array],
    *,
    counts: Int64Array | None = None,
    complete: BoolArray | None = None,
    candidates: pa.Array | None = None,
    exact: BoolArray | None = None,
) -> pa.Table:
    """The columns of `rows.rows_table`, with what rows that stand for several matches have besides."""
    found = dict(columns)
    if counts is not None and complete is not None:
        if candidates is not None or (counts != 1).any() or not complete.all():
            found |= {"count": column_of(counts), "count_exact": pa.array(complete)}
        if candidates is not None:
            found |= {"candidates": candidates, "exact": pa.array(exact)}
        if not complete.all():
            found["capped"] = pa.array(~complete)
    return pa.table(found)


__all__ = [
    "IDS",
    "coded",
    "encoded",
    "id_lists",
    "lists_by_step",
    "ranges",
    "steps_around",
    "table_of",
    "with_ends",
]
