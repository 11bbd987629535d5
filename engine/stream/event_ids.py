"""Event ids by row, kept as Arrow, looked up in their batch when they are asked for."""

from __future__ import annotations

from weakref import ref

import numpy as np
import pyarrow as pa

from engine.events import Int64Array
from engine.stream.values import texts_at

_MOST_BATCHES = 16
"""Batches whose ids may be held for the sake of a few of their events."""

_MOST_CHUNKS = 32
"""Parts of a column that are looked through one by one; more are put together first, which copies all of them."""

_FEW = 4
"""Ids of which a batch has so many times more are looked up rather than hold the batch."""

_NO_ROWS: Int64Array = np.empty(0, np.int64)


def are_few(n: int, n_events: int) -> bool:
    """Whether a batch of so many events would be held for the sake of a small part of them."""
    return _FEW * n < n_events


class _Chosen:
    """Ids of some rows of a batch that are looked up when they are asked for, once for all that hold them."""

    def __init__(self, ids: pa.Array, rows: Int64Array, n_events: int) -> None:
        self._of_batch = ids, rows
        self._n = len(rows)
        self._are_few = are_few(self._n, n_events)
        self._found: pa.Array | None = None

    def __len__(self) -> int:
        return self._n

    def some(self, positions: Int64Array) -> pa.Array:
        """The ids at some positions."""
        if self._found is not None:
            return texts_at(self._found, positions)
        ids, rows = self._of_batch
        return texts_at(ids, rows[positions])

    def array(self) -> pa.Array:
        """The ids."""
        found = self._found
        if found is None:
            ids, rows = self._of_batch
            found = self._found = texts_at(ids, rows)
            self._of_batch = found, _NO_ROWS  # the batch is not held any longer
        return found

    def hold_little(self) -> None:
        """Others will hold these ids for as long as they like: they are looked up if they are few of their batch."""
        if self._are_few:
            self.array()


class IdColumn:
    """Event ids by row, kept as Arrow so that no Python string per event is made until one is asked for."""

    def __init__(self, ids: pa.Array | None = None) -> None:
        self._chunks: list[pa.Array | _Chosen] = [] if ids is None else [ids]
        self._n = 0 if ids is None else len(ids)
        self._n_chosen = 0
        self._column: pa.ChunkedArray | None = None
        self._copies: list[ref[IdColumn]] = []

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, row: int) -> str:
        return str(self.whole()[int(row)].as_py())

    def of(self, rows: Int64Array) -> tuple[str, ...]:
        """The ids of these rows, in their order."""
        return tuple(self.whole().take(pa.array(rows, pa.int64())).to_pylist())

    def between(self, first: int, end: int) -> pa.Array:
        """The ids of the rows [first, end), looked for from the newest ones on."""
        parts: list[pa.Array] = []
        chunk_end = self._n
        for chunk in reversed(self._chunks):
            begin = chunk_end - len(chunk)
            if begin < end:
                ids = chunk.array() if isinstance(chunk, _Chosen) else chunk
                low, high = max(first - begin, 0), min(end, chunk_end) - begin
                parts.append(ids if high - low == len(ids) else ids.slice(low, high - low))
            if begin <= first:
                break
            chunk_end = begin
        if len(parts) == 1:
            return parts[0]
        return pa.concat_arrays(parts[::-1]) if parts else pa.array([], pa.string())

    def append(self, ids: pa.Array) -> None:
        """Add the ids of a batch."""
        self._add(ids)

    def append_chosen(self, ids: pa.Array, rows: Int64Array, n_events: int) -> None:
        """Add the ids of these rows of a batch, which are looked up only if they are needed.

        n_events: of how many events they have been chosen, in a thread's share of the batch those of the share.
        """
        if self._n_chosen == _MOST_BATCHES:
            self._look_up()
        self._n_chosen += 1
        self._add(_Chosen(ids, rows, n_events))

    def take(self, rows: Int64Array) -> IdColumn:
        """The ids of these rows, in their order."""
        return IdColumn(self.whole().take(pa.array(rows, pa.int64())).combine_chunks())

    def array(self) -> pa.Array:
        """All ids."""
        return self.whole().combine_chunks()

    def as_it_is(self) -> IdColumn:
        """The same ids; later additions to this column do not change it. Nobody adds to what is returned."""
        latest = self._copies[-1]() if self._copies else None
        if latest is not None and latest._n == self._n:  # of queries that share events the one before has it
            return latest
        found = IdColumn()
        found._chunks, found._n, found._n_chosen = self._chunks.copy(), self._n, self._n_chosen
        found._column = self._column
        self._copies = [copy for copy in self._copies if copy() is not None]
        self._copies.append(ref(found))
        return found

    def keep(self, rows: Int64Array) -> IdColumn:
        """The ids of these rows, ascending, in place of this column: what nobody needs is not looked up."""
        if len(self._chunks) > _MOST_CHUNKS:
            return self.take(rows)
        if self._n_chosen and any(copy() is not None for copy in self._copies):
            for chunk in self._chunks:
                if isinstance(chunk, _Chosen):
                    chunk.hold_little()
        ends = np.cumsum([len(chunk) for chunk in self._chunks])
        bounds = [0, *np.searchsorted(rows, ends).tolist()]
        kept = IdColumn()
        for chunk, end, first, last in zip(self._chunks, ends.tolist(), bounds, bounds[1:], strict=False):
            if first < last:
                own = rows[first:last] - (end - len(chunk))
                kept.append(chunk.some(own) if isinstance(chunk, _Chosen) else chunk.take(pa.array(own)))
        return kept

    def whole(self) -> pa.ChunkedArray:
        """All ids; later additions do not change it."""
        if self._column is None:
            self._look_up()
            if len(self._chunks) > 64:
                self._chunks = [pa.chunked_array(self._chunks).combine_chunks()]
            self._column = pa.chunked_array(self._chunks, pa.string())
        return self._column

    def _add(self, chunk: pa.Array | _Chosen) -> None:
        self._chunks.append(chunk)
        self._n += len(chunk)
        self._column = None

    def _look_up(self) -> None:
        if self._n_chosen:
            self._chunks = [chunk.array() if isinstance(chunk, _Chosen) else chunk for chunk in self._chunks]
            self._n_chosen = 0


__all__ = ["IdColumn", "are_few"]
