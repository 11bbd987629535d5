"""What all charts over time share: the axis, labels of hostile names, colours that everybody can tell apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

import altair as alt
import pandas as pd

from collectors.time_units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from dashboard.text import inert

LABEL_CHARS = 40
Y_EXTENT_PX = 150
"""Width of the labels left of every chart over time, so that their time axes stand exactly beneath each other."""

# Okabe and Ito's palette: told apart with any colour vision, readable on light and dark ground.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
)
GREY = "#999999"
CATEGORIES = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, GREY)

FIT_WIDTH = alt.AutoSizeParams(type="fit-x", contains="padding")
"""The height is that of the plot alone: legends and axes come on top."""

_NARROW = "width < 760"
"""Of a plot, as the browser computes it: the legends of a chart stand beneath each other, their entries in two columns.
Beside each other they would be cut at the right edge."""

LEGEND_LAYOUT = alt.ExprRef(f"{{top: {{direction: {_NARROW} ? 'vertical' : 'horizontal', offset: 18}}}}")

STEPS_MS = (
    *(10**power * factor for power in range(3) for factor in (1, 2, 5)),
    *(SECOND_MS * n for n in (1, 2, 5, 10, 15, 30)),
    *(MINUTE_MS * n for n in (1, 2, 5, 10, 15, 30)),
    *(HOUR_MS * n for n in (1, 2, 3, 6, 12, 24)),
)
"""Distances of ticks."""


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The time axis of a page's charts: the clock of the viewer's zone, or seconds since an event.

    Data carries milliseconds since the epoch; a browser shows them in its own zone, which is the viewer's.
    """

    from_ms: float
    to_ms: float
    zone: str
    """Its name, for the title."""
    since_ms: float | None = None
    """Count seconds from here instead of showing the clock."""
    since: str = ""
    """What happened there."""

    def data(self, frame: pd.DataFrame, fields: Iterable[str]) -> pd.DataFrame:
        """The frame with these columns of milliseconds as the axis counts."""
        if self.since_ms is None:
            return frame.assign(**{field: frame[field].astype(float) for field in fields})
        return frame.assign(**{field: (frame[field].astype(float) - self.since_ms) / 1000 for field in fields})

    def within(self, frame: pd.DataFrame, field: str) -> pd.DataFrame:
        """The rows whose time (in milliseconds since the epoch) the axis shows: signs stand there and nowhere else."""
        return frame[frame[field].between(self.from_ms, self.to_ms)]

    def x(self, field: str, *, title: bool = True) -> alt.X:
        """The channel of a column."""
        label = None if not title else self._title
        if self.since_ms is None:
            # A linear scale of milliseconds: layers of temporal fields lose a domain that is given in numbers.
            axis = alt.Axis(
                title=label, values=self.ticks_ms(), format=self._format, formatType="time", labelOverlap=True
            )
            scale = alt.Scale(domain=[self.from_ms, self.to_ms], nice=False, zero=False)
            return alt.X(f"{field}:Q", axis=axis, scale=scale)
        domain = [(edge - self.since_ms) / 1000 for edge in (self.from_ms, self.to_ms)]
        axis = alt.Axis(title=label, labelOverlap=True, tickCount=8)
        return alt.X(f"{field}:Q", axis=axis, scale=alt.Scale(domain=domain, nice=False, zero=False))

    def ticks_ms(self, at_most: int = 9) -> list[float]:
        """Round times of the zone within the axis, at most so many."""
        step_ms = next((step for step in STEPS_MS if (self.to_ms - self.from_ms) / step < at_most), None)
        if step_ms is None:
            days = math.ceil((self.to_ms - self.from_ms) / DAY_MS / at_most)
            step_ms = days * DAY_MS
        at_begin = datetime.fromtimestamp(self.from_ms / 1000, ZoneInfo(self.zone))
        offset_ms = (at_begin.utcoffset() or timedelta(0)) / timedelta(milliseconds=1)
        first = math.ceil((self.from_ms + offset_ms) / step_ms) * step_ms - offset_ms
        n = int((self.to_ms - first) // step_ms) + 1 if first <= self.to_ms else 0
        return [first + index * step_ms for index in range(n)]

    def tip(self, field: str, title: str) -> alt.Tooltip:
        """A line of a tooltip."""
        if self.since_ms is None:
            return alt.Tooltip(f"{field}:T", title=title, format="%Y-%m-%d %H:%M:%S.%L")
        return alt.Tooltip(f"{field}:Q", title=f"{title} (s)", format=",.3f")

    @property
    def _title(self) -> str:
        return f"Time ({self.zone})" if self.since_ms is None else f"Seconds since {self.since}"

    @property
    def _format(self) -> str:
        span_ms = self.to_ms - self.from_ms
        if span_ms <= 9 * SECOND_MS:
            return "%H:%M:%S.%L"
        if span_ms <= 20 * MINUTE_MS:
            return "%H:%M:%S"
        if span_ms <= 20 * HOUR_MS:
            return "%H:%M"
        return "%m-%d %H:%M" if span_ms <= 300 * DAY_MS else "%Y-%m-%d"


def y_axis(title: str, **more: Any) -> alt.Axis:
    """A vertical axis whose labels take the common width."""
    return alt.Axis(
        title=title,
        minExtent=Y_EXTENT_PX,
        maxExtent=Y_EXTENT_PX,
        labelLimit=Y_EXTENT_PX - 10,
        labelFlush=False,
        **more,
    )


def bytes_axis(title: str, *columns: pd.Series) -> alt.Axis:
    """A vertical axis of the bytes in these columns, in the units of `format_size`: no 64 MiB at "67 MB"."""
    edges = [0.0, *(float(edge) for column in columns for edge in (column.min(), column.max()) if pd.notna(edge))]
    low, high = min(edges), max(edges)
    largest = max(high, -low)
    power = next((n for n in reversed(range(len(_UNITS))) if largest >= 1024**n), 0)
    step = _round_step((high - low) / 1024**power / TICKS)
    if power == 0:
        step = max(1.0, step)  # there are no parts of bytes
    step *= 1024.0**power
    values = [n * step for n in range(math.floor(low / step), math.ceil(high / step) + 1)]
    return y_axis(title, values=values, labelExpr=f"format(datum.value / {1024**power}, '~g') + ' {_UNITS[power]}'")


TICKS = 5
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def _round_step(least: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... (or 0.1, 0.2, 0.5) that is not smaller."""
    if least <= 0:
        return 1.0
    ten = 10.0 ** math.floor(math.log10(least))
    return next(factor * ten for factor in (1.0, 2.0, 5.0, 10.0) if factor * ten >= least * (1 - 1e-9))


def top_legend(title: str | None, **more: Any) -> alt.Legend:
    """A legend above the chart: beside it, it would take from the width that time axes share."""
    given: dict[str, Any] = {"columns": alt.ExprRef(f"{_NARROW} ? 2 : 0"), **more}
    return alt.Legend(title=title, orient="top", direction="horizontal", labelLimit=300, titleLimit=500, **given)


def layered(*layers: Any, height: int, independent: Sequence[Literal["color", "shape"]] = ()) -> alt.LayerChart:
    """A chart of layers on the same axes, as wide as the page; `independent` channels have a legend per layer.

    What stretches beyond an axis (an alert that began before the span) is cut off at its end; signs may stand out.
    """
    _cut_off(layers)
    _name(layers, "layer")
    scales: dict[str, Any] = dict.fromkeys(independent, "independent")
    # Altair copies all of a chart at each step of `alt.layer(...).properties(...)`, which was a third of a page's time.
    return alt.LayerChart(
        layer=list(layers),
        height=height,
        autosize=FIT_WIDTH,
        config=alt.Config(legend=alt.LegendConfig(layout=LEGEND_LAYOUT)),
        resolve=alt.Resolve(scale=alt.ScaleResolveMap(**scales)) if scales else alt.Undefined,
    )


def group(*layers: Any) -> alt.LayerChart:
    """Layers of `layered` that share a legend; one group in a chart."""
    _name(layers, "part")
    return alt.LayerChart(layer=list(layers))


def _name(layers: Iterable[Any], kind: str) -> None:
    """Else Altair makes a name of all that a layer holds, its data as text."""
    for number, chart in enumerate(layers):
        if chart.name is alt.Undefined:
            chart.name = f"{kind}-{number}"


def _cut_off(layers: Iterable[Any]) -> None:
    for chart in layers:
        if isinstance(chart, alt.LayerChart):
            _cut_off(chart.layer)
            continue
        given: Any = chart.mark
        mark = given if hasattr(given, "type") else alt.MarkDef(type=given)
        if mark.type not in ("point", "text"):
            mark.clip = True
            chart.mark = mark


def distinct_labels(names: Sequence[str | None], max_chars: int = LABEL_CHARS) -> list[str]:
    """One label per name: inert, cut, different for different names (a number tells those apart that look alike)."""
    found: dict[str | None, str] = {}
    taken: set[str] = set()
    for name in names:
        if name in found:
            continue
        label = base = inert(name, max_chars) or "(empty)"
        n = 1
        while label in taken:
            n += 1
            label = f"{base} #{n}"
        taken.add(label)
        found[name] = label
    return [found[name] for name in names]


__all__ = ["TimeAxis", "bytes_axis", "distinct_labels", "group", "layered", "top_legend", "y_axis"]
