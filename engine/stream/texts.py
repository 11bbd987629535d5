"""Numbers for the few distinct strings of a column, read where Arrow keeps them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.events import Int64Array
from engine.kernels.columns.shares import number_texts
from engine.kernels.compile.types import Int32Array

_MOST = 512
"""Distinct strings; a column with more of them is left to Arrow."""
_WORD = 8
_ALL: Int64Array = np.empty(0, np.int64)
_MASKS = np.array([(1 << 8 * n_bytes) - 1 for n_bytes in range(_WORD + 1)], np.uint64)


class Numbered(NamedTuple):
    """The distinct strings of some rows, how many rows each has, int64 (n_texts,), and the number of each row's own,
    int32 (n,)."""

    texts: tuple[str, ...]
    counts: Int64Array
    numbers: Int32Array


class Texts:
    """A string column without nulls, for several threads to number some of its rows each."""

    def __init__(self, column: pa.Array) -> None:
        self._column = column
        self._offsets: npt.NDArray[np.int32] | None = None
        if column.type == pa.string() and not column.null_count and len(column):
            _, offsets, data = column.buffers()
            self._offsets = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
            begin, end = int(self._offsets[0]), int(self._offsets[-1])
            self._words = np.zeros((end - begin) // _WORD + 2, np.uint64)  # the kernel reads a word too many
            if data is not None:
                self._words.view(np.uint8)[: end - begin] = np.frombuffer(data, np.uint8)[begin:end]
            self._base = begin

    def __len__(self) -> int:
        return len(self._column)

    def numbered(self, rows: Int64Array | None, numbers: Int32Array) -> Numbered:
        """The strings of these rows, None: of all. `numbers`: where theirs may be written, (n,)."""
        firsts, counts = np.empty((2, _MOST), np.int64)
        n_texts = -1
        if self._offsets is not None and len(numbers):
            slots = np.full(2 * _MOST, -1, np.int64)
            chosen = _ALL if rows is None else rows
            n_texts = number_texts(
                self._offsets, self._base, self._words, _MASKS, chosen, slots, firsts, counts, numbers
            )
        if n_texts >= 0:
            texts = tuple(self._column.take(pa.array(firsts[:n_texts])).to_pylist())
            return Numbered(texts, counts[:n_texts], numbers)
        encoded = (self._column if rows is None else self._column.take(pa.array(rows))).dictionary_encode()
        numbers = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int32)
        return Numbered(tuple(encoded.dictionary.to_pylist()), np.bincount(numbers), numbers)


__all__ = ["Numbered", "Texts"]
