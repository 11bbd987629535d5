"""HDFS audit logs: who did how much of what in each minute (`audit_counts.py`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.base import Collected, ProblemLog, next_watermark, read_position
from collectors.files import FoundFile, log_of, require_root, walk
from collectors.identity import record_id
from collectors.lifecycle import EventRows, clean_text
from collectors.logs.audit_counts import MINUTE_MS, AuditCounts, Cell
from collectors.logs.columns import lines_of
from collectors.logs.tail import LogTail
from collectors.logs.times import begins_with_time, parse_time, zone_named
from collectors.option_checks import check_not_negative, compiled_pattern
from collectors.printable import printable

POSITION_VERSION = 1

AUDIT_NAME_PATTERN = r"(?i:hdfs-audit(?:-(?P<host>.+?))?\.log(?:\.\d[\d-]*)?)"
"""Of log files as Hadoop names them, rotated ones too; with a host where several are put into one folder."""

MAX_WAITING = 200_000
"""Counts of minutes that wait while there is more to read than one poll may; of more, minutes before the newest are
told."""

MAX_TOLD = 1_440
"""Minutes that were told and are remembered, so that lines that come later are not told as if they were all."""


@dataclass(frozen=True, slots=True)
class HdfsAuditOptions:
    """Where the audit logs are."""

    root: Path
    name_pattern: str = AUDIT_NAME_PATTERN
    """Whole file name; the group `host`, where it has one, is the NameNode's."""
    host: str | None = None
    """The NameNode's, where names of files do not say it."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Name in file names -> host name as job history writes it."""
    zone: str = "UTC"
    lateness_ms: int = 5_000
    source_rank: int = 0
    hold_future: bool = True
    """Do not read past a line later than `now_ms` (a replay); False when clocks may run ahead."""
    max_bytes_per_poll: int = 1 << 27

    def __post_init__(self) -> None:
        compiled_pattern("HDFS audit log", self, "name_pattern")
        check_not_negative("HDFS audit log", self, ("lateness_ms",))


class HdfsAuditCollector:
    """HdfsOperations: one per minute, user, operation and outcome, told once the minute is over."""

    name = "hdfs_audit"

    def __init__(self, options: HdfsAuditOptions) -> None:
        self._options = options
        self._root = options.root.absolute()
        self._pattern = re.compile(options.name_pattern)
        self._zone = zone_named(options.zone)
        self._problems = ProblemLog(self.name)
        self._tail = LogTail(self._problems, lambda line: begins_with_time(line, self._zone))
        self._counts: dict[str, AuditCounts] = {}
        """By NameNode; "" where none is known."""
        self._told: dict[str, list[int]] = {}
        """By NameNode: starts of minutes that were told."""
        self._origins: dict[str, str] = {}
        self._logs: dict[str, str] = {}
        """File -> the log of which it is one, with its folder: counts have no identity that tells a copy's lines."""
        self._watermark_ms: int | None = None

    def poll(self, now_ms: int) -> Collected:
        """Read the lines that were added; raises SourceUnavailableError when the root cannot be read."""
        require_root(self._root)
        seen: set[str] = set()

        def found() -> Iterator[FoundFile]:
            for file in walk(self._root, self._problems, self._wanted):
                seen.add(file.key)
                self._know(file)
                yield file

        def read(file: FoundFile, max_bytes: int) -> int:
            return self._read(file, max_bytes, now_ms)

        is_behind = self._tail.read_new(found(), self._options.max_bytes_per_poll, read)
        self._tail.keep(seen)
        self._logs = {key: log for key, log in self._logs.items() if key in seen}
        promised_ms = now_ms - self._options.lateness_ms
        self._watermark_ms = next_watermark(self._watermark_ms, promised_ms, now_ms, is_behind=is_behind)
        rows = EventRows(self._options.source_rank)
        n_waiting = sum(len(cells) for counts in self._counts.values() for cells in counts.minutes.values())
        if not is_behind or n_waiting > MAX_WAITING:
            # What was promised before it was behind says nothing of which minutes have been read since.
            self._tell(promised_ms if is_behind else self._watermark_ms, rows, is_behind=is_behind)
        return Collected(rows.take_batch(), self._watermark_ms, self._problems.drain(), goes_on=self._tail.goes_on)

    def checkpoint(self) -> dict[str, Any]:
        """Positions of the files, and the minutes that are not over."""
        return {
            "version": POSITION_VERSION,
            "watermark_ms": self._watermark_ms,
            "files": self._tail.to_json(),
            "logs": dict(self._logs),
            "counts": {host: counts.to_json() for host, counts in self._counts.items()},
            "told": {host: list(starts) for host, starts in self._told.items()},
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""

        def read(saved: Mapping[str, Any]) -> tuple[int | None, dict[str, AuditCounts], dict[str, list[int]]]:
            self._tail.restore(saved["files"])
            self._logs = {str(key): str(log) for key, log in saved["logs"].items()}
            watermark_ms = saved["watermark_ms"]
            counts = {str(host): AuditCounts.from_json(told) for host, told in saved["counts"].items()}
            told = {str(host): [int(start) for start in starts] for host, starts in saved["told"].items()}
            return (None if watermark_ms is None else int(watermark_ms)), counts, told

        self._watermark_ms, self._counts, self._told = read_position(position, POSITION_VERSION, read)

    def _wanted(self, parts: tuple[str, ...]) -> bool:
        return "\n" not in parts[-1] and self._pattern.fullmatch(parts[-1]) is not None

    def _know(self, file: FoundFile) -> None:
        log = clean_text("/".join((*file.parts[:-1], log_of(file.parts[-1]))))
        if file.key not in self._tail.positions:
            self._tail.take_up_copy(file, [key for key, known in self._logs.items() if known == log])
        self._logs[file.key] = log

    def _host(self, file: FoundFile) -> str:
        name = self._pattern.fullmatch(file.parts[-1])
        host = (name.groupdict().get("host") if name else None) or self._options.host
        return clean_text(self._options.hosts.get(host, host)) if host else ""

    def _read(self, file: FoundFile, max_bytes: int, now_ms: int) -> int:
        host, shown_path = self._host(file), printable(file.path)
        self._origins[host] = shown_path
        counts = self._counts.setdefault(host, AuditCounts())

        def take(data: bytes, number: int) -> int:
            whole = self._until(data, now_ms) if self._options.hold_future else data
            if whole:
                n, n_unread = counts.add(lines_of(whole), self._zone)
                if n_unread:
                    message = f"{n_unread} of {n} operations from this line on are of a form that is not known"
                    self._problems.report(f"{shown_path}:{number}", "unknown_form", message, key=(file.key, "form"))
            return len(whole)

        return self._tail.read_blocks(file, max_bytes, take)

    def _until(self, data: bytes, now_ms: int) -> bytes:
        """The lines up to the first that is later than now."""
        end = 0
        last = data.rstrip(b"\n").rpartition(b"\n")[2]
        stamp = parse_time(last[:40].decode("ascii", "replace"), self._zone)
        if stamp is not None and stamp[0] <= now_ms:
            return data  # a log's lines stand in the order of time
        for line in data.split(b"\n")[:-1]:
            stamp = parse_time(line[:40].decode("ascii", "replace"), self._zone)
            if stamp is not None and stamp[0] > now_ms:
                break
            end += len(line) + 1
        return data[:end]

    def _tell(self, watermark_ms: int, rows: EventRows, *, is_behind: bool) -> None:
        for host, counts in sorted(self._counts.items()):
            before, now = self._told.get(host, []), list[int]()
            n_late = 0
            # Files are read from the oldest on: what is left to read goes on with the newest minute.
            read = (start for start in counts.minutes if start <= watermark_ms)  # not one that a wrong clock wrote
            before_ms = max(read, default=watermark_ms) if is_behind else watermark_ms
            for end_ms, key, cell in counts.take(before_ms):
                start_ms = end_ms + 1 - MINUTE_MS
                if start_ms in before:
                    n_late += cell.n
                    continue
                self._add(host, end_ms, key, cell, rows)
                if start_ms not in now[-1:]:
                    now.append(start_ms)
            self._told[host] = (before + now)[-MAX_TOLD:]
            if n_late:
                message = (
                    f"{n_late} operations of minutes that were told before are not counted: they were logged later"
                )
                self._problems.report(
                    self._origins.get(host, self.name), "late", message, key=(host, "late", watermark_ms)
                )

    def _add(self, host: str, end_ms: int, key: tuple[str, str, int], cell: Cell, rows: EventRows) -> None:
        user, operation, allowed = key
        rows.add(
            "HdfsOperations",
            record_id(("hdfs_audit", host), "HdfsOperations", end_ms, key, 0),
            end_ms,
            f"host:{host}" if host else "namenode",
            self._origins.get(host, "hdfs_audit"),
            {
                "host": host or None,
                "user": user,
                "operation": operation,
                "allowed": allowed,
                "n_operations": cell.n,
                "n_clients": len(cell.clients),
                "client": _most(cell.clients),
                "top_job_id": _most(cell.jobs),
                "path": cell.path,
            },
        )


def _most(counted: Counter[str]) -> str | None:
    """What was counted most often; of several the first by name."""
    return min(counted, key=lambda name: (-counted[name], name), default=None)


__all__ = ["AUDIT_NAME_PATTERN", "HdfsAuditCollector", "HdfsAuditOptions"]
