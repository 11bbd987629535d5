"""`clustercep store`: the event store's contents and upkeep, by a job of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.commands.spark import ConfigOption, JsonOption, MasterOption, StoreOption, run_spark_job, words_of

FormatOption = Annotated[str, typer.Option("--format", metavar="table|json", help="How the answer is printed.")]

store_cli = typer.Typer(
    name="store",
    help="The event store of the jobs on Spark: info, compact, sweep, delete.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@store_cli.command()
def info(
    config: ConfigOption = None,
    master: MasterOption = None,
    store: StoreOption = None,
    output: FormatOption = "table",
    as_json: JsonOption = False,
) -> None:
    """Show what the store holds, by event type."""
    raise typer.Exit(_run("info", config, master, store, _format(output, as_json)))


@store_cli.command()
def compact(
    config: ConfigOption = None,
    master: MasterOption = None,
    store: StoreOption = None,
    target: Annotated[str, typer.Option(metavar="SIZE", help="Files become as large as this.")] = "128 MiB",
    output: FormatOption = "table",
    as_json: JsonOption = False,
) -> None:
    """Merge small files of one date and type. Events may be read and added meanwhile."""
    raise typer.Exit(_run("compact", config, master, store, _format(output, as_json), {"--target": target}))


@store_cli.command()
def sweep(
    config: ConfigOption = None,
    master: MasterOption = None,
    store: StoreOption = None,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Longer than any write or query takes.")
    ] = "1 day",
    output: FormatOption = "table",
    as_json: JsonOption = False,
) -> None:
    """Remove files of writes that did not end, and those that were merged or replaced so long ago."""
    raise typer.Exit(_run("sweep", config, master, store, _format(output, as_json), {"--older-than": older_than}))


@store_cli.command()
def delete(
    source: Annotated[str, typer.Option(metavar="NAME", help="Whose events go: container_log, job_history, ...")],
    config: ConfigOption = None,
    master: MasterOption = None,
    store: StoreOption = None,
    from_: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Those that begin then or later.")] = None,
    to: Annotated[str | None, typer.Option(metavar="TIME", help="Those that begin then or before.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count them only.")] = False,
    output: FormatOption = "table",
    as_json: JsonOption = False,
) -> None:
    """Delete the events of a source, as after an ingest in a wrong time zone. What is merged with them stays."""
    more: dict[str, object] = {"--source": source, "--from": from_, "--to": to}
    raise typer.Exit(
        _run("delete", config, master, store, _format(output, as_json), more, ("--dry-run",) if dry_run else ())
    )


def _format(output: str, as_json: bool) -> str:
    return "json" if as_json else output


def _run(
    command: str,
    config: Path | None,
    master: str | None,
    store: str | None,
    output: str,
    more: dict[str, object] | None = None,
    flags: tuple[str, ...] = (),
) -> int:
    given = {"--config": config, "--master": master, "--store": store, "--format": output, **(more or {})}
    return run_spark_job("event_store", [command, *words_of(given), *flags])
