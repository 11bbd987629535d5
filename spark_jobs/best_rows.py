"""LIMIT and TOP k over rows that come from many places: each place keeps what may be among them, and who merges counts.

Both count in each window, as `engine.runtime.row_quota` does for one engine: LIMIT tells the first rows in output
order, TOP the most confident ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import engine
from spark_jobs.match_rows import ARROW_MATCH_ROWS, PLACE, capped

_RANKED_DIGITS = 9
"""Digits of confidences by which TOP ranks, as in one engine."""

Window = tuple[int | None, int | None]


@dataclass(frozen=True)
class Best:
    """`top`: the most confident rows of each window, `limit`: the first ones of each in output order; None: all.

    A query has at most one of the two.
    """

    top: int | None = None
    limit: int | None = None

    def collector(self) -> Collector | None:
        """Something to collect rows in, None where all are wanted."""
        return None if self.top is None and self.limit is None else Collector(self)

    def quota(self, owns: Callable[[engine.MatchRow], bool]) -> engine.PartQuota | None:
        """What the engine of a part keeps, of the rows that are its own; None: all."""
        if self.top is None and self.limit is None:
            return None
        return engine.PartQuota(self.limit, self.top, owns)


class Collector:
    """Puts the rows of all parts together, which are few: each part has kept those that may be among the best."""

    def __init__(self, best: Best) -> None:
        self._best = best
        self._kept: list[dict[str, Any]] = []
        self.n_limited = 0
        """Windows in which LIMIT left rows out, after `final`."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in rows, as columns with PLACE."""
        self._kept += batch.to_pylist()

    def final(self) -> pa.Table:
        """The best of all that was added, in order; the last one of a window says so when LIMIT left out others."""
        n = self._best.limit if self._best.top is None else self._best.top
        assert n is not None
        by_window: dict[Window, list[dict[str, Any]]] = {}
        for row in sorted(self._kept, key=_order if self._best.top is None else _rank):
            by_window.setdefault((row["window_start_ms"], row["window_end_ms"]), []).append(row)
        told: list[dict[str, Any]] = []
        for rows in by_window.values():
            first = rows[:n]
            if self._best.top is None and len(rows) > n:
                self.n_limited += 1
                first[-1] = capped(first[-1])
            told += first
        told.sort(key=_order if self._best.top is None else _by_window)
        return pa.Table.from_pylist(told, schema=ARROW_MATCH_ROWS)


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(json.loads(row[PLACE]))


def _rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return -round(row["confidence"], _RANKED_DIGITS), _order(row)


def _by_window(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["window_end_ms"] or 0, row["window_start_ms"] or 0, _rank(row)


__all__ = ["Best", "Collector"]
