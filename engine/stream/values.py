"""Doubles as the values that they stand for: one by one, and whole columns as Arrow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.events import AttributeType, Float64Array, Int64Array, Value
from engine.kernels.columns.lists import number_rows
from engine.kernels.columns.partitions import BROADCAST
from engine.stream.interner import KnownTexts

_BEYOND_INT64 = 2.0**63


def typed_value(strings: KnownTexts, number: float, kind: AttributeType) -> Value:
    """A double as the value of its type that it stands for; None for NULL, and for a result beyond all doubles."""
    if not np.isfinite(number):
        return None
    if kind is AttributeType.STRING:
        return strings.text(int(number))
    return int(number) if kind is AttributeType.INT else float(number)


def keys_as_arrow(
    names: Sequence[str], kinds: Sequence[AttributeType], strings: KnownTexts, keys: Int64Array, partitions: Int64Array
) -> pa.Array:
    """The keys of these partitions, (n,), as a struct with a field per attribute; keys: their bits by partition."""
    if not names or not len(partitions):
        return numbers_as_arrow(names, kinds, strings, np.empty((len(partitions), len(names))))
    low = int(partitions.min())
    number_of = np.full(int(partitions.max()) - low + 1, -1, np.int32)
    codes, distinct = np.empty(len(partitions), np.int32), np.empty(len(number_of), np.int64)
    n = number_rows(partitions, low, number_of, codes, distinct, 0)
    numbers = keys[distinct[:n]].view(np.float64)
    numbers[distinct[:n] == BROADCAST] = np.nan
    own = numbers_as_arrow(names, kinds, strings, numbers)
    return own.take(pa.array(codes))


def numbers_as_arrow(
    names: Sequence[str], kinds: Sequence[AttributeType], strings: KnownTexts, numbers: Float64Array
) -> pa.Array:
    """Doubles (n, width) as what they stand for: a struct with a field per name. NULL is not finite."""
    if not names:
        return pa.Array.from_buffers(pa.struct([]), len(numbers), [None])
    arrays = [_typed(strings, np.ascontiguousarray(numbers[:, k]), kind) for k, kind in enumerate(kinds)]
    return pa.StructArray.from_arrays(arrays, list(names))


def _typed(strings: KnownTexts, numbers: Float64Array, kind: AttributeType) -> pa.Array:
    known = np.isfinite(numbers)
    null = None if known.all() else ~known
    if kind is AttributeType.FLOAT:
        return pa.array(numbers, mask=null)
    if kind is AttributeType.STRING:
        codes, places = np.unique(np.where(known, numbers, -1.0), return_inverse=True)
        texts = [typed_value(strings, code, kind) if code >= 0 else None for code in codes.tolist()]
        return pa.array(texts, pa.string()).take(pa.array(places))
    if (np.abs(numbers, where=known, out=np.zeros_like(numbers)) >= _BEYOND_INT64).any():
        return pa.array([typed_value(strings, number, kind) for number in numbers.tolist()], kind.arrow)
    return pa.array(np.where(known, numbers, 0.0).astype(np.int64), mask=null)


__all__ = ["keys_as_arrow", "numbers_as_arrow", "typed_value"]
