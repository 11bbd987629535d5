"""`clustercep alerts`: list, show, acknowledge and silence what the store holds."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.alerting.lifecycle import State, TransitionError
from app.alerting.recorder import AlertingOptions, Recorder
from app.alerting.text import iso, plain
from app.assembly import store_url
from app.clock import SystemClock
from app.config import load_settings
from app.console import table_console
from app.durations import format_duration, parse_duration_ms
from app.errors import AppError
from app.settings import Severity
from app.store.api import AlertDetails, AlertFilter, Store, open_store
from app.store.models import AlertRow

MAX_RECORDS_SHOWN = 20


class Format(StrEnum):
    """How alerts are printed."""

    TABLE = "table"
    JSON = "json"


ConfigOption = Annotated[Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings.")]
StoreOption = Annotated[
    Path | None, typer.Option("--store", metavar="FOLDER", help="Folder of another SQLite store, such as a replay's.")
]
FormatOption = Annotated[Format, typer.Option("--format", help="A table, or JSON.")]
AlertArgument = Annotated[str, typer.Argument(metavar="ALERT", help="Id of an alert, or a beginning of it.")]
NoteOption = Annotated[str, typer.Option(help="Why; kept with the change.")]


def alerts_cli(friendly: Callable[..., Any]) -> typer.Typer:
    """The group of commands; `friendly` turns errors into messages."""
    group = typer.Typer(help="List, show, acknowledge and silence alerts.", no_args_is_help=True, rich_markup_mode=None)
    for name, command in (("list", list_alerts), ("show", show), ("ack", acknowledge), ("silence", silence)):
        group.command(name=name)(friendly(command))
    return group


def list_alerts(
    config: ConfigOption = None,
    store: StoreOption = None,
    state: Annotated[State | None, typer.Option(help="Only alerts in this state.")] = None,
    query: Annotated[str | None, typer.Option(help="Only alerts of this query.")] = None,
    severity: Annotated[Severity | None, typer.Option(help="Only alerts of this severity.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many, the latest first.")] = 100,
    format_: FormatOption = Format.TABLE,
) -> None:
    """List alerts, the latest first."""
    wanted = AlertFilter(
        states=() if state is None else (state.value,),
        queries=() if query is None else (query,),
        severities=() if severity is None else (severity.value,),
        limit=limit,
    )
    with _opened(config, store) as opened:
        alerts = opened.alerts(wanted)
        n_all = opened.n_alerts(wanted)
    if format_ is Format.JSON:
        _print_json([alert_json(alert) for alert in alerts])
        return
    table = Table("id", "state", "severity", "query", "from", "lasted", "matches", "confidence", "summary")
    for alert in alerts:
        table.add_row(
            alert.id[:8],
            alert.state,
            alert.severity,
            Text(alert.query),
            iso(alert.start_ms)[:19],
            format_duration(alert.end_ms - alert.start_ms),
            _n_matches(alert),
            f"{alert.best_confidence:.3g}",
            Text(plain(alert.summary)),
        )
    console = table_console()
    _fold(table)
    console.print(table)
    if n_all > len(alerts):
        console.print(f"{len(alerts)} of {n_all} alerts; see --limit.")


def show(
    alert: AlertArgument, config: ConfigOption = None, store: StoreOption = None, format_: FormatOption = Format.TABLE
) -> None:
    """Show one alert with its changes, evidence and notifications."""
    with _opened(config, store) as opened:
        details = opened.alert(alert)
    if format_ is Format.JSON:
        _print_json(details_json(details))
    else:
        _print_details(table_console(), details)


def acknowledge(
    alert: AlertArgument, config: ConfigOption = None, store: StoreOption = None, note: NoteOption = ""
) -> None:
    """Acknowledge an alert: somebody looks after it."""
    now_ms = SystemClock().now_ms()
    with _opened(config, store) as opened:
        alert_id = opened.alert(alert).alert.id
        with opened.transaction() as writer:
            row = writer.alert(alert_id)
            assert row is not None, "it was just read"
            recorder = Recorder(AlertingOptions({}, {}), writer, _no_evidence, now_ms)
            try:
                recorder.acknowledge(row, _actor(), note)
            except TransitionError as error:
                raise AppError(f"{alert_id}: {error}") from None
    typer.echo(f"{alert_id} is acknowledged.")


def silence(
    alert: AlertArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long: 30 min, 2 h, 1 day.")] = "2 h",
    every_key: Annotated[
        bool, typer.Option("--every-key", help="Silence the alert's query whatever its job, task or host.")
    ] = False,
    note: NoteOption = "",
) -> None:
    """Send no messages for this alert's query and key for some time; new alerts of theirs start silenced."""
    now_ms = SystemClock().now_ms()
    try:
        duration_ms = parse_duration_ms(for_)
    except ValueError as error:
        raise AppError(f"--for: found {for_!r}; {error}") from None
    with _opened(config, store) as opened:
        row = opened.alert(alert).alert
        with opened.transaction() as writer:
            recorder = Recorder(AlertingOptions({}, {}), writer, _no_evidence, now_ms)
            key_text = None if every_key else row.key_text
            n_silenced = recorder.silence(row.query, key_text, now_ms + duration_ms, _actor(), note)
    typer.echo(f"{row.query} is silent for {format_duration(duration_ms)}; {n_silenced} open alert(s) with it.")


def alert_json(alert: AlertRow) -> dict[str, Any]:
    """An alert as JSON."""
    return {
        "id": alert.id,
        "query": alert.query,
        "key": alert.key,
        "severity": alert.severity,
        "state": alert.state,
        "start": iso(alert.start_ms),
        "end": iso(alert.end_ms),
        "matches": alert.n_matches,
        "matches_exact": alert.n_matches_exact,
        "confidence": alert.best_confidence,
        "values": alert.values,
        "summary": alert.summary,
        "lane": alert.lane,
        "merged_into": alert.merged_into,
        "raised": iso(alert.created_ms),
        "resolved": None if alert.resolved_ms is None else iso(alert.resolved_ms),
    }


def details_json(details: AlertDetails) -> dict[str, Any]:
    """An alert with all that is kept of it as JSON."""
    return {
        **alert_json(details.alert),
        "runbook": details.alert.runbook,
        "changes": [
            {
                "revision": c.revision,
                "from": c.from_state,
                "to": c.to_state,
                "at": iso(c.at_ms),
                "reason": c.reason,
                "actor": c.actor,
            }
            for c in details.changes
        ],
        "evidence": [
            {
                "variable": e.variable,
                "id": e.event_id,
                "type": e.type,
                "t_lo_ms": e.t_lo_ms,
                "t_hi_ms": e.t_hi_ms,
                "attributes": e.attributes,
                "origin": e.origin,
                "raw": e.raw,
            }
            for e in details.evidence
        ],
        "notifications": [
            {
                "receiver": n.receiver,
                "state": n.state,
                "status": n.status,
                "attempts": n.n_attempts,
                "error": n.last_error,
                "idempotency_key": n.idempotency_key,
            }
            for n in details.notifications
        ],
    }


def _print_details(console: Console, details: AlertDetails) -> None:
    alert = details.alert
    console.print(Text(f"{alert.query} ({alert.severity}, {alert.state})", style="bold"))
    console.print(Text(alert.summary))
    span = f"{iso(alert.start_ms)} to {iso(alert.end_ms)}, {_n_matches(alert)} matches"
    console.print(Text(f"{span}, confidence {alert.best_confidence:.3g}, id {alert.id}"))
    if alert.merged_into:
        console.print(Text(f"It became part of {alert.merged_into}."))
    evidence = Table("variable", "event", "from", "to", "attributes", "origin", title="evidence", title_justify="left")
    for e in details.evidence:
        times = [iso(t) if t is not None else "" for t in (e.t_lo_ms, e.t_hi_ms)]
        attributes = ", ".join(f"{name}={plain(value)}" for name, value in e.attributes.items())
        evidence.add_row(
            Text(e.variable), Text(e.type or "no longer kept"), *times, Text(attributes), Text(plain(e.origin or ""))
        )
    changes = Table("at", "state", "reason", "by", title="changes", title_justify="left")
    for c in details.changes:
        changes.add_row(iso(c.at_ms), c.to_state, Text(plain(c.reason)), Text(plain(c.actor)))
    told = Table("receiver", "state", "status", "attempts", "error", title="notifications", title_justify="left")
    for n in details.notifications:
        told.add_row(Text(n.receiver), n.state, n.status, str(n.n_attempts), Text(n.last_error or ""))
    for table in (evidence, changes, told):
        if table.row_count:
            _fold(table)
            console.print(table)
    records = [e for e in details.evidence if e.raw]
    if records:
        console.print(Text("records", style="bold"))
    for e in records[:MAX_RECORDS_SHOWN]:
        console.print(Text(f"{e.variable}: {plain(e.raw, 500)}"))
    if len(records) > MAX_RECORDS_SHOWN:
        console.print(f"and {len(records) - MAX_RECORDS_SHOWN} more; see --format json.")
    if alert.runbook:
        console.print(Text("What to do", style="bold"))
        console.print(Text(alert.runbook))


def _fold(table: Table) -> None:
    """Long words go on in the next line: ids and paths are there to be copied."""
    for column in table.columns:
        column.overflow = "fold"


def _no_evidence(_event_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """These commands find no new matches."""
    return {}


def _n_matches(alert: AlertRow) -> str:
    return f"{alert.n_matches:,}" if alert.n_matches_exact else f"at least {alert.n_matches:,}"


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=True))


def _actor() -> str:
    try:
        return plain(getpass.getuser())
    except (OSError, KeyError):
        return "unknown"


@contextmanager
def _opened(config: Path | None, folder: Path | None) -> Iterator[Store]:
    if folder is None:
        url = store_url(load_settings(config))
    else:
        file = folder / "clustercep.db"
        if not file.is_file():
            raise AppError(f"{folder}: no store there; expected a folder with clustercep.db")
        url = f"sqlite:///{file}"
    with open_store(url) as opened:
        yield opened
