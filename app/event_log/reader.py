"""Reading the log, from any process, while it is written.

A reader lists the folder first and asks the store afterwards which steps are committed: so every committed step that
the list should have is in it, and steps after it are left out together with their files. It opens all files of the span
before it reads any: an open file stays whole when merging removes its name; when a name is gone before it is opened,
the reader begins again with a new list. What footers tell is known without files that stay open.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog

from app.errors import EventLogError
from app.event_log import layout
from app.event_log.duplicates import SeenIds, first_of_each_id, in_order
from app.event_log.files import LIVE, LogFile, committed, list_folder, uncovered
from app.event_log.kept import KeptTables
from app.event_log.layout import DATA_ERRORS, Group, LayoutError, Summary
from app.live.clock_skew import apart
from app.store.writing.problems import NewProblem
from collectors.schema import load_event_types
from engine.events import EventBatch

log = structlog.get_logger(__name__)

DAMAGED = "damaged"
UNREADABLE = "unreadable"
"""Kinds of problems: the file is not whole, or the system does not give it now (its disk, its permissions)."""

MAX_TRIES = 100
"""Merging removes names at most a few times per step: a reader that is not through by then meets something else."""


T = TypeVar("T")

_Identity = tuple[str, int, int, int]
"""Name, inode, size and time of change in ns: inodes are used again, and a disk that was restored may give others."""


@dataclass(frozen=True)
class _Footer:
    """What is known of a file without its data, and of which file."""

    identity: _Identity
    summary: Summary


@dataclass(frozen=True)
class _Part:
    """A row group of an open file."""

    identity: _Identity
    file: LogFile
    parquet: pq.ParquetFile
    group: Group

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        names = self.group.columns if columns is None else [n for n in self.group.columns if n in columns]
        return self.parquet.read_row_group(self.group.index, columns=list(names), use_threads=False)


class EventLogReader:
    """The events of committed steps; safe for several threads."""

    is_live = True
    """More may come at any time."""

    def __init__(self, folder: Path, committed: Callable[[], Mapping[str, int]], *, keep_bytes: int = 0) -> None:
        """`committed`: the last committed step of each epoch that the store knows (`Store.event_log_positions`);
        `keep_bytes`: how much of what row groups hold is remembered for those who ask the same again."""
        self._folder = folder
        self._committed = committed
        self._listed: list[LogFile] | None = None
        self._kept = KeptTables(keep_bytes)
        self._summaries: dict[_Identity, Summary | None] = {}
        self._problems: dict[str, NewProblem] = {}
        self._lock = threading.Lock()

    def snapshot(self) -> EventLogReader:
        """The log as it is when it is looked at first, for several looks at once: which files count is asked once, a
        tenth of what a page's looks take. It remembers for this reader. Files that go meanwhile end it."""
        taken = copy(self)
        taken._listed = taken._visible()
        return taken

    @property
    def problems(self) -> list[NewProblem]:
        """Files that were left out so far, and why."""
        with self._lock:
            return list(self._problems.values())

    def span(self) -> tuple[int, int] | None:
        """(Earliest t_lo_ms, latest t_hi_ms) of all events; None for an empty log. Raises EventLogError, StoreError."""
        groups = self._groups(None, None, None)
        if not groups:
            return None
        return min(group.min_lo_ms for group in groups), max(group.max_hi_ms for group in groups)

    def count(
        self, *, types: Collection[str] | None = None, from_ms: int | None = None, to_ms: int | None = None
    ) -> int:
        """How many events there are at most: row groups that may have some count whole, copies count twice."""
        return sum(group.n_rows for group in self._groups(types, from_ms, to_ms))

    @overload
    def read(
        self,
        *,
        types: Collection[str] | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        where: pc.Expression | None = None,
        equal: Mapping[str, str] | None = None,
        columns: None = None,
    ) -> EventBatch: ...

    @overload
    def read(
        self,
        *,
        types: Collection[str] | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        where: pc.Expression | None = None,
        equal: Mapping[str, str] | None = None,
        columns: Sequence[str],
    ) -> pa.Table: ...

    def read(
        self,
        *,
        types: Collection[str] | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        where: pc.Expression | None = None,
        equal: Mapping[str, str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> EventBatch | pa.Table:
        """The events of these types whose interval touches the closed span, in stream order, no id twice.

        `where` is about columns of the events; one that no event of the span has is null for all. `equal`: values of
        attributes about which copies of an event agree; what has others is left out before anything is put in order.
        With `columns` a table of just these (null where no event has them), else a batch. Of copies of an event (one
        id) the first in stream order counts. Raises EventLogError, StoreError; ValueError when `where` does not fit the
        columns' types.
        """
        with ExitStack() as opened:
            parts = self._parts(opened, types, from_ms, to_ms, equal)
            if columns is not None and where is None:
                return self._columns(parts, columns, types, from_ms, to_ms, equal or {})
            found, _ = self._in_order(parts, None, types, from_ms, to_ms, equal or {})
        if where is not None:
            found = _filtered(found, where)
        return apart(EventBatch(found)) if columns is None else _with_columns(found, columns).select(list(columns))

    def _columns(
        self,
        parts: Sequence[_Part],
        columns: Sequence[str],
        types: Collection[str] | None,
        from_ms: int | None,
        to_ms: int | None,
        equal: Mapping[str, str],
    ) -> pa.Table:
        """What `read` gives of these row groups; remembered for those who ask the same again, as a page does."""
        needed = {*columns, *(name for name, _ in layout.ORDER), "type", "t_hi_ms", *equal}
        without_some: list[pa.Table] = []

        def look() -> pa.Table | None:
            found, has_all = self._in_order(parts, needed, types, from_ms, to_ms, equal)
            table = _with_columns(found, columns).select(list(columns))
            if has_all:
                return table
            without_some.append(table)  # what could not be read may be there the next time
            return None

        cut = None if all(part.group.lies_within(from_ms, to_ms) for part in parts) else (from_ms, to_ms)
        asked = (tuple(columns), None if types is None else frozenset(types), cut, frozenset(equal.items()))
        kept = self._kept.table(("read", tuple((part.identity, part.group.index) for part in parts), asked), look)
        return without_some[0] if kept is None else kept

    def _in_order(
        self,
        parts: Sequence[_Part],
        columns: Collection[str] | None,
        types: Collection[str] | None,
        from_ms: int | None,
        to_ms: int | None,
        equal: Mapping[str, str],
    ) -> tuple[pa.Table, bool]:
        """The rows of these row groups that are asked for, in stream order, no id twice; and whether all could be
        read."""
        tables = [self._with_values(part, columns, equal) for part in parts]
        rows = [layout.touching(t, types, from_ms, to_ms) for t in tables if t is not None and t.num_rows]
        return in_order(self._united(rows)), all(table is not None for table in tables)

    def last_seen(
        self, column: str, *, types: Collection[str] | None = None, from_ms: int | None = None, to_ms: int | None = None
    ) -> dict[str, int]:
        """Of the events of these types whose interval touches the closed span: each value of an attribute that is text,
        with the latest t_hi_ms of those that have it.

        Nothing is put in order for it. Raises EventLogError, StoreError.
        """
        with ExitStack() as opened:
            parts = [part for part in self._parts(opened, types, from_ms, to_ms) if column in part.group.columns]
            found = [self._latest(part, column, types, from_ms, to_ms) for part in parts]
        return layout.latest_of([table for table in found if table is not None], column)

    def batches(
        self,
        *,
        types: Collection[str] | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        rows: int = 50_000,
    ) -> Iterator[EventBatch]:
        """What `read` gives, in its order, at most `rows` at a time.

        Memory holds the row groups that overlap in time (about one per type), and the ids of the history lane. Raises
        EventLogError, StoreError.
        """
        with ExitStack() as opened:
            parts = sorted(self._parts(opened, types, from_ms, to_ms), key=lambda part: part.group.min_lo_ms)
            seen = SeenIds(self._doubtful(parts))
            waiting: list[pa.Table] = []
            n_waiting, enough = 0, rows
            for i, part in enumerate(parts):
                table = self._table(part, None)
                if table is not None:
                    waiting.append(layout.touching(table, types, from_ms, to_ms))
                    n_waiting += waiting[-1].num_rows
                last = i + 1 == len(parts)
                if n_waiting < enough and not last:
                    continue
                ordered = first_of_each_id(self._united(waiting).sort_by(list(layout.ORDER)))
                horizon = len(ordered) if last else _before(ordered, parts[i + 1].group.min_lo_ms)
                ready = seen.first_only(ordered.slice(0, horizon))
                for start in range(0, ready.num_rows, rows):
                    yield apart(EventBatch(ready.slice(start, rows).combine_chunks()))
                rest = ordered.slice(horizon).combine_chunks()
                waiting, n_waiting = [rest], rest.num_rows
                enough = rows + 2 * n_waiting  # so that what waits for long is not sorted again and again

    # ------------------------------------------------------------------ files

    def _groups(self, types: Collection[str] | None, from_ms: int | None, to_ms: int | None) -> list[Group]:
        """The row groups that may have such events, of files that need not stay open."""

        def look(files: Iterable[LogFile]) -> list[Group]:
            found = (self._footer(file) for file in files)
            groups = (group for footer in found if footer is not None for group in footer.summary.groups)
            return [group for group in groups if group.may_have(types, from_ms, to_ms)]

        return self._of_files(look)

    def _parts(
        self,
        opened: ExitStack,
        types: Collection[str] | None,
        from_ms: int | None,
        to_ms: int | None,
        equal: Mapping[str, str] | None = None,
    ) -> list[_Part]:
        """The row groups that may have such events, of files that stay open with `opened`."""

        def look(files: Iterable[LogFile]) -> list[_Part]:
            with ExitStack() as tried:
                parts = [part for file in files for part in self._open(tried, file, types, from_ms, to_ms, equal)]
                opened.push(tried.pop_all())
            return parts

        return self._of_files(look)

    def _of_files(self, look: Callable[[Iterable[LogFile]], list[T]]) -> list[T]:
        """What is found in the files of a list of which no name goes meanwhile."""
        for _ in range(MAX_TRIES):
            try:
                return look(self._visible())
            except FileNotFoundError:
                self._listed = None
        raise EventLogError(f"{self._folder}: files vanish as fast as they are listed; is something deleting them?")

    def _visible(self) -> list[LogFile]:
        if self._listed is not None:
            return self._listed
        try:
            files = list_folder(self._folder).files
        except OSError as error:
            raise EventLogError(f"{self._folder}: the event log cannot be read: {error.strerror}") from error
        return uncovered(committed(files, self._committed()))

    def _footer(self, file: LogFile) -> _Footer | None:
        """What a file's footer tells; None when it is left out. Raises FileNotFoundError."""
        path = self._folder / file.name
        identity = None
        try:
            identity = _identity(file, path.stat())
            with self._lock:
                known = identity in self._summaries
                summary = self._summaries.get(identity)
            if not known:
                with pa.OSFile(str(path), "rb") as source:
                    identity = _identity(file, os.fstat(source.fileno()))
                    summary = layout.read_summary(source)
                self._remember(identity, summary)
                self._readable(file)
        except (*DATA_ERRORS, LayoutError) as error:
            self._refused(file, error)
            if identity is not None and not _is_of_the_system(error):
                self._remember(identity, None)
            return None
        return None if summary is None else _Footer(identity, summary)

    def _open(
        self,
        opened: ExitStack,
        file: LogFile,
        types: Collection[str] | None,
        from_ms: int | None,
        to_ms: int | None,
        equal: Mapping[str, str] | None,
    ) -> list[_Part]:
        footer = self._footer(file)
        known = () if footer is None else footer.summary.groups
        groups = [group for group in known if group.may_have(types, from_ms, to_ms, equal)]
        if not groups or footer is None:
            return []
        try:
            source = opened.enter_context(pa.OSFile(str(self._folder / file.name), "rb"))
            if _identity(file, os.fstat(source.fileno())) != footer.identity:
                raise FileNotFoundError(errno.ENOENT, "another file took its name", file.name)
            parquet = pq.ParquetFile(source, metadata=footer.summary.metadata)
        except DATA_ERRORS as error:
            self._refused(file, error)
            return []
        return [_Part(footer.identity, file, parquet, group) for group in groups]

    def _remember(self, identity: _Identity, summary: Summary | None) -> None:
        with self._lock:
            if len(self._summaries) > 4 * MAX_TRIES * MAX_TRIES:
                self._summaries.clear()  # of files that are long gone, most of them
            self._summaries[identity] = summary

    def _latest(
        self, part: _Part, column: str, types: Collection[str] | None, from_ms: int | None, to_ms: int | None
    ) -> pa.Table | None:
        """See layout.latest, of the rows of a row group that are asked for."""

        def look() -> pa.Table | None:
            table = self._table(part, {column, "type", "t_lo_ms", "t_hi_ms"})
            return None if table is None else layout.latest(layout.touching(table, types, from_ms, to_ms), column)

        if not part.group.lies_within(from_ms, to_ms):
            return look()
        asked = None if types is None else frozenset(types)
        return self._kept.table(("latest", part.identity, part.group.index, column, asked), look)

    def _with_values(self, part: _Part, columns: Collection[str] | None, equal: Mapping[str, str]) -> pa.Table | None:
        """The rows of a row group that have these values."""
        asked = None if columns is None else frozenset(columns)
        key = ("rows", part.identity, part.group.index, asked, frozenset(equal.items()))
        return self._kept.table(key, lambda: self._found(part, columns, equal))

    def _found(self, part: _Part, columns: Collection[str] | None, equal: Mapping[str, str]) -> pa.Table | None:
        """Of most that may have some none has: the columns that tell are read first, and are all of an empty table."""
        if not equal:
            return self._table(part, columns)
        told = self._table(part, equal.keys())
        if told is None:
            return None
        mask = layout.has_values(told, equal)
        if not pc.any(mask).as_py():
            return told.slice(0, 0)
        others = [name for name in part.group.columns if name not in equal and (columns is None or name in columns)]
        table = self._table(part, others)
        if table is None:
            return None
        for name in equal:
            table = table.append_column(name, told.column(name))
        return table.select([name for name in part.group.columns if name in table.column_names]).filter(mask)

    def _table(self, part: _Part, columns: Collection[str] | None) -> pa.Table | None:
        try:
            table = part.read(None if columns is None else list(columns))
        except DATA_ERRORS as error:
            self._leave_out(part.file, error)
            return None
        self._readable(part.file)
        return table

    def _refused(self, file: LogFile, error: BaseException) -> None:
        """Leave a file out that cannot be opened; raises what is no fault of the file."""
        if isinstance(error, FileNotFoundError):
            raise error
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise EventLogError(
                f"{self._folder}: too many files are open; choose a shorter time span, or let the process open more"
                " (ulimit -n, LimitNOFILE)"
            ) from error
        self._leave_out(file, error)

    def _readable(self, file: LogFile) -> None:
        """What the system refused once is no problem any more; damage stays."""
        with self._lock:
            problem = self._problems.get(file.name)
            if problem is not None and problem.kind == UNREADABLE:
                del self._problems[file.name]

    def _leave_out(self, file: LogFile, error: BaseException) -> None:
        message = f"it is left out, and its events with it: {str(error).splitlines()[0]}"
        kind = UNREADABLE if _is_of_the_system(error) else DAMAGED
        with self._lock:
            new = file.name not in self._problems
            self._problems[file.name] = NewProblem("event_log", file.name, kind, message)
        if new:
            log.warning("a file of the event log cannot be read", file=file.name, reason=message)

    def _united(self, tables: Sequence[pa.Table]) -> pa.Table:
        try:
            return layout.unite(tables)
        except pa.ArrowException as error:
            raise EventLogError(f"{self._folder}: events of two versions do not fit together: {error}") from error

    def _doubtful(self, parts: Sequence[_Part]) -> pa.Array:
        """Ids that may come twice: of all lanes but the largest live one, which has each once."""
        sizes: Counter[str] = Counter()
        for part in parts:
            if part.file.lane == LIVE:
                sizes[part.file.epoch] += part.group.n_rows
        largest = sizes.most_common(1)[0][0] if sizes else None
        others = [part for part in parts if (part.file.lane, part.file.epoch) != (LIVE, largest)]
        tables = [table for part in others if (table := self._table(part, ["event_id"])) is not None]
        if not tables:
            return pa.array([], pa.string())
        return pc.unique(pa.concat_tables(tables).column("event_id").combine_chunks())


def _identity(file: LogFile, status: os.stat_result) -> _Identity:
    return file.name, status.st_ino, status.st_size, status.st_mtime_ns


def _is_of_the_system(error: BaseException) -> bool:
    """The system refused, perhaps for now; Arrow's own errors about what a file holds have no number."""
    return isinstance(error, OSError) and error.errno is not None


def _before(ordered: pa.Table, time_ms: int) -> int:
    """How many rows of a table in stream order begin before a time."""
    starts = ordered.column("t_lo_ms").combine_chunks().to_numpy()
    return int(np.searchsorted(starts, time_ms, side="left"))


def _with_columns(table: pa.Table, names: Iterable[str]) -> pa.Table:
    """Columns that no event has, as nulls of the type that the event types give them."""
    known = load_event_types().attributes
    for name in names:
        if name not in table.column_names:
            arrow_type = known[name].arrow if name in known else pa.null()
            table = table.append_column(name, pa.nulls(table.num_rows, arrow_type))
    return table


def _filtered(table: pa.Table, where: pc.Expression) -> pa.Table:
    try:
        return _with_columns(table, load_event_types().attributes).filter(where).select(table.column_names)
    except pa.ArrowException as error:
        raise ValueError(f"the condition does not fit the events: {error}") from error
