"""Reports in the terminal. Names from the cluster are never read as markup."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from rich.console import Console

from app.console import inert
from app.durations import format_duration
from app.reports.tables import LIFE_TIMES, QUEUING, STRAGGLERS
from app.tables import Column, Fit, number, print_table

KINDS = {"MAP": "mapper", "REDUCE": "reducer"}
_STRAGGLERS = (
    number(""), Column("host", least=12), Column("kind", Fit.WHOLE, spare=2), Column("attempt", Fit.WHOLE, spare=3),
    Column("job", least=12), number("took"), number("expected", spare=1), number("ratio"),
)  # fmt: skip
_HOSTS = (
    Column("host", least=12), number("attempts"), number("stragglers"), number("median ratio"),
    number("surely at least", spare=1),
)  # fmt: skip
_LIFE_TIMES = (
    Column("user", least=12), Column("kind", Fit.WHOLE), Column("status", Fit.WHOLE), number("attempts", spare=2),
    number("mean", spare=1), number("median"), number("95 %"), number("longest"),
)  # fmt: skip
_QUEUING = (
    Column("job", least=16), Column("user", spare=1), number("written"), number("fetched"), number("at most waited"),
    Column("known", Fit.WHOLE, spare=2),
)  # fmt: skip


def print_report(console: Console, name: str, tables: Mapping[str, pa.Table], n_rows: int) -> None:
    """The first `n_rows` rows of what matters most of a report."""
    _PRINTERS[name](console, tables, n_rows)


def _stragglers(console: Console, tables: Mapping[str, pa.Table], n_rows: int) -> None:
    attempts, hosts = tables["attempts"], tables["hosts"]
    shown = attempts.slice(0, n_rows).to_pylist()
    if shown:
        title = f"{len(shown)} worst stragglers" if attempts.num_rows > len(shown) else "stragglers"
        told = []
        for place, row in enumerate(shown, start=1):
            bound = "" if row["status"] == "SUCCEEDED" else f" ({str(row['status']).lower()})"
            told.append((
                str(place), _text(row["host"]), KINDS.get(row["kind"], row["kind"]), _text(row["attempt_id"]),
                _text(row["job_name"] or row["job_id"]), _ms(row["period_ms"]) + bound, _ms(row["expected_ms"]),
                f"{row['ratio']:.1f}",
            ))  # fmt: skip
        print_table(console, _STRAGGLERS, told, title=title)
    else:
        console.print("No attempt took longer than expected by the ratio of a straggler.")
    if hosts.num_rows:
        by_host = []
        for row in hosts.slice(0, n_rows).to_pylist():
            n = f"{row['n_stragglers']:,} ({row['straggler_ratio']:.0%})"
            ratios = (f"{row['median_ratio']:.2f}", f"{row['low_ratio']:.2f}")
            by_host.append((_text(row["host"]), f"{row['n_attempts']:,}", n, *ratios))
        print_table(console, _HOSTS, by_host, title="hosts, the slowest first")


def _life_times(console: Console, tables: Mapping[str, pa.Table], n_rows: int) -> None:
    rows = sorted(tables["by_user"].to_pylist(), key=lambda row: -row["n_attempts"])[:n_rows]
    told = []
    for row in rows:
        times = (row[name] for name in ("mean_ms", "median_ms", "p95_ms", "max_ms"))
        kind = KINDS.get(row["kind"], row["kind"])
        told.append((_text(row["user"]), kind, _text(row["status"]), f"{row['n_attempts']:,}", *map(_ms, times)))
    print_table(console, _LIFE_TIMES, told, title="life times by user")


def _queuing(console: Console, tables: Mapping[str, pa.Table], n_rows: int) -> None:
    jobs = sorted(tables["by_job"].to_pylist(), key=lambda row: (-(row["peak_bytes"] or 0), row["job_id"]))[:n_rows]
    told = []
    for row in jobs:
        sizes = (_bytes(row[name]) for name in ("added_bytes", "fetched_bytes", "peak_bytes"))
        told.append((_text(row["job_name"] or row["job_id"]), _text(row["user"]), *sizes, row["knowledge"]))
    print_table(console, _QUEUING, told, title="map output that waited, by job")


_PRINTERS: dict[str, Callable[[Console, Mapping[str, pa.Table], int], None]] = {
    LIFE_TIMES: _life_times,
    QUEUING: _queuing,
    STRAGGLERS: _stragglers,
}


def _text(value: Any) -> str:
    return "unknown" if value is None else inert(value).replace("\n", " ")[:80]


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
