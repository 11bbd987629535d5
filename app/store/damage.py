"""Content of a database that is damaged: told as such, with the way out, and not taken for an outage."""

from __future__ import annotations

import sqlite3

from sqlalchemy import URL

_SQLITE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""A page, or the whole file, is not what SQLite writes."""
_POSTGRESQL = frozenset({"XX001", "XX002"})
"""SQLSTATE: data_corrupted, index_corrupted."""


def damage_of(error: BaseException, url: URL) -> str | None:
    """What is told of an error of the database when it means damage; None when it means anything else."""
    original = getattr(error, "orig", None) or error
    code = getattr(original, "sqlite_errorcode", None)
    if (code is not None and code & 0xFF in _SQLITE) or getattr(original, "sqlstate", None) in _POSTGRESQL:
        return damaged(str(original).splitlines()[0], url)
    return None


def damaged(reason: str, url: URL) -> str:
    """What is found, and the way out."""
    if url.get_backend_name() != "sqlite":
        return (
            f"the database {url.database} is damaged ({reason}); restore it from a backup, or have its tables and "
            "indexes checked (amcheck, REINDEX), then start again"
        )
    file = url.database
    return (
        f"the database file {file} is damaged ({reason}). Put a backup in its place; or, with clustercep and its "
        f"dashboard stopped, rescue what can be read with 'sqlite3 {file} .recover | sqlite3 rescued.db' and put "
        f"rescued.db in its place, without {file}-wal and {file}-shm; then start again"
    )
