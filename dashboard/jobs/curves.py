"""Curves of a job over time: attempts begun and finished, life times, queued data (SASE++, Figure 7 a to d)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from dashboard.events.frame import event_frame
from engine.events import Float64Array, Int64Array

MAX_POINTS = 1_000
"""Points of one curve that are sent to a browser."""


def begun_and_finished(table: pd.DataFrame, until_ms: int) -> pd.DataFrame:
    """Cumulative numbers by kind: kind, what (begun, finished), t_ms, n_low, n_high; `table` as of `job_data.attempts`.

    At t_ms at least n_low attempts have begun (finished) for certain and n_high possibly: they differ where times are
    intervals. The last point lies at `until_ms`. An attempt has finished when its end was seen, whatever its status.
    """
    over = ~table["status"].isin(("RUNNING", "NO END SEEN"))
    parts = []
    for kind, part in table.groupby("kind", sort=True):
        for what, rows, name in (("begun", part, "start"), ("finished", part[over.loc[part.index]], "end")):
            if not len(rows):
                continue
            low, high = rows[f"{name}_lo_ms"].to_numpy(np.float64), rows[f"{name}_hi_ms"].to_numpy(np.float64)
            parts.append(cumulative(low, high, until_ms).assign(kind=kind, what=what))
    columns = ["kind", "what", "t_ms", "n_low", "n_high"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def cumulative(lo_ms: Float64Array, hi_ms: Float64Array, until_ms: int) -> pd.DataFrame:
    """t_ms, n_low (intervals that end at or before t), n_high (that begin at or before t); steps, thinned."""
    times = np.unique(np.r_[lo_ms, hi_ms, float(until_ms)])
    times = times[thinned(len(times))]
    return pd.DataFrame(
        {
            "t_ms": times,
            "n_low": np.searchsorted(np.sort(hi_ms), times, side="right"),
            "n_high": np.searchsorted(np.sort(lo_ms), times, side="right"),
        }
    )


def life_times(table: pd.DataFrame) -> pd.DataFrame:
    """Distribution of the life times of successful attempts: kind, life_ms, n, share (of them live at most life_ms).

    Figure 7 a and b of SASE++; what still runs, failed or was killed is left out.
    """
    good = table[(table["status"] == "SUCCEEDED") & table["duration_ms"].notna()]
    parts = [
        distribution(part["duration_ms"].to_numpy(np.float64)).assign(kind=kind)
        for kind, part in good.groupby("kind", sort=True)
    ]
    columns = ["kind", "life_ms", "n", "share"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def distribution(values: Float64Array) -> pd.DataFrame:
    """Empirical distribution function: life_ms, n (values at most that), share; from (0, 0), thinned."""
    distinct, counts = np.unique(values, return_counts=True)
    n = np.cumsum(counts)
    kept = thinned(len(distinct))
    distinct, n = distinct[kept], n[kept]
    total = int(n[-1]) if len(n) else 1
    return pd.DataFrame({"life_ms": np.r_[0.0, distinct], "n": np.r_[0, n], "share": np.r_[0.0, n / total]})


def queued_data(changes: pa.Table, until_ms: int) -> pd.DataFrame:
    """Map output that waits for reducers after each change (SASE++, Figure 7 c, d).

    Columns: t_ms, bytes_low, bytes_high, n_changes. `changes`: DataIO events (t_lo_ms, t_hi_ms, size_bytes).
    bytes_high counts what may have come and only what has left for certain, bytes_low the other way round; both agree
    where times are precise. The last point lies at `until_ms`.
    """
    size = event_frame(changes, ("size_bytes",))["size_bytes"].astype(float).fillna(0.0).to_numpy(np.float64)
    lo_ms, hi_ms = (changes.column(name).to_numpy().astype(np.float64) for name in ("t_lo_ms", "t_hi_ms"))
    times = np.unique(np.r_[lo_ms, hi_ms, float(until_ms)]) if len(size) else np.zeros(0)
    came, left = np.where(size > 0, size, 0.0), np.where(size < 0, size, 0.0)
    return pd.DataFrame(
        {
            "t_ms": times,
            "bytes_low": _sum_until(hi_ms, came, times) + _sum_until(lo_ms, left, times),
            "bytes_high": _sum_until(lo_ms, came, times) + _sum_until(hi_ms, left, times),
            "n_changes": np.searchsorted(np.sort(lo_ms), times, side="right"),
        }
    )


def peak_of(curve: pd.DataFrame) -> tuple[float, float] | None:
    """(t_ms, bytes) of the first greatest certain amount; None without a change."""
    if not len(curve):
        return None
    waiting = curve["bytes_low"].to_numpy(np.float64)
    row = int(np.argmax(waiting))
    return float(curve["t_ms"].to_numpy()[row]), float(waiting[row])


def thinned_queue(curve: pd.DataFrame, at_most: int = MAX_POINTS) -> pd.DataFrame:
    """The curve, or per stretch of it the points of the least and the greatest amount and the last one: peaks stay."""
    if len(curve) <= at_most:
        return curve
    n_stretches = max(1, at_most // 3)
    stretch = np.arange(len(curve)) * n_stretches // len(curve)
    grouped = curve.reset_index(drop=True).groupby(stretch)
    kept = {0, *grouped["bytes_low"].idxmin(), *grouped["bytes_high"].idxmax(), *grouped.tail(1).index}
    return curve.iloc[sorted(int(row) for row in kept)].reset_index(drop=True)


def thinned(n: int, at_most: int = MAX_POINTS) -> Int64Array:
    """Row numbers of at most `at_most` of n rows, evenly, the first and the last among them."""
    if n <= at_most:
        return np.arange(n, dtype=np.int64)
    return np.unique(np.linspace(0, n - 1, at_most).round().astype(np.int64))


def _sum_until(at_ms: Float64Array, amount: Float64Array, times: Float64Array) -> Float64Array:
    """Sum of the amounts at or before each of `times`."""
    order = np.argsort(at_ms, kind="stable")
    sums = np.r_[0.0, np.cumsum(amount[order])]
    found: Float64Array = sums[np.searchsorted(at_ms[order], times, side="right")]
    return found
