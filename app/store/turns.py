"""Writers of an SQLite file take turns: whoever has waited goes before whoever has just written.

SQLite's own waiting is a look now and then, so a writer that begins anew right after each commit keeps all others out.
Here each waits for its turn at two locks of a file beside the database: who has the first is next, who has the second
writes. SQLite's lock is still what keeps writers apart; this is only the order in which they come to it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.pool import ConnectionPoolEntry

_TURN_OF = "turn"
_NEXT, _TURN = 0, 1
_LOOK_S = 0.002
"""Between two looks, when another one is writing."""


class Turn:
    """Of one connection."""

    def __init__(self, path: Path) -> None:
        flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
        self._files = [os.open(f"{path}-{name}", flags, 0o600) for name in ("next", "turn")]
        self._has = False

    def take(self, timeout_s: float) -> None:
        """Wait for the turn; after the time the database itself says that it is locked, or is not."""
        if self._has:
            return
        until_s = time.monotonic() + timeout_s
        if self._lock(_NEXT, until_s):
            self._has = self._lock(_TURN, until_s)
            fcntl.flock(self._files[_NEXT], fcntl.LOCK_UN)

    def give(self) -> None:
        """The transaction is over."""
        if self._has:
            self._has = False
            fcntl.flock(self._files[_TURN], fcntl.LOCK_UN)

    def close(self) -> None:
        """The connection is."""
        for file in self._files:
            os.close(file)

    def _lock(self, which: int, until_s: float) -> bool:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(self._files[which], fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            if time.monotonic() >= until_s:
                return False
            time.sleep(_LOOK_S)


def take_turns(engine: Engine, path: Path, timeout_s: Callable[[], float]) -> None:
    """Let the connections of an engine to the file at `path` wait for their turn before they begin to write.

    To be called before other listeners that begin. `timeout_s`: how long SQLite waits for its lock.
    """

    def begins(connection: Connection) -> None:
        if not connection.get_execution_options().get("writes", False):
            return
        with suppress(OSError):  # whatever is wrong with the folder, SQLite says it
            turn = connection.info.get(_TURN_OF)
            if turn is None:
                turn = connection.info[_TURN_OF] = Turn(path)
            turn.take(timeout_s())

    def checked_in(_connection: Any, entry: ConnectionPoolEntry) -> None:
        if (turn := entry.info.get(_TURN_OF)) is not None:
            turn.give()

    def closed(_connection: Any, entry: ConnectionPoolEntry) -> None:
        if (turn := entry.info.pop(_TURN_OF, None)) is not None:
            turn.close()

    event.listen(engine, "begin", begins)
    event.listen(engine, "checkin", checked_in)
    event.listen(engine, "close", closed)


__all__ = ["Turn", "take_turns"]
