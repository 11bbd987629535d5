"""One job: its attempts as a table, which of them are stragglers, and what its reducers fetched from which host."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from dashboard.events.frame import event_frame
from engine.events import BoolArray, Float64Array, Int64Array

ATTEMPT_TYPES = ("MapStart", "MapEnd", "ReducerStart", "ReducerEnd", "Mapper", "Reducer", "TaskSample")
PHASES = ("shuffle_ms", "sort_ms", "reduce_ms")
USES = (
    "n_input_records",
    "input_bytes",
    "n_output_records",
    "output_bytes",
    "n_spilled_records",
    "gc_ms",
    "cpu_ms",
)
ATTEMPT_COLUMNS = (
    "type",
    "t_lo_ms",
    "t_hi_ms",
    "job_id",
    "task_id",
    "attempt_id",
    "host",
    "rack",
    "status",
    "period_ms",
    "progress",
    "elapsed_ms",
    "task_type",
    *PHASES,
    *USES,
)
"""What `attempts` reads of the event log."""

FETCH_COLUMNS = ("t_lo_ms", "t_hi_ms", "attempt_id", "map_attempt_id", "source_host", "bytes", "period_ms")

RUNNING, NO_END = "RUNNING", "NO END SEEN"

STRAGGLER_FACTOR = 2.0
"""SASE++ (section 6.3, of Q3): a reducer whose runtime is two times the average of the others is a straggler."""
STRAGGLER_LEAST_MS = 10_000
"""... and that much longer than the average: of two short tasks one is easily twice the other."""
STRAGGLER_OTHERS = 3
"""... of at least so many others that finished."""

STRAGGLER_RULE = (
    "An attempt is marked as a straggler when an alert of a straggler query (dashboard.straggler_queries) names this "
    "very attempt, or by the page's own rule, when it runs longer than "
    f"{STRAGGLER_FACTOR:g} times the mean of the job's other successful attempts of its kind (at least "
    f"{STRAGGLER_OTHERS} of them) and at least {STRAGGLER_LEAST_MS // 1000} s longer than that mean."
)


def attempts(events: pa.Table, known_until_ms: int, *, job_ended: bool) -> pd.DataFrame:
    """One row per attempt, by earliest begin.

    Columns: attempt_id, task_id, kind (MAP, REDUCE), host, rack, status (Hadoop's, RUNNING, or NO END SEEN when the job
    is over), start_lo_ms, start_hi_ms, end_lo_ms, end_hi_ms, duration_ms, progress, shuffle_ms, sort_ms, reduce_ms,
    USES (NaN where the end was told without them), start_seen. Without an end, end_*_ms is `known_until_ms`; without a
    start, it is computed from the end and the period; where that is unknown too, an attempt has no duration and begins
    at its end.
    """
    frame = event_frame(events, ATTEMPT_COLUMNS)
    frame = frame[frame["attempt_id"].notna()].sort_values(["t_lo_ms", "t_hi_ms"], kind="stable")
    starts = _one_each(frame, ("MapStart", "ReducerStart"), "first")
    ends = _one_each(frame, ("MapEnd", "ReducerEnd"), "last")
    summaries = _one_each(frame, ("Mapper", "Reducer"), "last")
    samples = _one_each(frame, ("TaskSample",), "last")
    ends = ends.combine_first(summaries) if len(summaries) else ends
    known = [part for part in (ends, starts, samples) if len(part)]
    index = pd.Index(sorted({name for part in known for name in part.index}), name="attempt_id")
    table = pd.DataFrame(index=index)
    for name in ("task_id", "host", "rack"):
        table[name] = _coalesced([part[name] for part in known], index)
    table["kind"] = np.where(index.astype(str).str.contains("_r_", regex=False), "REDUCE", "MAP")
    for name in (*PHASES, *USES):
        table[name] = summaries[name].reindex(index).astype(float)
    period_ms = ends["period_ms"].reindex(index).astype(float)
    table["start_seen"] = index.isin(starts.index)
    has_end = index.isin(ends.index)
    begun_ms = (samples["t_hi_ms"].astype(float) - samples["elapsed_ms"].astype(float)).reindex(index)
    for side in ("lo", "hi"):
        end_ms = ends[f"t_{side}_ms"].reindex(index).astype(float)
        table[f"end_{side}_ms"] = end_ms.fillna(float(known_until_ms))
        start_ms = starts[f"t_{side}_ms"].reindex(index).astype(float)
        computed = (end_ms - period_ms).fillna(begun_ms).fillna(table[f"end_{side}_ms"])
        table[f"start_{side}_ms"] = start_ms.fillna(computed)
    open_until = table["start_hi_ms"].clip(lower=float(known_until_ms))
    for side in ("lo", "hi"):
        table[f"end_{side}_ms"] = table[f"end_{side}_ms"].where(has_end, open_until)
    measured = (table["end_hi_ms"] - table["start_lo_ms"]).clip(lower=0)
    unknown = has_end & ~table["start_seen"] & period_ms.isna()
    table["duration_ms"] = period_ms.fillna(measured).where(~unknown)
    status = ends["status"].reindex(index)
    table["status"] = np.where(has_end, status.where(status.notna(), "UNKNOWN"), NO_END if job_ended else RUNNING)
    sampled = samples["progress"].reindex(index).astype(float)
    table["progress"] = sampled.where(table["status"] != "SUCCEEDED", 1.0)  # the last sample came before the end
    return table.reset_index().sort_values(["start_lo_ms", "attempt_id"], kind="stable").reset_index(drop=True)


def stragglers(table: pd.DataFrame, named: Mapping[str, Collection[str]]) -> pd.DataFrame:
    """Which attempts (rows as in `attempts`) are stragglers, and why.

    `named`: attempts that alerts of straggler queries name, each with the queries. Columns: `by_alert`, `by_rule`,
    `mean_others_ms`, `limit_ms` (how long the rule lets it run; NaN where it has too few others), and `why` in words
    (empty for those that are none).
    """
    by_alert = table["attempt_id"].isin(set(named))
    by_rule = pd.Series(False, index=table.index)
    mean_others = pd.Series(np.nan, index=table.index)
    limit = pd.Series(np.nan, index=table.index)
    for _, part in table.groupby("kind"):
        duration = part["duration_ms"].astype(float)
        good = ((part["status"] == "SUCCEEDED") & duration.notna()).to_numpy(np.bool_)
        total, n = float(duration[good].sum()), int(good.sum())
        n_others = n - good.astype(int)
        others: Float64Array = np.where(
            n_others > 0, (total - np.where(good, duration, 0.0)) / np.maximum(n_others, 1), np.nan
        )
        mean_others[part.index] = others
        limit[part.index] = np.where(n_others >= STRAGGLER_OTHERS, straggler_limit_ms(others), np.nan)
        has_run = (part["status"] != NO_END).to_numpy(np.bool_)
        by_rule[part.index] = has_run & is_straggler(
            np.asarray(duration, np.float64), np.asarray(others, np.float64), n_others
        )
    why = [
        " and ".join([*(f"alert {query}" for query in sorted(named.get(name, ()))), *(["by the rule"] if rule else [])])
        for name, rule in zip(table["attempt_id"], by_rule, strict=True)
    ]
    columns = {"by_alert": by_alert, "by_rule": by_rule, "mean_others_ms": mean_others, "limit_ms": limit}
    return pd.DataFrame({**columns, "why": pd.Series(why, index=table.index, dtype=object)})


def is_straggler(duration_ms: Float64Array, mean_others_ms: Float64Array, n_others: Int64Array) -> BoolArray:
    """The rule by duration; see STRAGGLER_RULE."""
    longer: BoolArray = (
        (n_others >= STRAGGLER_OTHERS)
        & (duration_ms > STRAGGLER_FACTOR * mean_others_ms)
        & (duration_ms - mean_others_ms >= STRAGGLER_LEAST_MS)
    )
    return longer


def straggler_limit_ms(mean_others_ms: Float64Array) -> Float64Array:
    """How long STRAGGLER_RULE lets an attempt run, by the mean of the others."""
    limit: Float64Array = np.maximum(STRAGGLER_FACTOR * mean_others_ms, mean_others_ms + STRAGGLER_LEAST_MS)
    return limit


def limit_of_kind_ms(table: pd.DataFrame, kind: str) -> float | None:
    """The same for one more attempt of a kind, the others being those that succeeded; None where they are too few."""
    good = table[(table["kind"] == kind) & (table["status"] == "SUCCEEDED")]["duration_ms"].dropna()
    if len(good) < STRAGGLER_OTHERS:
        return None
    return float(straggler_limit_ms(np.array([good.mean()]))[0])


@dataclass(frozen=True)
class Chosen:
    """Attempts that are drawn one by one, and what is not."""

    attempts: pd.DataFrame
    n_all: int
    left_out: dict[str, int]
    """How many of each status are not drawn one by one."""


def chosen_attempts(table: pd.DataFrame, is_marked: pd.Series, at_most: int) -> Chosen:
    """All attempts when they are few; else at most `at_most`: marked ones, then failed, killed and unended ones, then
    successful ones; the longest first within each. In order of their begin."""
    if len(table) <= at_most:
        return Chosen(table, len(table), {})
    rank = np.select([is_marked, table["status"] != "SUCCEEDED"], [0, 1], default=2)
    order = table.assign(rank=rank).sort_values(["rank", "duration_ms"], ascending=[True, False], kind="stable")
    kept = order.index[:at_most].sort_values()
    left = table.drop(index=kept)["status"].value_counts()
    return Chosen(table.loc[kept], len(table), {str(status): int(n) for status, n in left.items()})


def lanes(table: pd.DataFrame) -> pd.Series:
    """Per attempt a lane of its host, from 0, so that no two attempts of a lane overlap: as few lanes as possible."""
    lane = np.zeros(len(table), np.int64)
    host = table["host"].fillna("").to_numpy()
    start, end = (table[name].to_numpy(np.float64) for name in ("start_lo_ms", "end_hi_ms"))
    free_ms: dict[str, list[float]] = {}
    for row in np.argsort(start, kind="stable").tolist():
        until = free_ms.setdefault(host[row], [])
        place = next((n for n, time in enumerate(until) if time <= start[row]), len(until))
        if place == len(until):
            until.append(0.0)
        until[place] = end[row]
        lane[row] = place
    return pd.Series(lane, index=table.index)


def fetches(events: pa.Table) -> pd.DataFrame:
    """DataPull events: source_host, attempt_id, map_attempt_id, bytes, period_ms, t_from_ms, t_to_ms.

    A fetch begins its period before its end; one of unknown period begins where it ends.
    """
    frame = event_frame(events, FETCH_COLUMNS)
    for name in ("bytes", "period_ms"):
        frame[name] = frame[name].astype(float)
    frame["t_to_ms"] = frame["t_hi_ms"].astype(float)
    frame["t_from_ms"] = frame["t_lo_ms"].astype(float) - frame["period_ms"].fillna(0.0)
    return frame.drop(columns=["t_lo_ms", "t_hi_ms"]).reset_index(drop=True)


def fetches_by_host(pulls: pd.DataFrame) -> pd.DataFrame:
    """Per source host: n_fetches, bytes, median_ms, longest_ms, bytes_per_s (over the time its fetches took together).

    The slowest host first: by longest fetch.
    """
    known = pulls.assign(source_host=pulls["source_host"].fillna(""))
    found = known.groupby("source_host", sort=True).agg(
        n_fetches=("source_host", "size"),
        bytes=("bytes", "sum"),
        time_ms=("period_ms", "sum"),
        median_ms=("period_ms", "median"),
        longest_ms=("period_ms", "max"),
    )
    found["bytes_per_s"] = (found["bytes"] / (found["time_ms"] / 1000)).where(found["time_ms"] > 0)
    found = found.reset_index().sort_values(["longest_ms", "source_host"], ascending=[False, True])
    return found.drop(columns="time_ms").reset_index(drop=True)


def _one_each(frame: pd.DataFrame, types: tuple[str, ...], keep: str) -> pd.DataFrame:
    part = frame[frame["type"].isin(types)]
    return part.drop_duplicates("attempt_id", keep="first" if keep == "first" else "last").set_index("attempt_id")


def _coalesced(columns: list[pd.Series], index: pd.Index) -> pd.Series:
    found = pd.Series([None] * len(index), index=index, dtype=object)
    for column in columns:
        other = column.reindex(index)
        found = found.where(found.notna(), other)
    return found
