"""Events of a store on this machine, in columns: what pages read of the history, without a JVM.

Commits say which files have events of which types and times, the files' own statistics which row groups: nothing else
is opened. One row group is in memory at a time, besides what was asked for; what is too much of that is refused with
the remedy. A file that a merge has removed since its commit was read makes the reader begin anew.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.event_store.commits import EMPTY, CommitReader, State, StoredFile, chosen_files
from app.event_store.errors import StoreError
from app.event_store.folder import LocalFolder, rooted
from collectors.schema import load_event_types
from engine.events import HEADER

MAX_BYTES = 1 << 29
"""Of the events of one reading, in memory."""

MAX_TRIES = 10
"""Merging removes names at most now and then."""

_ORDER = ("t_lo_ms", "source_rank", "source_seq")
"""Stream order but for ids: those of equal place come in no particular order."""


class _MissingError(Exception):
    """A file that a commit has is not there."""


class EventStoreReader:
    """The events of all commits; safe for several threads. Ids are there once each: who writes sees to that."""

    is_live = False
    """Nothing more is to be expected by waiting."""

    def __init__(self, url: str, max_bytes: int = MAX_BYTES) -> None:
        """`url`: a folder of this machine, as a path or file:// (folder.is_here); nothing is read yet."""
        self.url = rooted(url)
        self._folder = LocalFolder(self.url)
        self._max_bytes = max_bytes
        self._state = EMPTY
        self._lock = threading.Lock()

    def snapshot(self) -> EventStoreReader:
        """Itself: to ask which commits there are costs nothing."""
        return self

    def span(self) -> tuple[int, int] | None:
        """(Earliest t_lo_ms, latest t_hi_ms) of all events; None without any, or without a store. Raises StoreError."""
        files = self._files()
        if not files:
            return None
        return min(file.min_lo_ms for file in files), max(file.max_hi_ms for file in files)

    def count(
        self, *, types: Collection[str] | None = None, from_ms: int | None = None, to_ms: int | None = None
    ) -> int:
        """How many events there are at most: files that may have some count whole. Raises StoreError."""
        return sum(file.n_rows for file in chosen_files(self._files(), types, from_ms, to_ms))

    def read(
        self,
        *,
        types: Collection[str] | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        columns: Sequence[str],
        equal: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """These columns of the events of these types whose interval touches the closed span, in stream order.

        `equal`: and whose attributes have these values. Attributes that no event has are null. Raises StoreError, also
        where the answer has more than `max_bytes`.
        """
        missing: str | None = None
        for _ in range(MAX_TRIES):
            files = chosen_files(self._files(), types, from_ms, to_ms)
            if missing in {file.path for file in files}:  # no merge took it: its commit stands
                path = self._folder.path(str(missing))
                raise StoreError(f"{path}: no such file, though a commit has it; restore the file from a backup")
            try:
                return self._read(files, from_ms, to_ms, columns, equal or {})
            except _MissingError as error:
                missing = str(error)
        raise StoreError(f"{self.url}: files vanish as fast as they are listed; is something deleting them?")

    def last_seen(
        self, column: str, *, types: Collection[str] | None = None, from_ms: int | None = None, to_ms: int | None = None
    ) -> dict[str, int]:
        """Of such events each value of an attribute that is text, with the latest t_hi_ms of those that have it. Raises
        as `read` does."""
        found = self.read(types=types, from_ms=from_ms, to_ms=to_ms, columns=(column, "t_hi_ms"))
        latest = found.group_by(column).aggregate([("t_hi_ms", "max")]).to_pylist()
        return {row[column]: row["t_hi_ms_max"] for row in latest if row[column] is not None}

    def _files(self) -> list[StoredFile]:
        with self._lock:
            known = self._state
        try:
            state: State = CommitReader(self._folder).read(known)
        except OSError as error:
            raise StoreError(f"{self.url}: the event store cannot be read: {error.strerror or error}") from error
        with self._lock:
            self._state = state
        return list(state.files.values())

    def _read(
        self,
        files: Sequence[StoredFile],
        from_ms: int | None,
        to_ms: int | None,
        columns: Sequence[str],
        equal: Mapping[str, str],
    ) -> pa.Table:
        needed = list(dict.fromkeys((*columns, *_ORDER, "t_hi_ms", *equal)))
        found: list[pa.Table] = []
        n_bytes = 0
        for file in files:
            path = self._folder.path(file.path)
            try:
                with pq.ParquetFile(path) as parquet:
                    for group in _groups(parquet, from_ms, to_ms, equal):
                        found.append(_wanted(parquet, group, needed, from_ms, to_ms, equal))
                        n_bytes += found[-1].nbytes
                        if n_bytes > self._max_bytes:
                            raise StoreError(self._too_much(n_bytes))
            except FileNotFoundError:
                raise _MissingError(file.path) from None
            except (OSError, pa.ArrowException, *_OF_ANOTHER_KIND) as error:
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                raise StoreError(f"{path}: {reason}; restore the file from a backup") from error
        schema = pa.schema([pa.field(name, _type_of(name)) for name in needed])
        table = pa.concat_tables(found) if found else schema.empty_table()
        return table.sort_by([(name, "ascending") for name in _ORDER]).select(list(columns))

    def _too_much(self, n_bytes: int) -> str:
        return (
            f"{self.url}: found more than {n_bytes >> 20} MiB of events in the span; expected at most "
            f"{self._max_bytes >> 20} MiB; choose a shorter one, or ask with a query over the history"
        )


def _groups(parquet: pq.ParquetFile, from_ms: int | None, to_ms: int | None, equal: Mapping[str, str]) -> list[int]:
    """Row groups that may have such events, by their statistics."""
    place = {parquet.schema.column(index).path: index for index in range(len(parquet.schema))}
    if any(name not in place for name in equal):
        return []
    bounds = [("t_hi_ms", from_ms, None), ("t_lo_ms", None, to_ms), *((name, of, of) for name, of in equal.items())]

    def may_have(group: int) -> bool:
        for name, least, most in bounds:
            if name not in place:
                continue  # reading says that it is missing
            known = parquet.metadata.row_group(group).column(place[name]).statistics
            if known is None or not known.has_min_max:
                continue
            if (least is not None and known.max < least) or (most is not None and known.min > most):
                return False
        return True

    return [group for group in range(parquet.metadata.num_row_groups) if may_have(group)]


def _wanted(
    parquet: pq.ParquetFile,
    group: int,
    needed: Sequence[str],
    from_ms: int | None,
    to_ms: int | None,
    equal: Mapping[str, str],
) -> pa.Table:
    present = set(parquet.schema_arrow.names)
    rows = parquet.read_row_group(group, columns=[name for name in needed if name in present], use_threads=False)
    missing = [name for name in needed if name in _NEEDED and (name not in present or rows.column(name).null_count)]
    if missing:
        raise pa.ArrowInvalid(f"no column {', '.join(missing)}, or no value in it")
    columns = [
        rows.column(name).cast(_type_of(name)) if name in present else pa.nulls(len(rows), _type_of(name))
        for name in needed
    ]
    table = pa.table(dict(zip(needed, columns, strict=True)))
    masks = [pc.fill_null(pc.equal(table.column(name), value), False) for name, value in equal.items()]
    if from_ms is not None:
        masks.append(pc.greater_equal(table.column("t_hi_ms"), from_ms))
    if to_ms is not None:
        masks.append(pc.less_equal(table.column("t_lo_ms"), to_ms))
    for mask in masks[1:]:
        masks[0] = pc.and_(masks[0], mask)
    return table.filter(masks[0]) if masks else table


_OF_ANOTHER_KIND = (KeyError, TypeError, ValueError)
"""Statistics of a column of another type, or of text that is none; a column that is there twice."""

_NEEDED = frozenset(field.name for field in HEADER if not field.nullable)


def _type_of(name: str) -> pa.DataType:
    """Raises KeyError for what is no column of events."""
    return HEADER.field(name).type if name in HEADER.names else load_event_types().attributes[name].arrow


__all__ = ["MAX_BYTES", "EventStoreReader"]
