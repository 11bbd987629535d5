"""Whether a database was changed since somebody looked, without reading anything of it."""

from __future__ import annotations

import threading

from sqlalchemy import Engine

_VERSION = "data_version"


class ChangeMarks:
    """Numbers of which two that are equal say that nothing was committed in between; of SQLite alone."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._number = 0

    def now(self) -> int | None:
        """To be asked for before what it stands for is read. None: the database does not tell."""
        if self._engine.dialect.name != "sqlite":
            return None
        with self._engine.connect() as connection:
            # Differs from that of before of this very connection where another one has committed.
            version = connection.exec_driver_sql("PRAGMA data_version").scalar_one()
            if connection.info.get(_VERSION) != version:
                connection.info[_VERSION] = version
                self.changed()
            return self._number

    def changed(self) -> None:
        """A connection of this pool has committed, which its own number does not say."""
        with self._lock:
            self._number += 1


__all__ = ["ChangeMarks"]
