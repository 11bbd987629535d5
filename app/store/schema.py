"""Opening a database and bringing its tables up to date."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from app.errors import DamageError, StoreError
from app.process.private import private_folder
from app.store.damage import damage_of
from app.store.migrations.applying import OtherVersionError, is_newest
from app.store.migrations.applying import upgrade as upgrade_tables
from app.store.owner import Claimant, refuse_while_owned, this_process
from app.store.sqlite_file import guard_file
from app.store.turns import take_turns

BUSY_TIMEOUT_MS = 30_000
_WRITERS_LOCK = 0x636C7573746572
"""Any number that no other user of the database locks."""


def open_database(
    url: str,
    *,
    upgrade: bool = True,
    durable: bool = True,
    make: bool = True,
    by: Claimant | None = None,
    take_over: bool = False,
) -> Engine:
    """Connect and, with `upgrade`, migrate; raises StoreError that names the database without its password.

    Not `make`: an SQLite file that is not there is an error; only who writes the store makes it. Nothing is migrated
    under a process that owns the store; `by`, `take_over`: as for `app.store.owner.claim`.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # ValueError: a port that is no number
        raise StoreError(
            "store.url: not a database URL; expected e.g. sqlite:////var/lib/clustercep/store.db"
        ) from None
    hidden = parsed.set(query=dict.fromkeys(parsed.query, "***")).render_as_string(hide_password=True)
    shown = hidden.replace("%2A%2A%2A", "***")
    engine: Engine | None = None
    try:
        if parsed.get_backend_name() == "sqlite" and make:
            _make_folder(parsed)
        if by is not None:
            _refuse_several_names(_file_of(parsed))
        engine = _engine(parsed, shown)
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _configure_sqlite if durable else _configure_fast_sqlite)
            path = _file_of(parsed)
            if path is not None:
                take_turns(engine, path, lambda: BUSY_TIMEOUT_MS / 1000)
            event.listen(engine, "begin", _begin_immediate)
            if path is not None:
                guard_file(engine, path, make=make)
        else:
            event.listen(engine, "begin", _begin_alone)
        if upgrade and not _is_current(engine):
            with engine.execution_options(writes=True).begin() as connection:
                refuse_while_owned(connection, by or this_process(), take_over=take_over)
                upgrade_tables(connection)
        opened, engine = engine, None
        return opened
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise StoreError(f"store.url: no driver for {shown}: {error}; install it beside clustercep") from None
    except OtherVersionError as error:
        raise StoreError(
            f"the store {shown} was written by another version of clustercep ({error}); use that version or a new store"
        ) from None
    except (SQLAlchemyError, OSError) as error:
        if (found := damage_of(error, parsed)) is not None:
            raise DamageError(found) from error
        raise StoreError(f"the store {shown} cannot be opened: {_first_line(error)}") from error
    finally:
        if engine is not None:
            engine.dispose()


def _engine(url: URL, shown: str) -> Engine:
    try:
        return create_engine(url, pool_pre_ping=True)
    except (ValueError, TypeError):  # its text repeats the value
        raise StoreError(
            f"store.url: {shown}: a value after the ? is not of the kind that its option takes, as in timeout=30"
        ) from None


def _is_current(engine: Engine) -> bool:
    """Most processes that open a store need not wait for its writers."""
    with engine.connect() as connection:
        return is_newest(connection)


def _refuse_several_names(path: Path | None) -> None:
    """SQLite's log lies beside the name by which a file is opened: by two names two processes would not see each
    other. A symbolic link does no harm, it is followed first."""
    if path is not None and path.is_file() and (n_names := path.stat().st_nlink) > 1:
        raise StoreError(
            f"the database file {path} has {n_names} names (hard links), by which it could be opened twice at once; "
            f"remove the others ('find -samefile {path}' lists them), or copy the file over itself"
        )


def _make_folder(url: URL) -> None:
    if (path := _file_of(url)) is not None:
        private_folder(path.parent)


def _file_of(url: URL) -> Path | None:
    """The file of an SQLite database; None when it is in memory, or named by a URI."""
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        return None
    return Path(url.database)


def _configure_sqlite(connection: object, _entry: ConnectionPoolEntry) -> None:
    # The driver's own BEGIN comes too late (before the first write); ours is sent by _begin_immediate.
    connection.isolation_level = None  # type: ignore[attr-defined]  # sqlite3.Connection behind the DBAPI
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    cursor.close()


def _configure_fast_sqlite(connection: object, entry: ConnectionPoolEntry) -> None:
    _configure_sqlite(connection, entry)
    cursor = connection.cursor()  # type: ignore[attr-defined]  # as above
    cursor.execute("PRAGMA synchronous = OFF")
    cursor.close()


def _begin_immediate(connection: Connection) -> None:
    """Take the write lock at once where the caller will write: a lock that is taken later can fail half-way."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _begin_alone(connection: Connection) -> None:
    """One writer at a time, as SQLite has it: a step and an acknowledgement never change what the other one read."""
    if connection.dialect.name == "postgresql" and connection.get_execution_options().get("writes", False):
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {BUSY_TIMEOUT_MS}")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})")


def _first_line(error: BaseException) -> str:
    original = getattr(error, "orig", None) or error
    return str(original).splitlines()[0] if str(original) else type(original).__name__
