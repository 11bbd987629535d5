"""What the commands of `clustercep alerts` have in common: options, the store, times, ways to print."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.alerting.people import Person, Role
from app.alerting.text import plain
from app.commands.friendly import print_json
from app.config import load_settings
from app.durations import parse_duration_ms
from app.errors import AppError
from app.live.assembly import store_url
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
        file = folder / "clustercep.db"
        if not file.is_file():
            raise AppError(f"{folder}: no store there; expected a folder with clustercep.db")
        url = f"sqlite:///{file}"
    with open_store(url, make=False) as found:
        yield found


def actor() -> Person:
    """Who gives the command: whoever may write the store's files or knows its password may do everything."""
    try:
        return Person(plain(getpass.getuser()), Role.ADMIN)
    except (OSError, KeyError):
        return Person("unknown", Role.ADMIN)


def time_ms(option: str, text: str, now_ms: int) -> int:
    """A time as people write it: ISO 8601 (UTC unless it names a zone), or a duration before now. Raises AppError."""
    try:
        return now_ms - parse_duration_ms(text.removesuffix(" ago"))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise AppError(
            f"{option}: found {text!r}; expected a time such as 2026-05-01T12:30 (UTC unless it names a zone), or a "
            "duration before now such as '2 h'"
        ) from None


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
    "time_ms",
]
