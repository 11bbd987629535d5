"""The events of the match that an alert shows: bars for intervals, diamonds for events whose time is exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import pandas as pd

from dashboard.charts.axes import CATEGORIES

MAX_ROWS = 24
"""Beyond, hosts share the row of their component."""

ROW_PX = 30
ZOOM_HINT = "Drag to move, Ctrl + wheel to zoom, double-click for the whole again."

INTERVAL, EXACT = "interval", "exact"


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """One event of a match; both ends of its interval inclusive. All text is shown as it is given."""

    variable: str
    type: str
    t_lo_ms: int
    t_hi_ms: int
    host: str | None
    shown: Mapping[str, str]
    """What the tooltip tells besides, by title."""


def rows_of(events: Sequence[TimedEvent]) -> list[str]:
    """The row of each event: its component, and its host where the component's events lie on several."""
    components = [f"{event.variable}: {event.type}" for event in events]
    hosts: dict[str, set[str]] = {}
    for component, event in zip(components, events, strict=True):
        hosts.setdefault(component, set()).add(event.host or "")
    apart = {component for component, found in hosts.items() if len(found) > 1}
    by_host = [
        f"{component}, {event.host}" if component in apart and event.host else component
        for component, event in zip(components, events, strict=True)
    ]
    return by_host if len(set(by_host)) <= MAX_ROWS else components


def frame(events: Sequence[TimedEvent]) -> pd.DataFrame:
    """One line per event: row, component, what it is, begin and end (UTC), and the tooltip's columns."""
    return pd.DataFrame(
        {
            "row": rows_of(events),
            "component": [f"{event.variable}: {event.type}" for event in events],
            "kind": [EXACT if event.t_lo_ms == event.t_hi_ms else INTERVAL for event in events],
            "from": pd.to_datetime([event.t_lo_ms for event in events], unit="ms", utc=True),
            "to": pd.to_datetime([event.t_hi_ms for event in events], unit="ms", utc=True),
            **{title: [event.shown.get(title, "") for event in events] for title in _titles(events)},
        }
    )


def timeline(events: Sequence[TimedEvent]) -> alt.LayerChart:
    """The chart; `events` in the order of the match, at least one. Vega shows times in the viewer's zone."""
    data = frame(events)
    rows = list(dict.fromkeys(data["row"]))
    components = list(dict.fromkeys(data["component"]))
    zoom = alt.selection_interval(bind="scales", encodings=["x"], zoom="wheel![event.ctrlKey]")
    low, high = data["from"].min(), data["to"].max()
    # A quarter of a second around a single moment: a scale of no width draws nothing.
    margin = max((high - low) * 0.03, pd.Timedelta(milliseconds=250))
    time = alt.X(
        "from:T",
        title=None,
        scale=alt.Scale(domain=[_ms(low - margin), _ms(high + margin)]),
        axis=alt.Axis(grid=True, labelOverlap=True, tickCount=10, format=_format(high - low)),
    )
    base = alt.Chart(data).encode(
        y=alt.Y("row:N", sort=rows, title=None, axis=alt.Axis(labelLimit=260, grid=True, domain=False, ticks=False)),
        color=alt.Color(
            "component:N",
            sort=components,
            scale=alt.Scale(domain=components, range=[CATEGORIES[i % len(CATEGORIES)] for i in range(len(components))]),
            legend=None,
        ),
        tooltip=[
            alt.Tooltip("component:N", title="event"),
            alt.Tooltip("from:T", title="from", format="%Y-%m-%d %H:%M:%S.%L"),
            alt.Tooltip("to:T", title="to", format="%Y-%m-%d %H:%M:%S.%L"),
            *(alt.Tooltip(f"{_escaped(title)}:N", title=title) for title in _titles(events)),
        ],
    )
    bars = (
        base.transform_filter(alt.datum.kind == INTERVAL)
        # The stroke keeps an interval of a moment visible in a chart of a day.
        .mark_bar(height=12, opacity=0.55, cornerRadius=2, stroke="currentColor", strokeWidth=0.6)
        .encode(x=time, x2="to:T")
    )
    points = (
        base.transform_filter(alt.datum.kind == EXACT)
        .mark_point(shape="diamond", size=90, filled=True, opacity=0.8, strokeWidth=1)
        .encode(x=time)
    )
    return alt.LayerChart(layer=[bars, points.add_params(zoom)]).properties(height=timeline_px(rows))


def timeline_px(rows: Sequence[str]) -> int:
    """Height of a chart of these rows, one per event."""
    return ROW_PX * max(2, len(set(rows))) + 20


def _titles(events: Sequence[TimedEvent]) -> list[str]:
    return list(dict.fromkeys(title for event in events for title in event.shown))


def _format(length: pd.Timedelta) -> str:
    if length > pd.Timedelta(days=2):
        return "%m-%d %H:%M"
    return "%H:%M" if length > pd.Timedelta(hours=2) else "%H:%M:%S"


def _ms(time: pd.Timestamp) -> int:
    return int(time.timestamp() * 1000)


def _escaped(name: str) -> str:
    """A column's name in Altair's shorthand."""
    return "".join(f"\\{c}" if c in r".[]:\'\"" else c for c in name)
