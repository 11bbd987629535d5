"""Who may make the store's steps: one process, by a token in the database that each of its transactions looks at.

A process that was suspended, or cut off from the database, while another one took the store over finds another token:
it can write nothing more. Whether an owner is gone is known by its machine's kernel (the lock of its folder, its pid,
when that process started); of one elsewhere by its lease, which it renews as long as it lives, timed by the database.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Row, insert, inspect, select, text, update

from app.errors import OwnershipError
from app.store.models import OwnerRow
from app.store.storable import storable_text

LEASE_MS = 60_000
"""An owner on another machine that has not renewed its ownership for so long is taken to be gone."""
RENEW_S = 10.0

Life = Literal["gone", "lives", "unknown"]

_NAME = "store"
_MAX_CHARS = 255
_TAKE_OVER = ("run", "stream")
"""Commands that have this option."""
_OF_STORE = OwnerRow.name == _NAME
_NOW_MS = {
    "sqlite": "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
}


@dataclass(frozen=True)
class Claimant:
    """A process that asks for a store."""

    command: str
    """run, replay, demo or stream."""
    folder: str
    """Its store.directory."""
    host: str
    pid: int
    boot: str
    """Of its kernel since the machine started; empty: unknown, then nothing is known of its processes either."""
    namespace: str
    """In which its pid counts."""
    started: str
    """When the process was started, as the kernel tells it: pids are used again."""
    lock: str = ""
    """The lock that it holds on its folder: whoever owned the store and held the same is gone."""


def this_process(command: str = "", folder: Path | None = None, lock: str = "") -> Claimant:
    """The process that asks."""
    pid = os.getpid()
    return Claimant(
        command=command,
        folder="" if folder is None else str(folder.absolute()),
        host=socket.gethostname(),
        pid=pid,
        boot=_read(Path("/proc/sys/kernel/random/boot_id")).strip(),
        namespace=_namespace(),
        started=started(pid),
        lock=lock,
    )


def started(pid: int) -> str:
    """When a process was started, in ticks of this kernel; empty: there is none, or it only waits to be forgotten."""
    found = _read(Path(f"/proc/{pid}/stat")).rpartition(") ")[2].split()
    return "" if len(found) < 20 or found[0] in "ZX" else found[19]


def claim(connection: Connection, by: Claimant, *, take_over: bool = False) -> str:
    """The token of the new owner, in the transaction of `connection`; raises OwnershipError when another one lives.

    `take_over`: the lease of one on another machine is not waited for.
    """
    row = refuse_while_owned(connection, by, take_over=take_over)
    now_ms, token = _now_ms(connection), secrets.token_hex(16)
    values = {
        "token": token, "command": by.command, "host": _short(by.host), "pid": by.pid, "folder": _text(by.folder),
        "boot": by.boot, "namespace": by.namespace, "started": by.started, "lock": by.lock,
        "claimed_ms": now_ms, "renewed_ms": now_ms,
    }  # fmt: skip
    if row is None:
        connection.execute(insert(OwnerRow).values(name=_NAME, **values))
    else:
        connection.execute(update(OwnerRow).where(_OF_STORE).values(**values))
    return token


def refuse_while_owned(connection: Connection, by: Claimant, *, take_over: bool = False) -> Row[Any] | None:
    """The present or last owner when it is gone, None when there was none; raises OwnershipError while one lives."""
    if not inspect(connection).has_table(OwnerRow.__tablename__):
        return None  # a store of before
    row = _row(connection)
    if row is None or not row.token:
        return row
    life, age_ms = life_of(row, by), _now_ms(connection) - row.renewed_ms
    # A lease far in the future is no lease: the clock was set back since.
    if life == "lives" or (life == "unknown" and abs(age_ms) < LEASE_MS and not take_over):
        raise OwnershipError(_refusal(row, life, age_ms, by))
    return row


def life_of(row: Row[Any], by: Claimant) -> Life:
    """What is known of the owner in a row, to a process that asks."""
    if not row.boot or row.boot != by.boot:
        return "unknown"
    if row.lock and row.lock == by.lock:
        return "gone"
    if row.namespace != by.namespace:
        return "unknown"
    return "lives" if row.started and started(row.pid) == row.started else "gone"


def check(connection: Connection, token: str) -> None:
    """Raises OwnershipError when another process has taken the store over, in the transaction of `connection`."""
    if connection.scalar(select(OwnerRow.token).where(_OF_STORE)) != token:
        raise OwnershipError(_lost(_row(connection)))


def renew(connection: Connection, token: str) -> None:
    """Say that the owner lives; raises OwnershipError as `check` does."""
    check(connection, token)
    connection.execute(update(OwnerRow).where(_OF_STORE).values(renewed_ms=_now_ms(connection)))


def release(connection: Connection, token: str) -> None:
    """The owner ends; nothing happens when it is none any more."""
    connection.execute(update(OwnerRow).where(_OF_STORE, OwnerRow.token == token).values(token=""))


def _row(connection: Connection) -> Row[Any] | None:
    return connection.execute(select(*OwnerRow.__table__.columns).where(_OF_STORE)).first()


def _now_ms(connection: Connection) -> int:
    """By the database's clock, which all owners share."""
    return int(connection.scalar(text(_NOW_MS[connection.dialect.name])) or 0)


def _told(row: Row[Any]) -> str:
    return f"'clustercep {row.command}' with pid {row.pid} on host {row.host} (store.directory {row.folder})"


def _refusal(row: Row[Any], life: Life, age_ms: int, by: Claimant) -> str:
    beginning = f"the store belongs to {_told(row)}"
    if life == "lives":
        return f"{beginning}, which runs; stop it first"
    left_s = (LEASE_MS - max(age_ms, 0)) // 1000 + 1
    at_once = ", or at once with --take-over" if by.command in _TAKE_OVER else ""
    return (
        f"{beginning}, which was alive {max(age_ms, 0) // 1000} s ago; stop it first. If it is gone with its machine, "
        f"start again in {left_s} s{at_once}"
    )


def _lost(row: Row[Any] | None) -> str:
    beginning = "this process does not own the store any more and writes nothing more to it"
    if row is None or not row.token:
        return f"{beginning}: the database says that nobody does, as one that was restored; start again"
    return f"{beginning}: {_told(row)} has taken it over, or the database was restored; one of both must stay stopped"


def _short(name: str) -> str:
    return storable_text(name, _MAX_CHARS)


def _text(words: str) -> str:
    return storable_text(words, 4_096)


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
