"""A job's figures from its events, whoever read them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from app.heuristics.corrected import AT_END, PEAK, peak_bytes
from app.heuristics.dr_elephant import SHUFFLED
from app.heuristics.figures import SUCCEEDED, AttemptUse, JobFigures, TaskFigures
from collectors.hadoop_ids import TaskKind, is_attempt, kind_of, task_of
from collectors.history.whole_counters import task_counters

JOB_TYPES = ("JobStart", "JobEnd")
SUMMARIES, ENDS = ("Mapper", "Reducer"), ("MapEnd", "ReducerEnd")
TYPES = (*JOB_TYPES, *SUMMARIES, *ENDS, "AttemptCounters", "JobCounters", "JobSettings")
COLUMNS = (
    "type", "t_lo_ms", "t_hi_ms", "job_id", "job_name", "user", "queue", "n_maps", "n_reduces", "status", "period_ms",
    "task_id", "attempt_id", "shuffle_ms", "sort_ms", "counters", "diagnostics", "settings",
)  # fmt: skip

FIGURES: Mapping[TaskKind, Mapping[str, str]] = {
    "MAP": {
        "gc_ms": "GC_TIME_MILLIS", "cpu_ms": "CPU_MILLISECONDS", "n_spilled_records": "SPILLED_RECORDS",
        "n_output_records": "MAP_OUTPUT_RECORDS", "input_bytes": "INPUT_BYTES_READ",
    },
    "REDUCE": {"gc_ms": "GC_TIME_MILLIS", "cpu_ms": "CPU_MILLISECONDS", "input_bytes": "REDUCE_SHUFFLE_BYTES"},
}  # fmt: skip
"""Attribute of Mapper or Reducer -> the counter that it is; INPUT_BYTES_READ is that of the input format, from whatever
file system."""
COLUMNS_SO_FAR = (*COLUMNS, *dict.fromkeys(name for figures in FIGURES.values() for name in figures))

USED_COUNTERS = frozenset({
    "GC_TIME_MILLIS", "CPU_MILLISECONDS", "SPILLED_RECORDS", "MAP_OUTPUT_RECORDS", AT_END, *PEAK.values(), *SHUFFLED,
})  # fmt: skip
"""Those that heuristics ask for; besides the bytes read from each file system."""

MAX_SETTINGS_CHARS = 1 << 20

_T = TypeVar("_T")


def figures_so_far(job_id: str, events: pa.Table) -> JobFigures:
    """Of a job that may still run: tasks that have succeeded, with the counters that Mapper and Reducer tell of them.

    `events` as for `job_figures`, with COLUMNS_SO_FAR.
    """
    return _figures(job_id, events, COLUMNS_SO_FAR, so_far=True)


def job_figures(job_id: str, events: pa.Table) -> JobFigures:
    """Of one job; `events` are all its rows of TYPES, with COLUMNS as far as any has them, in any order."""
    return _figures(job_id, events, COLUMNS, so_far=False)


def _figures(job_id: str, events: pa.Table, columns: Collection[str], *, so_far: bool) -> JobFigures:
    present = [name for name in columns if name in events.column_names]
    by_type: dict[str, list[dict[str, Any]]] = {}
    for batch in events.select(present).to_batches(max_chunksize=4096):
        for row in batch.to_pylist():
            if row["type"] == "AttemptCounters":
                row["counters"] = _used(row.get("counters"))
            by_type.setdefault(row["type"], []).append(row)
    start, end = _last(by_type.get("JobStart", ())), _last(by_type.get("JobEnd", ()))
    told = [*([end] if end else []), *([start] if start else [])]
    attempts = _attempts(by_type)
    counters = {
        row["attempt_id"]: row["counters"] for row in by_type.get("AttemptCounters", ()) if row["counters"] is not None
    }
    if so_far:
        attempts = {attempt_id: row for attempt_id, row in attempts.items() if row.get("status") == SUCCEEDED}
        counters = {attempt_id: _told(attempt_id, row) for attempt_id, row in attempts.items()} | counters
    totals, settings = _last(by_type.get("JobCounters", ())), _last(by_type.get("JobSettings", ()))
    tasks = _tasks(attempts, counters)
    end_ms = None if end is None else end["t_hi_ms"]
    return JobFigures(
        job_id=job_id,
        job_name=_known(told, "job_name"),
        user=_known(told, "user"),
        queue=_known(told, "queue"),
        status=_known(told[:1] if end else [], "status"),
        start_ms=start["t_lo_ms"] if start else _minus(end_ms, end.get("period_ms")) if end else None,
        end_ms=end_ms,
        n_maps=_known(told, "n_maps"),
        n_reduces=_known(told, "n_reduces"),
        maps=tuple(task for task in tasks if kind_of(task.task_id) == "MAP"),
        reduces=tuple(task for task in tasks if kind_of(task.task_id) == "REDUCE"),
        attempts=tuple(
            AttemptUse(
                kind_of(attempt_id),
                row.get("status") == SUCCEEDED,
                row.get("period_ms"),
                peak_bytes(kind_of(attempt_id), counters.get(attempt_id)),
            )
            for attempt_id, row in sorted(attempts.items())
        ),
        settings=None if settings is None else _settings(settings.get("settings")),
        diagnostics=None if totals is None else totals.get("diagnostics"),
    )


def _attempts(by_type: Mapping[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """The end of each attempt: what Mapper or Reducer says, else MapEnd or ReducerEnd."""
    found: dict[str, dict[str, Any]] = {}
    for name in (*ENDS, *SUMMARIES):
        for row in by_type.get(name, ()):
            if is_attempt(row.get("attempt_id")):
                before = found.get(row["attempt_id"], {})
                found[row["attempt_id"]] = {**before, **{key: value for key, value in row.items() if value is not None}}
    return found


def _tasks(attempts: Mapping[str, Mapping[str, Any]], counters: Mapping[str, Mapping[str, int]]) -> list[TaskFigures]:
    """Each task by the attempt that counts: the last that succeeded, else the first that ended otherwise."""
    by_task: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for attempt_id, row in sorted(attempts.items()):
        by_task.setdefault(task_of(attempt_id), []).append((attempt_id, row))
    tasks = []
    for task_id, own in sorted(by_task.items()):
        own.sort(key=lambda one: one[1]["t_hi_ms"])
        good = [one for one in own if one[1].get("status") == SUCCEEDED]
        attempt_id, row = good[-1] if good else own[0]
        is_map = kind_of(task_id) == "MAP"
        shuffle_ms, sort_ms = (0, 0) if is_map else (row.get("shuffle_ms"), row.get("sort_ms"))
        tasks.append(TaskFigures(task_id, row.get("period_ms"), shuffle_ms, sort_ms, counters.get(attempt_id)))
    return tasks


def _told(attempt_id: str, row: Mapping[str, Any]) -> dict[str, int]:
    """The counters that the summary of an attempt tells."""
    named = FIGURES[kind_of(attempt_id)]
    return {counter: row[name] for name, counter in named.items() if row.get(name) is not None}


def _used(text: str | None) -> dict[str, int] | None:
    found = task_counters(text)
    if found is None:
        return None
    return {name: n for name, n in found.items() if name in USED_COUNTERS or name.endswith("_BYTES_READ")}


def _settings(text: str | None) -> dict[str, str] | None:
    try:
        found = json.loads(text) if text is not None and len(text) <= MAX_SETTINGS_CHARS else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _last(rows: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    return max(rows, key=lambda row: (row["t_hi_ms"], row["t_lo_ms"]), default=None)


def _known(rows: Iterable[Mapping[str, Any]], name: str) -> Any:
    return next((row[name] for row in rows if row.get(name) is not None), None)


def _minus(end_ms: int | None, period_ms: int | None) -> int | None:
    return None if end_ms is None or period_ms is None else end_ms - period_ms


__all__ = ["COLUMNS", "COLUMNS_SO_FAR", "JOB_TYPES", "TYPES", "USED_COUNTERS", "figures_so_far", "job_figures"]
