"""`clustercep alerts`: which commands it has."""

from __future__ import annotations

import typer

from app.commands.lazy import Command, LazyCommands

ALERT_COMMANDS = {
    "list": Command(
        "alerts.listing", "list_alerts",
        "List alerts, the latest first, each in a line; 'alerts show' has all that is known of one.",
    ),
    "show": Command("alerts.listing", "show", "Show one alert with its changes, evidence and notifications."),
    "ack": Command("alerts.operations", "acknowledge", "Acknowledge alerts: somebody looks after them."),
    "unack": Command(
        "alerts.operations", "unacknowledge", "Take acknowledgements back: the alerts fire, and are told again."
    ),
    "assign": Command(
        "alerts.operations", "assign", "Assign alerts: whose they are to look after stands beside them."
    ),
    "close": Command(
        "alerts.operations", "close", "Close alerts by hand: they are over, whatever their query says."
    ),
    "silence": Command(
        "alerts.operations", "silence",
        "Send no messages for some time (2 h unless told otherwise) for what matches: an alert's query and key, or "
        "matchers as Alertmanager has them.",
    ),
    "edit-silence": Command("alerts.operations", "edit_silence", "Change a silence that is not over."),
    "silences": Command(
        "alerts.operations",
        "silences",
        "List the silences that hold, and those that are to come (pending); of one who made, changed and ended it.",
    ),
    "unsilence": Command(
        "alerts.operations", "unsilence",
        "End a silence: its open alerts are no longer silenced, unless another silence covers them.",
    ),
    "resend": Command(
        "alerts.operations", "resend",
        "Send again the messages that were given up, under the same Idempotency-Key.",
    ),
    "test": Command(
        "alerts.trying", "try_receiver",
        "Send a marked test alert to a receiver, and print what the service answers.",
    ),
}  # fmt: skip


class AlertCommands(LazyCommands):
    """The commands of `ALERT_COMMANDS`."""

    table = ALERT_COMMANDS


alerts_cli = typer.Typer(
    cls=AlertCommands,
    help="List, show, acknowledge, assign, close and silence alerts.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@alerts_cli.callback()
def _group() -> None:
    pass


__all__ = ["ALERT_COMMANDS", "alerts_cli"]
