"""What the commands of `clustercep alerts` have in common: options, the store, times, ways to print."""

from __future__ import annotations

import getpass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.alerting.people import Person, Role
from app.alerting.text import plain
from app.commands.completion import open_alerts
from app.commands.friendly import print_json


class Format(StrEnum):
    """How alerts are printed."""

    TABLE = "table"
    JSON = "json"


ConfigOption = Annotated[Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings.")]
StoreOption = Annotated[
    Path | None, typer.Option("--store", metavar="FOLDER", help="Folder of another SQLite store, such as a replay's.")
]
FormatOption = Annotated[Format, typer.Option("--format", help="A table, or JSON.")]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
AlertArgument = Annotated[
    str, typer.Argument(metavar="ALERT", help="Id of an alert, or a beginning of it.", autocompletion=open_alerts)
]
AlertsArgument = Annotated[
    list[str],
    typer.Argument(metavar="ALERT...", help="Ids of alerts, or beginnings of them.", autocompletion=open_alerts),
]
NoteOption = Annotated[str, typer.Option(help="Why; kept with the change.")]


def actor() -> Person:
    """Who gives the command: whoever may write the store's files or knows its password may do everything."""
    try:
        return Person(plain(getpass.getuser()), Role.ADMIN)
    except (OSError, KeyError):
        return Person("unknown", Role.ADMIN)


__all__ = [
    "AlertArgument",
    "AlertsArgument",
    "ConfigOption",
    "Format",
    "FormatOption",
    "JsonOption",
    "NoteOption",
    "StoreOption",
    "actor",
    "print_json",
]
