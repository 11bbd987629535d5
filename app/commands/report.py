"""`clustercep report`: starts the Spark job that makes reports over the event store."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from app.commands.friendly import friendly
from app.commands.spark import ConfigOption, MasterOption, StoreOption, run_spark_job, words_of
from app.durations import parse_duration_ms, parse_size_bytes
from app.errors import AppError


class ReportName(StrEnum):
    """What can be reported; the values are app.reports.tables.REPORTS."""

    LIFE_TIMES = "life-times"
    QUEUING = "queuing"
    STRAGGLERS = "stragglers"


class Order(StrEnum):
    """What makes one straggler worse than another."""

    RATIO = "ratio"
    LOST = "lost"


class ReportFormat(StrEnum):
    """How reports are printed."""

    TABLE = "table"
    JSON = "json"


@friendly
def report(
    names: Annotated[
        list[ReportName] | None,
        typer.Argument(metavar="[REPORT]...", help="life-times, queuing, stragglers; else all."),
    ] = None,
    config: ConfigOption = None,
    master: MasterOption = None,
    store: StoreOption = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the reports go, a folder or any URL that Hadoop knows; else where the dashboard "
            "looks: store.directory/reports.",
        ),
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Only events that last until then.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only events that begin before. TIME: 2026-05-01T12:30 (UTC unless it says), or 2 h ago.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, max=1_000, help="Print so many rows.")] = 10,
    format_: Annotated[
        ReportFormat, typer.Option("--format", help="A table, or the summary as JSON.")
    ] = ReportFormat.TABLE,
    ratio: Annotated[
        float, typer.Option(min=1.0, help="A straggler takes at least so many times as long as expected.")
    ] = 1.5,
    order: Annotated[Order, typer.Option(help="The worst stragglers first by ratio, or by time lost.")] = Order.RATIO,
    min_period: Annotated[
        str, typer.Option(metavar="DURATION", help="Tasks that are expected to take less are tiny and left out.")
    ] = "1 s",
    min_input: Annotated[
        str, typer.Option(metavar="SIZE", help="Below that the input does not decide how long a task takes.")
    ] = "1 MiB",
    min_attempts: Annotated[
        int, typer.Option(min=1, help="Successful attempts of a kind that a job must have to be compared.")
    ] = 3,
    window: Annotated[str, typer.Option(metavar="DURATION", help="Of the report on queued data.")] = "1 min",
) -> None:
    """Report stragglers, life times of attempts and queued data over the event store; the dashboard shows them.

    Read histories into the store with `clustercep ingest` first.
    """
    options = {
        "--config": config,
        "--master": master,
        "--store": store,
        "--out": out,
        "--from": from_,
        "--to": to,
        "--top": top,
        "--format": format_.value,
        "--ratio": ratio,
        "--order": order.value,
        "--min-period-ms": _parsed("--min-period", min_period, parse_duration_ms),
        "--min-input-bytes": _parsed("--min-input", min_input, parse_size_bytes),
        "--min-attempts": min_attempts,
        "--window-ms": _parsed("--window", window, parse_duration_ms),
    }
    if options["--window-ms"] == 0:
        raise AppError("--window: found 0; expected a duration above 0, such as '1 min'")
    raise typer.Exit(run_spark_job("reports", [*words_of(options), "--", *(name.value for name in names or ())]))


def _parsed(option: str, text: str, parse: Callable[[str], int]) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise AppError(f"{option}: found {text!r}; {error}") from None


__all__ = ["report"]
