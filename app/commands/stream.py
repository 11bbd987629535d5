"""`clustercep stream`: the command line of `spark_jobs.stream.job`, which checks what it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.commands.spark import ConfigOption, MasterOption, run_spark_job, words_of


def stream(
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", metavar="URL", help="Folder for state and positions; all executors reach it.")
    ],
    folder: Annotated[
        str | None, typer.Argument(metavar="[INPUT]", help="Folder in which event files appear, whole at once.")
    ] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", metavar="parquet|jsonl", help="Of the files; else parquet.")
    ] = None,
    kafka: Annotated[
        str | None, typer.Option("--kafka", metavar="SERVERS", help="Read a topic instead: host:port, ...")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Its name; a value is a JSON object with the columns of an event.")
    ] = None,
    kafka_option: Annotated[
        list[str] | None, typer.Option("--kafka-option", metavar="NAME=VALUE", help="Of Spark's Kafka source.")
    ] = None,
    kafka_config: Annotated[
        Path | None,
        typer.Option(
            "--kafka-config", metavar="FILE", help="Kafka's client properties (TLS, SASL); else spark.kafka_config."
        ),
    ] = None,
    config: ConfigOption = None,
    master: MasterOption = None,
    conf: Annotated[list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="Setting of Spark.")] = None,
    buckets: Annotated[
        int | None, typer.Option("--buckets", metavar="N", help="Parts into which keys are divided; else 16.")
    ] = None,
    lateness: Annotated[
        str | None, typer.Option("--lateness", metavar="TIME", help="How late an event may come; else 1 min.")
    ] = None,
    idle_timeout: Annotated[
        str | None,
        typer.Option("--idle-timeout", metavar="TIME", help="Without events, time goes on after this; or never."),
    ] = None,
    trigger: Annotated[
        str | None, typer.Option("--trigger", metavar="TIME", help="A micro-batch begins so often; else 5 s.")
    ] = None,
    max_files: Annotated[
        int | None, typer.Option("--max-files", metavar="N", help="Files per micro-batch at most.")
    ] = None,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave out files that cannot be read or are gone.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="End when all that is there now is done.")] = False,
    restart_queries: Annotated[
        bool, typer.Option("--restart-queries", help="New and changed queries begin afresh, the others go on.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="The machine of the process that owned the store until now is lost.")
    ] = False,
) -> None:
    """Detect on Spark, live: event files that appear in a folder, or a Kafka topic, to alerts and reports.

    Goes on where the checkpoint stands. Ends on SIGINT or SIGTERM with 128 + its number, with 2 on a mistake.
    """
    options = {
        "--checkpoint": checkpoint, "--format": file_format, "--kafka": kafka, "--topic": topic, "--config": config,
        "--master": master, "--buckets": buckets, "--lateness": lateness, "--idle-timeout": idle_timeout,
        "--trigger": trigger, "--max-files": max_files, "--kafka-config": kafka_config,
    }  # fmt: skip
    words = words_of(options)
    words += [f"--kafka-option={entry}" for entry in kafka_option or ()] + [f"--conf={entry}" for entry in conf or ()]
    words += ["--skip-damaged"] * skip_damaged + ["--once"] * once + ["--restart-queries"] * restart_queries
    words += ["--take-over"] * take_over
    raise typer.Exit(run_spark_job("stream", [*words, "--", *([] if folder is None else [folder])]))


__all__ = ["stream"]
