"""A job beside the runs of the same name and user before it: duration, records and bytes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from dashboard.events.source import EventSource
from dashboard.jobs.reading import SLACK_MS

MAX_RUNS = 10
MAX_SUMMARIES = 2_000_000
"""Summaries of attempts that are looked through for the records and bytes of these runs."""

FIGURES = ("n_input_records", "input_bytes", "n_output_records", "output_bytes")


def earlier_runs(jobs: pd.DataFrame, job: pd.Series) -> pd.DataFrame:
    """The latest runs (rows of `jobs`, see job_list.job_list) that began before this one, the latest first."""
    if pd.isna(job["job_name"]) or pd.isna(job["start_lo_ms"]):
        return jobs.iloc[:0]
    same = (jobs["job_name"] == job["job_name"]) & (jobs["job_id"] != job["job_id"])
    if pd.notna(job["user"]):
        same &= jobs["user"] == job["user"]
    before: pd.DataFrame = jobs[same.fillna(False) & (jobs["start_lo_ms"] <= job["start_lo_ms"])]
    return before.sort_values("start_lo_ms", ascending=False, kind="stable").head(MAX_RUNS).reset_index(drop=True)


def amounts(log: EventSource, runs: pd.DataFrame) -> pd.DataFrame | None:
    """By job_id, what its successful mappers read (n_input_records, input_bytes) and what its last phase wrote
    (n_output_records, output_bytes: of reducers where it has any). NaN where not known; None where it would take a look
    at too many attempts."""
    if not len(runs):
        return pd.DataFrame(columns=list(FIGURES))
    log = log.snapshot()
    begin_ms = runs["start_lo_ms"].fillna(runs["seen_ms"])
    spans = list(zip(begin_ms, runs["seen_ms"], runs["job_id"], strict=True))
    asked = [(int(begin) - SLACK_MS, int(end) + SLACK_MS, str(job_id)) for begin, end, job_id in spans]
    types = ("Mapper", "Reducer")
    if sum(log.count(types=types, from_ms=begin, to_ms=end) for begin, end, _ in asked) > MAX_SUMMARIES:
        return None
    rows = {}
    for begin, end, job_id in asked:
        columns = ("type", "task_id", "status", *FIGURES)
        found = log.read(types=types, from_ms=begin, to_ms=end, equal={"job_id": job_id}, columns=columns)
        good = found.filter(pc.fill_null(pc.equal(found.column("status"), "SUCCEEDED"), False)).to_pandas()
        by_task = good.drop_duplicates(["type", "task_id"], keep="last")
        by_type = {name: by_task[by_task["type"] == name] for name in types}
        last = by_type["Reducer"] if len(by_type["Reducer"]) else by_type["Mapper"]
        rows[job_id] = [*(_sum(by_type["Mapper"][name]) for name in FIGURES[:2]), *(_sum(last[n]) for n in FIGURES[2:])]
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(FIGURES))


def _sum(values: pd.Series) -> float:
    """NaN where none is known."""
    return float(values.astype(float).sum()) if values.notna().any() else float("nan")


def times_median(value: float, others: pd.Series) -> float:
    """How many times the median of the others it is; NaN where that is not known or nothing."""
    known = others.astype(float).dropna()
    if not len(known) or np.isnan(value) or float(known.median()) <= 0:
        return float("nan")
    return value / float(known.median())


__all__ = ["FIGURES", "MAX_RUNS", "amounts", "earlier_runs", "times_median"]
