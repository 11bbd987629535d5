"""What clients of MapReduce jobs print while they wait, captured in files: progress, failed attempts, counters, ends.

Events are by the clock of the host that the client runs on. Only lines with a mark become objects (`columns.py`), and
those behind one that goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.base import Collected, ProblemLog, next_watermark, read_position
from collectors.client.console import ClientConsole, Told
from collectors.client.lines import MARKS
from collectors.client.reader import COUNTERS_WITHIN_MS, ConsoleReader
from collectors.files import FoundFile, require_root
from collectors.folder_watch import FolderWatch, WatchOptions
from collectors.lifecycle import EventRows, clean_text
from collectors.logs.columns import lines_of, pattern_of, starts_of, with_mark
from collectors.logs.tail import LogTail
from collectors.logs.times import zone_named
from collectors.option_checks import check_not_negative, compiled_pattern
from collectors.printable import printable

POSITION_VERSION = 1

CLIENT_NAME_PATTERN = r"(?i:[^.].{0,250}?(?<!\.gz)(?<!\.zip)(?<!\.bz2)(?<!\.xz)(?<!\.zst)(?<!\.jar))"
"""Any file that is not hidden, packed or a program."""


@dataclass(frozen=True, slots=True)
class JobClientLogOptions:
    """Where the output of clients is."""

    root: Path
    name_pattern: str = CLIENT_NAME_PATTERN
    """Whole file name; the group `host`, where it has one, is the host that the client runs on."""
    host: str | None = None
    """That host, where names of files do not say it."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Name in file names -> host name as job history writes it."""
    zone: str = "UTC"
    lateness_ms: int = 5_000
    source_rank: int = 0
    hold_ms: int = 10_000
    """So long after its last line a file may go on with the text of a failure."""
    abandon_ms: int = 43_200_000
    """A job whose client has not printed a line for this long is waited for no more."""
    revisit_ms: int = 60_000
    """Files in which no job runs are looked at once in this time."""
    hold_future: bool = True
    """Do not read past a line later than `now_ms` (a replay); False when clocks may run ahead."""
    max_bytes_per_poll: int = 1 << 26

    def __post_init__(self) -> None:
        compiled_pattern("job client log", self, "name_pattern")
        check_not_negative("job client log", self, ("lateness_ms", "hold_ms", "abandon_ms", "revisit_ms"))


@dataclass(slots=True)
class _File:
    """A file in which something goes on."""

    console: ClientConsole
    host: str | None
    shown_path: str
    grown_ms: int


class JobClientLogCollector:
    """ClientJobStart, -Progress, -End and -Counters, ClientAttemptEnd, ClientRunEnd, ClientLaunchFailed."""

    name = "job_client_log"

    def __init__(self, options: JobClientLogOptions) -> None:
        self._options = options
        self._root = options.root.absolute()
        self._pattern = re.compile(options.name_pattern)
        self._zone = zone_named(options.zone)
        self._marks = pattern_of(MARKS)
        self._problems = ProblemLog(self.name)
        self._tail = LogTail(self._problems, _is_text, "is text")
        self._files: dict[str, _File] = {}
        self._watermark_ms: int | None = None
        self._watch_anew()

    def poll(self, now_ms: int) -> Collected:
        """Read the lines that were added; raises SourceUnavailableError when the root cannot be read."""
        require_root(self._root)
        rows = EventRows(self._options.source_rank)

        def read(file: FoundFile, max_bytes: int) -> int:
            return self._read(file, max_bytes, now_ms, rows)

        is_behind = self._tail.read_new(self._found(now_ms), self._options.max_bytes_per_poll, read)
        self._settle(now_ms, rows)
        self._watch.settle(now_ms, lambda file: self._is_in_use(file, now_ms))
        self._forget_gone(rows)
        watermark_ms = self._advance(now_ms, is_behind or self._watch.is_behind)
        return Collected(rows.take_batch(), watermark_ms, self._problems.drain(), goes_on=self._tail.goes_on)

    def checkpoint(self) -> dict[str, Any]:
        """Positions of the files, and what goes on in them."""
        return {
            "version": POSITION_VERSION,
            "watermark_ms": self._watermark_ms,
            "files": self._tail.tables(),
            "consoles": {
                key: [file.console.to_json(), file.host, file.shown_path, file.grown_ms]
                for key, file in self._files.items()
            },
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""

        def read(saved: Mapping[str, Any]) -> tuple[int | None, dict[str, _File]]:
            self._tail.restore_tables(saved["files"])
            watermark_ms = saved["watermark_ms"]
            files = {
                str(key): _File(ClientConsole.from_json(console), host, str(shown_path), int(grown_ms))
                for key, (console, host, shown_path, grown_ms) in saved["consoles"].items()
            }
            return (None if watermark_ms is None else int(watermark_ms)), files

        self._watermark_ms, self._files = read_position(position, POSITION_VERSION, read)
        self._watch_anew()

    # ---- files -------------------------------------------------------------------------------------------------

    def _watch_anew(self) -> None:
        """Nothing is known of the folders: all that is there is looked at."""
        watched = WatchOptions(self._options.revisit_ms, self._options.revisit_ms)
        self._watch = FolderWatch(self._root, self._problems, self._wanted, watched)
        self._has_listed_all = False

    def _found(self, now_ms: int) -> Iterator[FoundFile]:
        for file in self._watch.look(now_ms):
            if file.n_bytes:  # one that stays empty is the other stream of a client that was captured apart
                self._tail.report_idle(file, now_ms, self._options.hold_ms)
            yield file

    def _is_in_use(self, file: FoundFile, now_ms: int) -> bool:
        """Whether the next poll has to look at it."""
        if file.key in self._files or self._tail.has_news(file):
            return True
        return file.n_bytes > 0 and self._tail.is_idle(file, now_ms, self._options.hold_ms)

    def _wanted(self, parts: tuple[str, ...]) -> bool:
        return self._pattern.fullmatch(parts[-1]) is not None

    def _host_of(self, file: FoundFile) -> str | None:
        name = self._pattern.fullmatch(file.parts[-1])
        host = (name.groupdict().get("host") if name else None) or self._options.host
        return clean_text(self._options.hosts.get(host, host)) if host else None

    def _forget_gone(self, rows: EventRows) -> None:
        gone = self._watch.take_gone()
        if not self._has_listed_all and not self._watch.is_behind:
            self._has_listed_all = True
            gone |= (self._tail.positions.keys() | self._files.keys()) - self._watch.keys()
        for key in gone & self._files.keys():  # what its last lines told is told
            file = self._files.pop(key)
            self._reader(key, file).end()
            self._take_out(file, rows)
        self._tail.forget(gone)

    # ---- reading -----------------------------------------------------------------------------------------------

    def _reader(self, key: str, file: _File) -> ConsoleReader:
        return ConsoleReader(file.console, self._zone, self._problems, file.shown_path, self._options.abandon_ms, key)

    def _read(self, found: FoundFile, max_bytes: int, now_ms: int, rows: EventRows) -> int:
        """Take the complete new lines; returns how many bytes were looked at."""
        is_known = found.key in self._tail.positions
        file = self._files.get(found.key) or _File(ClientConsole(), None, "", 0)
        file.host, file.shown_path = self._host_of(found), printable(found.path)

        def take(data: bytes, first_number: int) -> int:
            if first_number == 1 and file.console.is_open:
                # The file was written anew: what went on in it before has ended.
                self._reader(found.key, file).end()
                self._take_out(file, rows)
                file.console = ClientConsole()
            return self._take(data, first_number, self._reader(found.key, file), file.console, now_ms)

        n_bytes = self._tail.read_blocks(found, max_bytes, take)
        self._take_out(file, rows)
        grew_now = is_known or self._tail.has_news(found)
        file.grown_ms = max(file.grown_ms, now_ms if grew_now else min(now_ms, found.mtime_ns // 1_000_000))
        self._files[found.key] = file
        return n_bytes

    def _take(self, data: bytes, first_number: int, reader: ConsoleReader, console: ClientConsole, now_ms: int) -> int:
        """Bytes of whole lines that were taken; of those between marks only what a console still waits for."""
        lines = lines_of(data)
        starts = starts_of(lines)
        marked = with_mark(lines, self._marks).tolist()
        index, n_marked = 0, 0
        while index < len(lines):
            if not console.takes_every_line:
                while n_marked < len(marked) and marked[n_marked] < index:
                    n_marked += 1
                if n_marked == len(marked):
                    break
                index = marked[n_marked]
            text = data[starts[index] : starts[index + 1] - 1].removesuffix(b"\r").decode("utf-8", "replace")
            if self._options.hold_future:
                t_ms = reader.time_of(text)
                if t_ms is not None and t_ms > now_ms:
                    return int(starts[index])
            reader.take(text, first_number + index)
            index += 1
        return len(data)

    def _take_out(self, file: _File, rows: EventRows) -> None:
        for told in file.console.told:
            rows.add(
                told.type,
                told.event_id,
                told.times[0],
                self._clock_of(told, file),
                told.origin,
                {"job_id": told.job_id, **told.attributes, "client_host": file.host},
                t_hi_ms=told.times[1],
                source_seq=told.number,
                raw=told.raw,
            )
        file.console.told.clear()

    def _clock_of(self, told: Told, file: _File) -> str | None:
        """The client's host; where that is not known its job: one client waits for it."""
        if file.host is not None:
            return f"host:{file.host}"
        return None if told.job_id is None else f"client:{told.job_id}"

    # ---- ends and watermark ------------------------------------------------------------------------------------

    def _settle(self, now_ms: int, rows: EventRows) -> None:
        """Files that have been quiet go on no more; those in which nothing runs are looked at less often."""
        for key, file in list(self._files.items()):
            file.grown_ms = min(file.grown_ms, now_ms)  # the clock was ahead
            quiet_ms = now_ms - file.grown_ms
            if quiet_ms >= self._options.hold_ms:
                self._reader(key, file).end()
                self._take_out(file, rows)
            if quiet_ms >= COUNTERS_WITHIN_MS:
                file.console.forget_ended()
            is_left = not file.console.is_open and quiet_ms >= self._options.hold_ms
            if is_left or quiet_ms >= self._options.abandon_ms:
                del self._files[key]

    def _advance(self, now_ms: int, is_behind: bool) -> int:
        watermark_ms = self._watch.since_ms(now_ms) - self._options.lateness_ms
        for file in self._files.values():
            waiting_ms = file.console.waiting_since_ms()
            if waiting_ms is not None and now_ms - file.grown_ms < self._options.hold_ms:
                watermark_ms = min(watermark_ms, waiting_ms)
        self._watermark_ms = next_watermark(self._watermark_ms, watermark_ms, now_ms, is_behind=is_behind)
        return self._watermark_ms


def _is_text(line: bytes) -> bool:
    return line != b"" and b"\0" not in line


__all__ = ["CLIENT_NAME_PATTERN", "JobClientLogCollector", "JobClientLogOptions"]
