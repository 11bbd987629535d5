"""Each report: what it reads of the store, and its tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from app.reports.tables import LIFE_TIMES, QUEUING, REPORTS, STRAGGLERS
from spark_jobs.reports import life_times, queuing, stragglers
from spark_jobs.reports.attempts import (
    ATTEMPT_COLUMNS,
    ATTEMPT_TYPES,
    JOB_COLUMNS,
    JOB_TYPES,
    attempts,
    jobs,
)
from spark_jobs.reports.stragglers import StragglerOptions

N_IN_SUMMARY = 10
"""Of hosts and straggling attempts."""

_OF_ATTEMPTS = (*ATTEMPT_TYPES, *JOB_TYPES)
_ATTEMPT_COLUMNS = tuple(dict.fromkeys((*ATTEMPT_COLUMNS, *JOB_COLUMNS)))


@dataclass(frozen=True)
class ReportOptions:
    """What may be chosen."""

    stragglers: StragglerOptions = field(default_factory=StragglerOptions)
    window_ms: int = 60_000
    """Of the report on queued data."""


@dataclass(frozen=True)
class Made:
    """A report's tables, with the columns of app.reports.tables, and what its summary tells besides."""

    tables: Mapping[str, pa.Table]
    options: Mapping[str, Any]
    figures: Mapping[str, Any]


@dataclass(frozen=True)
class Recipe:
    """`make` is given events of `types` with at least `columns`."""

    types: tuple[str, ...]
    columns: tuple[str, ...]
    make: Callable[[DataFrame, ReportOptions], Made]


def make_life_times(events: DataFrame, _options: ReportOptions) -> Made:
    """Life times by job and by user."""
    found = attempts(events).persist()
    try:
        owners = jobs(events)
        tables = {
            "by_job": _arrow(LIFE_TIMES, "by_job", life_times.by_job(found, owners)),
            "by_user": _arrow(LIFE_TIMES, "by_user", life_times.by_user(found, owners)),
        }
    finally:
        found.unpersist()
    by_user = tables["by_user"].to_pylist()
    figures = {"n_attempts": sum(row["n_attempts"] for row in by_user), "by_user": by_user[:100]}
    return Made(tables, {}, figures)


def make_queuing(events: DataFrame, options: ReportOptions) -> Made:
    """Queued data by job, by job and window, and of the cluster."""
    changed = queuing.changes(events, options.window_ms)
    job_rows = queuing.by_job(changed, jobs(events), options.window_ms).persist()
    window_rows = queuing.by_job_and_window(changed, job_rows).persist()
    try:
        tables = {
            "by_job": _arrow(QUEUING, "by_job", job_rows),
            "by_job_and_window": _arrow(QUEUING, "by_job_and_window", window_rows),
            "of_cluster": _fitting(QUEUING, "of_cluster", queuing.of_cluster(window_rows, job_rows)),
        }
    finally:
        window_rows.unpersist()
        job_rows.unpersist()
    known: dict[str, int] = {}
    for value in tables["by_job"].column("knowledge").to_pylist():
        known[value] = known.get(value, 0) + 1
    return Made(tables, {"window_ms": options.window_ms}, {"n_jobs": known})


def make_stragglers(events: DataFrame, options: ReportOptions) -> Made:
    """Hosts and attempts, the worst first."""
    chosen = options.stragglers
    compared = stragglers.compared(attempts(events), chosen).persist()
    try:
        n = {row["reason"] or "compared": row["n"] for row in stragglers.left_out(compared).collect()}
        tables = {
            "hosts": _arrow(STRAGGLERS, "hosts", stragglers.hosts(compared, chosen)),
            "attempts": _arrow(STRAGGLERS, "attempts", stragglers.worst(compared, jobs(events), chosen)),
        }
    finally:
        compared.unpersist()
    worst = {f"worst_{name}": table.slice(0, N_IN_SUMMARY).to_pylist() for name, table in tables.items()}
    return Made(tables, asdict(chosen), {"n_attempts": n, **worst})


RECIPES: dict[str, Recipe] = {
    LIFE_TIMES: Recipe(_OF_ATTEMPTS, _ATTEMPT_COLUMNS, make_life_times),
    QUEUING: Recipe((*queuing.TYPES, *JOB_TYPES), tuple(dict.fromkeys((*queuing.COLUMNS, *JOB_COLUMNS))), make_queuing),
    STRAGGLERS: Recipe(_OF_ATTEMPTS, _ATTEMPT_COLUMNS, make_stragglers),
}


def _arrow(report: str, name: str, rows: DataFrame) -> pa.Table:
    return _fitting(report, name, rows.select(*REPORTS[report][name].names).toArrow())


def _fitting(report: str, name: str, table: pa.Table) -> pa.Table:
    schema = REPORTS[report][name]
    return table.select(schema.names).cast(schema)
