"""A batch divided among threads by the keys of its events.

Each thread finds the rows of its own partitions and reads of them what it needs where Arrow keeps it. Only the key is
decoded for all of them together: everything else is done side by side.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.events import MAX_EXACT_INT, TIME_ATTRIBUTE, AttributeType, Float64Array, Int64Array
from engine.kernels.shares import rows_of_shard, widen_rows
from engine.matching.stream import ShardColumns, StreamColumns


class Share(ShardColumns):
    """The rows of a batch whose keys hash to one of several shards, and those without all of the key."""

    def __init__(
        self, whole: StreamColumns, key: tuple[str, ...], kinds: Mapping[str, AttributeType], number: int, n_shares: int
    ) -> None:
        keys = whole.stacked(key, kinds)
        super().__init__(whole, rows_of(keys, number, n_shares))
        self._keys = keys
        # Rows that are in every share are counted in the first.
        self._is_counted_elsewhere = number > 0 and not all(whole.is_complete(name) for name in key)

    def _names(self) -> tuple[str, ...]:
        if self._types is None:
            found = self._whole.type_texts.numbered(self._rows)
            self._type_codes, self._type_counts = found.numbers, found.counts
            if self._is_counted_elsewhere:
                own = ~np.isnan(self._keys[:, self._rows]).any(axis=0)
                self._type_counts = np.bincount(self._type_codes[own], minlength=len(found.texts))
            self._types = found.texts
        return self._types

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

    Two threads may not ask for the same number at once.
    """
    parts = stream.parts.setdefault((key, n_shares), [None] * n_shares)
    found = parts[number]
    if found is None:
        found = parts[number] = Share(stream, key, kinds, number, n_shares)
    return found


def rows_of(keys: Float64Array, number: int, n_shares: int) -> Int64Array:
    """The rows whose key, float64 (width, n), hashes to a shard, and those without all of it: int64, ascending.

    Equal keys have the same shard in every batch and process.
    """
    rows: Int64Array = np.empty(keys.shape[1], np.int64)
    with np.errstate(over="ignore"):  # products modulo 2**64
        n_rows = rows_of_shard(keys, number, n_shares, rows)
    return rows[:n_rows]


__all__ = ["Share", "rows_of", "shares_of"]
