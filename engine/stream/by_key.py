"""A batch divided among threads by the keys of its events.

Each thread finds the rows of its own partitions and reads of them what it needs where Arrow keeps it. Only keys that
are not stored as one column of whole numbers are decoded for all of them together: all else is done side by side. Where
the keys are stored so, dividing begins before it is known whether the batch is evaluated as it came: the other threads
divide it while the calling thread looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import partial
from typing import NamedTuple

import numpy as np

from engine.events import MAX_EXACT_INT, TIME_ATTRIBUTE, AttributeType, BoolArray, Float64Array, Int64Array
from engine.kernels.columns.shares import rows_of_shard, widen_rows
from engine.stream.buffers import own_pool
from engine.stream.columns import ShardColumns, StreamColumns


class Share(ShardColumns):
    """The rows of a batch whose keys hash to one of several shards, and those without all of the key."""

    def __init__(
        self, whole: StreamColumns, key: tuple[str, ...], kinds: Mapping[str, AttributeType], number: int, n_shares: int
    ) -> None:
        keys = keys_of(whole, key, kinds)
        own = rows_of(keys, number, n_shares, whole.t_lo_ms)
        super().__init__(whole, own.rows, own.t_ms)
        are_stored = keys.dtype == np.int64
        if are_stored and own.greatest >= MAX_EXACT_INT:
            whole.batch.numbers(key[0])  # refuses what is greater, with the value
        self._own_keys = own.keys
        self._columns.update(zip(key, own.keys, strict=True))
        self._complete.update(name for name in key if are_stored or whole.is_complete(name))
        # Rows that are in every share are counted in the first.
        self._is_counted_elsewhere = number > 0 and len(self._complete) < len(key)

    def _names(self) -> tuple[str, ...]:
        if self._types is None:
            found = self._whole.type_texts.numbered(self._rows, own_pool().codes(len(self)))
            self._type_codes, self._type_counts = found.numbers, found.counts
            if self._is_counted_elsewhere:
                self._type_counts = np.bincount(self._type_codes[self._counted()], minlength=len(found.texts))
            self._types = found.texts
        return self._types

    def _counted(self) -> BoolArray:
        counted: BoolArray = np.asarray(~np.isnan(self._own_keys).any(axis=0))
        return counted if self._is_counted_elsewhere else super()._counted()

    def _doubles(self, *shape: int) -> Float64Array:
        return own_pool().doubles(*shape)

    def _decode(self, name: str, kind: AttributeType, into: Float64Array) -> None:
        batch = self._whole.batch
        is_stored = kind is not AttributeType.STRING and name != TIME_ATTRIBUTE
        if is_stored and (values := batch.whole_numbers(name)) is not None:
            self._complete.add(name)
            low, high = widen_rows(values, self._rows, into)
            if max(-low, high) > MAX_EXACT_INT:
                batch.numbers(name)  # refuses it, with the value
        else:
            super()._decode(name, kind, into)


def shares_of(
    stream: StreamColumns, key: tuple[str, ...], kinds: Mapping[str, AttributeType], number: int, n_shares: int
) -> StreamColumns:
    """The share of this number, made by the thread that asks first: the same for all queries with this key.

    Two threads may not ask for the same number at once, unless one of them does so by `begin_shares`.
    """
    begun = stream.begun.pop((key, n_shares, number), None)
    if begun is not None and not begun.cancel():
        wait((begun,))  # what has gone wrong there goes wrong once more, and is told, below
    return _share_of(stream, key, kinds, number, n_shares)


def begin_shares(
    stream: StreamColumns,
    key: tuple[str, ...],
    kinds: Mapping[str, AttributeType],
    n_shares: int,
    submit: Callable[[Callable[[], object]], Future[object]],
) -> None:
    """Have other threads make all shares but the first before it is known whether they will be asked for.

    The first is that of the calling thread, which has something else to do until then. Only by a column of whole
    numbers: reading it leaves no trace, the codes of strings stay.
    """
    if (key, n_shares, 1) in stream.begun or _stored_keys(stream, key, kinds) is None:
        return
    for number in range(1, n_shares):
        stream.begun[key, n_shares, number] = submit(partial(_share_of, stream, key, kinds, number, n_shares))


def _share_of(
    stream: StreamColumns, key: tuple[str, ...], kinds: Mapping[str, AttributeType], number: int, n_shares: int
) -> StreamColumns:
    parts = stream.parts.setdefault((key, n_shares), [None] * n_shares)
    found = parts[number]
    if found is None:
        found = parts[number] = Share(stream, key, kinds, number, n_shares)
    return found


def keys_of(
    stream: StreamColumns, key: tuple[str, ...], kinds: Mapping[str, AttributeType]
) -> Float64Array | Int64Array:
    """The keys of all events, (width, n): as they are stored where that is one column of whole numbers without gaps,
    which are decoded, and checked, where they are compared."""
    stored = _stored_keys(stream, key, kinds)
    return stream.stacked(key, kinds) if stored is None else stored[np.newaxis]


def _stored_keys(stream: StreamColumns, key: tuple[str, ...], kinds: Mapping[str, AttributeType]) -> Int64Array | None:
    if len(key) != 1 or key[0] == TIME_ATTRIBUTE or kinds[key[0]] is AttributeType.STRING:
        return None
    return stream.batch.whole_numbers(key[0])


class OwnRows(NamedTuple):
    """Rows of a batch, int64 (n,), ascending; their times and keys, float64 (width, n); the greatest absolute value of
    all keys of the batch, NaN where one is absent."""

    rows: Int64Array
    t_ms: Int64Array
    keys: Float64Array
    greatest: float


def rows_of(keys: Float64Array | Int64Array, number: int, n_shares: int, t_ms: Int64Array) -> OwnRows:
    """The rows whose key, (width, n), hashes to a shard, and those without all of it; `t_ms`: the times of all.

    Equal keys have the same shard in every batch and process.
    """
    width, n = keys.shape
    pool = own_pool()
    rows, times, own = pool.integers(n), pool.integers(n), pool.doubles(width, n)
    with np.errstate(over="ignore"):  # products modulo 2**64
        n_rows, greatest = rows_of_shard(keys, number, n_shares, t_ms, rows, times, own)
    return OwnRows(rows[:n_rows], times[:n_rows], own[:, :n_rows], float(np.uint64(greatest).view(np.float64)))


__all__ = ["OwnRows", "Share", "begin_shares", "keys_of", "rows_of", "shares_of"]
