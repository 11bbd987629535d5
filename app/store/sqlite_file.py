"""An SQLite file that is moved away, or replaced, while it is open.

SQLite itself would go on writing to the file wherever it is, and make a new empty one in its place for the next
connection; the write-ahead log beside it would then belong to neither. Here the store is not there until the file is.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

_IDENTITY = "file_identity"


def guard_file(engine: Engine, path: Path, *, make: bool = True) -> None:
    """Let connections be used only as long as they lead to the file at `path`; with `make` the first one makes it."""
    known = False

    def before_connecting(_dialect: object, _entry: ConnectionPoolEntry, _args: object, _options: object) -> None:
        if path.exists():
            return
        if known:
            raise sqlite3.OperationalError(f"the database file {path} is gone")
        if not make:
            raise sqlite3.OperationalError(
                f"there is no database file {path}; check store.directory and store.url, "
                "or start 'clustercep run', which makes it"
            )
        with suppress(OSError):  # SQLite says what is wrong
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # what it puts beside the file is as private

    def connected(_connection: Any, entry: ConnectionPoolEntry) -> None:
        nonlocal known
        entry.info[_IDENTITY] = _identity(path)
        known = known or entry.info[_IDENTITY] is not None

    def used(_connection: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:
        if entry.info.get(_IDENTITY) != _identity(path):
            raise DisconnectionError(f"the database file {path} was moved or replaced")

    event.listen(engine, "do_connect", before_connecting)
    event.listen(engine, "connect", connected)
    event.listen(engine, "checkout", used)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
