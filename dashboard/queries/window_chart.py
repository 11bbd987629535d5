"""What a query about trends returns for every window, over time, with what HAVING asks of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

import engine
from app.queries.messages import HistoryLimits, ResultRow, RunLimits, WindowValues
from collectors.schema import load_event_types
from dashboard.charts.axes import TimeAxis, distinct_labels
from dashboard.charts.drawn import draw
from dashboard.charts.windows import window_chart
from dashboard.queries.pool import QueryRun, Snapshot
from dashboard.queries.run import MAX_WINDOWS
from dashboard.text import inert, md
from dashboard.times import zone
from dashboard.units import shown_value

MOST_GROUPS = 7
"""Lines that are told apart: as many as there are colours."""
LARGE = 1e9
"""Where numbers go beyond it, powers of ten are shown."""

_NAME = "editor-window-value"


def chart_of_windows(run: QueryRun[RunLimits] | QueryRun[HistoryLimits], snapshot: Snapshot) -> None:
    """The chart of one of the values; nothing where the query is none about trends."""
    if not snapshot.windows:
        return
    query = run.request.compiled(load_event_types())[-1]
    asked = engine.trend_thresholds(query.resolved.query)
    names = list(snapshot.windows[0].values)
    first = next((names.index(each.name) for each in asked if each.name in names), 0)
    name = names[first]
    if len(names) > 1:
        chosen = st.selectbox("Value over time", names, index=first, key=f"{_NAME}-{run.id}", format_func=inert)
        name = names[first] if chosen is None else chosen
    frame, n_groups = window_frame(snapshot.windows, snapshot.rows, name, step_ms(query))
    if frame.empty:
        st.caption(f"{md(name)} has no value in any window.")
        return
    in_powers = bool(frame["power"].notna().all() and (frame["power"].max() > math.log10(LARGE)))
    data = frame.assign(y=frame["power"] if in_powers else frame["number"])
    lines = threshold_frame([each for each in asked if each.name == name], in_powers=in_powers)
    axis = TimeAxis(float(frame["end_ms"].min()) - step_ms(query), float(frame["end_ms"].max()), zone().key)
    shown = data[["group", "end_ms", "y", "told", "is_let_through", "piece"]].dropna(subset=["y"])
    chart = window_chart(shown, name, lines, axis, in_powers=in_powers)
    draw(chart, alt=f"{inert(name, 60)} of each window over time", key=f"{_NAME}-chart-{run.id}")
    _told(snapshot, data, n_groups)


def window_frame(
    windows: Sequence[WindowValues], rows: Sequence[ResultRow], name: str, step_between_ms: int
) -> tuple[pd.DataFrame, int]:
    """A line per window and group: group (its label), end_ms, number and power (of ten; NaN: it has none), told,
    is_let_through, piece; of the groups with the greatest values, and how many groups there are."""
    through = {(row.last_hi_ms, _place(row.key)) for row in rows}
    found: list[dict[str, Any]] = []
    for part in windows:
        for end_ms, group, value in zip(part.end_ms, part.groups, part.values[name], strict=True):
            number, power = plotted(value)
            if value is None:
                continue
            place = _place(group)
            found.append(
                {
                    "place": place,
                    "end_ms": end_ms,
                    "number": number,
                    "power": power,
                    "told": str(shown_value(name, value)),
                    "is_let_through": (end_ms, place) in through,
                }
            )
    frame = pd.DataFrame(found, columns=["place", "end_ms", "number", "power", "told", "is_let_through"])
    sizes = frame["power"].where(frame["power"].notna(), frame["number"])
    greatest = sizes.groupby(frame["place"], sort=False).max().sort_values(ascending=False, kind="stable")
    kept = list(greatest.index[:MOST_GROUPS])
    labels = dict(zip(kept, distinct_labels([", ".join(map(str, place)) or "all" for place in kept]), strict=True))
    frame = frame[frame["place"].isin(kept)].sort_values(["place", "end_ms"], kind="stable")
    gaps = frame["end_ms"].diff().ne(step_between_ms) | frame["place"].ne(frame["place"].shift())
    frame = frame.assign(group=frame["place"].map(labels), piece=gaps.cumsum())
    return frame.drop(columns="place").reset_index(drop=True), len(greatest)


def plotted(value: Any) -> tuple[float, float]:
    """A value as a number and as a power of ten, as far as it has one; `1.2e+400` as text has a power only. A whole
    number beyond 64 bits is text, too."""
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        value = int(value)
    if isinstance(value, str):
        mantissa, _, exponent = value.partition("e+")
        if not exponent.isdecimal():
            return math.nan, math.nan
        leading = float(mantissa)
        return math.nan, math.log10(leading) + int(exponent) if leading > 0 else math.nan
    if isinstance(value, int) and abs(value) > LARGE:
        return (float(value) if abs(value) < 2**1000 else math.nan), math.log10(value) if value > 0 else math.nan
    number = math.nan if value is None else float(value)
    return number, math.log10(number) if number > 0 else math.nan


def threshold_frame(asked: Sequence[engine.TrendThreshold], *, in_powers: bool) -> pd.DataFrame:
    """y and told of those that the chart can show."""
    found = [
        {
            "y": math.log10(each.bound) if in_powers else each.bound,
            "told": f"HAVING {each.op} {shown_value(each.name, each.bound)}",
        }
        for each in asked
        if math.isfinite(each.bound) and (each.bound > 0 or not in_powers)
    ]
    return pd.DataFrame(found, columns=["y", "told"])


def step_ms(query: engine.CompiledQuery) -> int:
    """From the end of a window to that of the next."""
    resolved = query.resolved
    return resolved.slide_ms or resolved.within_ms or 1


def _told(snapshot: Snapshot, data: pd.DataFrame, n_groups: int) -> None:
    parts = ["Each point is a window, at its end; diamonds are those that HAVING lets through."]
    n_shown = data["group"].nunique()
    if n_groups > n_shown:
        parts.append(f"Shown are the {n_shown} of {n_groups:,} groups with the greatest values.")
    n_beyond = int(data["y"].isna().sum())
    if n_beyond:
        parts.append(f"{n_beyond:,} values cannot be drawn on this scale; the table has those let through.")
    if sum(len(part.end_ms) for part in snapshot.windows) >= MAX_WINDOWS:
        parts.append(f"These are the first {MAX_WINDOWS:,} windows.")
    st.caption(" ".join(parts))


def _place(group: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(group.values())


__all__ = ["chart_of_windows", "plotted", "step_ms", "threshold_frame", "window_frame"]
