"""One batch of the stream, decoded once for all queries of an engine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from engine.events import TIME_ATTRIBUTE, AttributeType, EventBatch, Float64Array, Int64Array
from engine.language import ast
from engine.matching.interner import Interner


class StreamColumns:
    """The columns of a batch as kernels take them; each is decoded when it is first asked for, and then shared.

    Rows are the batch's; strings are codes of the engine's interner, numbers doubles, NULL is NaN.
    """

    def __init__(self, batch: EventBatch, interner: Interner) -> None:
        self.batch = batch
        self.interner = interner
        self.t_lo_ms: Int64Array = batch.t_lo_ms
        self.t_hi_ms: Int64Array = batch.t_hi_ms
        self.chosen: dict[tuple[str, tuple[ast.Expression, ...]], Int64Array] = {}
        """Rows by event type and local predicates, see `engine.matching.early_filter`."""
        self._columns: dict[str, Float64Array] = {}
        self._clocks: Int64Array | None = None
        self._rows_of_type: Mapping[str, Int64Array] | None = None

    def __len__(self) -> int:
        return len(self.t_lo_ms)

    @property
    def source_seq(self) -> Int64Array:
        """Place of each record in its logical source, (n,)."""
        return self.batch.source_seq

    @property
    def event_ids(self) -> pa.Array:
        """The ids as an Arrow array."""
        return self.batch.strings("event_id")

    @property
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

    def rows_of_type(self, event_type: str) -> Int64Array:
        """Row numbers of the events of a type, in order."""
        if self._rows_of_type is None:
            self._rows_of_type = _rows_by_value(self.batch.strings("type"))
        return self._rows_of_type.get(event_type, _NO_ROWS)

    def column(self, name: str, kind: AttributeType) -> Float64Array:
        """An attribute of all rows as doubles, (n,); NaN where it is absent."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._decode(name, kind)
        return found

    def _decode(self, name: str, kind: AttributeType) -> Float64Array:
        if name == TIME_ATTRIBUTE:
            return self.t_hi_ms.astype(np.float64)
        if kind is AttributeType.STRING:
            return self.interner.encode(self.batch.strings(name))
        return self.batch.numbers(name)


_NO_ROWS: Int64Array = np.empty(0, np.int64)


def _rows_by_value(column: pa.Array) -> dict[str, Int64Array]:
    encoded = column.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        return {names[0]: np.arange(len(column), dtype=np.int64)}
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False))
    return {name: np.flatnonzero(codes == code) for code, name in enumerate(names)}
