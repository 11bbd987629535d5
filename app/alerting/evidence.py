"""The events of the match that an alert shows, as they are kept with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.store.storable import MAX_RAW_CHARS, storable_text

if TYPE_CHECKING:  # executors do without a database
    from app.store.models import EvidenceValues

_NOT_ATTRIBUTES = frozenset(
    {
        "event_id",
        "type",
        "t_lo_ms",
        "t_hi_ms",
        "origin",
        "raw",
        "source_rank",
        "source_seq",
        "clock_id",
        "weights",
        "skew_ms",
    }
)


Bound = Sequence[tuple[str, str]]
"""(variable, event id) of the events of a match."""


def ends(bound: Bound, at_most: int) -> Bound:
    """The first and the last events when there are too many to keep."""
    if len(bound) <= at_most:
        return bound
    head = (at_most + 1) // 2
    return [*bound[:head], *bound[len(bound) - (at_most - head) :]]


def evidence_rows(
    alert: str, bound: Sequence[tuple[str, str]], events: Mapping[str, Mapping[str, Any]]
) -> list[EvidenceValues]:
    """Rows of the table for (variable, event id); of events that are no longer kept the id alone.

    What is in `attributes` is made storable when it is written, as all JSON.
    """
    return [
        _row(alert, position, variable, event_id, events.get(event_id) or {})
        for position, (variable, event_id) in enumerate(bound)
    ]


def _row(alert: str, position: int, variable: str, event_id: str, event: Mapping[str, Any]) -> EvidenceValues:
    known = event.get
    origin, raw = known("origin"), known("raw")
    return (
        alert,
        position,
        variable,
        event_id,
        known("type"),
        known("t_lo_ms"),
        known("t_hi_ms"),
        {name: value for name, value in event.items() if name not in _NOT_ATTRIBUTES},
        None if origin is None else storable_text(origin),
        None if raw is None else storable_text(raw, MAX_RAW_CHARS),
    )


__all__ = ["Bound", "ends", "evidence_rows"]
