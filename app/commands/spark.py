"""Jobs on Spark in a process of their own, with our signals and its exit code: this process never loads Spark.

`clustercep ingest` stands here too; further commands beside it need `run_spark_job` alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from app.process.child_process import held_back, passing_signals_on
from app.process.signals import exit_code

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Settings; else $CLUSTERCEP_CONFIG, else config.yaml."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark's master (yarn, spark://host:7077); else spark.master, else this machine.",
    ),
]
StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="The event store: any URL that Hadoop knows; else spark.store."),
]


def ingest(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Files, folders with all below, or URLs of them.")
    ],
    config: ConfigOption = None,
    master: MasterOption = None,
    store: StoreOption = None,
    time_zone: Annotated[
        str | None, typer.Option("--time-zone", metavar="ZONE", help="Of log lines; else as the sources' settings say.")
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Path of a container's log; else sources.container_log.layout."),
    ] = None,
    max_file_size: Annotated[
        str | None, typer.Option("--max-file-size", metavar="SIZE", help="Larger files are skipped: 512 MiB.")
    ] = None,
    output: Annotated[str, typer.Option("--format", metavar="table|json", help="How the report is printed.")] = "table",
    as_json: JsonOption = False,
) -> None:
    """Read job histories, Rumen traces, logs, Spark's event logs and Ganglia's RRDs into the event store.

    Exit 0 when all was read, 1 when nothing was or a file could not be, 2 on a mistake.
    """
    options = {
        "--config": config, "--master": master, "--store": store, "--time-zone": time_zone, "--layout": layout,
        "--max-file-size": max_file_size, "--format": "json" if as_json else output,
    }  # fmt: skip
    raise typer.Exit(run_spark_job("ingest", [*words_of(options), "--", *paths]))


def run_spark_job(package: str, words: Sequence[str]) -> int:
    """Run `spark_jobs.<package>.job` with these words as command line, and our standard streams; returns its exit code.

    SIGINT, SIGTERM and SIGHUP are passed on: the job cancels what runs on its executors and ends with 128 + number.
    Those that come while it starts wait until it listens (`signal.pthread_sigmask`, as `run_job` does).
    """
    with ExitStack() as passing:
        with held_back():  # until we pass them on, and until the job listens
            # A session of its own: a Ctrl-C reaches it once, through us, and its JVM not at all.
            process = subprocess.Popen(  # noqa: S603  # our module
                [sys.executable, "-m", f"spark_jobs.{package}.job", *words], start_new_session=True
            )
            passing.enter_context(passing_signals_on(process))
        return exit_code(process.wait())


def words_of(options: Mapping[str, object]) -> list[str]:
    """`--name=value` of those that are given."""
    given = {name: value for name, value in options.items() if value is not None}
    return [f"{name}={os.fspath(value) if isinstance(value, Path) else value}" for name, value in given.items()]


__all__ = ["ConfigOption", "JsonOption", "MasterOption", "StoreOption", "ingest", "run_spark_job", "words_of"]
