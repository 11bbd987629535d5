"""`clustercep run`, `demo`, `dashboard`, `api`, `replay`, `check`, `test`, `warm`: imported when called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands.friendly import (
    EXIT_FAILED,
    EXIT_MISTAKE,
    ConfigOption,
    JsonOption,
    friendly,
    print_json,
    settings_of,
)
from app.console import inert, table_console
from app.errors import AppError

SpeedOption = Annotated[
    str, typer.Option(metavar="N|max", help="How many times faster than it happened; max: as fast as it goes.")
]


@friendly
def run(
    config: ConfigOption = None,
    forget_position: Annotated[
        bool, typer.Option("--forget-position", help="Start without the checkpoint: sources are read from their start.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="The machine of the process that owned the store until now is lost.")
    ] = False,
) -> None:
    """Watch the configured cluster until SIGINT or SIGTERM; SIGHUP reads configuration and queries again."""
    from app.clock import SteadyClock
    from app.commands.check import check_all
    from app.live.assembly import LIVE_PIPELINE, checkpoint_folder
    from app.live.checkpoint import CheckpointFolder
    from app.process.control_requests import requests_from_signals
    from app.process.owned_store import owned_store
    from app.process.supervisor import run as run_live

    settings = settings_of(config)
    if forget_position:
        with owned_store(settings, "run", take_over=take_over) as store:
            with store.transaction() as writer:
                writer.progress.forget_checkpoint(LIVE_PIPELINE)
            CheckpointFolder(checkpoint_folder(settings), LIVE_PIPELINE).forget()
    with requests_from_signals() as requests:
        if not run_live(settings, SteadyClock(), requests, lambda: check_all(config), take_over=take_over):
            os._exit(0)  # the step that hangs is made again after the next start


@friendly
def demo(
    config: ConfigOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="Exit at the end: 0 when all faults were found, else 1.")
    ] = False,
    speed: SpeedOption = "max",
    recording: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Another recording than the committed one: folder or .tar.xz.")
    ] = None,
    overload: Annotated[
        float | None,
        typer.Option(
            metavar="N", help="N times as fast as a simulated machine takes it, under a latency bound: 2 for twice."
        ),
    ] = None,
) -> None:
    """Replay a recorded cluster through the whole pipeline and compare the alerts with the injected faults."""
    from app.replay.demo import run_demo, show_demo

    settings = settings_of(config, least_level="error")
    result = run_demo(settings, read_speed(speed), table_console(), recording, overload=overload)
    typer.echo(f"Summary: {result.summary_path}")
    typer.echo(f"Store: {result.store_directory} ('clustercep alerts list --store' shows it here).")
    if not once:
        show_demo(settings, result, config, typer.echo)
    raise typer.Exit(0 if result.passed else EXIT_FAILED)


@friendly
def dashboard(
    config: ConfigOption = None,
    store: Annotated[
        Path | None,
        typer.Option("--store", metavar="FOLDER", help="Another store: a replay's folder, or one that ingest filled."),
    ] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65_535, help="Another port than dashboard.port.")] = None,
) -> None:
    """Show alerts, jobs, cluster, queries and health in the browser, until SIGINT or SIGTERM."""
    from app.chosen_store import DATABASE, has_store
    from app.commands.dashboard import run_dashboard

    settings = settings_of(config)
    if store is not None and not has_store(store):
        raise AppError(
            f"{store}: no store there; expected a folder with {DATABASE}, or with a history that "
            "`clustercep ingest` filled"
        )
    raise typer.Exit(run_dashboard(settings, config=config, store_folder=store, port=port, announce=typer.echo))


@friendly
def api(
    config: ConfigOption = None,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="FOLDER", help="Folder of another SQLite store: a replay's.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Another port than api.port; 0: any free one.")
    ] = None,
) -> None:
    """Answer Alertmanager's API v2 for amtool and Grafana, until SIGINT or SIGTERM."""
    from app.alertmanager.listener import run_api
    from app.clock import SystemClock
    from app.commands.opened_store import opened

    settings = settings_of(config)
    if port is not None:
        settings = settings.model_copy(update={"api": settings.api.model_copy(update={"port": port})})
    with opened(config, store) as found:
        run_api(settings, config, found, SystemClock(), typer.echo)


@friendly
def replay(
    recording: Annotated[
        Path, typer.Argument(metavar="RECORDING", help="Folder or .tar.xz, as `make record` makes it.")
    ],
    config: ConfigOption = None,
    speed: Annotated[
        str | None, typer.Option(metavar="N|max", help="How many times faster than it happened; else replay.speed.")
    ] = None,
    into: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the store and the growing files go; must be new or empty.")
    ] = Path("build/replay"),
) -> None:
    """Replay a recording with the configured queries and webhooks into a new store."""
    from app.replay.recording import Recording
    from app.replay.replay import replay as replay_recording

    settings = settings_of(config)
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise AppError(f"{into} is there already and not an empty folder; name another one with --into")
    chosen = settings.replay.speed if speed is None else read_speed(speed)
    store = settings.store.model_copy(update={"directory": into / "store", "url": None, "url_file": None})
    opened = Recording.open(recording, into / "recording", settings.replay)
    replay_recording(opened, settings.model_copy(update={"store": store}), into / "spool", speed=chosen)
    typer.echo(f"Store: {into / 'store'}; look with 'clustercep alerts list --store {into / 'store'}'.")


@friendly
def check(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Validate the configuration and every query; print all that is wrong. Exit 2 when something is."""
    from app.commands.check import check_all

    report = check_all(config)
    if as_json:
        print_json(
            {
                "problems": report.problems,
                "warnings": report.warnings,
                "queries": report.n_queries,
                "receivers": report.n_receivers,
                "shared": report.shared,
            }
        )
        raise typer.Exit(EXIT_MISTAKE if report.problems else 0)
    for warning in report.warnings:
        typer.echo(inert(f"warning: {warning}"), err=True)
    for problem in report.problems:
        typer.echo(inert(problem), err=True)
    if report.problems:
        typer.echo(f"{len(report.problems)} problem(s).", err=True)
        raise typer.Exit(EXIT_MISTAKE)
    for line in report.shared:
        typer.echo(inert(f"shared: {line}"))
    typer.echo(f"Configuration, {report.n_queries} queries and {report.n_receivers} receivers are fine.")


@friendly
def run_query_tests(
    queries: Annotated[
        list[Path] | None, typer.Argument(metavar="[QUERIES]...", help="Folders or .cep files; else queries.directory.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the test file beside each query and print what differs. Exit 1 when something does.

    A test file NAME.test.yaml has `cases`: name, parameters (optional), events, expect. An event is a mapping of type,
    t (or t_lo and t_hi) and attributes; a time is milliseconds, an offset such as "5 s", or an ISO time. An expected
    row gives what is to be compared: key, bindings, values, confidence, count.
    """
    from app.commands.query_tests import CasesError, run_tests
    from collectors.schema import load_event_types

    places = queries or [settings_of(config).queries.directory]
    try:
        results = run_tests(places, load_event_types())
    except CasesError as error:
        raise AppError(str(error)) from None
    n_failed = sum(not result.passed for result in results)
    if as_json:
        print_json([result.as_json() for result in results])
        raise typer.Exit(EXIT_FAILED if n_failed else 0)
    for result in results:
        typer.echo(f"{'ok  ' if result.passed else 'FAIL'} {inert(result.path)} ({len(result.cases)} cases)")
        for complaint in result.complaints:
            typer.echo(f"     {inert(complaint)}")
        for case in result.cases:
            if case.complaints:
                typer.echo(f"     case {case.name!r}:")
                for line in case.complaints:
                    typer.echo(f"       {inert(line)}")
    typer.echo(f"{len(results) - n_failed} of {len(results)} queries pass.")
    if n_failed:
        raise typer.Exit(EXIT_FAILED)


@friendly
def warm() -> None:
    """Compile the matching kernels now, so that nothing has to wait for them: minutes, once per machine and version."""
    import engine

    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        typer.echo("NUMBA_DISABLE_JIT is set: the kernels run as Python, and none is compiled.")
        return
    from app.commands.warming import tell_portable_kernels, warm_telling

    if not tell_portable_kernels() and not engine.kernels_are_compiled():
        typer.echo("Compiling the matching kernels: some minutes, once per machine and version.")
        warm_telling()
        if not engine.kernels_are_compiled():
            raise AppError("the compiled kernels are not kept: their folder (CLUSTERCEP_CACHE) cannot be written to")
    typer.echo("The matching kernels are compiled.")


def read_speed(text: str) -> Any:
    """`max`, or a positive number; raises AppError."""
    if text == "max":
        return "max"
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise AppError(f"--speed: found {text!r}; expected a positive number, or 'max'")
    return speed


__all__ = ["api", "check", "dashboard", "demo", "read_speed", "replay", "run", "run_query_tests", "warm"]
