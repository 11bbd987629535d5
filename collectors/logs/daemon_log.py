"""Logs of ResourceManagers, NodeManagers, NameNodes and DataNodes, read by column (`columns.py`): only lines that tell
something become objects. What such a line tells stands in `daemon_lines.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from collectors.base import Collected, OptionError, ProblemLog, next_watermark, read_position
from collectors.file_kinds import CLIENT_TRACE as CLIENT_TRACE_LINES
from collectors.files import FoundFile, require_root, walk
from collectors.files_left_out import FilesLeftOut
from collectors.identity import lifecycle_id, record_id
from collectors.lifecycle import EventRows, clean_text
from collectors.logs.columns import lines_of, pattern_of, starts_of, with_mark
from collectors.logs.daemon_lines import CLIENT_TRACE, GOES_ON, READERS, Line, Place, Remembered, Told
from collectors.logs.tail import LogTail
from collectors.logs.times import MAX_RAW_CHARS, LogRecord, begins_with_time, parse_record, zone_named
from collectors.option_checks import check_not_negative, compiled_pattern
from collectors.printable import printable

POSITION_VERSION = 1

NAME_PATTERN = (
    r"(?i:.*?(?:(?:resourcemanager|(?:secondary)?namenode)(?:-(?P<master>.+?))?|(?:nodemanager|datanode)-(?P<host>.+?))"
    r"\.log(?:\.out)?(?:\.\d[\d-]*)?)"
)
"""Of log files as Hadoop and Cloudera Manager name them, rotated ones too."""

DAEMON = re.compile(r"(?i:.*?(resourcemanager|nodemanager|secondarynamenode|namenode|datanode))")
DAEMONS = {
    "resourcemanager": "ResourceManager",
    "nodemanager": "NodeManager",
    "namenode": "NameNode",
    "secondarynamenode": "SecondaryNameNode",
    "datanode": "DataNode",
}
OF_RESOURCE_MANAGER = ("NodeLost", "NodeUnhealthy")
"""Their ids name neither which of a pair wrote the line, nor the line."""

TORN = re.compile(rb".{0,60}?\b(?:INFO|WARN|ERROR|FATAL) +[\w.$]{3,200}: ")
"""A line that goes on as records do, and does not begin as they do."""


@dataclass(frozen=True, slots=True)
class DaemonLogOptions:
    """Where the logs of the daemons are."""

    root: Path
    name_pattern: str = NAME_PATTERN
    """Whole file name; the group `host` is the NodeManager's host, of which its own lines say nothing."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Name in file names and lines -> host name as job history writes it."""
    zone: str = "UTC"
    lateness_ms: int = 5_000
    source_rank: int = 0
    client_trace: bool = True
    """Tell of each transfer of a block, too."""
    hold_future: bool = True
    """Do not read past a line later than `now_ms` (a replay); False when clocks may run ahead."""
    max_bytes_per_poll: int = 1 << 26

    def __post_init__(self) -> None:
        groups = compiled_pattern("daemon log", self, "name_pattern").groupindex
        if "host" not in groups:
            raise OptionError("daemon log: name_pattern has no group (?P<host>...)")
        check_not_negative("daemon log", self, ("lateness_ms",))


class DaemonLogCollector:
    """What daemons say of nodes, disks, containers, masters, locks, pauses, credentials and transfers."""

    name = "daemon_log"

    def __init__(self, options: DaemonLogOptions) -> None:
        self._options = options
        self._root = options.root.absolute()
        self._pattern = re.compile(options.name_pattern)
        self._zone = zone_named(options.zone)
        self._problems = ProblemLog(self.name)
        self._tail = LogTail(self._problems, lambda line: begins_with_time(line, self._zone))
        self._left_out = FilesLeftOut(self._problems, _what_else if options.client_trace else _nothing_else)
        self._readers = (CLIENT_TRACE, *READERS) if options.client_trace else READERS
        self._marks = pattern_of(mark for mark, _ in self._readers)
        self._memory = Remembered()
        self._watermark_ms: int | None = None

    def poll(self, now_ms: int) -> Collected:
        """Read the lines that were added; raises SourceUnavailableError when the root cannot be read."""
        require_root(self._root)
        rows = EventRows(self._options.source_rank)
        seen: set[str] = set()

        def found() -> Iterator[FoundFile]:
            for file in walk(self._root, self._problems, _is_looked_at):
                if self._wanted(file.parts):
                    seen.add(file.key)
                    yield file
                else:
                    self._left_out.found(file)
            self._left_out.end_poll()

        def read(file: FoundFile, max_bytes: int) -> int:
            return self._read(file, max_bytes, now_ms, rows)

        is_behind = self._tail.read_new(found(), self._options.max_bytes_per_poll, read)
        self._tail.keep(seen)
        watermark_ms = now_ms - self._options.lateness_ms
        self._watermark_ms = next_watermark(self._watermark_ms, watermark_ms, now_ms, is_behind=is_behind)
        return Collected(rows.take_batch(), self._watermark_ms, self._problems.drain(), goes_on=self._tail.goes_on)

    def checkpoint(self) -> dict[str, Any]:
        """Positions of the files."""
        return {
            "version": POSITION_VERSION,
            "watermark_ms": self._watermark_ms,
            "files": self._tail.to_json(),
            "expired": dict(self._memory.expired),
            "remembered": asdict(self._memory),
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""

        def read(saved: Mapping[str, Any]) -> tuple[int | None, Remembered]:
            self._tail.restore(saved["files"])
            watermark_ms = saved["watermark_ms"]
            told = {"expired": saved["expired"], **saved.get("remembered", {})}  # earlier versions had the first alone
            memory = Remembered(**{each.name: dict(told.get(each.name, {})) for each in fields(Remembered)})
            return (None if watermark_ms is None else int(watermark_ms)), memory

        self._watermark_ms, self._memory = read_position(position, POSITION_VERSION, read)

    def _wanted(self, parts: tuple[str, ...]) -> bool:
        return self._pattern.fullmatch(parts[-1]) is not None

    def _read(self, file: FoundFile, max_bytes: int, now_ms: int, rows: EventRows) -> int:
        place, clock_id = self._place(file)
        shown_path = printable(file.path)

        def take(data: bytes, first_number: int) -> int:
            lines = lines_of(data)
            starts = starts_of(lines)
            for index in with_mark(lines, self._marks).tolist():
                line, number = data[starts[index] : starts[index + 1] - 1], first_number + index
                record = self._record(line, place, f"{shown_path}:{number}")
                if record is None:
                    continue
                if self._options.hold_future and record.t_lo_ms > now_ms:
                    return int(starts[index])
                for told in self._told(line, record, place, f"{shown_path}:{number}"):
                    rows.add(
                        told.type,
                        self._id(told, record, place),
                        record.t_lo_ms,
                        clock_id,
                        f"{shown_path}:{number}",
                        told.attributes,
                        t_hi_ms=record.t_hi_ms,
                        source_seq=number,
                        raw=printable(line.decode("utf-8", "replace"), MAX_RAW_CHARS),
                    )
            return len(data)

        return self._tail.read_blocks(file, max_bytes, take)

    def _place(self, file: FoundFile) -> tuple[Place, str]:
        """Where the lines of a file stand, and their clock."""
        name = self._pattern.fullmatch(file.parts[-1])
        assert name is not None
        of_name = DAEMON.match(file.parts[-1])
        daemon = DAEMONS[of_name[1].lower()] if of_name else None
        groups = name.groupdict()
        host = groups["host"] or groups.get("master")
        host = self._host(host) if host else None
        if daemon == "ResourceManager" or (host is None and daemon is None):
            clock_id = "resourcemanager"
        else:
            clock_id = f"host:{host}" if host else str(daemon).lower()
        # A log without a host in its name is of a master that is alone in its folder: the daemon's name stands for it.
        return Place(daemon, host or (daemon and daemon.lower()), file.key, self._host), clock_id

    def _record(self, line: bytes, place: Place, origin: str) -> LogRecord | None:
        """The record of a line with a mark; one that goes on with such a line has the time of its beginning."""
        text = line.removesuffix(b"\r").decode("utf-8", "replace")
        record = parse_record(text, self._zone)
        if record is None:
            begun = self._memory.locks.get(place.file) if GOES_ON in line else None
            if begun is not None:
                record = LogRecord(begun[0][0], begun[0][1], "", "", "", text)
            elif TORN.match(line):
                message = "a line that is torn: it has no time at its beginning, so that it tells nothing"
                self._problems.report(origin, "torn_record", message, key=(place.file, "torn_record"))
        elif "\ufffd" in text and b"\xef\xbf\xbd" not in line:
            message = "bytes that are no UTF-8 are shown as \ufffd; others in this file, too, may be"
            self._problems.report(origin, "encoding", message, key=(place.file, "encoding"))
        return record

    def _told(self, line: bytes, record: LogRecord, place: Place, origin: str) -> tuple[Told, ...]:
        message, unknown = record.message, False
        at = Line(message, (record.t_lo_ms, record.t_hi_ms), place, self._memory)
        for mark, reader in self._readers:
            if mark in line:
                told = reader(at)
                if told:
                    return told
                if told is not None:
                    continue  # known; but the text may stand in a path, and the line be another's
                unknown = unknown or message.encode("utf-8", "replace").lstrip().startswith(mark)
        if unknown:
            shown = f"a line of a form that is not known, as another version of Hadoop may write it: {message[:200]}"
            self._problems.report(origin, "unknown_form", shown, key=(place.file, "unknown_form", message[:20]))
        return ()

    def _id(self, told: Told, record: LogRecord, place: Place) -> str:
        """Of what happens once, by what it happens to; else by the daemon and its line."""
        if told.subject is not None:
            return lifecycle_id(told.type, told.subject)
        if told.type in OF_RESOURCE_MANAGER:
            return record_id(("resourcemanager",), told.type, record.t_lo_ms, (told.attributes["host"],), 0)
        source = (place.daemon or "", place.host or "")
        return record_id(source, told.type, record.t_lo_ms, (record.message,), 0)

    def _host(self, name: str) -> str:
        return clean_text(self._options.hosts.get(name, name))


def _is_looked_at(parts: tuple[str, ...]) -> bool:
    return not parts[-1].startswith(".") and "\n" not in parts[-1]


def _what_else(begin: bytes) -> str | None:
    """Other daemons' logs lie in the same folder, and most have nothing to tell; ClientTrace would."""
    if CLIENT_TRACE_LINES.search(begin):
        return (
            "a log of ClientTrace lines (who read and wrote which blocks) whose name tells no host; expected a name "
            "such as hadoop-hdfs-datanode-HOST.log, or one that sources.daemon_log.name_pattern describes"
        )
    return None


def _nothing_else(_: bytes) -> None:
    """Of what is not wanted there is nothing to tell."""


__all__ = ["NAME_PATTERN", "DaemonLogCollector", "DaemonLogOptions"]
