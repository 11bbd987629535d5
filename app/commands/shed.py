"""`clustercep shed`: what load shedding learns from a history, and what a model of it says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.commands.friendly import ConfigOption, JsonOption, friendly, print_json, settings_of
from app.shedding.model import EventsBy

shed_cli = typer.Typer(
    name="shed",
    help="Load shedding: learn from the event log what is of least use, and show it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@shed_cli.command()
@friendly
def train(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the model goes: engine.shedding_model.")],
    config: ConfigOption = None,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="FOLDER", help="Folder of another store than store.directory.")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="First moment: 2026-05-01T12:30 (UTC), or 2 days ago.")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Last moment, included.")] = None,
    pane: Annotated[
        int, typer.Option(min=0, max=10_000, help="Events before an event that tell what it is worth; 0: none do.")
    ] = 0,
    events_by: Annotated[
        EventsBy,
        typer.Option("--events-by", help="What values events: a tree or a forest stays small with a long pane."),
    ] = EventsBy.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Learn from the event log which events and partial matches become alerts, for engine.shedding_model.

    Evaluates the configured queries over the events that the store keeps, dropping nothing; several times the queries'
    windows, with alerts in them, teach most. The model fits these queries alone: train again when they change.
    """
    from app.chosen_store import store_url
    from app.clock import SystemClock
    from app.console import inert
    from app.durations import parse_time_ms
    from app.errors import AppError
    from app.live.assembly import checked_queries, open_event_log
    from app.shedding.model import as_mapping, described, trained_model, write_model
    from app.store.api import open_store

    if not out.absolute().parent.is_dir():
        raise AppError(f"--out: {out.parent}: no such folder; expected one in which the model can be written")
    settings = settings_of(config)
    queries = checked_queries(settings)
    now_ms = SystemClock().now_ms()
    from_ms = None if from_ is None else parse_time_ms("--from", from_, now_ms)
    to_ms = None if to is None else parse_time_ms("--to", to, now_ms)
    if store is not None:
        place = settings.store.model_copy(update={"directory": store, "url": None, "url_file": None})
        settings = settings.model_copy(update={"store": place})
    # A store that is made here, for a mistyped folder or before `run`, would be taken for one that has seen nothing.
    with open_store(store_url(settings), make=False) as opened:
        events = open_event_log(settings, opened)
        model = trained_model(
            settings, queries, events, from_ms=from_ms, to_ms=to_ms, pane_events=pane, events_by=events_by
        )
    write_model(out, model)
    if as_json:
        print_json({"model": str(out), **as_mapping(model)})
        return
    for line in described(model):
        typer.echo(inert(line))
    typer.echo(inert(f"Model: {out}; name it as engine.shedding_model, beside engine.latency_bound."))


@shed_cli.command()
@friendly
def show(
    model: Annotated[Path, typer.Argument(metavar="FILE", help="What 'clustercep shed train' wrote.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a model says that partial matches and events are worth. Exit 2 where it does not fit the queries."""
    from app.console import inert
    from app.live.assembly import checked_queries
    from app.shedding.model import as_mapping, described, read_model

    queries = {query.name: query for query in checked_queries(settings_of(config)).compiled}
    read = read_model(model, queries)
    if as_json:
        print_json(as_mapping(read))
        return
    for line in described(read):
        typer.echo(inert(line))


__all__ = ["shed_cli"]
