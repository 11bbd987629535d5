"""`clustercep store`: what is in the event store; merge its small files; remove what no reader needs, or events."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from app.clock import SystemClock
from app.config import load_settings
from app.console import inert, table_console
from app.durations import parse_duration_ms, parse_size_bytes, parse_time_ms
from app.tables import Column, Fit, number, print_table
from collectors.time_units import HOUR_MS
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.on_this_machine import check_is_there
from spark_jobs.interruption import run_job
from spark_jobs.progress import progress_bar
from spark_jobs.session import SparkJobError, spark_session

LEAST_AGE_MS = HOUR_MS
"""Of what is swept: no write or query should be running for so long unseen."""


def main(args: Sequence[str]) -> int:
    """Exit code 0; raises AppError for a mistake."""
    asked = _parser().parse_args(args)
    settings = load_settings(asked.config)
    target_bytes = _target_bytes(asked.target) if asked.command == "compact" else 0
    older_than_ms = _older_than_ms(asked.older_than) if asked.command == "sweep" else 0
    span = _span(asked) if asked.command == "delete" else {}
    master = asked.master or settings.spark.master
    store_url = asked.store or settings.event_store_url
    check_is_there(store_url)
    with spark_session(f"clustercep store {asked.command}", master, settings.spark.conf) as spark:
        store = EventStore.open(spark, store_url)
        if asked.command == "compact":
            with progress_bar(spark, "Merging files"):
                told: dict[str, Any] = asdict(store.compact(target_bytes=target_bytes))
        elif asked.command == "delete":
            with progress_bar(spark, "Deleting events"):
                told = asdict(store.delete(asked.source, dry_run=asked.dry_run, **span))
            told["dry_run"] = asked.dry_run
        elif asked.command == "sweep":
            told = asdict(store.sweep(older_than_ms=older_than_ms))
        else:
            told = described(store)
    if asked.format == "json":
        print(json.dumps(told))
    elif asked.command == "info":
        _show(told)
    else:
        print(", ".join(f"{name}: {value}" for name, value in told.items()))
    return 0


def described(store: EventStore) -> dict[str, Any]:
    """What the list of files tells, by event type; times in ms."""
    types: dict[str, dict[str, Any]] = {}
    for file in store.files():
        new = {"n_events": 0, "n_files": 0, "n_bytes": 0, "first_ms": file.min_lo_ms, "last_ms": file.max_hi_ms}
        told = types.setdefault(file.type, new)
        told["n_events"] += file.n_rows
        told["n_files"] += 1
        told["n_bytes"] += file.n_bytes
        told["first_ms"] = min(told["first_ms"], file.min_lo_ms)
        told["last_ms"] = max(told["last_ms"], file.max_hi_ms)
    return {
        "url": store.url,
        "version": store.version,
        "n_dates": len({file.date for file in store.files()}),
        **{name: sum(told[name] for told in types.values()) for name in ("n_events", "n_files", "n_bytes")},
        "types": dict(sorted(types.items())),
    }


_COLUMNS = (
    Column("type", least=16), number("events"), number("files", spare=1), number("MiB"),
    Column("first (UTC)", Fit.WHOLE), Column("last (UTC)", Fit.WHOLE),
)  # fmt: skip


def _show(told: dict[str, Any]) -> None:
    console = table_console()
    rows = []
    for kind, found in told["types"].items():
        mib = f"{found['n_bytes'] / 2**20:,.1f}"
        times = (_time(found["first_ms"]), _time(found["last_ms"]))
        rows.append((kind, f"{found['n_events']:,}", f"{found['n_files']:,}", mib, *times))
    print_table(console, _COLUMNS, rows)
    console.print(
        f"{inert(told['url'])}: {told['n_events']:,} events on {told['n_dates']:,} days in {told['n_files']:,} files, "
        f"{told['n_bytes'] / 2**20:,.1f} MiB, after commit {told['version']}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _time(ms: int) -> str:
    return str(np.datetime64(ms, "ms").astype("datetime64[s]"))


def _target_bytes(text: str) -> int:
    try:
        target = parse_size_bytes(text)
    except ValueError as error:
        raise SparkJobError(f"--target: {error}") from None
    if target < 2**20:
        raise SparkJobError(f"--target: found {text}; expected at least 1 MiB")
    return target


def _older_than_ms(text: str) -> int:
    try:
        age_ms = parse_duration_ms(text)
    except ValueError as error:
        raise SparkJobError(f"--older-than: {error}") from None
    if age_ms < LEAST_AGE_MS:
        raise SparkJobError(f"--older-than: found {text}; expected at least 1 h: writes and queries may be running")
    return age_ms


def _span(asked: argparse.Namespace) -> dict[str, int | None]:
    """Of what is deleted; a mistake would cost much, so nothing is taken for granted."""
    if asked.source is None:
        raise SparkJobError("store delete: found no --source; expected the source whose events shall go")
    now_ms = SystemClock().now_ms()
    given = (("--from", asked.from_), ("--to", asked.to))
    first_ms, last_ms = (None if text is None else parse_time_ms(name, text, now_ms) for name, text in given)
    if first_ms is not None and last_ms is not None and last_ms < first_ms:
        raise SparkJobError(f"store delete: found --to {asked.to} before --from {asked.from_}; expected it later")
    return {"from_ms": first_ms, "to_ms": last_ms}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clustercep store", allow_abbrev=False)
    parser.add_argument("command", choices=("info", "compact", "sweep", "delete"))
    parser.add_argument("--config", type=Path)
    parser.add_argument("--master")
    parser.add_argument("--store")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--target", default="128 MiB")
    parser.add_argument("--older-than", default="1 day")
    parser.add_argument("--source")
    parser.add_argument("--from", dest="from_")
    parser.add_argument("--to")
    parser.add_argument("--dry-run", action="store_true")
    return parser


if __name__ == "__main__":
    run_job(main)
