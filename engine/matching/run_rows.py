"""Matches of completed runs as rows: none is spelled out before it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.events import Int64Array
from engine.matching.listed import ListedMatches
from engine.matching.rows import ChunkedRows, MatchRow
from engine.matching.run_histories import Histories
from engine.matching.store import StoredEvents
from engine.plan.model import Plan


class RunRows(ChunkedRows):
    """The rows of OUTPUT ALL."""

    def __init__(self, plan: Plan, source: StoredEvents, histories: Histories) -> None:
        self._plan = plan
        self._source = source
        self._histories = histories

    def __len__(self) -> int:
        return self._histories.n_matches

    def _part(self, start: int, stop: int) -> Sequence[MatchRow]:
        return RunRows(self._plan, self._source, self._histories.chosen(slice(start, stop)))

    @property
    def n_matches(self) -> int:
        """Each row is one."""
        return len(self)

    @property
    def is_columnar(self) -> bool:
        """Yes."""
        return True

    def to_arrow(self) -> pa.Table:
        """key, first_lo_ms, last_hi_ms, bindings, confidence, values: one row per match; see `rows.rows_table`."""
        histories, source = self._histories, self._source
        listed = histories.listed()
        bounds = self._bounds(listed)
        ids = source.ids.take(pa.array(listed.rows)).combine_chunks()
        bindings = []
        for step in self._plan.steps:
            own = listed.components == step.position
            lengths = bounds[:, step.position + 1] - bounds[:, step.position]
            offsets = np.append(0, np.cumsum(lengths))
            bindings.append(pa.LargeListArray.from_arrays(pa.array(offsets), ids.filter(pa.array(own))))
        columns = {
            "key": source.keys_as_arrow(listed.partition),
            "first_lo_ms": pa.array(histories.first_ms),
            "last_hi_ms": pa.array(histories.last_ms),
            "bindings": pa.StructArray.from_arrays(bindings, [step.variable for step in self._plan.steps]),
            "confidence": pa.array(listed.confidence),
            "values": source.values_as_arrow(self._plan.returns, listed.values),
        }
        return pa.table(columns)

    def _bounds(self, listed: ListedMatches) -> Int64Array:
        """Where each component of each match begins in its events, int64 (n, n_steps + 1): components ascend."""
        n, n_steps = listed.n_matches, self._plan.n_steps
        places = np.repeat(np.arange(n), np.diff(listed.offsets)) * n_steps + listed.components
        begins = np.searchsorted(places, np.arange(n * n_steps)).reshape(n, n_steps)
        return np.hstack((begins, listed.offsets[1:, None]))

    def _rows(self, start: int) -> list[MatchRow]:
        """A chunk from row `start` on."""
        histories, source, plan = self._histories.chosen(slice(start, start + self.CHUNK)), self._source, self._plan
        listed = histories.listed()
        ids = source.ids.take(pa.array(listed.rows)).to_pylist()
        bounds = self._bounds(listed).tolist()
        first, last = histories.first_ms.tolist(), histories.last_ms.tolist()
        partitions, values = listed.partition.tolist(), listed.values.tolist()
        return [
            MatchRow(
                query=plan.name,
                key=source.key_of(partitions[at]),
                first_lo_ms=first[at],
                last_hi_ms=last[at],
                bindings={
                    step.variable: tuple(ids[bounds[at][step.position] : bounds[at][step.position + 1]])
                    for step in plan.steps
                },
                confidence=1.0,
                values={
                    item.name: source.value(value, item.type)
                    for item, value in zip(plan.returns, values[at], strict=True)
                },
            )
            for at in range(len(partitions))
        ]


__all__ = ["RunRows"]
