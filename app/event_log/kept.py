"""What row groups held, kept in memory for whoever asks the same again: files never change under their name."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import pyarrow as pa


class KeptTables:
    """The tables that were asked for last, up to a number of bytes; safe for several threads."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` of all; one that is larger than a quarter of that is not kept: a look at all samples of a day
        would drop everything else for what is not asked again."""
        self._max_bytes = max_bytes
        self._tables: OrderedDict[Hashable, pa.Table] = OrderedDict()
        self._n_bytes = 0
        self._lock = threading.Lock()

    def table(self, key: Hashable, make: Callable[[], pa.Table | None]) -> pa.Table | None:
        """What is kept under a key, else what is made now; None, which says that it could not be read, is not kept."""
        with self._lock:
            kept = self._tables.get(key)
            if kept is not None:
                self._tables.move_to_end(key)
                return kept
        made = make()
        if made is not None and 4 * made.nbytes <= self._max_bytes:
            self._keep(key, made)
        return made

    def _keep(self, key: Hashable, table: pa.Table) -> None:
        with self._lock:
            if key in self._tables:
                return  # another thread was faster
            self._tables[key] = table
            self._n_bytes += _cost(table)
            while self._n_bytes > self._max_bytes:
                _, dropped = self._tables.popitem(last=False)
                self._n_bytes -= _cost(dropped)


def _cost(table: pa.Table) -> int:
    """In bytes, with what an empty table takes."""
    return int(table.nbytes) + 4_096


__all__ = ["KeptTables"]
