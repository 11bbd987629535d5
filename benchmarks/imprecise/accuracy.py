"""The confidences of listed matches against exact fractions of the oracle, which adds up worlds."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.imprecise.evaluation import in_parts, list_rows
from benchmarks.imprecise.queries import STOCK, stock_events, stock_query
from engine import CompiledQuery, Limits, MatchRow, compile_query, flat_ids
from engine.events import EventBatch
from engine.language import ast
from engine.reference.observed import ObservedEvent, observe
from engine.reference.worlds import confidence_of


def stock_error(within_ms: int, threshold: str, n_events: int, n_most: int) -> dict[str, Any]:
    """Workload S: the greatest difference over at most `n_most` matches above the threshold, evenly chosen."""
    batch = stock_events(n_events)
    query = compile_query(stock_query(within_ms, f"CONFIDENCE >= {threshold}"), STOCK)
    found, _ = list_rows(query, in_parts(batch), Limits())
    rows = [row for part in found for row in part]
    chosen = [rows[k] for k in np.unique(np.linspace(0, len(rows) - 1, min(n_most, len(rows))).astype(int))]
    return {"max_error": greatest_error(query, batch, chosen), "n_compared": len(chosen)}


def greatest_error(query: CompiledQuery, batch: EventBatch, rows: list[MatchRow]) -> float:
    """The greatest absolute difference between the confidence of a match of a plain pattern and the exact one."""
    named = {event_id for row in rows for event_id in row.event_ids}
    ids = batch.table.column("event_id").to_pylist()
    events = observe(batch.take(np.flatnonzero([event_id in named for event_id in ids])), query.resolved.schema)
    by_id = {event.event_id: event for event in events}
    return max((float(abs(Fraction(row.confidence) - _exact(query, row, by_id))) for row in rows), default=0.0)


def _exact(query: CompiledQuery, row: MatchRow, by_id: dict[str, ObservedEvent]) -> Fraction:
    sequence = [by_id[event_id] for bound in row.bindings.values() for event_id in flat_ids(bound)]
    return confidence_of(sequence, query.plan.within_ms, strict_ties=query.plan.ties is ast.Ties.STRICT)


__all__ = ["greatest_error", "stock_error"]
