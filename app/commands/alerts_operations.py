"""`clustercep alerts ack|silence|silences|unsilence|resend`: what changes alerts and their messages."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from app.alerting import operations
from app.alerting.text import iso, plain
from app.clock import SystemClock
from app.commands.alerts_options import (
    AlertArgument,
    AlertsArgument,
    ConfigOption,
    Format,
    FormatOption,
    JsonOption,
    NoteOption,
    StoreOption,
    actor,
    fold,
    opened,
    print_json,
)
from app.console import table_console
from app.durations import format_duration, parse_duration_ms
from app.errors import AppError


def acknowledge(
    alerts: AlertsArgument, config: ConfigOption = None, store: StoreOption = None, note: NoteOption = ""
) -> None:
    """Acknowledge alerts: somebody looks after them. An id that names none, or several, acknowledges nothing."""
    with opened(config, store) as found:
        ids = dict.fromkeys(found.alert(alert).alert.id for alert in alerts)
        for alert_id in ids:
            operations.acknowledge(found, alert_id, actor(), note, SystemClock().now_ms())
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
    """Send no messages for this alert's query and key for some time; new alerts of theirs fire silenced."""
    try:
        duration_ms = parse_duration_ms(for_)
    except ValueError as error:
        raise AppError(f"--for: found {for_!r}; {error}") from None
    with opened(config, store) as found:
        row = found.alert(alert).alert
        now_ms = SystemClock().now_ms()
        n_silenced = operations.silence(found, row.id, duration_ms, actor(), note, now_ms, every_key)
    typer.echo(f"{row.query} is silent for {format_duration(duration_ms)}; {n_silenced} open alert(s) with it.")


def silences(
    config: ConfigOption = None,
    store: StoreOption = None,
    format_: FormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List the silences that hold."""
    with opened(config, store) as found:
        rows = found.silences(SystemClock().now_ms())
    if as_json or format_ is Format.JSON:
        print_json(
            [
                {
                    "number": row.id,
                    "query": row.query,
                    "key": row.key_text,
                    "until": iso(row.until_ms),
                    "by": row.actor,
                    "why": row.reason,
                }
                for row in rows
            ]
        )
        return
    table = Table("number", "query", "key", "until", "by", "why")
    for row in rows:
        key = Text("every key" if row.key_text is None else plain(row.key_text))
        table.add_row(
            str(row.id),
            Text(plain(row.query)),
            key,
            iso(row.until_ms)[:19],
            Text(plain(row.actor)),
            Text(plain(row.reason)),
        )
    fold(table)
    console = table_console()
    if rows:
        console.print(table)
    else:
        console.print("No silence holds.")


def unsilence(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Of the silence, as 'alerts silences' shows it.")],
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """End a silence: its open alerts are no longer silenced, unless another silence covers them."""
    with opened(config, store) as found:
        n_again = operations.end_silence(found, number, actor(), SystemClock().now_ms())
    typer.echo(f"Silence {number} is over; {n_again} open alert(s) are silenced no longer.")


def resend(
    config: ConfigOption = None,
    store: StoreOption = None,
    receiver: Annotated[str | None, typer.Option(metavar="NAME", help="Only what this receiver was not told.")] = None,
) -> None:
    """Send again the messages that were given up, under the same Idempotency-Key."""
    with opened(config, store) as found, found.transaction() as writer:
        again = writer.outbox.send_again(receiver, now_ms=SystemClock().now_ms())
    typer.echo(f"{again.n_pending} message(s) will be sent again.")
    if again.n_overtaken:
        typer.echo(f"{again.n_overtaken} stay given up: there is a later message of the same alert.")
