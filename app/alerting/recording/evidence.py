"""The events of the match that an alert shows, as they are kept with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from app.store.storable import MAX_RAW_CHARS, storable_text
from engine.event_types import HEADER_NAMES

if TYPE_CHECKING:  # executors do without a database
    from app.store.models import EvidenceValues


class KnownEvent(NamedTuple):
    """An event of the past. The fields are columns of the table of evidence, in its order: there are many."""

    event_id: str
    type: str
    t_lo_ms: int
    t_hi_ms: int
    attributes: dict[str, Any]
    """Without nulls. What is in it is made storable when it is written, as all JSON."""
    origin: str | None
    raw: str | None
    """Both as databases accept them."""

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """From the columns of an event."""
        named = {name: value for name, value in event.items() if value is not None and name not in HEADER_NAMES}
        header = (event["event_id"], event["type"], event["t_lo_ms"], event["t_hi_ms"])
        return cls(*header, named, storable_origin(event.get("origin")), storable_raw(event.get("raw")))


def storable_origin(origin: str | None) -> str | None:
    """As databases accept it."""
    return None if origin is None else storable_text(origin)


def storable_raw(raw: str | None) -> str | None:
    """The same, of bounded length."""
    return None if raw is None else storable_text(raw, MAX_RAW_CHARS)


Bound = Sequence[tuple[str, str]]
"""(variable, event id) of the events of a match."""


def ends(bound: Bound, at_most: int) -> Bound:
    """The first and the last events when there are too many to keep."""
    if len(bound) <= at_most:
        return bound
    head = (at_most + 1) // 2
    return [*bound[:head], *bound[len(bound) - (at_most - head) :]]


def evidence_rows(alert: str, bound: Bound, events: Mapping[str, KnownEvent]) -> list[EvidenceValues]:
    """Rows of the table for (variable, event id); of events that are no longer kept the id alone."""
    return [
        (alert, position, variable, *(events.get(event_id) or (event_id, None, None, None, {}, None, None)))
        for position, (variable, event_id) in enumerate(bound)
    ]


__all__ = ["Bound", "KnownEvent", "ends", "evidence_rows", "storable_origin", "storable_raw"]
