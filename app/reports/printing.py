"""Reports in the terminal. Names from the cluster are never read as markup."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.console import inert
from app.durations import format_duration
from app.reports.tables import LIFE_TIMES, QUEUING, STRAGGLERS

KINDS = {"MAP": "mapper", "REDUCE": "reducer"}


def print_report(console: Console, name: str, tables: Mapping[str, pa.Table], n_rows: int) -> None:
    """The first `n_rows` rows of what matters most of a report."""
    _PRINTERS[name](console, tables, n_rows)


def _stragglers(console: Console, tables: Mapping[str, pa.Table], n_rows: int) -> None:
    attempts, hosts = tables["attempts"], tables["hosts"]
    shown = attempts.slice(0, n_rows).to_pylist()
    if shown:
        title = f"{len(shown)} worst stragglers" if attempts.num_rows > len(shown) else "stragglers"
        table = _table(title, "", "host", "kind", "attempt", "job", "took", "expected", "ratio")
        for place, row in enumerate(shown, start=1):
            bound = "" if row["status"] == "SUCCEEDED" else f" ({str(row['status']).lower()})"
            table.add_row(
                str(place), _text(row["host"]), KINDS.get(row["kind"], row["kind"]), _text(row["attempt_id"]),
                _text(row["job_name"] or row["job_id"]), _ms(row["period_ms"]) + bound, _ms(row["expected_ms"]),
                f"{row['ratio']:.1f}",
            )  # fmt: skip
        _numbers(table, "took", "expected", "ratio", "")
        console.print(table)
    else:
        console.print("No attempt took longer than expected by the ratio of a straggler.")
    if hosts.num_rows:
        table = _table("hosts, the slowest first", "host", "attempts", "stragglers", "median ratio", "surely at least")
        for row in hosts.slice(0, n_rows).to_pylist():
            n = f"{row['n_stragglers']:,} ({row['straggler_ratio']:.0%})"
            ratios = (f"{row['median_ratio']:.2f}", f"{row['low_ratio']:.2f}")
            table.add_row(_text(row["host"]), f"{row['n_attempts']:,}", n, *ratios)
        _numbers(table, "attempts", "stragglers", "median ratio", "surely at least")
        console.print(table)


def _life_times(console: Console, tables: Mapping[str, pa.Table], n_rows: int) -> None:
    rows = sorted(tables["by_user"].to_pylist(), key=lambda row: -row["n_attempts"])[:n_rows]
    table = _table("life times by user", "user", "kind", "status", "attempts", "mean", "median", "95 %", "longest")
    for row in rows:
        times = (row[name] for name in ("mean_ms", "median_ms", "p95_ms", "max_ms"))
        kind = KINDS.get(row["kind"], row["kind"])
        table.add_row(_text(row["user"]), kind, _text(row["status"]), f"{row['n_attempts']:,}", *map(_ms, times))
    _numbers(table, "attempts", "mean", "median", "95 %", "longest")
    console.print(table)


def _queuing(console: Console, tables: Mapping[str, pa.Table], n_rows: int) -> None:
    jobs = sorted(tables["by_job"].to_pylist(), key=lambda row: (-(row["peak_bytes"] or 0), row["job_id"]))[:n_rows]
    table = _table("map output that waited, by job", "job", "user", "written", "fetched", "at most waited", "known")
    for row in jobs:
        sizes = (_bytes(row[name]) for name in ("added_bytes", "fetched_bytes", "peak_bytes"))
        table.add_row(_text(row["job_name"] or row["job_id"]), _text(row["user"]), *sizes, row["knowledge"])
    _numbers(table, "written", "fetched", "at most waited")
    console.print(table)


_PRINTERS: dict[str, Callable[[Console, Mapping[str, pa.Table], int], None]] = {
    LIFE_TIMES: _life_times,
    QUEUING: _queuing,
    STRAGGLERS: _stragglers,
}


def _table(title: str, *columns: str) -> Table:
    table = Table(*columns, title=title, title_justify="left")
    for column in table.columns:
        column.overflow = "fold"
    return table


def _numbers(table: Table, *headers: str) -> None:
    for column in table.columns:
        if column.header in headers:
            column.justify = "right"
            column.no_wrap = True


def _text(value: Any) -> Text:
    return Text("unknown" if value is None else inert(value).replace("\n", " ")[:80])


def _ms(value: float | None) -> str:
    return "unknown" if value is None else format_duration(round(value))


def _bytes(value: int | None) -> str:
    if value is None:
        return "unknown"
    size, unit = float(value), "B"
    for greater in ("KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024:
            break
        size, unit = size / 1024, greater
    return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
