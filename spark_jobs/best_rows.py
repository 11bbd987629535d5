"""LIMIT and TOP k over rows that come from many places: each place keeps what may be among them, so does who merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_jobs.match_rows import ARROW_MATCH_ROWS, capped

_OFTEN = 16_384
"""Rows that wait before those that are not among the best are left out."""


@dataclass(frozen=True)
class Best:
    """`top`: the most confident rows of each window, `limit`: the rows whose last events come first; None: all.

    A query has at most one of the two.
    """

    top: int | None = None
    limit: int | None = None

    def collector(self) -> Collector | None:
        """Something to collect rows in, None where all are wanted."""
        return None if self.top is None and self.limit is None else Collector(self)


class Collector:
    """Rows of which only the best are kept; of a limit one more, to know whether there are more."""

    def __init__(self, best: Best) -> None:
        self._best = best
        self._kept: list[dict[str, Any]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in rows."""
        self._kept += batch.to_pylist()
        if len(self._kept) >= _OFTEN:
            self._kept = self._chosen()

    def rows(self) -> pa.Table:
        """What may be among the best of all, for another collector."""
        return pa.Table.from_pylist(self._chosen(), schema=ARROW_MATCH_ROWS)

    def final(self) -> pa.Table:
        """The best of all that was added, in order; the last of a limit says so when there are more."""
        rows = self._chosen()
        if self._best.limit is not None and len(rows) > self._best.limit:
            rows = rows[: self._best.limit]
            rows[-1] = capped(rows[-1])
        return pa.Table.from_pylist(rows, schema=ARROW_MATCH_ROWS)

    def _chosen(self) -> list[dict[str, Any]]:
        if self._best.top is None:
            assert self._best.limit is not None
            return sorted(self._kept, key=in_time)[: self._best.limit + 1]
        kept: list[dict[str, Any]] = []
        n_of_window: dict[tuple[Any, Any], int] = {}
        for row in sorted(self._kept, key=lambda row: (-row["confidence"], in_time(row))):
            window = (row["window_start_ms"], row["window_end_ms"])
            n_of_window[window] = n_of_window.get(window, 0) + 1
            if n_of_window[window] <= self._best.top:
                kept.append(row)
        return sorted(kept, key=lambda row: (row["window_start_ms"] or 0, -row["confidence"], in_time(row)))


def in_time(row: Mapping[str, Any]) -> tuple[int, int, str]:
    """The order of rows by time: last event, first event; what is alike by id."""
    return row["last_ms"], row["first_ms"], row["match_id"]


def in_order(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """All rows by time."""
    table = pa.Table.from_batches(batches, schema=ARROW_MATCH_ROWS)
    return table.sort_by([("last_ms", "ascending"), ("first_ms", "ascending"), ("match_id", "ascending")])


__all__ = ["Best", "Collector", "in_order", "in_time"]
