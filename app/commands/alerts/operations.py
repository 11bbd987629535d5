"""`clustercep alerts ack|unack|assign|close`, `silence` and its like, `resend`: what changes alerts and messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from app.alerting import operations
from app.alerting.dispatch.intervals import interval_section
from app.alerting.dispatch.matchers import Matchers, matchers_text
from app.alerting.lifecycle import state_text
from app.alerting.silencing import matchers_of_alert, read_matchers, silence_text, silencing, stands
from app.alerting.text import iso, plain
from app.clock import SystemClock
from app.commands.alerts.options import (
    AlertsArgument,
    ConfigOption,
    Format,
    FormatOption,
    JsonOption,
    NoteOption,
    StoreOption,
    actor,
    print_json,
)
from app.commands.completion import open_alerts
from app.commands.friendly import EXIT_FAILED, friendly
from app.commands.friendly import JsonOption as PrintJsonOption
from app.commands.opened_store import opened
from app.config import load_settings
from app.console import inert, table_console
from app.durations import format_duration, parse_duration_ms, parse_time_ms
from app.errors import AppError
from app.nearest_name import did_you_mean
from app.store.api import Store
from app.store.models import AlertRow, SilenceRow
from app.tables import Column, Fit, print_table

MAX_PREVIEWED = 50
MAX_NAME_SHOWN = 16


@friendly
def acknowledge(
    alerts: AlertsArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Then they fire again, unless they are over: 2 h.")
    ] = None,
    note: NoteOption = "",
    as_json: PrintJsonOption = False,
) -> None:
    """Acknowledge alerts: somebody looks after them. An id that names none, or several, acknowledges nothing; of one
    that cannot be acknowledged any more it is told, and the exit code is 1."""
    for_ms = None if for_ is None else _duration_ms("--for", for_)

    def do(found: Store, alert_id: str) -> str:
        operations.acknowledge(found, alert_id, actor(), note, SystemClock().now_ms(), for_ms=for_ms)
        return "is acknowledged." if for_ms is None else f"is acknowledged for {format_duration(for_ms)}."

    _each(alerts, config, store, do, as_json=as_json)


@friendly
def unacknowledge(
    alerts: AlertsArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    note: NoteOption = "",
    as_json: PrintJsonOption = False,
) -> None:
    """Take acknowledgements back: the alerts fire, and are told again."""

    def do(found: Store, alert_id: str) -> str:
        operations.unacknowledge(found, alert_id, actor(), note, SystemClock().now_ms())
        return "fires again."

    _each(alerts, config, store, do, as_json=as_json)


@friendly
def close(
    alerts: AlertsArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    note: NoteOption = "",
    as_json: PrintJsonOption = False,
) -> None:
    """Close alerts by hand: they are over, whatever their query says. With a further match they fire again."""

    def do(found: Store, alert_id: str) -> str:
        operations.close(found, alert_id, actor(), note, SystemClock().now_ms())
        return "is closed."

    _each(alerts, config, store, do, as_json=as_json)


@friendly
def assign(
    alerts: AlertsArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    to: Annotated[str | None, typer.Option("--to", metavar="NAME", help="Whose they are; else yours.")] = None,
    nobody: Annotated[bool, typer.Option("--nobody", help="They are nobody's in particular.")] = False,
    note: NoteOption = "",
    as_json: PrintJsonOption = False,
) -> None:
    """Assign alerts: whose they are to look after stands beside them. Nobody is told."""
    if nobody and to is not None:
        raise AppError("--to and --nobody are both given; expected one of them")
    name = None if nobody else actor().name if to is None else to

    def do(found: Store, alert_id: str) -> str:
        operations.assign(found, alert_id, name, actor(), note, SystemClock().now_ms())
        return f"is assigned to {inert(name or 'nobody')}."

    _each(alerts, config, store, do, as_json=as_json)


def _each(
    alerts: Sequence[str], config: Path | None, store: Path | None, do: Callable[[Store, str], str], *, as_json: bool
) -> None:
    """Do something to each; of one that refuses it is told, and the others go on."""
    results: list[dict[str, Any]] = []
    with opened(config, store) as found:
        for alert_id in dict.fromkeys(found.alert(alert).alert.id for alert in alerts):
            try:
                told = do(found, alert_id)
            except AppError as error:
                if len(alerts) == 1:
                    raise
                typer.echo(f"clustercep: {inert(error)}", err=True)
                results.append({"id": alert_id, "done": False, "error": str(error)})
            else:
                results.append({"id": alert_id, "done": True, "error": None})
                if not as_json:
                    typer.echo(f"{alert_id} {told}")
    if as_json:
        print_json(results)
    if not all(result["done"] for result in results):
        raise typer.Exit(EXIT_FAILED)


StartOption = Annotated[
    str | None,
    typer.Option("--start", metavar="TIME", help="When it begins: 2026-05-01T22:00 (UTC unless it names a zone)."),
]
EndOption = Annotated[str | None, typer.Option("--end", metavar="TIME", help="When it is over.")]
DuringOption = Annotated[
    list[str] | None,
    typer.Option("--during", metavar="NAME", help="Only in this time interval of alerting.time_intervals, again and "
                 "again; may be given several times."),
]  # fmt: skip


@friendly
def silence(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="ALERT|MATCHER...",
            help="Id of an alert, or matchers such as 'host=\"node5\"'.",
            autocompletion=open_alerts,
        ),
    ],
    config: ConfigOption = None,
    store: StoreOption = None,
    for_: Annotated[str | None, typer.Option("--for", metavar="DURATION", help="How long: 30 min, 2 h, 1 day.")] = None,
    start: StartOption = None,
    end: EndOption = None,
    during: DuringOption = None,
    every_key: Annotated[
        bool, typer.Option("--every-key", help="Silence the alert's query whatever its job, task or host.")
    ] = False,
    preview: Annotated[bool, typer.Option("--preview", help="Show what it would hide now; change nothing.")] = False,
    note: NoteOption = "",
    as_json: PrintJsonOption = False,
) -> None:
    """Send no messages for some time (2 h unless told otherwise) for what matches: an alert's query and key, or
    matchers as Alertmanager has them. Alerts that match fire silenced."""
    now_ms = SystemClock().now_ms()
    recurrence = _intervals(config, during)
    with opened(config, store) as found:
        matchers = _matchers(found, what, every_key=every_key)
        starts_ms = now_ms if start is None else parse_time_ms("--start", start, now_ms)
        ends_ms = _end_ms(for_, end, starts_ms, now_ms)
        wanted = silencing(matchers, starts_ms, ends_ms, recurrence, now_ms)
        if preview:
            hidden = operations.hidden_by(found, matchers)
            _preview(hidden, as_json=as_json)
            _tell_labels_of_none(found, matchers, len(hidden))
            return
        made = operations.make_silence(found, wanted, actor(), note, now_ms)
        _tell_labels_of_none(found, matchers, made.n_alerts)
    if as_json:
        told = {"what": matchers_text(matchers), "from": iso(starts_ms), "until": iso(ends_ms)}
        print_json({"number": made.id, **told, "open_alerts": made.n_alerts})
        return
    when = "" if starts_ms <= now_ms else f" from {iso(starts_ms)[:19]}Z"
    how_long = format_duration(ends_ms - starts_ms)
    shown = plain(matchers_text(matchers), 500)
    typer.echo(f"{shown} is silent for {how_long}{when}; {made.n_alerts} open alert(s) with it. Silence {made.id}.")


def _tell_labels_of_none(found: Store, matchers: Matchers, n_hidden: int) -> None:
    """Of a silence that hides nothing: labels that no alert of the store has, with what may have been meant."""
    if n_hidden:
        return
    known = operations.labels_known(found)
    for name in dict.fromkeys(matcher.name for matcher in matchers if matcher.name not in known):
        near = did_you_mean(name, sorted(known), "; ")
        typer.echo(inert(f"warning: no alert of this store has a label {plain(name, 100)!r}{near}"), err=True)


def _matchers(found: Store, what: Sequence[str], *, every_key: bool) -> Matchers:
    """Of an alert's id, or as they are typed."""
    if any("=" in text for text in what):
        if every_key:
            raise AppError("--every-key: goes with the id of an alert; matchers say themselves what they match")
        return read_matchers(what)
    if len(what) != 1:
        raise AppError(f"found {len(what)} alerts; expected one, or matchers such as 'host=\"node5\"'")
    return matchers_of_alert(found.alert(what[0]).alert, every_key=every_key)


def _end_ms(for_: str | None, end: str | None, starts_ms: int, now_ms: int) -> int:
    if end is not None:
        if for_ is not None:
            raise AppError("--for and --end are both given; expected one of them")
        return parse_time_ms("--end", end, now_ms)
    return starts_ms + _duration_ms("--for", for_ or "2 h")


def _duration_ms(option: str, text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise AppError(f"{option}: found {text!r}; {error}") from None


def _intervals(config: Path | None, names: Sequence[str] | None) -> list[dict[str, Any]]:
    """Of the configuration as it is now: the silence keeps them."""
    if not names:
        return []
    known = {interval.name: interval for interval in load_settings(config).alerting.all_time_intervals}
    for name in names:
        if name not in known:
            expected = ", ".join(sorted(known)) or "none: there are no alerting.time_intervals"
            raise AppError(f"--during: there is no time interval {name!r}; expected one of {expected}")
    return [interval_section(interval) for name in names for interval in known[name].time_intervals]


_PREVIEWED = (
    Column("alert", Fit.WHOLE), Column("severity", Fit.WHOLE), Column("state", Fit.WHOLE),
    Column("summary", Fit.WRAP, 24),
)  # fmt: skip


def _preview(alerts: Sequence[AlertRow], *, as_json: bool) -> None:
    if as_json:
        names = ("id", "query", "severity", "state", "silenced", "summary")
        print_json([{name: getattr(row, name) for name in names} for row in alerts])
        return
    told = [
        (row.id[:8], row.severity, state_text(row.state, row.silenced), plain(row.summary))
        for row in alerts[:MAX_PREVIEWED]
    ]
    if alerts:
        print_table(table_console(), _PREVIEWED, told)
    more = f" ({len(alerts) - MAX_PREVIEWED} more are not shown)" if len(alerts) > MAX_PREVIEWED else ""
    typer.echo(f"It would hide {len(alerts)} open alert(s){more}; nothing was changed.")


@friendly
def edit_silence(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Of the silence, as 'alerts silences' shows it.")],
    matchers: Annotated[list[str] | None, typer.Argument(metavar="[MATCHER...]", help="In place of its own.")] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    start: StartOption = None,
    end: EndOption = None,
    during: DuringOption = None,
    always: Annotated[bool, typer.Option("--always", help="It recurs no longer: it holds from start to end.")] = False,
    note: Annotated[str | None, typer.Option(help="In place of its comment.")] = None,
    as_json: PrintJsonOption = False,
) -> None:
    """Change a silence that is not over."""
    now_ms = SystemClock().now_ms()
    recurrence = [] if always else _intervals(config, during) or None
    edit = operations.SilenceEdit(
        matchers=read_matchers(matchers) if matchers else None,
        starts_ms=None if start is None else parse_time_ms("--start", start, now_ms),
        ends_ms=None if end is None else parse_time_ms("--end", end, now_ms),
        recurrence=recurrence,
        note=note,
    )
    with opened(config, store) as found:
        operations.edit_silence(found, number, edit, actor(), now_ms)
        row = next((row for row in found.silences(now_ms) if row.id == number), None)
    if as_json:
        print_json(None if row is None else _silence_json(row, now_ms))
    else:
        typer.echo(f"Silence {number} is changed.")


@friendly
def silences(
    number: Annotated[
        int | None, typer.Argument(metavar="[NUMBER]", help="One of them, also one that is over, with its history.")
    ] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    format_: FormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List the silences that hold, and those that are to come (pending); of one who made, changed and ended it."""
    now_ms = SystemClock().now_ms()
    is_json = as_json or format_ is Format.JSON
    with opened(config, store) as found:
        if number is not None:
            _one_silence(found, number, now_ms, is_json=is_json)
            return
        rows = found.silences(now_ms)
    if is_json:
        print_json([_silence_json(row, now_ms) for row in rows])
        return
    console = table_console(whole_lines=True)
    if not rows:
        console.print("No silence holds.")
        return
    console.print(_silence_table(rows, now_ms))


def _one_silence(found: Store, number: int, now_ms: int, *, is_json: bool) -> None:
    known = found.silence(number)
    if known is None:
        raise AppError(f"there is no silence {number}; `clustercep alerts silences` lists those that hold")
    changes = found.silence_changes([number]).get(number, [])
    if is_json:
        history = [{"at": iso(change.at_ms), "by": change.actor, "what": change.what} for change in changes]
        print_json({**_silence_json(known.silence, now_ms), "history": history})
        return
    console = table_console(whole_lines=True)
    console.print(_silence_table([known.silence], now_ms))
    console.print()
    told = [(iso(change.at_ms)[:19], plain(change.actor), plain(change.what, 2_000)) for change in changes]
    print_table(console, _HISTORY, told)


_HISTORY = (Column("at (UTC)", Fit.WHOLE), Column("by", Fit.WRAP, 16), Column("what", Fit.WRAP, 24))


def _silence_table(rows: Sequence[SilenceRow], now_ms: int) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("number", "is", "from (UTC)", "until (UTC)", "by", "what and why"):
        table.add_column(name, no_wrap=name != "what and why")  # Rich makes those narrower that may wrap
    for row in rows:
        recurs = " at times" if row.recurrence else ""
        why = f": {plain(row.reason)}" if row.reason else ""
        cells = (
            str(row.id),
            f"{stands(row, now_ms)}{recurs}",
            iso(row.starts_ms)[:16],
            iso(row.until_ms)[:16],
            plain(row.actor)[:MAX_NAME_SHOWN],
        )
        what = Text(f"{plain(silence_text(row), 500)}{why}", overflow="fold")  # what it hides is never cut off
        table.add_row(*(Text(cell, no_wrap=True) for cell in cells), what)
    return table


def _silence_json(row: SilenceRow, now_ms: int) -> dict[str, Any]:
    return {
        "number": row.id,
        "what": silence_text(row),
        "is": stands(row, now_ms),
        "recurs": bool(row.recurrence),
        "from": iso(row.starts_ms),
        "until": iso(row.until_ms),
        "by": row.actor,
        "why": row.reason,
    }


@friendly
def unsilence(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Of the silence, as 'alerts silences' shows it.")],
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: PrintJsonOption = False,
) -> None:
    """End a silence: its open alerts are no longer silenced, unless another silence covers them."""
    with opened(config, store) as found:
        n_again = operations.end_silence(found, number, actor(), SystemClock().now_ms())
    if as_json:
        print_json({"number": number, "open_alerts": n_again})
        return
    typer.echo(f"Silence {number} is over; {n_again} open alert(s) are silenced no longer.")


@friendly
def resend(
    config: ConfigOption = None,
    store: StoreOption = None,
    receiver: Annotated[str | None, typer.Option(metavar="NAME", help="Only what this receiver was not told.")] = None,
    as_json: PrintJsonOption = False,
) -> None:
    """Send again the messages that were given up, under the same Idempotency-Key."""
    with opened(config, store) as found:
        again = operations.send_again(found, {receiver: ()}, actor(), SystemClock().now_ms())
        told = {name for name, _ in found.n_notifications()} if again.n_pending + again.n_overtaken == 0 else set()
    if receiver is not None and told and receiver not in told:
        near = did_you_mean(receiver, told, "; ")
        typer.echo(f"There was never a message for {plain(receiver)!r}{near}", err=True)
    if as_json:
        print_json({"pending": again.n_pending, "overtaken": again.n_overtaken})
        return
    typer.echo(f"{again.n_pending} message(s) will be sent again.")
    if again.n_overtaken:
        typer.echo(f"{again.n_overtaken} stay given up: there is a later message of the same alert.")
