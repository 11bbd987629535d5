"""The command line: `clustercep COMMAND`. Commands are imported when they are called: help is there at once."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

import typer

from app.commands.lazy import Command, LazyCommands, without_looking_for_garbage
from app.nearest_name import did_you_mean
from app.without_pandas import leave_out_pandas

COMMANDS = {
    "run": Command(
        "process", "run",
        "Watch the configured cluster until SIGINT or SIGTERM; SIGHUP reads configuration and queries again.",
    ),
    "demo": Command(
        "process", "demo",
        "Replay a recorded cluster through the whole pipeline and compare the alerts with the injected faults.",
    ),
    "dashboard": Command(
        "process", "dashboard",
        "Show alerts, jobs, cluster, queries and health in the browser, until SIGINT or SIGTERM.",
    ),
    "api": Command(
        "process", "api", "Answer Alertmanager's API v2 for amtool and Grafana, until SIGINT or SIGTERM."
    ),
    "replay": Command(
        "process", "replay", "Replay a recording with the configured queries and webhooks into a new store."
    ),
    "check": Command("process", "check", "Validate the configuration and every query; print all that is wrong."),
    "test": Command("process", "run_query_tests", "Run the test file beside each query and print what differs."),
    "warm": Command(
        "process", "warm",
        "Compile the matching kernels now, so that nothing has to wait for them: minutes, once per machine and "
        "version.",
    ),
    "match": Command("match.match", "match", "Print the matches of a query on the events of a file."),
    "explain": Command(
        "match.match", "explain",
        "Print how a query is read and evaluated: automaton, predicates by edge and class, runtime, cost; of the "
        "queries whose matches it uses as well.",
    ),
    "ingest": Command(
        "spark", "ingest",
        "Read job histories, Rumen traces, logs, Spark's event logs and Ganglia's RRDs into the event store.",
    ),
    "stream": Command(
        "stream", "stream",
        "Detect on Spark, live: event files that appear in a folder, or a Kafka topic, to alerts and reports.",
    ),
    "query": Command(
        "spark_query", "query", "Find the matches of a query among the stored events of a span of time."
    ),
    "report": Command(
        "report", "report",
        "Report stragglers, life times of attempts and queued data over the event store; the dashboard shows them.",
    ),
    "store": Command("store", "store_cli", "The event store of the jobs on Spark: info, compact, sweep, delete."),
    "shed": Command(
        "shed", "shed_cli", "Load shedding: learn from the event log what is of least use, and show it."
    ),
    "alerts": Command("alerts.group", "alerts_cli", "List, show, acknowledge, assign, close and silence alerts."),
    "routes": Command("routes", "routes_cli", "Say who is told of an alert, and print the routing tree."),
}  # fmt: skip


class Commands(LazyCommands):
    """The commands of `COMMANDS`."""

    table = COMMANDS

    def invoke(self, ctx: Any) -> Any:
        """As Typer does, but what is wrong with a value in words of ours."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = plain_complaint(error.message)
            raise


cli = typer.Typer(
    cls=Commands,
    name="clustercep",
    help="Watches Hadoop clusters: pattern queries over their metrics and logs, alerts with evidence and confidence.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def plain_complaint(message: str) -> str:
    """What Typer has from Pydantic about a value, without Pydantic's words, and with the nearest of some choices."""
    text = message.removeprefix("Value error, ")
    if text.startswith("Input should be "):
        return f"expected {text.removeprefix('Input should be ')}"
    found, said, choices = text.rpartition(" is not one of '")
    if not said:
        return text
    return text.removesuffix(".") + did_you_mean(found.strip("'\""), choices.rstrip("'.").split("', '"), "; ")


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"clustercep {version('clustercep')}")
        raise typer.Exit


@cli.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The entry point."""
    leave_out_pandas()
    without_looking_for_garbage()
    cli()


if __name__ == "__main__":
    main()


__all__ = ["COMMANDS", "cli", "main"]
