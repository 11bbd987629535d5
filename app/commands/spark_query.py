"""`clustercep query`: a query over the event store, by the job on Spark."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from app.commands.completion import predefined_queries
from app.commands.spark import ConfigOption, MasterOption, StoreOption, run_spark_job, words_of


def query(
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help="File with a query, or the name of a predefined one.",
            autocompletion=predefined_queries,
        ),
    ],
    from_: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="First moment: ms since 1970, ISO (UTC), or 2 h ago.")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Last moment, included.")] = None,
    config: ConfigOption = None,
    master: MasterOption = None,
    store: StoreOption = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="table|jsonl|csv|parquet", help="jsonl: as `clustercep match` prints.")
    ] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format jsonl.")] = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="PATH", help="Where rows go; for parquet any URL that Hadoop knows.")
    ] = None,
    order: Annotated[bool, typer.Option("--order", help="Rows by time, in place of as they are found.")] = False,
    param: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Value of a :name of the query; repeatable.")
    ] = None,
    with_: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="OTHER.cep", help="A query whose matches this one may use; repeatable."),
    ] = None,
    aggregate: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:FUNCTION", help="A function that queries may call as they call avg; repeatable."),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Least confidence, in place of the query's.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many rows, in place of the query's.")] = None,
    one_slice: Annotated[
        bool, typer.Option("--one-slice", help="Evaluate everything in one task, where nothing can be divided.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print what would be read, and how it would be divided, instead.")
    ] = False,
) -> None:
    """Find the matches of a query among the stored events of a span of time.

    Exit 0 with matches, 1 without, 2 on a bad query or store.
    """
    words = words_of(
        {
            "--from": from_, "--to": to, "--config": config, "--master": master, "--store": store,
            "--format": "jsonl" if as_json else format_, "--out": out, "--confidence": confidence, "--limit": limit,
        }
    )  # fmt: skip
    words += [f"--param={value}" for value in param or ()]
    words += [f"--with={path}" for path in with_ or ()]
    words += [f"--aggregate={name}" for name in aggregate or ()]
    flags = {"--order": order, "--one-slice": one_slice, "--explain": explain}
    words += [name for name, is_given in flags.items() if is_given]
    raise typer.Exit(run_spark_job("query", [*words, "--", query]))


def command_line(
    query: str,
    *,
    from_ms: int | None = None,
    to_ms: int | None = None,
    parameters: Mapping[str, int | float | str] | None = None,
    used: Sequence[Path] = (),
    config: str | None = None,
    store: str | None = None,
) -> str:
    """The command for a query (a file, or a predefined one's name), as a shell reads it; without passwords."""
    words = words_of({"--from": _time(from_ms), "--to": _time(to_ms), "--config": config, "--store": store})
    words += [f"--param={name}={_value(value)}" for name, value in (parameters or {}).items()]
    words += [f"--with={path}" for path in used]
    return shlex.join(["clustercep", "query", *(without_passwords(word) for word in words), query])


def without_passwords(text: str) -> str:
    """Text in which no URL tells a password."""
    return _PASSWORD.sub("…@", text)


_PASSWORD = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]*@")


def _time(time_ms: int | None) -> str | None:
    if time_ms is None:
        return None
    moment = datetime.fromtimestamp(time_ms // 1000, UTC).replace(microsecond=time_ms % 1000 * 1000)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds" if time_ms % 1000 else "seconds")


def _value(value: int | float | str) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


__all__ = ["command_line", "query", "without_passwords"]
