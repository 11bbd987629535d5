"""Event logs of Spark applications in a folder, read while they grow.

A driver keeps the ends of its tasks in a buffer until a stage begins or ends, which may be hours; so what is told of
stages goes out stage by stage, as a `FinishedHistory`, once a stage attempt is over. Applications, jobs, executors and
fetch failures are written at once, and go out as they are read. A log is known by its name: Spark renames it when it
ends, and copying programs (rsync, `hdfs dfs -get`) make a new file each time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from collectors.base import Collected, FinishedHistory, ProblemLog, next_watermark, read_position
from collectors.files import FoundFile, read_chunks, require_root, walk
from collectors.lifecycle import clean_text
from collectors.option_checks import check_not_negative
from collectors.spark import STAGE_TYPES
from collectors.spark.application import ApplicationReader, SparkApplication
from collectors.spark.codecs import LZF_BEGINS, DamagedError, begin_of_text, codec_of
from collectors.spark.lines import MAX_LINE_BYTES, LinePosition, ReadLines, read_lines
from collectors.spark.log_files import ROLLED, LogFiles, Part, application_name, grouped
from collectors.spark.open_frames import OpenFrames
from collectors.time_units import DAY_MS, HOUR_MS
from engine.events import EventBatch

POSITION_VERSION = 1
CHUNK_BYTES = 1 << 26
"""Of a file at once: a block, or a frame, may not be longer."""
BEGIN_BYTES = 1 << 17
MAX_HELD = 2_000_000
"""Ends of tasks of stages that are not over, in one log; of more those that are there are told."""

EVENT_BEGINS = re.compile(rb'\s*\{\s*"Event"\s*:\s*"')
WHOLE_LZF = "compressed with lzf, which is not read: set spark.eventLog.compression.codec to zstd"


@dataclass(frozen=True, slots=True)
class SparkEventsOptions:
    """Where the logs are."""

    root: Path
    """spark.eventLog.dir, or a copy of it; searched with all below it."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Name in logs -> host name as job history writes it."""
    lateness_ms: int = 5_000
    source_rank: int = 0
    quiet_ms: int = HOUR_MS
    """A log that does not end and has not grown for so long: what its stages told so far goes out."""
    hold_future: bool = True
    """Do not read past a line later than `now_ms` (a replay); False when clocks may run ahead."""
    forget_ms: int = DAY_MS
    """How long a log is remembered after it has disappeared."""
    max_bytes_per_poll: int = 1 << 26
    """Of text; what is beyond is read by the next poll."""

    def __post_init__(self) -> None:
        check_not_negative("Spark event logs", self, ("lateness_ms", "quiet_ms", "forget_ms"))


@dataclass(slots=True)
class _Log:
    """A log that is being read."""

    application: SparkApplication
    grown_ms: int
    seen_ms: int
    part: int = 0
    """Number of the part that is read; 0: none yet."""
    position: LinePosition = field(default_factory=LinePosition)
    n_seen: int = -1
    """Bytes of all parts at the last look; -1: there may be more to read than was."""
    was_over: bool = False
    was_quiet: bool = False
    held: EventBatch = field(default_factory=EventBatch.empty)
    """What stages that are not over have told."""

    def to_json(self) -> dict[str, Any]:
        return {
            "application": self.application.to_json(),
            "times": [self.grown_ms, self.seen_ms],
            "part": self.part,
            "position": self.position.to_json(),
            "n_seen": self.n_seen,
            "was": [self.was_over, self.was_quiet],
            "n_held": len(self.held),
        }

    @classmethod
    def of_json(cls, saved: Mapping[str, Any], held: EventBatch) -> _Log:
        grown_ms, seen_ms = map(int, saved["times"])
        was_over, was_quiet = map(bool, saved["was"])
        application, position = SparkApplication.of_json(saved["application"]), LinePosition.of_json(saved["position"])
        part, n_seen = int(saved["part"]), int(saved["n_seen"])
        return cls(application, grown_ms, seen_ms, part, position, n_seen, was_over, was_quiet, held)


class SparkEventsCollector:
    """The events of Spark applications."""

    name = "spark_events"

    def __init__(self, options: SparkEventsOptions) -> None:
        self._options = options
        self._root = options.root.absolute()
        self._problems = ProblemLog(self.name)
        self._logs: dict[str, _Log] = {}
        self._done: dict[str, tuple[int, int]] = {}
        """Log that needs no reading as long as it stays as it is -> (its bytes, when it was seen)."""
        self._others: dict[str, tuple[int, int]] = {}
        """As `_done`, of what is no log, or not read."""
        self._watermark_ms: int | None = None
        self._frames = OpenFrames()

    def poll(self, now_ms: int) -> Collected:
        """Read what has been added; raises SourceUnavailableError when the root cannot be read."""
        require_root(self._root)
        found = grouped(walk(self._root, self._problems, _is_looked_at))
        logs = {clean_text(key): files for key, files in found.items()}
        self._follow_moved(logs)
        budget, is_behind, came_further = self._options.max_bytes_per_poll, False, False
        events, finished = list[EventBatch](), list[FinishedHistory]()
        for key, files in sorted(logs.items()):
            log = self._known(key, files, now_ms)
            if log is None or not self._has_news(log, files, now_ms):
                continue
            if budget <= 0:
                is_behind = True
                continue
            before = (log.part, *log.position.to_json())
            n_bytes, rows = self._read(log, files, budget, now_ms)
            budget -= n_bytes
            is_behind = is_behind or budget <= 0
            came_further = came_further or before != (log.part, *log.position.to_json())
            events.append(self._split(log, files, rows, finished))
            if log.was_over and log.n_seen >= 0:
                self._done[key] = log.n_seen, now_ms
                del self._logs[key]
        self._forget(now_ms, finished)
        promised_ms = now_ms - self._options.lateness_ms
        self._watermark_ms = next_watermark(self._watermark_ms, promised_ms, now_ms, is_behind=is_behind)
        return Collected(
            EventBatch.concat(events),
            self._watermark_ms,
            self._problems.drain(),
            tuple(finished),
            goes_on=is_behind and came_further,
        )

    def checkpoint(self) -> dict[str, Any]:
        """How far each log was read, and what its stages that are not over have told."""
        return {
            "version": POSITION_VERSION,
            "watermark_ms": self._watermark_ms,
            "done": {key: list(known) for key, known in self._done.items()},
            "others": {key: list(known) for key, known in self._others.items()},
            "logs": {key: log.to_json() for key, log in self._logs.items()},
            "held": {"events": EventBatch.concat([log.held for log in self._logs.values()]).table},
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""
        self._watermark_ms, self._done, self._others, self._logs = read_position(position, POSITION_VERSION, _restored)

    # ---- which logs --------------------------------------------------------------------------------------------

    def _follow_moved(self, logs: Mapping[str, LogFiles]) -> None:
        """A log that is at another place is the same one."""
        gone: dict[str, str] = {}
        for key in (*self._done, *self._logs):
            if key not in logs:
                gone[_name_of(key)] = key
        if not gone:
            return
        for key, files in logs.items():
            old = gone.get(clean_text(files.name))
            if old is not None and key not in self._done and key not in self._logs:
                if old in self._logs:
                    self._logs[key] = self._logs.pop(old)
                elif old in self._done:
                    self._done[key] = self._done.pop(old)

    def _known(self, key: str, files: LogFiles, now_ms: int) -> _Log | None:
        """The log; None when there is nothing to read in it."""
        for unread in (self._done, self._others):
            if (known := unread.get(key)) is not None:
                unread[key] = known[0], now_ms
                if known[0] == files.n_bytes:
                    return None
                del unread[key]
        log = self._logs.get(key)
        if log is None:
            if not files.parts or not files.n_bytes:
                return None
            if (reason := self._refused(key, files)) is not None:
                self._problems.report(files.parts[0].file.path, "not_spark_log", reason)
                self._others[key] = files.n_bytes, now_ms
                return None
            log = self._logs[key] = _Log(SparkApplication.named(files.name), now_ms, now_ms)
        log.seen_ms = now_ms
        return log

    def _refused(self, key: str, files: LogFiles) -> str | None:
        """Why a new file is not read; None when it is."""
        begin = b"".join(read_chunks(files.parts[0].file.path, 0, BEGIN_BYTES, self._problems))
        if LZF_BEGINS.match(begin):
            return WHOLE_LZF
        if codec_of(begin) == "" and not EVENT_BEGINS.match(begin):
            return "it does not begin as Spark's event logs do: remove it from the folder of sources.spark_events"
        if (text := begin_of_text(begin)) and not EVENT_BEGINS.match(text):
            return "what is compressed in it does not begin as Spark's event logs do: remove it from the folder"
        of_name = (known for known in (*self._logs, *self._done) if known != key and _name_of(known) == _name_of(key))
        other = next(of_name, None)
        return None if other is None else f"a second log of this name, beside {other}, which was read: remove one"

    def _has_news(self, log: _Log, files: LogFiles, now_ms: int) -> bool:
        log.grown_ms = min(log.grown_ms, now_ms)  # the clock was ahead
        if files.n_bytes != log.n_seen or files.is_over != log.was_over:
            return True
        return not log.was_quiet and self._is_quiet(log, now_ms)

    def _is_quiet(self, log: _Log, now_ms: int) -> bool:
        return now_ms - log.grown_ms >= self._options.quiet_ms

    # ---- reading -----------------------------------------------------------------------------------------------

    def _read(self, log: _Log, files: LogFiles, max_bytes: int, now_ms: int) -> tuple[int, EventBatch]:
        """(bytes of text that were looked at, what they tell)."""
        has_grown = files.n_bytes != log.n_seen
        log.was_quiet = not has_grown and self._is_quiet(log, now_ms)
        if has_grown:
            log.grown_ms = now_ms
        is_over, n_bytes, batches = files.is_over or log.was_quiet, 0, list[EventBatch]()
        log.n_seen, log.was_over = -1, files.is_over
        for part, later in zip(files.parts, [*files.parts[1:], None], strict=True):
            if part.number < log.part:
                continue
            if part.number > log.part:
                self._begin_part(log, part, files)
            reader = ApplicationReader(
                part.file.path, log.application, self._problems, self._options.source_rank, self._options.hosts
            )
            n_read, is_through = self._read_part(
                log, part.file, reader, max_bytes - n_bytes, now_ms, is_over=is_over or later is not None
            )
            n_bytes += n_read
            batches.append(reader.rows.take_batch())
            if not is_through:
                return n_bytes, EventBatch.concat(batches)
        log.n_seen = files.n_bytes
        return n_bytes, EventBatch.concat(batches)

    def _begin_part(self, log: _Log, part: Part, files: LogFiles) -> None:
        if part.number != log.part + 1 and not part.is_compact:
            message = f"part {log.part + 1} of {files.name} is missing: what it told of the application is not known"
            self._problems.report(part.file.path, "missing_part", message)
        log.part, log.position = part.number, LinePosition()

    def _read_part(
        self, log: _Log, file: FoundFile, reader: ApplicationReader, max_bytes: int, now_ms: int, *, is_over: bool
    ) -> tuple[int, bool]:
        """(bytes of text that were looked at, whether all of the part was)."""
        n_bytes, position = 0, log.position
        if position.block > file.n_bytes:
            message = "it was cut or replaced; it is read again from its start"
            self._problems.report(file.path, "truncated", message, key=(file.path, "cut", file.mtime_ns))
            self._frames.discard(file.path, position.block)
            position = log.position = LinePosition()
        until_ms = now_ms if self._options.hold_future else None
        codec = codec_of(self._bytes_of(file.path, 0, 16))

        def take(line: bytes, number: int) -> bool:
            return reader.take(line, number, until_ms)

        def bytes_from(begin: int, n_most: int) -> bytes:
            return self._bytes_of(file.path, begin, n_most)

        while max_bytes > n_bytes:
            begin, is_zstd = position.block, codec == "zstd"
            try:
                if is_zstd and not is_over and self._frames.is_waiting(file.path, begin, file.n_bytes, bytes_from):
                    return n_bytes, True
                data = self._frames.data_at(file.path, begin)
                if data is None:
                    data = bytes_from(begin, file.n_bytes - begin)
                is_last = begin + len(data) >= file.n_bytes
                read = read_lines(
                    codec,
                    data,
                    position,
                    take,
                    is_over=is_over and is_last,
                    max_bytes=max_bytes - n_bytes,
                    pieces=self._frames.pieces(file.path, begin) if is_zstd else None,
                )
                self._frames.settle(file.path, begin, position.block, position.skip)
            except DamagedError as error:
                self._frames.discard(file.path, begin)
                message = f"{error}, counted from byte {begin}; what stands before is used"
                self._problems.report(
                    f"{file.path}:{position.n_lines + 1}", "damaged", message, key=(file.path, "damaged")
                )
                return n_bytes + 1, True
            n_bytes += read.n_bytes
            self._tell_oversized(file, position, read)
            if read.is_refused:
                return n_bytes, False
            if read.is_at_end and is_last:
                self._tell_cut(file, position, read, is_over=is_over)
                return n_bytes, True
            if read.is_at_end and position.block == begin:
                message = f"a block longer than {CHUNK_BYTES:,} bytes; what is in it and behind it is not read"
                self._problems.report(f"{file.path}:{position.n_lines + 1}", "oversized_record", message)
                return n_bytes + 1, True
        return n_bytes, False

    def _bytes_of(self, path: str, begin: int, n_most: int) -> bytes:
        return b"".join(read_chunks(path, begin, min(CHUNK_BYTES, n_most), self._problems))

    def _tell_oversized(self, file: FoundFile, position: LinePosition, read: ReadLines) -> None:
        if read.n_oversized:
            message = f"{read.n_oversized} line(s) before it longer than {MAX_LINE_BYTES:,} bytes; skipped"
            self._problems.report(f"{file.path}:{position.n_lines + 1}", "oversized_record", message)

    def _tell_cut(self, file: FoundFile, position: LinePosition, read: ReadLines, *, is_over: bool) -> None:
        if is_over and (read.n_left or (position.block < file.n_bytes and not position.skip)):
            message = "it breaks off in the middle of a line or a block; what stands before is used"
            place = f"{file.path}:{position.n_lines + 1}"
            self._problems.report(place, "truncated", message, key=(file.path, "truncated"))

    # ---- what is told ------------------------------------------------------------------------------------------

    def _split(self, log: _Log, files: LogFiles, rows: EventBatch, finished: list[FinishedHistory]) -> EventBatch:
        """What is told at once; what stages have told that are over becomes a history, the rest waits."""
        told = rows.table.filter(pc.invert(_of_stages(rows))) if len(rows) else rows.table
        of_stages = EventBatch(rows.table.filter(_of_stages(rows))) if len(rows) else rows
        held = EventBatch.concat([log.held, of_stages])
        is_over = log.was_over and log.n_seen >= 0
        if is_over and not log.application.is_ended:
            message = "its application does not end in it: the driver died, or its end was not written"
            self._problems.report(files.parts[-1].file.path, "unfinished", message)
        open_stages = set() if is_over or log.was_quiet else set(log.application.stages)
        if len(held) > MAX_HELD:
            message = f"more than {MAX_HELD:,} tasks of stages that are not over; those so far are told by themselves"
            self._problems.report(files.parts[-1].file.path, "too_many_tasks", message)
            open_stages = set()
        log.held = EventBatch.empty()
        if len(held):
            waits = pc.is_in(held.strings("stage"), value_set=pa.array(sorted(open_stages), pa.string()))
            log.held, over = EventBatch(held.table.filter(waits)), EventBatch(held.table.filter(pc.invert(waits)))
            if len(over):
                finished.append(_history(log, over))
        return EventBatch(told)

    def _forget(self, now_ms: int, finished: list[FinishedHistory]) -> None:
        oldest_ms = now_ms - self._options.forget_ms
        self._done = {key: known for key, known in self._done.items() if known[1] >= oldest_ms}
        self._others = {key: known for key, known in self._others.items() if known[1] >= oldest_ms}
        for key, log in list(self._logs.items()):
            log.seen_ms = min(log.seen_ms, now_ms)
            if log.seen_ms < oldest_ms:
                if len(log.held):
                    finished.append(_history(log, log.held))
                del self._logs[key]


def _history(log: _Log, events: EventBatch) -> FinishedHistory:
    origin = str(events.table.column("origin")[0].as_py()).rpartition(":")[0]
    return FinishedHistory(log.application.application_id, origin, events, SparkEventsCollector.name)


def _of_stages(rows: EventBatch) -> pa.ChunkedArray:
    return pc.is_in(rows.strings("type"), value_set=pa.array(sorted(STAGE_TYPES)))


def _is_looked_at(parts: tuple[str, ...]) -> bool:
    return not parts[-1].startswith((".", "_")) and not parts[-1].endswith((".crc", ".tmp"))


def _name_of(key: str) -> str:
    return application_name(key.rpartition("/")[2]).removeprefix(ROLLED)


_Unread = dict[str, tuple[int, int]]


def _restored(saved: Mapping[str, Any]) -> tuple[int | None, _Unread, _Unread, dict[str, _Log]]:
    watermark_ms, table = saved["watermark_ms"], saved["held"]["events"]
    if not isinstance(table, pa.Table):
        raise TypeError("held events in no table")
    logs, begin = dict[str, _Log](), 0
    for key, told in saved["logs"].items():
        n_held = int(told["n_held"])
        logs[str(key)] = _Log.of_json(told, EventBatch(table.slice(begin, n_held)) if n_held else EventBatch.empty())
        begin += n_held
    if begin != table.num_rows:
        raise ValueError(f"{table.num_rows} held events, expected {begin}")
    done, others = (
        {str(key): (int(n_bytes), int(seen_ms)) for key, (n_bytes, seen_ms) in saved[name].items()}
        for name in ("done", "others")
    )
    return (None if watermark_ms is None else int(watermark_ms)), done, others, logs


__all__ = ["SparkEventsCollector", "SparkEventsOptions"]
