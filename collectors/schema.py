"""The event types, read from events.csv: the one table of attributes, units, source fields and meanings."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.event_types import AttributeType, EventSchema

EVENTS_CSV = Path(__file__).with_name("events.csv")

PARTIAL_MARK = "~"
"""Before a source in the table: it yields some events of the type, not all."""


@dataclass(frozen=True, slots=True)
class AttributeRow:
    """One row of events.csv."""

    type: str
    attribute: str
    kind: AttributeType
    unit: str
    sources: frozenset[str]
    partial_sources: frozenset[str]
    source_field: str
    meaning: str


@cache
def event_table() -> tuple[AttributeRow, ...]:
    """The rows of events.csv in order."""
    with EVENTS_CSV.open(encoding="utf-8", newline="") as file:
        return tuple(_rows(csv.DictReader(file)))


@cache
def load_event_types() -> EventSchema:
    """The schema of all events that the collectors yield."""
    types: dict[str, dict[str, AttributeType]] = {}
    for row in event_table():
        types.setdefault(row.type, {})[row.attribute] = row.kind
    return EventSchema.of(types)


def complete_from(source: str) -> frozenset[str]:
    """The event types of which `source` alone yields every event; DataIO, for one, needs history and logs together."""
    mentioned = {row.type for row in event_table() if source in row.sources}
    partial = {row.type for row in event_table() if source in row.partial_sources}
    return frozenset(mentioned - partial)


def _rows(reader: csv.DictReader[str]) -> Iterator[AttributeRow]:
    for row in reader:
        named = row["sources"].split("|")
        yield AttributeRow(
            type=row["type"],
            attribute=row["attribute"],
            kind=AttributeType(row["kind"]),
            unit=row["unit"],
            sources=frozenset(name.removeprefix(PARTIAL_MARK) for name in named),
            partial_sources=frozenset(name[1:] for name in named if name.startswith(PARTIAL_MARK)),
            source_field=row["source_field"],
            meaning=row["meaning"],
        )
