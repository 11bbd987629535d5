"""A batch of precise events divided among threads by time: each takes some consecutive rows.

A match belongs to the slice in which it begins. The events that decide it are at most a window later, so that each
slice but the last is followed by those of the window after it, with which no match of the slice begins.
"""

from __future__ import annotations

import numpy as np

from engine.events import AttributeType, EventBatch, Float64Array, Int64Array
from engine.kernels.compile.types import Int32Array
from engine.stream.buffers import own_pool
from engine.stream.columns import StreamColumns
from engine.stream.cuts import Cut, Cuts, cut


def cuts_of(stream: StreamColumns, within_ms: int, n_slices: int) -> Cuts:
    """So many slices for a window, or fewer, see `cut`; found once for all queries."""
    found = stream.cuts.get((within_ms, n_slices))
    if found is None:
        slices = tuple(cut(stream.t_lo_ms, within_ms, n_slices))
        found = stream.cuts[within_ms, n_slices] = Cuts(
            slices, sum(one.end - one.start for one in slices) - len(stream)
        )
    return found


class SliceColumns(StreamColumns):
    """The rows of a cut as a stream of its own. Strings, whose codes all have in common, are decoded with the batch."""

    def __init__(self, whole: StreamColumns, cut: Cut) -> None:
        super().__init__(EventBatch(whole.batch.table.slice(cut.start, cut.end - cut.start)), whole.interner)
        self._whole = whole
        self._rows = slice(cut.start, cut.end)
        self._precise = whole.is_precise or None
        self.n_begin = cut.n_begin

    @property
    def clocks(self) -> Int64Array:
        """See `StreamColumns`."""
        if self._clocks is None:
            self._clocks = self._whole.clocks[self._rows]
        return self._clocks

    def _has_no_clocks(self) -> bool:
        return self._whole._has_no_clocks()

    def _names(self) -> tuple[str, ...]:
        if self._types is None:
            names = super()._names()
            # Rows that begin no match here are counted where they do.
            elsewhere = np.bincount(self._type_codes[self.n_begin :], minlength=len(names))
            self._type_counts = self._type_counts - elsewhere
        return super()._names()

    def _codes(self) -> Int32Array:
        return own_pool().codes(len(self))

    def _doubles(self, *shape: int) -> Float64Array:
        return own_pool().doubles(*shape)

    def _decode(self, name: str, kind: AttributeType, into: Float64Array) -> None:
        if kind is AttributeType.STRING:
            into[:] = self._whole.column(name, kind)[self._rows]
        else:
            super()._decode(name, kind, into)


def slice_of(stream: StreamColumns, cuts: tuple[Cut, ...], number: int) -> StreamColumns:
    """The slice of this number, made by the thread that asks first: the same for all queries with these cuts.

    Two threads may not ask for the same number at once.
    """
    parts = stream.parts.setdefault(cuts, [None] * len(cuts))
    found = parts[number]
    if found is None:
        found = parts[number] = SliceColumns(stream, cuts[number])
    return found


__all__ = ["SliceColumns", "cuts_of", "slice_of"]
