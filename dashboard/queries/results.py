"""Rows of a query as a table for people and as files for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from app.queries.messages import ResultRow, as_json
from app.store.subject import job_of
from collectors.hadoop_ids import is_job
from dashboard.times import local
from dashboard.units import shown_column

JOB, FIRST, LAST, MATCHES, EVENTS, CONFIDENCE = "Job", "First event", "Last event", "Matches", "Events", "Confidence"
BEGINS, ENDS, ROUNDED, NUMBERS = "Window after", "Window until", "Rounded", "Numbers are"
OWN_COLUMNS = (JOB, FIRST, LAST, MATCHES, EVENTS, CONFIDENCE, BEGINS, ENDS, ROUNDED, NUMBERS)

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def job_id_of(values: Mapping[str, Any]) -> str | None:
    """The MapReduce job that values are about, see app.store.subject.job_of; None for what is no job's id."""
    found = job_of({}, values)
    return found if is_job(found) else None


def result_frame(rows: Sequence[ResultRow], job_url: str = "job?id=") -> pd.DataFrame:
    """One line per row: job (an address of `job_url`), key, RETURN values as inert text, with their units or as
    numbers, then the rest.

    Times are those of the viewer's zone, without a zone. Rows about trends have windows instead of events.
    """
    names = value_names(rows)
    columns: dict[str, list[Any]] = {}
    jobs = [job_id_of({**row.key, **row.values}) for row in rows]
    if any(jobs):
        columns[JOB] = [None if job is None else f"{job_url}{job}" for job in jobs]
    for name in names:
        values = [{**row.key, **row.values}.get(name) for row in rows]
        if name != "job_id" or values != jobs:  # else it stands there already
            columns[_free(name)] = shown_column(name, values)
    of_trends = any(row.of_trends for row in rows)
    columns[BEGINS if of_trends else FIRST] = [local(row.first_lo_ms).replace(tzinfo=None) for row in rows]
    columns[ENDS if of_trends else LAST] = [local(row.last_hi_ms).replace(tzinfo=None) for row in rows]
    if of_trends:
        if any(row.expected for row in rows):
            columns[NUMBERS] = [row.expected or "certain" for row in rows]
        if not all(row.exact or row.expected for row in rows):
            columns[ROUNDED] = [not row.exact and not row.expected for row in rows]
        return pd.DataFrame(columns)
    columns[CONFIDENCE] = [row.confidence for row in rows]
    columns[EVENTS] = [sum(row.n_bound.values()) for row in rows]
    if any(row.count != 1 or not row.count_exact for row in rows):
        columns[MATCHES] = [n_matches(row) for row in rows]
    return pd.DataFrame(columns)


def value_names(rows: Iterable[ResultRow]) -> list[str]:
    """Names of the key and of RETURN, in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in (*row.key, *row.values)))


def n_matches(row: ResultRow) -> str:
    """How many matches the row stands for."""
    return f"{'' if row.count_exact else 'at least '}{row.count:,}"


def as_csv(rows: Sequence[ResultRow]) -> str:
    """One line per row. Text that a spreadsheet would run as a formula gets an apostrophe before it."""
    names = value_names(rows)
    own: tuple[str, ...] = ("first_lo_ms", "last_hi_ms", "confidence", "matches", "matches_exact")
    of_trends = any(row.of_trends for row in rows)
    if of_trends:
        own = ("window_start_ms", "window_end_ms", "exact", "expected")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_cell(name) for name in (*own, *names)])
    for row in rows:
        values = {**row.key, **row.values}
        numbers: tuple[object, ...] = (row.first_lo_ms, row.last_hi_ms, row.confidence, row.count, row.count_exact)
        if of_trends:
            numbers = (row.first_lo_ms, row.last_hi_ms, row.exact, row.expected or "")
        writer.writerow([*numbers, *(_cell(values.get(name)) for name in names)])
    return out.getvalue()


def as_json_lines(rows: Sequence[ResultRow]) -> str:
    """One object per row, with the ids of its events."""
    told = ({name: value for name, value in as_json(row).items() if name != "kind"} for row in rows)
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in told)


def _cell(value: object) -> object:
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value


def _free(name: str) -> str:
    return f"{name} (value)" if name in OWN_COLUMNS else name


__all__ = ["as_csv", "as_json_lines", "job_id_of", "n_matches", "result_frame", "value_names"]
