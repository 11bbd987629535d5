"""Syntax of Hadoop 1 job histories: records `Type KEY="value" ... .`, and the parts of a stream of several files.

From version 1 on (`Meta VERSION="1" .`) a record ends with a dot at the end of a line, dots and quotes in values are
escaped by a backslash, and values may span lines. Before, a record is a line and nothing is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from collectors.lifecycle import clean_text

MAX_RECORD_LINES = 10_000
MAX_RECORD_BYTES = 1 << 24

PART_BEGINS, PART_ENDS = b"!!FILE=", b"!!"
"""Around a name between two files of a stream; a file without a line end has it on its last line."""
BEGIN = re.compile(rb'(Meta|Job|Task|MapAttempt|ReduceAttempt) [A-Z_]+="')
ESCAPED_PAIR = re.compile(r'\b(\w+)="([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
PLAIN_PAIR = re.compile(r'\b(\w+)="([^"]*)"')
ESCAPE = re.compile(r"\\(.)", re.DOTALL)

_NAME = r"\(((?:[^()\\]|\\.)*)\)"
COUNTER = re.compile(rf"\{{{_NAME}{_NAME}|\[{_NAME}{_NAME}\((\d{{1,16}})\)\]", re.DOTALL)
"""Either the head of a group, {(name)(shown name), or one of its counters, [(name)(shown name)(value)]."""
OLD_COUNTER = re.compile(r"(?:^|,)Map-Reduce Framework\.([^.:,]+):(\d{1,16})")

OLD_NAMES = {
    "Map input records": "MAP_INPUT_RECORDS",
    "Map output records": "MAP_OUTPUT_RECORDS",
    "Map input bytes": "MAP_INPUT_BYTES",
    "Map output bytes": "MAP_OUTPUT_BYTES",
    "Reduce input records": "REDUCE_INPUT_RECORDS",
    "Reduce output records": "REDUCE_OUTPUT_RECORDS",
}
"""Hadoop 0.18 writes counters by the names that people are shown."""

GROUPS = {
    "Task$Counter": "TaskCounter",
    "FileInputFormat$Counter": "FileInputFormatCounter",
    "FileOutputFormat$Counter": "FileOutputFormatCounter",
}
"""Last part of a group's name -> as Hadoop 2 calls it."""


@dataclass(frozen=True, slots=True)
class PartBegins:
    """What follows is of another file."""

    name: str
    """As the stream names it, percent-decoded; empty where a history simply follows another."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record."""

    kind: str
    values: dict[str, str]
    line: int
    """Where it begins, from 1."""
    text: bytes


@dataclass(frozen=True, slots=True)
class BadLines:
    """Lines that are no record."""

    line: int
    message: str
    text: bytes


Item = PartBegins | Record | BadLines


@dataclass
class RecordReader:
    """Records from lines. `take` is given one line after the other, `close` tells the lines that are left open."""

    line: int = 0
    _escaped: bool = False
    _in_history: bool = False
    _other_file: bool = False
    """In a part that is no history: the job.xml between two of them."""
    _open: list[bytes] = field(default_factory=list)
    _n_open_bytes: int = 0
    _open_line: int = 0

    @property
    def is_open(self) -> bool:
        """True in the middle of a record."""
        return bool(self._open)

    def take(self, line: bytes) -> Iterator[Item]:
        """The items that end with this line (without its line feed)."""
        self.line += 1
        if not line and not self._open:
            return  # a damaged file may have a million of them
        before, begins, rest = line.partition(PART_BEGINS)
        rest = rest.rstrip()
        if begins and rest.endswith(PART_ENDS):
            if before := before.removesuffix(b"\f"):
                yield from self._take(before)
            yield from self._give_up("it ends in the middle of a record")
            name = clean_text(unquote(rest.removesuffix(PART_ENDS).decode("utf-8", "replace")))
            self._escaped, self._in_history = False, False
            self._other_file = name.endswith(".xml")
            yield PartBegins(name)
        else:
            yield from self._take(line)

    def close(self) -> Iterator[Item]:
        """Nothing follows: lines of a record without an end, if there are any."""
        yield from self._give_up("the file ends in the middle of a record")

    def _take(self, line: bytes) -> Iterator[Item]:
        if self._other_file:
            return
        begins = BEGIN.match(line)
        if begins is not None:
            yield from self._give_up("its end, a dot at the end of a line, is missing")
            if begins[1] == b"Meta":
                if self._in_history:
                    yield PartBegins("")
                self._escaped = b'VERSION="0"' not in line
            self._in_history = True
            self._open_line = self.line
        elif not self._open:
            if line.strip():
                yield BadLines(self.line, "no record of a job history", line)
            return
        self._open.append(line)
        self._n_open_bytes += len(line)
        if not self._escaped or _ends(line):
            yield self._close_record()
        elif len(self._open) > MAX_RECORD_LINES or self._n_open_bytes > MAX_RECORD_BYTES:
            yield from self._give_up(f"longer than {MAX_RECORD_LINES} lines or {MAX_RECORD_BYTES} bytes")

    def _close_record(self) -> Item:
        text = b"\n".join(self._open)
        kind, _, rest = text.partition(b" ")
        decoded = rest.decode("utf-8", "replace")
        if self._escaped:
            values = {key: ESCAPE.sub(r"\1", value) for key, value in ESCAPED_PAIR.findall(decoded)}
        else:
            values = dict(PLAIN_PAIR.findall(decoded))
        self._open, self._n_open_bytes = [], 0
        return Record(kind.decode("ascii"), values, self._open_line, text)

    def _give_up(self, message: str) -> Iterator[Item]:
        if self._open:
            yield BadLines(self._open_line, message, b"\n".join(self._open))
            self._open, self._n_open_bytes = [], 0


def _ends(line: bytes) -> bool:
    stripped = line.rstrip()
    return stripped.endswith(b".") and not stripped.endswith(b"\\.")


def counter_groups(text: str) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """(group, counters with "name" and "value") of a COUNTERS value, groups named as Hadoop 2 names them."""
    group, counters = "", list[dict[str, object]]()
    for found in COUNTER.finditer(text):
        if found[1] is not None:
            if counters:
                yield group, counters
            last = ESCAPE.sub(r"\1", found[1]).rpartition(".")[2]
            group, counters = GROUPS.get(last, last), []
        else:
            counters.append({"name": ESCAPE.sub(r"\1", found[3]), "value": int(found[5])})
    if counters:
        yield group, counters
    old = [{"name": OLD_NAMES[n], "value": int(v)} for n, v in OLD_COUNTER.findall(text) if n in OLD_NAMES]
    if old:
        yield "TaskCounter", list(old)
