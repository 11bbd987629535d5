"""What events may be worth of which no match was seen yet: alerts are rare, and a history may have none of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.compiled.query import CompiledQuery
from engine.events import EventBatch, Float64Array, Int64Array
from engine.stream.columns import StreamColumns
from engine.stream.early_filter import EarlyFilter
from engine.stream.interner import Interner


def expected_once(queries: Iterable[CompiledQuery], events: EventBatch) -> Float64Array:
    """As if each query had had one match more than was seen, of any of the events that its components accept by their
    own attributes: what that adds to each event, float64 (n,).

    A component that accepted none of its type may yet accept one like any of them.
    """
    worth, interner = np.zeros(len(events)), Interner()
    stream = StreamColumns(events, interner)
    for query in queries:
        if query.resolved.is_trend:
            continue
        for branch in query.branches:
            roles = EarlyFilter(branch, interner, live=False).by_role(stream)
            n_steps = len(branch.steps)
            for step, begin, take in zip(branch.steps, roles[:n_steps], roles[n_steps : 2 * n_steps], strict=True):
                rows = np.union1d(begin, take)
                _add(worth, rows if len(rows) else stream.rows_of_type(step.event_type), query.resolved.weight)
    return worth


def _add(worth: Float64Array, rows: Int64Array, weight: float) -> None:
    if len(rows):
        worth[rows] += weight / len(rows)


__all__ = ["expected_once"]
