"""Lines of Hadoop's logs: the time, `yyyy-MM-dd HH:mm:ss,SSS` or `yy/MM/dd HH:mm:ss` without a zone, and what follows.

log4j's layouts differ between versions and distributions: the thread stands before the level, behind it or nowhere, and
the message is set off by a colon or, behind the place in the source, by a dash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from collectors.base import OptionError
from collectors.printable import printable

LONG = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)[,.](\d{3})(?= )")
SHORT = re.compile(r"(\d\d)/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)(?= )")
SHORTEST_RECORD = len("yy/MM/dd HH:mm:ss ")
"""Shorter lines are no records."""
MAX_RAW_CHARS = 2_000
"""Of a line, as it stands beside its event."""
RECORD_REST = re.compile(
    r" +(?:\[(?P<before>.{0,200}?)\] +)?(?P<level>[A-Z]+) +(?:\[(?P<behind>.{0,200}?)\] +)?(?P<logger>[\w.$]+)"
    r"(?:: ?| (?:\([^()]*(?:\(\d+\))?\) )?- ?)(?P<message>.*)"
)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """The first line of a record; lines of a stack trace are no records."""

    t_lo_ms: int
    t_hi_ms: int
    """Equal to t_lo_ms where milliseconds are printed, else the last one of the printed second."""
    level: str
    thread: str
    logger: str
    message: str


def zone_named(name: str) -> tzinfo:
    """The time zone of this name; raises OptionError for an unknown one."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise OptionError(f"unknown time zone {name!r}; expected a name such as 'UTC' or 'Europe/Paris'") from error


def parse_time(line: str, zone: tzinfo) -> tuple[int, int, int] | None:
    """(t_lo_ms, t_hi_ms, where the stamp ends), or None when the line does not start with a valid stamp.

    In the hour that a change to winter time repeats, the first of the two is meant.
    """
    if match := LONG.match(line):
        *date, millis = map(int, match.groups())
        width_ms = 0
    elif match := SHORT.match(line):
        year, *rest = map(int, match.groups())
        date, millis, width_ms = [2000 + year, *rest], 0, 999
    else:
        return None
    try:
        moment = datetime(*date, tzinfo=zone)  # type: ignore[misc, arg-type]
    except ValueError:
        return None
    t_ms = round(moment.timestamp()) * 1000 + millis
    return t_ms, t_ms + width_ms, match.end()


def begins_with_time(line: bytes, zone: tzinfo) -> bool:
    """Whether the line starts with a valid stamp."""
    return parse_time(line[:40].decode("ascii", "replace"), zone) is not None


def parse_record(line: str, zone: tzinfo) -> LogRecord | None:
    """The record that starts on this line, or None for anything else."""
    stamp = parse_time(line, zone)
    if stamp is None:
        return None
    t_lo_ms, t_hi_ms, end = stamp
    rest = RECORD_REST.match(line, end)
    if rest is None:
        return None
    thread = rest["behind"] or rest["before"] or ""
    return LogRecord(t_lo_ms, t_hi_ms, rest["level"], thread, rest["logger"].rpartition(".")[2], rest["message"])


def relevant_record(line: bytes, marks: Iterable[bytes], zone: tzinfo) -> tuple[LogRecord, str] | None:
    """The record that starts on this line, and the line as it can be shown; None without any of the `marks`."""
    if len(line) < SHORTEST_RECORD or not any(map(line.__contains__, marks)):
        return None
    text = line.rstrip(b"\r").decode("utf-8", "replace")
    record = parse_record(text, zone)
    return None if record is None else (record, printable(text, MAX_RAW_CHARS))
