"""Writing the log: a file per step before its transaction, larger ones from small ones after it.

Levels are by size: once MERGE_AT neighbours lie within one level they become one file of the next. So the number of
files grows with the logarithm of the steps, and with the bytes over MAX_FILE_BYTES.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import structlog

from app.errors import EventLogError
from app.event_log import layout
from app.event_log.duplicates import without_copies
from app.event_log.files import HISTORY, LIVE, PART, LogFile, list_folder, sync_folder, uncovered
from app.event_log.layout import DATA_ERRORS, LayoutError
from app.process.private import PRIVATE
from app.settings import Retention
from app.store.writing.problems import NewProblem
from engine.events import EventBatch

log = structlog.get_logger(__name__)

SOURCE = "event_log"
MERGE_AT = 16
LEVEL_ROWS = 4_000
"""Files of fewer rows than this are the smallest level; each level's files have MERGE_AT times as many."""
MAX_FILE_ROWS = 500_000
"""Files of at least this are not merged any further."""
LOOK_EVERY_MS = 60_000
"""How often is looked whether all files are there."""
MAX_REMOVED_TOLD = 20
"""At once, each with its name."""
DAMAGED_SUFFIX = ".damaged"
"""What a file is called that would stand for others, could it be read."""


class _Known(NamedTuple):
    n_rows: int
    n_bytes: int
    logged_ms: int


class EventLog:
    """The one writer of a folder; all its methods are called by one thread, merging may have another one."""

    def __init__(self, folder: Path, *, durable: bool = True, in_background: bool = False) -> None:
        """Not `durable`: a power cut may lose files. `in_background`: `tidy` returns before merging is done."""
        self._folder = folder
        self._durable = durable
        self._epoch = ""
        self._number = -1
        self._files: dict[LogFile, _Known] = {}
        self._broken: set[LogFile] = set()
        """Damaged ones, and such as do not fit together: nothing is merged across them."""
        self._problems: list[NewProblem] = []
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "event-log") if in_background else None
        self._merging: Future[None] | None = None
        self._looked_ms: int | None = None

    def begin(self, epoch: str, number: int) -> None:
        """Go on after step `number` of an epoch; what a process that died left of later steps goes."""
        self._epoch, self._number = epoch, number
        try:
            # Its parent, the store, may have been moved away: it is not made anew.
            self._folder.mkdir(PRIVATE, exist_ok=True)
            listing = list_folder(self._folder)
            for name in listing.parts:
                (self._folder / name).unlink(missing_ok=True)
            for file in listing.files:
                if file.epoch == epoch and file.last > number:
                    self._undo(file, number)
            self._sync()
            self._look()
        except OSError as error:
            self._complain(str(self._folder), "unreadable", f"the log cannot be looked at: {error.strerror}")

    def write(self, number: int, events: EventBatch, now_ms: int, histories: Sequence[EventBatch] = ()) -> None:
        """The events of step `number`, before its transaction; what was written under this number goes.

        `events` has ids that the live lane has not had in this epoch; `histories` may repeat any. Detection goes on
        when the disk refuses: then the log lacks these events, and a problem says so.
        """
        self._write(LogFile(LIVE, self._epoch, number, number), events.table, now_ms)
        united = without_copies(layout.unite(history.table for history in histories))
        self._write(LogFile(HISTORY, self._epoch, number, number), united, now_ms)

    def tidy(self, number: int, now_ms: int, retention: Retention) -> None:
        """After the commit of step `number`: merge what is small, drop what is old or too much."""
        self._number = number
        try:
            self._drop(now_ms, retention)
        except OSError as error:
            self._complain(str(self._folder), "unwritable", f"old events cannot be removed: {error.strerror}")
        if self._merging is not None:
            if not self._merging.done():
                return
            self._check(self._merging)
        self._tell_removed(now_ms)
        for lane in (LIVE, HISTORY):
            with self._lock:
                ours = [f for f in self._files if (f.lane, f.epoch) == (lane, self._epoch) and f.last <= number]
                run = mergeable(_after_last(self._broken, ours), self._n_rows)
            if run and self._pool is None:
                self._merge(run)
            elif run and self._pool is not None:
                self._merging = self._pool.submit(self._merge, run)
                return  # one at a time

    def problems(self) -> list[NewProblem]:
        """What went wrong since the last call."""
        with self._lock:
            found, self._problems = self._problems, []
        return found

    def settle(self) -> None:
        """Wait for the merging under way: another writer may take over the folder then."""
        if self._merging is not None:
            wait([self._merging])

    def close(self) -> None:
        """Wait for merging to end; no more is begun."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    # ------------------------------------------------------------------ files

    def _write(self, file: LogFile, table: pa.Table, now_ms: int) -> None:
        path = self._folder / file.name
        try:
            if table.num_rows:
                self._put(file, lambda part: layout.write(part, table, now_ms), table.num_rows, now_ms)
            elif path.exists():
                path.unlink()
                self._sync()
                self._forget([file])
        except DATA_ERRORS as error:
            self._withdraw(file)
            self._complain(file.name, "unwritable", f"{table.num_rows} events are not in the log: {error}")

    def _withdraw(self, file: LogFile) -> None:
        """A stale file must not pass for this step's."""
        try:
            self._forget([file])
        except OSError as error:
            if (self._folder / file.name).exists():
                raise EventLogError(f"{file.name}: an old version of it cannot be removed: {error.strerror}") from error

    def _put(self, file: LogFile, write: Callable[[Path], None], n_rows: int, logged_ms: int) -> None:
        path = self._folder / file.name
        part = path.with_name(path.name + PART)
        write(part)
        if self._durable:
            with part.open("rb") as written:
                os.fsync(written.fileno())
        part.replace(path)
        self._sync()
        with self._lock:
            self._files[file] = _Known(n_rows, path.stat().st_size, logged_ms)

    def _undo(self, file: LogFile, number: int) -> None:
        if file.first > number:
            (self._folder / file.name).unlink(missing_ok=True)
            return
        # Merged files hold committed steps only: this store is older than its log (restored from a backup). The events
        # stay, under the steps that the store knows; those that come again are known by their ids.
        (self._folder / file.name).rename(self._folder / LogFile(file.lane, file.epoch, file.first, number).name)

    def _look(self) -> None:
        """What is in the folder now."""
        listing = list_folder(self._folder)
        wide = uncovered(listing.files)
        while unread := [
            file for file in wide if any(map(file.covers, set(listing.files) - {file})) and not self._opens(file)
        ]:
            for file in unread:
                self._rename_damaged(file)
            listing = list_folder(self._folder)
            wide = uncovered(listing.files)
        for file in set(listing.files) - set(wide):
            (self._folder / file.name).unlink(missing_ok=True)
        known: dict[LogFile, _Known] = {}
        for file in wide:
            path = self._folder / file.name
            try:
                with pa.OSFile(str(path), "rb") as source:
                    summary = layout.read_summary(source)
                known[file] = _Known(summary.n_rows, path.stat().st_size, summary.logged_ms)
            except FileNotFoundError:
                continue
            except (*DATA_ERRORS, LayoutError) as error:
                self._set_aside(file, error)
        for name in listing.foreign:
            self._complain(name, "foreign", "not a file of the event log: move it elsewhere")
        with self._lock:
            # What the thread of the steps has written since the folder was listed: a merge that did not know it would
            # make a file that seems to hold its events, too.
            listed = set(listing.files)
            for file, since in self._files.items():
                if file not in listed and (self._folder / file.name).exists():
                    known[file] = since
            # Those that are gone stay known until the next look for them tells it.
            for file, since in self._files.items():
                if file not in self._broken and not any(other.covers(file) for other in known):
                    known[file] = since
            self._files = known
        self._looked_ms = None

    def _tell_removed(self, now_ms: int) -> None:
        """Nobody but this writer removes files, and it knows which: tell of others that are gone."""
        if self._looked_ms is not None and 0 <= now_ms - self._looked_ms < LOOK_EVERY_MS:
            return
        self._looked_ms = now_ms
        try:
            there = set(list_folder(self._folder).files)
        except OSError as error:
            self._complain(str(self._folder), "unreadable", f"the log cannot be looked at: {error.strerror}")
            return
        with self._lock:
            gone = [file for file in self._files if file not in there]
            for file in gone:
                del self._files[file]
        self._complain_of_removed(gone)

    def _complain_of_removed(self, files: Sequence[LogFile]) -> None:
        for file in sorted(files)[:MAX_REMOVED_TOLD]:
            self._complain(file.name, "removed", "somebody has removed it, and its events with it")
        if len(files) > MAX_REMOVED_TOLD:
            n_more = len(files) - MAX_REMOVED_TOLD
            self._complain(str(self._folder), "removed", f"{n_more} more files that somebody has removed")

    def _opens(self, file: LogFile) -> bool:
        try:
            with pa.OSFile(str(self._folder / file.name), "rb") as source:
                layout.read_summary(source)
        except FileNotFoundError:
            return True
        except (*DATA_ERRORS, LayoutError):
            return False
        return True

    def _rename_damaged(self, file: LogFile) -> None:
        """It seems to hold what smaller files do, which would be left out, or removed, because of it."""
        name = file.name + DAMAGED_SUFFIX
        (self._folder / file.name).rename(self._folder / name)
        self._complain(
            file.name, "damaged", f"it cannot be read and is now called {name}: the files it was made of count"
        )

    def _set_aside(self, file: LogFile, error: BaseException) -> None:
        with self._lock:
            new = file not in self._broken
            self._broken.add(file)
        if new:
            self._complain(
                file.name, "damaged", f"it is left out, and its events with it: {str(error).splitlines()[0]}"
            )

    def _check(self, merging: Future[None]) -> None:
        """Nobody else would hear of a defect in the thread that merges; the parts stay as they are."""
        error = merging.exception()
        self._merging = None
        if error is not None:
            self._complain(str(self._folder), "unmerged", f"merging failed: {type(error).__name__}: {error}")

    def _complain(self, name: str, kind: str, message: str) -> None:
        with self._lock:
            self._problems.append(NewProblem(SOURCE, name, kind, message))

    def _sync(self) -> None:
        if self._durable:
            sync_folder(self._folder)

    # -------------------------------------------------------- merging, dropping

    def _n_rows(self, file: LogFile) -> int:
        return self._files[file].n_rows

    def _merge(self, run: Sequence[LogFile]) -> None:
        """One file from several; readers see either them or it."""
        whole = LogFile(run[0].lane, run[0].epoch, run[0].first, run[-1].last)
        try:
            tables = [table for file in run if (table := self._read(file)) is not None]
            if len(tables) < len(run):
                return  # the next try goes without what is damaged
            table = without_copies(layout.unite(tables))
            with self._lock:
                logged_ms = max(self._files[file].logged_ms for file in run)
            self._put(whole, lambda part: layout.write_sorted(part, table, logged_ms), table.num_rows, logged_ms)
            self._forget(run)
        except (KeyError, FileNotFoundError):
            self._look()  # another one of this process was faster
        except DATA_ERRORS as error:
            with self._lock:
                self._broken.update(run)
            self._complain(whole.name, "unmerged", f"its parts stay as they are: {str(error).splitlines()[0]}")

    def _read(self, file: LogFile) -> pa.Table | None:
        try:
            return layout.read_whole(self._folder / file.name)
        except FileNotFoundError:
            raise
        except DATA_ERRORS as error:
            with self._lock:
                self._files.pop(file, None)
            self._set_aside(file, error)
            return None

    def _drop(self, now_ms: int, retention: Retention) -> None:
        """Files whose events were all logged longer ago than the retention; then the oldest until the rest fits."""
        with self._lock:
            files = sorted(self._files.items(), key=lambda item: (item[1].logged_ms, item[0]))
        over_bytes = sum(known.n_bytes for _, known in files) - retention.events_size_bytes
        gone: list[LogFile] = []
        for file, known in files:
            if known.logged_ms >= now_ms - retention.events_ms and over_bytes <= 0:
                break
            gone.append(file)
            over_bytes -= known.n_bytes
        self._forget(gone)

    def _forget(self, files: Sequence[LogFile]) -> None:
        for file in files:
            (self._folder / file.name).unlink(missing_ok=True)
        with self._lock:
            for file in files:
                self._files.pop(file, None)


def _after_last(barriers: Collection[LogFile], files: Sequence[LogFile]) -> list[LogFile]:
    """The files of one lane and epoch after the last barrier among them."""
    passed = max(
        (b.last for b in barriers if files and (b.lane, b.epoch) == (files[0].lane, files[0].epoch)), default=-1
    )
    return [file for file in files if file.first > passed]


def level_of(n_rows: int) -> int:
    """0 for the smallest files; the last level's are never merged."""
    level, bound = 0, LEVEL_ROWS
    while n_rows >= bound and bound < MAX_FILE_ROWS:
        level, bound = level + 1, bound * MERGE_AT
    return level


def mergeable(files: Sequence[LogFile], n_rows: Callable[[LogFile], int]) -> list[LogFile]:
    """The latest neighbours to be made one: MERGE_AT files of one level with what is smaller between them, or fewer
    that together are as large as a file may become. Empty: nothing to do.
    """
    run: list[LogFile] = []
    level, total = 0, 0
    for file in sorted(files, reverse=True):
        rows = n_rows(file)
        if rows >= MAX_FILE_ROWS:
            break
        if level_of(rows) > level:
            if n_of_level(run, n_rows, level) >= MERGE_AT:
                break
            level = level_of(rows)
        run.append(file)
        total += rows
        if total >= MAX_FILE_ROWS:
            return sorted(run)
    return sorted(run) if n_of_level(run, n_rows, level) >= MERGE_AT else []


def n_of_level(run: Sequence[LogFile], n_rows: Callable[[LogFile], int], level: int) -> int:
    """How many files of a run are of a level or above."""
    return sum(level_of(n_rows(file)) >= level for file in run)
