"""Where things are kept and how much of it there is: database, event log, disk."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st

from app.chosen_store import DATABASE
from app.config import read_secret
from dashboard.store import AppError, Settings, event_log, settings
from dashboard.text import inert


@dataclass(frozen=True, slots=True)
class Storage:
    """Sizes in bytes; None: not known."""

    database: str
    database_bytes: int | None
    events_bytes: int | None
    events_span: tuple[int, int] | None
    events_problem: str | None
    left_out: tuple[str, ...]
    """Files of the event log that cannot be read, and why."""
    free_bytes: int | None
    total_bytes: int | None


@st.cache_data(ttl=15, show_spinner=False)
def storage() -> Storage:
    """As of a quarter of a minute ago at most."""
    now = settings()
    name, n_bytes = database(now)
    span, problem, left_out = _span()
    free, total = _disk(now.store.directory)
    events_bytes = folder_bytes(now.store.directory / "events")
    return Storage(name, n_bytes, events_bytes, span, problem, left_out, free, total)


def database(now: Settings) -> tuple[str, int | None]:
    """What kind of database and where, without its user and password; the size of an SQLite file with its log."""
    url = read_secret(now.store.url, now.store.url_file, "store.url_file")
    if url is not None:
        parts = urlsplit(url.get_secret_value())
        kind = parts.scheme.partition("+")[0]
        if kind != "sqlite":
            return inert(f"{kind}: {parts.path.lstrip('/')} on {parts.hostname or 'this host'}"), None
        return inert(f"SQLite: {parts.path}"), _file_bytes(Path(parts.path.removeprefix("/")))
    file = now.store.directory / DATABASE
    return inert(f"SQLite: {file}"), _file_bytes(file)


def folder_bytes(folder: Path) -> int | None:
    """The size of all files below; None when it is not there."""
    if not folder.is_dir():
        return None
    total = 0
    for place, _, names in os.walk(folder):
        total += sum(_size(Path(place) / name) for name in names)
    return total


def _file_bytes(file: Path) -> int | None:
    if not file.is_file():
        return None
    return _size(file) + _size(file.with_name(f"{file.name}-wal"))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # merged or dropped meanwhile
        return 0


def _disk(folder: Path) -> tuple[int | None, int | None]:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None, None
    return usage.free, usage.total


def _span() -> tuple[tuple[int, int] | None, str | None, tuple[str, ...]]:
    try:
        reader = event_log()
        span = reader.span()
    except AppError as error:
        return None, inert(error, 1_000), ()
    return span, None, tuple(inert(f"{problem.place}: {problem.message}", 500) for problem in reader.problems)


__all__ = ["Storage", "database", "folder_bytes", "storage"]
