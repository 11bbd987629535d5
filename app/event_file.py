"""Events from a file of a user: JSON lines, CSV or Parquet -> raw columns; every bad row is named."""

from __future__ import annotations

import csv
import io
import json
import sys
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from collectors.network.bounded_json import loads
from engine.events import lone_surrogate

MAX_PROBLEMS_SHOWN = 5
MAX_TEXT_SHOWN = 60
STDIN = "-"


class EventFileError(Exception):
    """An events file that cannot be used; the message lists the rows, what was found, expected and the remedy."""


@dataclass
class Problems:
    """What is wrong with one file: all counted, the first few kept for the message."""

    name: str
    n_found: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, place: str, message: str) -> None:
        """Note a problem at `place` ("row 7 (line 9)"; empty for the whole file)."""
        self.n_found += 1
        if len(self.shown) < MAX_PROBLEMS_SHOWN:
            self.shown.append(f"{place}: {message}" if place else message)

    def check(self) -> None:
        """Raise EventFileError when there are any."""
        if self.n_found:
            more = self.n_found - len(self.shown)
            lines = [*self.shown, *([f"and {more} more problems"] if more else [])]
            raise EventFileError("\n  ".join([f"{self.name}: {self.n_found} problem(s)", *lines]))


@dataclass(frozen=True)
class RawEvents:
    """The rows of a file as columns of equal length.

    `places` names each row for messages. `is_text`: every value is a text that still means a number where it looks
    like one (CSV), instead of a typed value (JSON, Parquet). None is an absent value.
    """

    columns: Mapping[str, list[Any]]
    places: list[str]
    is_text: bool

    def __len__(self) -> int:
        return len(self.places)


def read_event_file(path: str) -> tuple[RawEvents, Problems]:
    """Read the file at `path` (`-` for standard input); the format is recognised by content.

    Raises EventFileError when it cannot be read at all or a row is damaged.
    """
    problems = Problems("standard input" if path == STDIN else path)
    try:
        data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    except OSError as error:
        raise EventFileError(
            f"{problems.name}: cannot be read: {error.strerror or error}; expected a file of JSON lines, CSV or Parquet"
        ) from None
    data = data.removeprefix(BOM_UTF8)
    if data.startswith(b"PAR1"):
        raw = _read_parquet(data, problems)
    elif data.lstrip()[:1] in (b"{", b"["):
        raw = _read_json_lines(data, problems)
    else:
        raw = _read_csv(data, problems)
    problems.check()
    return raw, problems


def shown(value: object) -> str:
    """A value as a message may print it: short, quoted, without control characters."""
    text = ascii(value)
    return text if len(text) <= MAX_TEXT_SHOWN else text[: MAX_TEXT_SHOWN - 3] + "..."


# --------------------------------------------------------------- JSON lines


def _read_json_lines(data: bytes, problems: Problems) -> RawEvents:
    rows: list[dict[str, Any]] = []
    places: list[str] = []
    for n_line, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"row {len(places) + 1} (line {n_line})"
        places.append(place)
        rows.append(_json_row(line, place, problems))
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        if lone_surrogate(name) is not None:
            place = next(place for place, row in zip(places, rows, strict=True) if name in row)
            problems.add(place, f"the name {shown(name)} is no Unicode text; remove the lone surrogate")
    return RawEvents({name: [row.get(name) for row in rows] for name in names}, places, is_text=False)


def _json_row(line: bytes, place: str, problems: Problems) -> dict[str, Any]:
    try:
        row = loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        problems.add(place, f"byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8; save the file as UTF-8")
        return {}
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error) or type(error).__name__
        found = shown(line[:MAX_TEXT_SHOWN].decode("utf-8", "replace"))
        problems.add(place, f"no JSON ({reason}): found {found}; expected one object per line")
        return {}
    if not isinstance(row, dict):
        problems.add(place, f"found {shown(row)}; expected one JSON object per line, without a list around them")
        return {}
    return row


# ---------------------------------------------------------------------- CSV


def _read_csv(data: bytes, problems: Problems) -> RawEvents:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        n_line = data.count(b"\n", 0, error.start) + 1
        message = (
            f"byte {error.start + 1} (0x{data[error.start]:02x}) is not UTF-8; expected JSON lines, CSV or Parquet"
        )
        problems.add(f"line {n_line}", message)
        return RawEvents({}, [], is_text=True)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows = list(_csv_rows(reader, problems))
    if not rows:
        return RawEvents({}, [], is_text=True)
    header = [name.strip() for _, names in rows[:1] for name in names]
    duplicates = sorted(name for name, n in Counter(header).items() if n > 1)
    if duplicates:
        first = ", ".join(map(shown, duplicates[:MAX_PROBLEMS_SHOWN]))
        problems.add("line 1", f"two columns have one name: {first}; rename one")
    if "type" not in header and len(rows) == 1:
        problems.add(
            "line 1", f"no column 'type': found {shown(','.join(header))}; expected JSON lines, CSV or Parquet"
        )
    columns: dict[str, list[Any]] = {name: [] for name in header}
    places: list[str] = []
    for n_line, cells in rows[1:]:
        place = f"row {len(places) + 1} (line {n_line})"
        places.append(place)
        if len(cells) != len(header):
            problems.add(place, f"found {len(cells)} cells; expected {len(header)}, as in the header")
            continue
        for name, cell in zip(header, cells, strict=True):
            columns[name].append(cell if cell != "" else None)
    return RawEvents(columns, places, is_text=True)


def _csv_rows(reader: Any, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of every line that is not empty, the header first."""
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problems.add(f"line {reader.line_num}", f"no CSV ({error}); expected comma-separated cells")
            return
        if cells:
            yield reader.line_num, cells


# ------------------------------------------------------------------ Parquet


def _read_parquet(data: bytes, problems: Problems) -> RawEvents:
    try:
        from pyarrow import parquet

        table = parquet.read_table(pa.BufferReader(data))
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
    except (pa.ArrowException, ValueError, KeyError, OSError) as error:
        problems.add("", f"a damaged Parquet file ({shown(str(error))}); write it again")
        return RawEvents({}, [], is_text=False)
    return RawEvents(columns, [f"row {n}" for n in range(1, table.num_rows + 1)], is_text=False)


__all__ = ["STDIN", "EventFileError", "Problems", "RawEvents", "read_event_file", "shown"]
