"""Job history: `.jhist` files in folders that grow while they are read.

A job's events go out when its history is complete, as a `FinishedHistory` of its own; so a file that is still being
written holds nothing back and needs no read position. Files are known by device and inode, jobs by the digest of their
history: a file that is renamed or copied (staging -> intermediate -> done) is read once. Files of other kinds, such as
histories of Hadoop 1, are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.base import Collected, FinishedHistory, OptionError, ProblemLog, SourceUnavailableError, read_position
from collectors.file_kinds import HADOOP1, JHIST, RUMEN, SPARK_EVENTS, kind_by_content
from collectors.files import FoundFile, read_chunks, require_root, walk
from collectors.files_left_out import FilesLeftOut
from collectors.history.jhist import JhistParser
from collectors.history.job_conf import read_beside, settings_text
from collectors.option_checks import check_not_negative
from collectors.printable import printable
from collectors.time_units import DAY_MS, HOUR_MS
from engine.events import EventBatch

POSITION_VERSION = 1

ENDING = ".jhist"
BESIDE = ("_conf.xml", ".crc", ".summary", ".tmp", "_COPYING_")
"""Endings of what the JobHistoryServer and copying programs write beside histories."""
STAGING = ".staging"
OF_JOBS = ("job.", "COMMIT_")
"""Beginnings of what clients and ApplicationMasters write beside histories that grow."""


@dataclass(frozen=True, slots=True)
class JobHistoryOptions:
    """Where the history files are and how to read them."""

    roots: tuple[Path, ...]
    """Folders searched with all below them; those of the JobHistoryServer are its intermediate-done and done."""
    lateness_ms: int = 5_000
    source_rank: int = 0
    quiet_ms: int = HOUR_MS
    """A file without an end of its job counts as complete when it has not grown for this long."""
    hold_future: bool = True
    """Keep a history back until `now_ms` reaches the job's finish (a replay); False when clocks may run ahead."""
    forget_ms: int = DAY_MS
    """How long a job is remembered after its file has disappeared."""
    max_bytes_per_poll: int = 1 << 28
    """What is beyond is read by the next poll."""
    counters: bool = False
    """Whether all counters of attempts, and the settings of the job's configuration, become events, too."""

    def __post_init__(self) -> None:
        if not self.roots:
            raise OptionError("job history: no folder given; name at least one")
        check_not_negative("job history", self, ("lateness_ms", "quiet_ms", "forget_ms", "max_bytes_per_poll"))


@dataclass(slots=True)
class _OpenFile:
    """A file that is not complete yet."""

    parser: JhistParser
    offset: int
    grown_ms: int


@dataclass(slots=True)
class _KnownJob:
    """A job whose history has gone out."""

    digest: str
    complete: bool
    seen_ms: int


@dataclass(slots=True)
class _KnownFile:
    """A file that needs no further reading as long as it stays as it is."""

    n_bytes: int
    mtime_ns: int
    job_id: str | None
    seen_ms: int


class JobHistoryCollector:
    """The events of finished jobs."""

    name = "job_history"

    def __init__(self, options: JobHistoryOptions) -> None:
        self._options = options
        self._problems = ProblemLog(self.name)
        self._left_out = FilesLeftOut(self._problems, _what_else)
        self._open: dict[str, _OpenFile] = {}
        self._files: dict[str, _KnownFile] = {}
        self._jobs: dict[str, _KnownJob] = {}

    def poll(self, now_ms: int) -> Collected:
        """Read what has been added; raises SourceUnavailableError when none of the folders can be read."""
        done: list[JhistParser] = []
        budget = self._options.max_bytes_per_poll
        seen: set[str] = set()
        for file in self._scan():
            if not file.parts[-1].endswith(ENDING):
                self._left_out.found(file)
                continue
            if file.key in seen:
                continue  # a hard link
            seen.add(file.key)
            if self._is_known(file, now_ms):
                continue
            if budget <= 0 and file.key not in self._open:
                continue
            opened = self._open.get(file.key)
            if opened is None or file.n_bytes < opened.offset:
                opened = _OpenFile(self._parser(file.path), 0, now_ms)
                self._open[file.key] = opened
            budget -= self._read(opened, file, now_ms)
            if self._is_complete(opened, file, now_ms):
                opened.parser.close()
                del self._open[file.key]
                job_id = opened.parser.job.job_id if opened.parser.job else None
                self._files[file.key] = _KnownFile(file.n_bytes, file.mtime_ns, job_id, now_ms)
                done.append(opened.parser)
        self._left_out.end_poll()
        for key in self._open.keys() - seen:
            del self._open[key]  # removed before its job's end
        finished = self._accept(done, now_ms)
        self._forget(now_ms)
        watermark_ms = now_ms - self._options.lateness_ms
        return Collected(EventBatch.empty(), watermark_ms, self._problems.drain(), finished)

    def checkpoint(self) -> dict[str, Any]:
        """Files and jobs that are done; what is still being written is read again from its start."""
        return {
            "version": POSITION_VERSION,
            "files": {k: [f.n_bytes, f.mtime_ns, f.job_id, f.seen_ms] for k, f in self._files.items()},
            "jobs": {k: [j.digest, j.complete, j.seen_ms] for k, j in self._jobs.items()},
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""
        files, jobs = read_position(position, POSITION_VERSION, _known)
        self._files, self._jobs, self._open = files, jobs, {}

    def _scan(self) -> list[FoundFile]:
        found: list[FoundFile] = []
        failures: list[SourceUnavailableError] = []
        for root in self._options.roots:
            try:
                require_root(root)
            except SourceUnavailableError as error:
                failures.append(error)
                self._problems.report(str(root), "unreadable", str(error))
                continue
            self._problems.forget((str(root), "unreadable"))
            found.extend(walk(root, self._problems, _is_looked_at))
        if len(failures) == len(self._options.roots):
            raise failures[0]
        return found

    def _is_known(self, file: FoundFile, now_ms: int) -> bool:
        known = self._files.get(file.key)
        if known is None:
            return False
        if (known.n_bytes, known.mtime_ns) != (file.n_bytes, file.mtime_ns):
            del self._files[file.key]
            return False
        known.seen_ms = now_ms
        if known.job_id in self._jobs:
            self._jobs[known.job_id].seen_ms = now_ms
        return True

    def _read(self, opened: _OpenFile, file: FoundFile, now_ms: int) -> int:
        """Feed what is new; returns the number of bytes."""
        n_new = file.n_bytes - opened.offset
        if n_new == 0:
            return 0
        opened.grown_ms = now_ms
        for data in read_chunks(file.path, opened.offset, n_new, self._problems):
            opened.offset += len(data)
            opened.parser.feed(data)
        opened.parser.settle()
        return n_new

    def _is_complete(self, opened: _OpenFile, file: FoundFile, now_ms: int) -> bool:
        parser = opened.parser
        if parser.refused:
            return True
        if opened.offset < file.n_bytes:
            return False
        if not parser.finished:
            return now_ms - opened.grown_ms >= self._options.quiet_ms
        return not (self._options.hold_future and parser.end_ms is not None and parser.end_ms > now_ms)

    def _accept(self, done: list[JhistParser], now_ms: int) -> tuple[FinishedHistory, ...]:
        """The histories of jobs that have not gone out; of two for one job the fuller one."""
        finished: dict[str, FinishedHistory] = {}
        for parser in sorted(done, key=lambda p: (not p.finished, -len(p.events), p.place)):
            if parser.job is None or parser.refused:
                continue
            job_id = parser.job.job_id
            known = self._jobs.get(job_id)
            if known is not None and known.digest == parser.digest:
                continue  # the same file under another name
            if known is not None and (known.complete or not parser.finished):
                self._problems.report(
                    parser.place,
                    "second_history",
                    f"another history of {job_id} with different content; the first one counts",
                )
                continue
            self._jobs[job_id] = _KnownJob(parser.digest, parser.finished, now_ms)
            if self._options.counters:
                self._settle_counters(parser, job_id)
            finished[job_id] = FinishedHistory(job_id, parser.place, parser.events.take_batch())
        return tuple(finished.values())

    def _parser(self, path: str) -> JhistParser:
        counters = self._options.counters
        return JhistParser(path, self._problems, self._options.source_rank, keeps_counters=counters)

    def _settle_counters(self, parser: JhistParser, job_id: str) -> None:
        """Counters and settings at the job's end, which is when they are read.

        At their attempts' ends, long told over REST, counters would be late, and the log would be without them.
        """
        if parser.end_ms is None:
            return
        for row in parser.events.rows:
            if row["type"] == "AttemptCounters":
                row["t_lo_ms"] = row["t_hi_ms"] = parser.end_ms
        found = read_beside(parser.place, job_id, self._problems)
        if found is not None:
            place, settings = found
            parser.events.job_settings(job_id, settings_text(settings), parser.end_ms, None, printable(place))

    def _forget(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._options.forget_ms
        self._files = {k: f for k, f in self._files.items() if f.seen_ms >= oldest_ms}
        self._jobs = {k: j for k, j in self._jobs.items() if j.seen_ms >= oldest_ms}


def _is_looked_at(parts: tuple[str, ...]) -> bool:
    """Histories, and what has no reason to lie beside them: a job's own files have in its staging folder."""
    if parts[-1].endswith(ENDING):
        return True
    is_staged = any(part.endswith(STAGING) for part in parts[:-1])
    return not (is_staged or parts[-1].startswith((".", "_", *OF_JOBS)) or parts[-1].endswith(BESIDE))


def _what_else(begin: bytes) -> str | None:
    kind, why = kind_by_content(begin)
    if kind == JHIST:
        return f"a job history whose name does not end in {ENDING}: it is not read; rename it"
    if kind in (HADOOP1, RUMEN):
        return f"found a {kind}; live detection reads {ENDING} alone: read it with `clustercep ingest`"
    if kind == SPARK_EVENTS:
        return f"found a {kind}: sources.spark_events reads such files"
    return f"no job history ({why}); it is not read: remove it from the folders of sources.job_history"


def _known(position: Mapping[str, Any]) -> tuple[dict[str, _KnownFile], dict[str, _KnownJob]]:
    files = {
        str(key): _KnownFile(int(n_bytes), int(mtime_ns), None if job_id is None else str(job_id), int(seen_ms))
        for key, (n_bytes, mtime_ns, job_id, seen_ms) in position["files"].items()
    }
    jobs = {
        str(key): _KnownJob(str(digest), bool(complete), int(seen_ms))
        for key, (digest, complete, seen_ms) in position["jobs"].items()
    }
    return files, jobs


__all__ = ["JobHistoryCollector", "JobHistoryOptions"]
