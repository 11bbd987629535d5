"""Logs of ResourceManagers and NodeManagers: nodes that are lost or unhealthy, containers that were killed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.base import Collected, OptionError, ProblemLog, next_watermark, printable, read_position
from collectors.file_kinds import CLIENT_TRACE
from collectors.files import FoundFile, require_root, walk
from collectors.files_left_out import FilesLeftOut
from collectors.hadoop_ids import CONTAINER, job_of_container
from collectors.identity import lifecycle_id, record_id
from collectors.lifecycle import EventRows, clean_text
from collectors.logs.tail import LogTail
from collectors.logs.times import LogRecord, begins_with_time, relevant_record, zone_named

POSITION_VERSION = 1

NAME_PATTERN = r".*?(?:resourcemanager(?:-(?P<master>.+?))?|nodemanager-(?P<host>.+?))\.log(?:\.\d[\d-]*)?"
"""Of log files as Hadoop names them, rotated ones too."""

LOST = re.compile(r"(\S+):\d+ Node Transitioned from (\w+) to LOST")
EXPIRED = re.compile(r"Expired:(\S+):\d+ (Timed out .*)")
UNHEALTHY = re.compile(r"Node (\S+):\d+ reported UNHEALTHY with details: ?(.*)")
LIMIT = re.compile(
    rf"Container \[pid=\d+,containerID=(?P<id>{CONTAINER.pattern})\] is (?P<why>running .{{0,200}}? limits?)\b"
)
OUT_OF_MEMORY = re.compile(
    rf"[Cc]ontainer (?P<id>{CONTAINER.pattern}) (?:was )?(?P<why>killed by elastic cgroups OOM handler.*)"
)
KILLING = re.compile(rf"Container (?P<id>{CONTAINER.pattern}) transitioned from (?P<why>\w+ to KILLING)")

MEMORY = re.compile(r"\b(physical|virtual)\b.{0,200}? memory limit|\bcgroups OOM\b", re.IGNORECASE)

RELEVANT = (b"to LOST", b"Expired:", b"UNHEALTHY", b"containerID=", b"to KILLING", b"OOM handler")
"""A line without one of these needs no parsing."""

DATANODE = "datanode"
"""In the names of its logs."""

MAX_EXPIRED = 10_000


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
    hold_future: bool = True
    """Do not read past a line later than `now_ms` (a replay); False when clocks may run ahead."""
    max_bytes_per_poll: int = 1 << 26

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.name_pattern).groupindex
        except re.error as error:
            raise OptionError(f"daemon log: name_pattern is no regular expression: {error}") from error
        if "host" not in groups:
            raise OptionError("daemon log: name_pattern has no group (?P<host>...)")
        if self.lateness_ms < 0:
            raise OptionError(f"daemon log: lateness_ms is {self.lateness_ms}; expected 0 or more")


class DaemonLogCollector:
    """NodeLost, NodeUnhealthy, ContainerKilled."""

    name = "daemon_log"

    def __init__(self, options: DaemonLogOptions) -> None:
        self._options = options
        self._root = options.root.absolute()
        self._pattern = re.compile(options.name_pattern)
        self._zone = zone_named(options.zone)
        self._problems = ProblemLog(self.name)
        self._tail = LogTail(self._problems, lambda line: begins_with_time(line, self._zone))
        self._left_out = FilesLeftOut(self._problems, _what_else)
        self._expired: dict[str, str] = {}
        """Node -> why its ResourceManager no longer waits for it; said before it is called lost."""
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
                elif DATANODE not in file.parts[-1]:  # which writes such lines among its own, unless told otherwise
                    self._left_out.found(file)
            self._left_out.end_poll()

        def read(file: FoundFile, max_bytes: int) -> int:
            return self._read(file, max_bytes, now_ms, rows)

        is_behind = self._tail.read_new(found(), self._options.max_bytes_per_poll, read)
        self._tail.keep(seen)
        watermark_ms = now_ms - self._options.lateness_ms
        self._watermark_ms = next_watermark(self._watermark_ms, watermark_ms, now_ms, is_behind=is_behind)
        return Collected(rows.take_batch(), self._watermark_ms, self._problems.drain())

    def checkpoint(self) -> dict[str, Any]:
        """Positions of the files."""
        return {
            "version": POSITION_VERSION,
            "watermark_ms": self._watermark_ms,
            "files": self._tail.to_json(),
            "expired": dict(self._expired),
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""

        def read(saved: Mapping[str, Any]) -> tuple[int | None, dict[str, str]]:
            self._tail.restore(saved["files"])
            watermark_ms = saved["watermark_ms"]
            expired = {str(node): str(reason) for node, reason in saved["expired"].items()}
            return (None if watermark_ms is None else int(watermark_ms)), expired

        self._watermark_ms, self._expired = read_position(position, POSITION_VERSION, read)

    def _wanted(self, parts: tuple[str, ...]) -> bool:
        return self._pattern.fullmatch(parts[-1]) is not None

    def _read(self, file: FoundFile, max_bytes: int, now_ms: int, rows: EventRows) -> int:
        name = self._pattern.fullmatch(file.parts[-1])
        host = self._host(name["host"]) if name and name["host"] else None
        clock_id = f"host:{host}" if host else "resourcemanager"
        shown_path = printable(file.path)

        def take(line: bytes, number: int) -> bool:
            found = relevant_record(line, RELEVANT, self._zone)
            if found is None:
                return True
            record, raw = found
            if self._options.hold_future and record.t_lo_ms > now_ms:
                return False
            event = self._event(record, host)
            if event is not None:
                event_type, event_id, attributes = event
                rows.add(
                    event_type,
                    event_id,
                    record.t_lo_ms,
                    clock_id,
                    f"{shown_path}:{number}",
                    attributes,
                    t_hi_ms=record.t_hi_ms,
                    source_seq=number,
                    raw=raw,
                )
            return True

        return self._tail.read(file, max_bytes, take)

    def _event(self, record: LogRecord, host: str | None) -> tuple[str, str, dict[str, Any]] | None:
        """(type, id, attributes) of what a record says, or None."""
        message, t_ms = record.message, record.t_lo_ms
        if found := EXPIRED.match(message):
            if len(self._expired) >= MAX_EXPIRED:
                self._expired.pop(next(iter(self._expired)))
            self._expired[found[1]] = found[2]
        elif found := LOST.match(message):
            reason = self._expired.pop(found[1], f"{found[2]} to LOST")
            return self._node_event("NodeLost", found[1], t_ms, reason)
        elif found := UNHEALTHY.match(message):
            return self._node_event("NodeUnhealthy", found[1], t_ms, found[2])
        elif host is not None and (
            found := LIMIT.search(message) or OUT_OF_MEMORY.match(message) or KILLING.match(message)
        ):
            attributes = {
                "job_id": job_of_container(found["id"]),
                "host": host,
                "container_id": found["id"],
                "reason": printable(found["why"]),
                "cause": _cause(found["why"]),
            }
            # A container is killed once: the line with the reason stands first, the others are its copies.
            return "ContainerKilled", lifecycle_id("ContainerKilled", found["id"]), attributes
        return None

    def _node_event(self, event_type: str, node: str, t_ms: int, reason: str) -> tuple[str, str, dict[str, Any]]:
        host = self._host(node)
        event_id = record_id(("resourcemanager",), event_type, t_ms, (host,), 0)
        return event_type, event_id, {"host": host, "reason": printable(reason)}

    def _host(self, name: str) -> str:
        return clean_text(self._options.hosts.get(name, name))


def _is_looked_at(parts: tuple[str, ...]) -> bool:
    return not parts[-1].startswith(".") and "\n" not in parts[-1]


def _what_else(begin: bytes) -> str | None:
    """Other daemons' logs lie in the same folder, and most have nothing to tell; ClientTrace would."""
    if CLIENT_TRACE.search(begin):
        return "a log of ClientTrace lines (who read and wrote which blocks); no source reads them"
    return None


def _cause(why: str) -> str | None:
    """Which memory a container was killed for; None when the line does not say that it was."""
    found = MEMORY.search(why)
    if found is None:
        return None
    return f"{found[1].lower()} memory" if found[1] else "node memory"


__all__ = ["NAME_PATTERN", "DaemonLogCollector", "DaemonLogOptions"]
