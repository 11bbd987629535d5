"""What is unusual about an attempt: its figures against those of the job's other attempts of its kind.

By the modified z-score (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993): the distance from the median,
in units of 1.4826 times the median absolute deviation, which is a standard deviation where values are normal; neither
is moved by the outliers themselves. Tasks of one job often agree to the byte, which makes every difference a large
score; so the unit is at least a tenth of the median, and at least what people would call a difference at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from app.durations import format_duration, format_size
from dashboard.jobs.data import NO_END
from engine.events import BoolArray, Float64Array

UNUSUAL_SCORE = 3.5
"""Iglewicz and Hoaglin's."""
LEAST_PEERS = 5
"""Successful attempts of the kind whose figure is known; of fewer nothing is usual."""
_NORMAL = 1.4826
_LEAST_SHARE = 0.1


def _count(value: float) -> str:
    return f"{value:,.0f}"


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of an attempt."""

    column: str
    """Of `jobs.data.attempts`."""
    title: str
    least: float
    """A smaller difference is none: a second, 4 MiB, a thousand records."""
    text: Callable[[float], str]


_S, _MIB = 1_000.0, float(1 << 20)
MEASURES = (
    Measure("duration_ms", "Duration", 1 * _S, format_duration),
    Measure("shuffle_ms", "Shuffle", 1 * _S, format_duration),
    Measure("sort_ms", "Sort", 1 * _S, format_duration),
    Measure("reduce_ms", "Reduce", 1 * _S, format_duration),
    Measure("n_input_records", "Records in", 1_000, _count),
    Measure("input_bytes", "Bytes in", 4 * _MIB, format_size),
    Measure("n_output_records", "Records out", 1_000, _count),
    Measure("output_bytes", "Bytes out", 4 * _MIB, format_size),
    Measure("n_spilled_records", "Spilled records", 1_000, _count),
    Measure("gc_ms", "GC", 1 * _S, format_duration),
    Measure("cpu_ms", "CPU", 1 * _S, format_duration),
    Measure("memory_bytes", "Memory", 64 * _MIB, format_size),
)


def unusual(table: pd.DataFrame) -> pd.DataFrame:
    """Of each attempt (rows of `jobs.data.attempts`): score, the largest of its figures' (0 for a usual one), and what:
    the unusual figures in words, the most unusual first.

    Peers are the successful attempts of its kind. Less than usual is told of successful attempts alone: others have not
    come so far.
    """
    told: list[list[tuple[float, str]]] = [[] for _ in range(len(table))]
    kinds = table["kind"].to_numpy()
    succeeded = (table["status"] == "SUCCEEDED").to_numpy(np.bool_)
    has_run = (table["status"] != NO_END).to_numpy(np.bool_)
    for measure in MEASURES:
        if measure.column not in table:
            continue
        values = table[measure.column].to_numpy(np.float64)
        for kind in ("MAP", "REDUCE"):
            mine = kinds == kind
            score, median = scores(values, mine & succeeded, measure.least)
            may_be = mine & has_run & (succeeded | (score > 0))
            for row in np.flatnonzero(may_be & (np.abs(score) >= UNUSUAL_SCORE)):
                told[row].append((abs(float(score[row])), _words(measure, float(values[row]), median)))
    for parts in told:
        parts.sort(key=lambda part: -part[0])
    return pd.DataFrame(
        {
            "score": [parts[0][0] if parts else 0.0 for parts in told],
            "what": ["; ".join(words for _, words in parts) for parts in told],
        },
        index=table.index,
    )


def scores(values: Float64Array, peers: BoolArray, least: float) -> tuple[Float64Array, float]:
    """The modified z-score of each value among those of the peers, NaN where nothing can be said; and their median."""
    known = values[peers & np.isfinite(values)]
    if len(known) < LEAST_PEERS:
        return np.full(len(values), np.nan), float("nan")
    median = float(np.median(known))
    unit = max(_NORMAL * float(np.median(np.abs(known - median))), _LEAST_SHARE * abs(median), least)
    found: Float64Array = (values - median) / unit
    return found, median


def _words(measure: Measure, value: float, median: float) -> str:
    if median > 0:
        times = value / median
        much = f"{times:,.1f} times" if times < 100 else f"{times:,.0f} times"
        return f"{measure.title} {measure.text(value)}, {much} the median {measure.text(median)}"
    return f"{measure.title} {measure.text(value)}, where the median is {measure.text(median)}"


__all__ = ["LEAST_PEERS", "MEASURES", "UNUSUAL_SCORE", "Measure", "scores", "unusual"]
