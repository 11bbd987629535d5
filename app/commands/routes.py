"""`clustercep routes`: who is told of an alert with given labels, and the routing tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.text import Text
from rich.tree import Tree

from app.alerting.dispatch.matchers import matchers_text
from app.alerting.dispatch.routes import Route, Routing
from app.alerting.recording.labels import OF_EVERY_QUERY, possible_labels
from app.alerting.text import plain
from app.clock import SystemClock
from app.commands.alerts.options import Format, FormatOption, JsonOption, print_json
from app.commands.friendly import EXIT_FAILED, ConfigOption, friendly
from app.config import load_settings
from app.console import inert, table_console
from app.durations import format_duration
from app.errors import AppError
from app.nearest_name import did_you_mean
from app.settings import Receiver, Settings, Severity


def who_is_told(
    labels: Annotated[
        list[str], typer.Argument(metavar="LABEL=VALUE...", help="The alert's labels, as in severity=critical.")
    ],
    config: ConfigOption = None,
    verify: Annotated[
        str | None,
        typer.Option("--verify-receivers", metavar="A,B", help="Exit 1 unless exactly these are told, in this order."),
    ] = None,
    format_: FormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Print which receivers are told of an alert with these labels, in which group and when. Exit 1 when nobody is."""
    settings, of_alert = load_settings(config), dict(map(_label, labels))
    told = _told(settings, of_alert)
    names = [str(found["receiver"]) for found in told if found["why_not"] is None]
    if as_json or format_ is Format.JSON:
        print_json(told)
    else:
        for found in told:
            typer.echo(inert(_line(found)))
        if not told:
            typer.echo("Nobody: there are no receivers.")
    _tell_labels_of_none(settings, of_alert)
    if verify is not None and names != [name.strip() for name in verify.split(",") if name.strip()]:
        typer.echo(inert(f"expected {verify}; found {','.join(names) or 'nobody'}"), err=True)
        raise typer.Exit(EXIT_FAILED)
    if not names:
        raise typer.Exit(EXIT_FAILED)


def _tell_labels_of_none(settings: Settings, labels: Mapping[str, str]) -> None:
    """Labels that no alert can have lead to another answer than was meant, so they are told."""
    external = settings.alerting.external_labels
    if labels.keys() <= OF_EVERY_QUERY.union(external):
        return
    from app.queries.loading import load_queries

    loaded = load_queries(settings.queries, settings.alerting.group_gap_ms)
    known = possible_labels(loaded.infos.values(), external)
    for name in [name for name in labels if name not in known]:
        near = did_you_mean(name, sorted(known), "; ")
        typer.echo(inert(f"warning: no alert has a label {plain(name, 100)!r}{near}"), err=True)


def show(config: ConfigOption = None, format_: FormatOption = Format.TABLE, as_json: JsonOption = False) -> None:
    """Print the routing tree: matchers, receivers, grouping and times."""
    routing = Routing.of(load_settings(config).alerting)
    if as_json or format_ is Format.JSON:
        print_json(None if routing is None else _route_json(routing.root))
        return
    if routing is None:
        typer.echo("There is no alerting.route: each receiver is told of each alert by itself.")
        return
    table_console().print(_tree(routing.root))


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise AppError(f"found {text!r}; expected a label and its value, as in severity=critical")
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] == '"':
        value = value[1:-1]
    return name.strip(), value


def _told(settings: Settings, labels: dict[str, str]) -> list[dict[str, Any]]:
    """Each receiver to which the labels lead, with its group; `why_not`: None for who is told."""
    receivers, routing = settings.alerting.receivers, Routing.of(settings.alerting)
    if routing is None:
        return [_entry(name, receiver, labels) for name, receiver in receivers.items()]
    now_ms, told = SystemClock().now_ms(), []
    for target in routing.targets(labels):
        timing = target.route.timing
        told.append(
            {
                **_entry(target.route.receiver, receivers[target.route.receiver], labels),
                "group": target.key,
                "group_wait_ms": timing.group_wait_ms,
                "group_interval_ms": timing.group_interval_ms,
                "repeat_interval_ms": timing.repeat_interval_ms,
                "muted": target.route.muted(now_ms),
                **_escalation(target.route, receivers, labels),
            }
        )
    return told


def _escalation(route: Route, receivers: Mapping[str, Receiver], labels: dict[str, str]) -> dict[str, Any]:
    """Who is told of it when nobody acknowledges it."""
    if route.escalation is None:
        return {}
    name = route.escalation.route.receiver
    entry = _entry(name, receivers[name], labels)
    return {"escalation": {**entry, "after_ms": route.escalation.after_ms}}


def _entry(name: str, receiver: Receiver, labels: dict[str, str]) -> dict[str, Any]:
    why_not: str | None = None
    severity = labels.get("severity")
    if not receiver.enabled:
        why_not = "the receiver is disabled"
    elif severity in set(Severity) and Severity(severity).rank < receiver.min_severity.rank:
        why_not = f"{severity} is below its min_severity {receiver.min_severity}"
    return {"receiver": name, "why_not": why_not}


def _line(found: dict[str, Any]) -> str:
    parts = [str(found["receiver"])]
    if found["why_not"] is not None:
        parts.append(f"is not told: {found['why_not']}")
    if "group" in found:
        parts.append(f"with the group {plain(found['group'], 1_000)}, after {format_duration(found['group_wait_ms'])}")
    if (second := found.get("escalation")) is not None:
        how = "" if second["why_not"] is None else f", who is not told: {second['why_not']}"
        parts.append(f"unacknowledged {format_duration(second['after_ms'])} later {second['receiver']}{how}")
    if found.get("muted"):
        parts.append(f"now {found['muted']}")
    return "  ".join(parts)


def _route_json(route: Route) -> dict[str, Any]:
    """A node with what it has from those above."""
    second = route.escalation
    return {
        "receiver": route.receiver,
        "matchers": [str(matcher) for matcher in route.matchers],
        "continue": route.goes_on,
        "group_by": list(route.group_by),
        "group_wait_ms": route.timing.group_wait_ms,
        "group_interval_ms": route.timing.group_interval_ms,
        "repeat_interval_ms": route.timing.repeat_interval_ms,
        "mute_time_intervals": [interval.name for interval in route.mute],
        "active_time_intervals": [interval.name for interval in route.active],
        "labels": dict(route.labels),
        "escalation": None if second is None else {"receiver": second.route.receiver, "after_ms": second.after_ms},
        "routes": list(map(_route_json, route.routes)),
    }


def _tree(route: Route) -> Tree:
    timing = route.timing
    times = [
        f"{name} {format_duration(ms)}"
        for name, ms in (
            ("wait", timing.group_wait_ms),
            ("interval", timing.group_interval_ms),
            ("repeat", timing.repeat_interval_ms),
        )
    ]
    parts = [f"{plain(matchers_text(route.matchers), 1_000)} -> {route.receiver}"]
    parts.append(f"by {', '.join(route.group_by) or 'nothing: one group'}")
    parts.append(", ".join(times))
    if route.escalation is not None:
        second = route.escalation
        parts.append(f"unacknowledged after {format_duration(second.after_ms)} -> {second.route.receiver}")
    parts += ["continue"] if route.goes_on else []
    parts += [f"muted in {interval.name}" for interval in route.mute]
    parts += [f"active in {interval.name}" for interval in route.active]
    tree = Tree(Text("; ".join(parts)))
    for child in route.routes:
        tree.children.append(_tree(child))
    return tree


routes_cli = typer.Typer(
    help="Say who is told of an alert, and print the routing tree.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
for _name, _command in (("test", who_is_told), ("show", show)):
    routes_cli.command(name=_name)(friendly(_command))


__all__ = ["routes_cli"]
