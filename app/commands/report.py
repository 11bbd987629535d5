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
from app.nearest_name import did_you_mean


class ReportName(StrEnum):
    """What can be reported; the values are app.reports.tables.REPORTS."""

    LIFE_TIMES = "life-times"
    QUEUING = "queuing"
    STRAGGLERS = "stragglers"


class Order(StrEnum):
    """What makes one straggler worse than another."""

    RATIO = "ratio"
    LOST = "lost"


JOB = "job"
OF_JOB = frozenset({"names", "config", "master", "store", "format_", "as_json", "dr_elephant"})
"""Parameters that `report job` takes."""


JOBS = "jobs"
OF_JOBS = frozenset({"names", "config", "master", "store", "format_", "as_json", "from_", "to", "top"})


class ReportFormat(StrEnum):
    """How reports are printed."""

    TABLE = "table"
    JSON = "json"


@friendly
def report(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REPORT]...",
            help="life-times, queuing, stragglers; else all. Or `job ID`: a MapReduce job or Spark application, judged "
            "by heuristics. Or `jobs`: those of a span, ranked by memory and time that they wasted.",
        ),
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
    as_json: Annotated[bool, typer.Option("--json", help="As --format json.")] = False,
    dr_elephant: Annotated[
        bool, typer.Option("--dr-elephant", help="Of a job: print what Dr. Elephant computes, faults included.")
    ] = False,
) -> None:
    """Report stragglers, life times of attempts and queued data over the event store; the dashboard shows them.

    Read histories into the store with `clustercep ingest` first.
    """
    if as_json:
        format_ = ReportFormat.JSON
    chosen = names or []
    if chosen[:1] == [JOB]:
        _only(ctx, OF_JOB, "job")
        job_options = {"--config": config, "--master": master, "--store": store, "--format": format_.value}
        raise typer.Exit(_judge(chosen[1:], [*words_of(job_options), *(["--dr-elephant"] if dr_elephant else [])]))
    if chosen[:1] == [JOBS]:
        _only(ctx, OF_JOBS, JOBS)
        if len(chosen) > 1:
            raise AppError(f"report jobs: found {chosen[1]!r} behind it; expected nothing: --from and --to choose")
        span = {"--from": from_, "--to": to, "--top": top, "--format": format_.value}
        words = words_of({"--config": config, "--master": master, "--store": store, **span})
        raise typer.Exit(run_spark_job("heuristics", [*words, "--", JOBS]))
    if dr_elephant:
        raise AppError("--dr-elephant: it is about one job; expected `clustercep report job JOB --dr-elephant`")
    unknown = [name for name in chosen if name not in {one.value for one in ReportName}]
    if unknown:
        reports = [one.value for one in ReportName]
        near = did_you_mean(unknown[0], [*reports, JOB, JOBS], "; ")
        raise AppError(
            f"report: found {unknown[0]!r}; expected some of {', '.join(reports)}, or job JOB, or jobs{near}"
        )
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
    raise typer.Exit(run_spark_job("reports", [*words_of(options), "--", *chosen]))


def _judge(jobs: list[str], words: list[str]) -> int:
    if len(jobs) != 1:
        raise AppError(
            f"report job: found {len(jobs)} ids; expected one, such as job_1700000000000_0001, or that of a Spark "
            "application"
        )
    return run_spark_job("heuristics", [*words, "--", jobs[0]])


def _only(ctx: typer.Context, allowed: frozenset[str], name: str) -> None:
    """Raise AppError for an option that a report would ignore."""
    given = []
    for parameter in ctx.params:
        source = ctx.get_parameter_source(parameter)
        if parameter not in allowed and source is not None and source.name == "COMMANDLINE":
            given.append(parameter)
    if given:
        option = "--" + given[0].strip("_").replace("_", "-")
        raise AppError(f"{option}: `report {name}` has no such option; see clustercep report --help")


def _parsed(option: str, text: str, parse: Callable[[str], int]) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise AppError(f"{option}: found {text!r}; {error}") from None


__all__ = ["report"]
