"""A folder of reports: REPORT/runs/RUN/TABLE.parquet and summary.json, REPORT/latest.json names the run that counts.

A run is written as a whole under a name of its own before latest.json, replaced in one step, names it: whoever reads
sees the run before or the new one, never a part. Runs that no reader can still be at are removed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import AppError
from app.reports.tables import FORMAT_VERSION, REPORTS
from app.settings import Settings

LATEST, SUMMARY, RUNS = "latest.json", "summary.json", "runs"

_RUN = re.compile(r"[0-9]{13,20}-[0-9a-f]{8}")


class ReportError(AppError):
    """A report that cannot be read."""


@dataclass(frozen=True)
class Report:
    """One run of a report. `summary`: when, over what and with which options it was made, and its figures."""

    name: str
    folder: Path
    summary: dict[str, Any]
    tables: dict[str, pa.Table]

    @property
    def made_ms(self) -> int:
        """When it was made, in milliseconds since the epoch."""
        return int(self.summary["made_ms"])


def reports_folder(settings: Settings) -> Path:
    """Where reports are written and looked for unless --out says otherwise."""
    return settings.store.directory / "reports"


def run_name(made_ms: int, token: str) -> str:
    """Runs sort by the time they were made; `token` (8 hexadecimal digits) tells those of one millisecond apart."""
    name = f"{made_ms:013d}-{token}"
    assert _RUN.fullmatch(name), name
    return name


def read_report(root: Path, name: str) -> Report | None:
    """The latest run of a report; None when there is none yet. Raises ReportError for what cannot be read."""
    for _ in range(2):
        latest = _read_json(root / name / LATEST)
        if latest is None:
            return None
        try:
            return _read_run(root, name, latest)
        except FileNotFoundError as error:
            missing = error  # removed since, after a newer run: that one is read
    raise ReportError(f"{missing.filename}: not there, though {root / name / LATEST} names it; make the report anew")


def write_tables(folder: Path, name: str, tables: dict[str, pa.Table], summary: dict[str, Any]) -> None:
    """Write a run's files into a folder of their own; it counts when latest.json names it."""
    folder.mkdir(parents=True)
    for table_name, schema in REPORTS[name].items():
        pq.write_table(tables[table_name].select(schema.names).cast(schema), folder / f"{table_name}.parquet")
    (folder / SUMMARY).write_text(json.dumps(summary, indent=1), encoding="utf-8")


def latest_text(run: str) -> str:
    """The content of latest.json."""
    return json.dumps({"format": FORMAT_VERSION, "run": run})


def removable(runs: list[str], n_kept: int) -> list[str]:
    """Runs that may go: all but the `n_kept` newest, of which somebody may be reading one."""
    return sorted(run for run in runs if _RUN.fullmatch(run))[:-n_kept]


def _read_run(root: Path, name: str, latest: dict[str, Any]) -> Report:
    where = root / name / LATEST
    if latest.get("format") != FORMAT_VERSION:
        raise ReportError(
            f"{where}: found format {latest.get('format')!r}; expected {FORMAT_VERSION}: another version of clustercep "
            "wrote it; make the report anew with this one"
        )
    run = latest.get("run")
    if not isinstance(run, str) or not _RUN.fullmatch(run):
        raise ReportError(f"{where}: found run {run!r}; expected the name of a run; make the report anew")
    folder = root / name / RUNS / run
    summary = _read_json(folder / SUMMARY)
    if summary is None:
        raise FileNotFoundError(2, "not there", str(folder / SUMMARY))
    if not isinstance(summary.get("made_ms"), int):
        raise ReportError(f"{folder / SUMMARY}: it does not say when it was made; make the report anew")
    tables = {table: _read_table(folder / f"{table}.parquet", schema) for table, schema in REPORTS[name].items()}
    return Report(name, folder, summary, tables)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ReportError(f"{path}: cannot be read: {error}; make the report anew") from error
    if not isinstance(found, dict):
        raise ReportError(f"{path}: found {type(found).__name__}; expected a JSON object; make the report anew")
    return found


def _read_table(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        return pq.read_table(path).select(schema.names).cast(schema)
    except FileNotFoundError:
        raise FileNotFoundError(2, "not there", str(path)) from None
    except (OSError, KeyError, pa.ArrowException) as error:
        raise ReportError(f"{path}: cannot be read: {error}; make the report anew") from error
