"""What the commands of `clustercep alerts` have in common: options, the store, times, ways to print."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.alerting.people import Person, Role
from app.alerting.text import plain
from app.chosen_store import DATABASE, store_url
from app.commands.friendly import print_json
from app.config import load_settings
from app.errors import AppError
from app.store.api import Store, open_store


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
AlertArgument = Annotated[str, typer.Argument(metavar="ALERT", help="Id of an alert, or a beginning of it.")]
AlertsArgument = Annotated[list[str], typer.Argument(metavar="ALERT...", help="Ids of alerts, or beginnings of them.")]
NoteOption = Annotated[str, typer.Option(help="Why; kept with the change.")]


@contextmanager
def opened(config: Path | None, folder: Path | None) -> Iterator[Store]:
    """The store of the settings, or the one in a folder; raises AppError."""
    if folder is None:
        url = store_url(load_settings(config))
    else:
        file = folder / DATABASE
        if not file.is_file():
            raise AppError(f"{folder}: no store there; expected a folder with {DATABASE}")
        url = f"sqlite:///{file}"
    with open_store(url, make=False) as found:
        yield found


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
    "opened",
    "print_json",
]
