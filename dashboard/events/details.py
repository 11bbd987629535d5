"""Events that a match binds, as a table: which variable binds which event, when it was, and all it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dashboard.text import inert
from dashboard.times import exactly
from dashboard.units import shown_cell
from engine.events import HEADER_NAMES, EventBatch

OWN_COLUMNS = ("Variable", "Event", "From", "To", "Event id")


def bound_events_frame(
    bindings: Mapping[str, Sequence[str]],
    events: EventBatch,
    matches: Mapping[str, str] | None = None,
    gone: str = "no longer kept",
) -> pd.DataFrame:
    """One line per bound event, in order of time within each variable; `gone` is said of those not among `events`.

    `matches`: the query whose matches a variable binds, for those that bind no events of the log.
    """
    known = {row["event_id"]: row for row in events.rows()}
    absent = {variable: f"match of {inert(query)}" for variable, query in (matches or {}).items()}
    lines = [
        _line(variable, event_id, known.get(event_id), absent.get(variable, gone))
        for variable, ids in bindings.items()
        for event_id in ids
    ]
    attributes = list(dict.fromkeys(name for line in lines for name in line if name not in OWN_COLUMNS))
    return pd.DataFrame(lines, columns=[*OWN_COLUMNS, *attributes])


def _line(variable: str, event_id: str, event: Mapping[str, Any] | None, absent: str) -> dict[str, Any]:
    line: dict[str, Any] = {"Variable": inert(variable), "Event id": inert(event_id)}
    if event is None:
        return {**line, "Event": absent, "From": None, "To": None}
    line |= {"Event": inert(event["type"]), "From": exactly(event["t_lo_ms"]), "To": exactly(event["t_hi_ms"])}
    for name, value in event.items():
        if name not in HEADER_NAMES:
            line[name] = shown_cell(name, value)
    for name, label in (("origin", "From where"), ("raw", "Record")):
        if event.get(name) is not None:
            line[label] = inert(event[name], 1_000)
    return line


__all__ = ["bound_events_frame"]
