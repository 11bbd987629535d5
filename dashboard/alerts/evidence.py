"""The events behind an alert: time line, table, and the raw records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app.durations import format_with_unit
from dashboard import times
from dashboard.alerts.against_limits import show_limits
from dashboard.alerts.comparison import FACTOR, comparison, curve, decisive, in_words
from dashboard.alerts.queue import show_queue
from dashboard.charts.comparison import CURVE_PX, bars, bars_px
from dashboard.charts.comparison import curve as value_curve
from dashboard.charts.drawn import draw
from dashboard.charts.timeline import ZOOM_HINT, TimedEvent, rows_of, timeline, timeline_px
from dashboard.components.copied_texts import CopiedText, copied_texts
from dashboard.events.hosts import host_of, hosts_of
from dashboard.on_demand import on_demand
from dashboard.on_sight import AROUND_PX, on_sight
from dashboard.queries.list import is_about_trends, loaded_queries
from dashboard.store import AlertRow, EvidenceRow, store
from dashboard.text import inert, lines, md
from dashboard.units import shown_value

MAX_RECORDS = 60
"""Raw records that are shown at once; the others on demand."""

MAX_BEHIND = 200
"""Alerts behind an incident that are looked at for their lines."""

NO_LINES = "Its events come from samples and REST answers, which have no lines of a log."
NO_LINES_OF_ALERTS = "Its events are matches behind its alerts, on whose pages their lines stand."

CHANGED_SINCE = (
    "The query or one of its parameters was changed since it raised this alert: thresholds are drawn as they are now."
)

MAX_DECISIVE_LINES = 4
MAX_DECISIVE_CHARS = 500
"""What matters stands at the beginning of a line; all of it stands below."""

MAX_KINDS_BEHIND = 3
"""Queries behind an incident of each of which one alert's line is shown."""

MAX_BOXES = 4
"""Records of more files than so many stand in one box, each below the name of its file."""


def show(alert: AlertRow, evidence: Sequence[EvidenceRow]) -> None:
    """All of it."""
    st.subheader("What happened", anchor=False)
    kept = [row for row in evidence if row.type is not None]
    if not kept:
        st.info(
            "None of its events are kept any more (store.retention.evidence, or a restart between event and alert).",
            icon=":material/inventory_2:",
        )
        return
    _at_a_glance(alert, kept)
    events = timed(kept)
    on_sight(
        f"timeline-{alert.id}",
        timeline_px(rows_of(events)) + AROUND_PX,
        lambda: draw(timeline(events), alt="Time line of the events of the match shown"),
    )
    told = _how_many(alert, evidence, kept)
    st.caption(f"{told} Diamonds are exact; a bar is the interval that holds the true time. {ZOOM_HINT}")
    on_demand(
        f"All {len(kept):,} events as a table" if len(kept) > 1 else "The event as a table",
        "events",
        lambda: st.dataframe(event_frame(kept), hide_index=True, alt="Events of the match shown"),
        icon=":material/table_rows:",
    )
    _records(alert, kept)


def show_decisive(alert: AlertRow, evidence: Sequence[EvidenceRow]) -> None:
    """The line of a log that tells most, of an incident one of each kind of alert behind it, else the event in words;
    nothing where none is kept."""
    if alert.is_incident and (behind := _lines_behind(alert)):
        copied_texts("decisive", behind)
        return
    row = decisive(alert, evidence)
    if row is None:
        return
    when = f"The decisive event, {times.shown(row.t_hi_ms)}"
    if row.raw:
        told, text = f"{when}, in its log:", _decisive_lines(row.raw)
    else:
        told, text = f"{when}; it has no line of a log:", in_words(row)
    copied_texts("decisive", [CopiedText("the decisive event", text, told)])


def _lines_behind(incident: AlertRow) -> list[CopiedText]:
    """Of the earliest alert of each query behind it, the line that tells most, where it has one."""
    members, _ = store().first_members_of([incident.id], MAX_BEHIND).get(incident.id, ([], 0))
    first: dict[str, AlertRow] = {}
    for member in members:
        if not member.is_incident:
            first.setdefault(member.query, member)
    kept = store().evidence_of([member.id for member in first.values()])
    found = []
    for query, member in first.items():
        row = decisive(member, kept.get(member.id, []))
        if row is not None and row.raw:
            told = f"{inert(query, 60)}, {times.shown(row.t_hi_ms)}, in its log:"
            found.append(CopiedText(f"the line of {inert(query, 60)}", _decisive_lines(row.raw), told))
    return found[:MAX_KINDS_BEHIND]


def _decisive_lines(raw: str) -> str:
    return lines(raw, MAX_DECISIVE_LINES, MAX_DECISIVE_CHARS)


def _at_a_glance(alert: AlertRow, kept: Sequence[EvidenceRow]) -> None:
    """Durations beside those of the peers where the query compares them (elsewhere the last one is no offender), values
    over time; nothing of an incident, whose alerts have their own."""
    if alert.is_incident:
        return
    known = loaded_queries().named(alert.query)
    parameters = {} if known is None else known.in_use
    if known is not None and known.has_changed_since(alert.query_hash):
        st.caption(CHANGED_SINCE)
    if known is not None and len(kept) == 1:
        show_limits(alert, kept[0], known)
    if known is not None:
        show_queue(alert, known)
    compares = FACTOR in parameters and not is_about_trends(alert.query)
    if compares and (compared := comparison(kept, parameters)) is not None:
        on_sight(
            f"peers-{alert.id}",
            bars_px(len(compared.bars)) + AROUND_PX,
            lambda: draw(bars(compared), alt="Its duration beside those of its peers"),
        )
        average = shown_value("average_ms", compared.average_ms)
        told = [f"The dotted line is the average of its peers ({average})"]
        if compared.threshold_ms is not None:
            told.append(f"the dashed one the threshold ({shown_value('threshold_ms', compared.threshold_ms)})")
        left_out = f" {compared.n_left_out:,} shorter peers are not drawn." if compared.n_left_out else ""
        st.caption(f"{', '.join(told)}; ▶ marks this alert's.{left_out}")
    if (over_time := curve(kept, parameters)) is not None:
        on_sight(
            f"values-{alert.id}",
            CURVE_PX + AROUND_PX,
            lambda: draw(value_curve(over_time, times.zone().key), alt="Its values over time"),
        )
        if over_time.threshold is not None:
            limit = format_with_unit(over_time.threshold, over_time.unit)
            st.caption(f"The dashed line is the threshold ({md(limit, 60)}).")


def timed(evidence: Sequence[EvidenceRow]) -> list[TimedEvent]:
    """What the chart draws; all text inert."""
    return [
        TimedEvent(
            variable=inert(row.variable, 40),
            type=inert(row.type, 60),
            t_lo_ms=row.t_lo_ms,
            t_hi_ms=row.t_hi_ms,
            host=host_of(row.attributes),
            shown={
                "host": hosts_of(row.type, row.attributes) or "",
                "attributes": attributes_text(row.attributes, 300),
            },
        )
        for row in evidence
        if row.t_lo_ms is not None and row.t_hi_ms is not None
    ]


def event_frame(evidence: Sequence[EvidenceRow]) -> pd.DataFrame:
    """One line per event."""
    rows = [
        {
            "component": inert(row.variable),
            "event": inert(row.type),
            "from": times.exactly(row.t_lo_ms),
            "to": "exact" if row.t_lo_ms == row.t_hi_ms else times.exactly(row.t_hi_ms),
            "host": hosts_of(row.type, row.attributes) or "",
            "attributes": attributes_text(row.attributes, 1_000),
            "origin": inert(row.origin or ""),
        }
        for row in evidence
    ]
    return pd.DataFrame(rows, dtype="string")


def attributes_text(attributes: Mapping[str, Any], max_chars: int) -> str:
    """`name=value` of each attribute that is known."""
    known = [(name, shown_value(name, value)) for name, value in attributes.items() if value is not None]
    return inert(", ".join(f"{inert(name, 60)}={inert(shown)}" for name, shown in known), max_chars)


def _records(alert: AlertRow, kept: Sequence[EvidenceRow]) -> None:
    records = [row for row in kept if row.raw]
    st.subheader("Log lines and records", anchor=False)
    if not records:
        st.caption(NO_LINES_OF_ALERTS if alert.is_incident else NO_LINES)
        return
    shown = records
    if len(records) > MAX_RECORDS and not st.toggle(f"Show all {len(records):,}", key="all-records"):
        shown = records[:MAX_RECORDS]
    by_file: dict[str, list[str]] = {}
    for row in shown:
        by_file.setdefault(inert(_file(row), 300), []).append(lines(row.raw))
    if len(by_file) > MAX_BOXES:
        together = "\n\n".join("\n".join([f"# {origin}", *found]) for origin, found in by_file.items())
        copied_texts("records", [CopiedText("the records", together)])
        return
    boxes = [
        CopiedText(f"the records of {origin}", "\n".join(found), f"From {origin}") for origin, found in by_file.items()
    ]
    copied_texts("records", boxes)


def _how_many(alert: AlertRow, evidence: Sequence[EvidenceRow], kept: Sequence[EvidenceRow]) -> str:
    whose = "of the trends of the window shown" if is_about_trends(alert.query) else "of the match shown"
    told = f"The {len(kept):,} events {whose}." if len(kept) > 1 else f"The only event {whose}."
    if alert.best_n_events > len(evidence):
        told = f"{len(kept):,} of the {alert.best_n_events:,} events {whose}: both ends of it are kept."
    elif len(kept) < len(evidence):
        told = f"{len(kept):,} of the {len(evidence):,} events {whose}; the others are no longer kept."
    return told


def _file(row: EvidenceRow) -> str:
    """The origin without its line number."""
    place, _, line = (row.origin or "unknown").rpartition(":")
    return place if place and line.isdigit() else row.origin or "unknown"
