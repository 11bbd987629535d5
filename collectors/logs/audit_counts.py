"""Operations of HDFS's audit log, counted by minute, user, operation and outcome: from columns, never line by line.

A NameNode logs each operation, thousands a second: an event for each would cost more than all other sources together,
and what is asked is who does how much of what. The minute is that of the log's own stamps.

Keys stand in a fixed order, `ugi`, `ip` and `cmd` before `src`: what comes from a user (paths, caller contexts) is not
looked at before these are taken, so it cannot take their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from collectors.logs.times import parse_time
from collectors.printable import printable

MARK = r"audit: allowed="
LINE = (
    r"^(?P<minute>\d{4}-\d\d-\d\d[ T]\d\d:\d\d|\d\d/\d\d/\d\d \d\d:\d\d):\d\d[^\t\n]*?"
    r"audit: allowed=(?P<allowed>true|false)\tugi=(?P<user>[^\t @/(]+)[^\t\n]*"
    r"\tip=/?(?P<ip>[^\t\n]*)\tcmd=(?P<cmd>[^\t\n]*)\tsrc=(?P<src>[^\t\n]*)"
)
"""In RE2's syntax, which takes time in proportion to the text."""
JOB = r"\tcallerContext=[^\t\n]*?(?:application|job|attempt|appattempt)_(?P<job>\d{10,19}_\d{4,19})"
KEYS = ("minute", "allowed", "user", "ip", "cmd", "job")

MINUTE_MS = 60_000
MAX_CELLS = 20_000
"""Of one minute; further users are counted together."""
MAX_CLIENTS = 1_000
OTHERS = "(others)"
MAX_CHARS = 200
NO_PATH = b"null"
"""As the NameNode writes it of an operation on none."""


@dataclass(slots=True)
class Cell:
    """One user's operations of one kind and outcome in a minute."""

    n: int = 0
    clients: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)
    path: str | None = None


@dataclass(slots=True)
class AuditCounts:
    """Minutes that are not over, of one log."""

    minutes: dict[int, dict[tuple[str, str, int], Cell]] = field(default_factory=dict)
    """Start of the minute -> (user, operation, allowed) -> what was counted."""

    def add(self, lines: pa.BinaryArray, zone: tzinfo) -> tuple[int, int]:
        """Count whole lines; returns how many were of operations, and how many of those were not understood."""
        audits = lines.filter(pc.match_substring_regex(lines, MARK))
        found = pc.extract_regex(audits, LINE)
        is_read = pc.is_valid(found)
        job = pc.struct_field(pc.extract_regex(audits, JOB), "job")
        columns = {name: pc.struct_field(found, name) for name in ("minute", "allowed", "user", "ip", "cmd", "src")}
        table = pa.table({**columns, "job": job}).filter(is_read)
        # One thread keeps the order, so that the path is that of the first line, however files are cut.
        groups = table.group_by(list(KEYS), use_threads=False).aggregate([("src", "count"), ("src", "first")])
        starts: dict[bytes, int | None] = {}
        n_timeless = 0
        for group in groups.to_pylist():
            minute = group["minute"]
            if minute not in starts:
                stamp = parse_time(_stamp(minute), zone)
                starts[minute] = None if stamp is None else stamp[0]
            start_ms = starts[minute]
            if start_ms is None:
                n_timeless += group["src_count"]
                continue
            self._count(start_ms, group)
        return len(audits), len(audits) - table.num_rows + n_timeless

    def take(self, before_ms: int) -> Iterator[tuple[int, tuple[str, str, int], Cell]]:
        """(last millisecond of the minute, key, counts) of minutes that ended before; they are left no more."""
        for start_ms in sorted(start for start in self.minutes if start + MINUTE_MS <= before_ms):
            for key, cell in sorted(self.minutes.pop(start_ms).items(), key=lambda item: item[0]):
                yield start_ms + MINUTE_MS - 1, key, cell

    def to_json(self) -> list[Any]:
        """As JSON-able values."""
        return [
            [start_ms, *key, cell.n, dict(cell.clients), dict(cell.jobs), cell.path]
            for start_ms, cells in self.minutes.items()
            for key, cell in cells.items()
        ]

    @classmethod
    def from_json(cls, saved: list[Any]) -> AuditCounts:
        """Back from `to_json`; raises TypeError or ValueError for anything else."""
        counts = cls()
        for start_ms, user, operation, allowed, n, clients, jobs, path in saved:
            key = str(user), str(operation), int(allowed)
            cells = counts.minutes.setdefault(int(start_ms), {})
            cells[key] = Cell(int(n), Counter(clients), Counter(jobs), path)
        return counts

    def _count(self, start_ms: int, group: dict[str, Any]) -> None:
        cells = self.minutes.setdefault(start_ms, {})
        key = _text(group["user"]), _text(group["cmd"]), int(group["allowed"] == b"true")
        if key not in cells and len(cells) >= MAX_CELLS:
            key = OTHERS, OTHERS, key[2]
        cell = cells.setdefault(key, Cell())
        n = int(group["src_count"])
        cell.n += n
        client = _text(group["ip"])
        if client in cell.clients or len(cell.clients) < MAX_CLIENTS:
            cell.clients[client] += n
        if group["job"] is not None:
            job = f"job_{_text(group['job'])}"
            if job in cell.jobs or len(cell.jobs) < MAX_CLIENTS:
                cell.jobs[job] += n
        if cell.path is None and group["src_first"] != NO_PATH:
            cell.path = _text(group["src_first"])


def _stamp(minute: bytes) -> str:
    text = minute.decode("ascii")
    return f"{text}:00,000 " if len(text) == len("yyyy-MM-dd HH:mm") else f"{text}:00 "


def _text(data: bytes) -> str:
    return printable(data.decode("utf-8", "backslashreplace"), MAX_CHARS)


__all__ = ["MINUTE_MS", "AuditCounts", "Cell"]
