"""Raw columns -> an event batch and its schema: header columns by their names, attributes typed or inferred."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.event_file import Problems, RawEvents, shown
from engine import Refused, admit
from engine.errors import EventError
from engine.events import (
    HEADER_NAMES,
    MAX_EXACT_INT,
    TIME_ATTRIBUTE,
    AttributeType,
    EventBatch,
    EventSchema,
    lone_surrogate,
)

_POINT_NAMES = ("t", "ts", "t_ms")
_INTERVAL_NAMES = (("t_lo", "t_hi"), ("t_lo_ms", "t_hi_ms"), ("lo", "hi"))
_ID_NAMES = ("id", "event_id")
_CARRIED = ("clock_id", "weights", "skew_ms", "source_rank", "source_seq", "origin", "raw")
_ENDS = {"source_rank": 2**31, "source_seq": 2**63, "skew_ms": MAX_EXACT_INT}
_INT = re.compile(r"[+-]?[0-9]{1,400}")
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf|nan", re.IGNORECASE)


@dataclass(frozen=True)
class LoadedEvents:
    """The events of one file.

    `equal_is_unordered`: the file gives intervals as `lo` and `hi` beside a nominal `ts`, where equal points are not
    ordered. `skipped` counts the events of types that a given schema does not know. `refused`: events of the file that
    are not in the batch, since they can take no part.
    """

    batch: EventBatch
    schema: EventSchema
    equal_is_unordered: bool
    skipped: dict[str, int]
    refused: Refused


def load_events(raw: RawEvents, problems: Problems, schema: EventSchema | None = None) -> LoadedEvents:
    """Build the batch; attribute types are those of `schema`, or inferred when it is None.

    Every event needs `type` and `t`, or `t_lo` and `t_hi` (integer milliseconds; `ts` and `lo`, `hi` mean the same);
    `id` defaults to the row number (from 1). A `t` with `skew_ms` is the time by the event's own clock and becomes the
    interval of all times that are possible, as `t_lo` and `t_hi` give it themselves. Inferred: an attribute belongs to
    every type that has it in some row; it is text, or a number (real when any is), in all of them. Raises
    EventFileError with the rows that do not fit.
    """
    header = _Header.of(raw)
    reader = _Reader(raw, problems)
    ids = reader.ids(header.id_name)
    types = reader.texts("type", required=True)
    lows, highs = reader.times(header)
    problems.check()
    attributes = [name for name in raw.columns if name not in header.consumed]
    skipped: dict[str, int] = {}
    if schema is None:
        kinds = {name: kind for name in attributes if (kind := reader.infer(name)) is not None}
        problems.check()
        schema = _inferred(raw, types, kinds)
    else:
        for event_type in types:
            if event_type not in schema.types:
                skipped[event_type] = skipped.get(event_type, 0) + 1
        kinds = reader.declared(attributes, schema)
    columns: dict[str, Any] = {"event_id": ids, "type": types, "t_lo_ms": lows, "t_hi_ms": highs}
    columns |= reader.carried()
    reader.widen_points(header, columns)
    columns |= {name: reader.typed(name, kind) for name, kind in kinds.items()}
    problems.check()
    try:
        batch = EventBatch.from_columns(columns, schema)
    except EventError as error:
        problems.add("", str(error))
        problems.check()
        raise
    known = batch.of_types(schema.types) if skipped else batch
    admitted, refused = admit(known)
    return LoadedEvents(admitted, schema, header.is_nominal, skipped, refused)


@dataclass(frozen=True)
class _Header:
    """Which columns are not attributes."""

    id_name: str | None
    point_names: tuple[str, ...]
    interval_names: tuple[tuple[str, str], ...]
    is_nominal: bool
    consumed: frozenset[str]

    @classmethod
    def of(cls, raw: RawEvents) -> _Header:
        names = raw.columns
        points = tuple(name for name in _POINT_NAMES if name in names)[:1]
        intervals = tuple(pair for pair in _INTERVAL_NAMES if pair[0] in names or pair[1] in names)
        if "t" in names:  # beside a `t`, `lo` and `hi` are somebody's attributes
            intervals = tuple(pair for pair in intervals if pair != ("lo", "hi"))
        is_nominal = intervals == (("lo", "hi"),) and None not in names["lo"] if "lo" in names else False
        id_name = next((name for name in _ID_NAMES if name in names), None)
        consumed = {"type", *points, *_CARRIED, *(name for pair in intervals for name in pair)}
        return cls(id_name, points, intervals, is_nominal, frozenset(consumed | ({id_name} if id_name else set())))


@dataclass(frozen=True)
class _Reader:
    raw: RawEvents
    problems: Problems

    def ids(self, name: str | None) -> list[str]:
        """Event ids, each once; the row number from 1 where there is none."""
        found: list[str] = []
        first: dict[str, int] = {}
        for row, value in enumerate(self.raw.columns[name] if name else [None] * len(self.raw)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | str)):
                self._problem(row, f"id is {shown(value)}; expected a text or a whole number")
            event_id = str(row + 1) if value is None else self._text(row, "id", str(value))
            if event_id in first:
                self._problem(
                    row, f"id {shown(event_id)} is that of {self.raw.places[first[event_id]]}, too; ids differ"
                )
            first.setdefault(event_id, row)
            found.append(event_id)
        return found

    def texts(self, name: str, *, required: bool) -> list[str]:
        """A column of texts."""
        found: list[str] = []
        for row, value in enumerate(self.raw.columns.get(name, [None] * len(self.raw))):
            if isinstance(value, str) and value:
                found.append(self._text(row, name, value))
                continue
            if required or value is not None:
                what = "is missing" if value is None else f"is {shown(value)}"
                self._problem(row, f"{name} {what}; expected the name of the event's type as text")
            found.append("")
        return found

    def times(self, header: _Header) -> tuple[list[int], list[int]]:
        """(t_lo_ms, t_hi_ms): the interval where a row gives one, else its point."""
        lows: list[int] = []
        highs: list[int] = []
        for row in range(len(self.raw)):
            lo, hi = self._interval(row, header)
            lows.append(lo)
            highs.append(hi)
        return lows, highs

    def _interval(self, row: int, header: _Header) -> tuple[int, int]:
        for lo_name, hi_name in header.interval_names:
            lo, hi = self._value(lo_name, row), self._value(hi_name, row)
            if lo is not None and hi is not None:
                return self._milliseconds(row, lo_name, lo), self._milliseconds(row, hi_name, hi)
            if lo is not None or hi is not None:
                given, missing = (lo_name, hi_name) if hi is None else (hi_name, lo_name)
                self._problem(row, f"{given} without {missing}; give both, or t for a time that is known exactly")
                return 0, 0
        for name in header.point_names:
            value = self._value(name, row)
            if value is not None:
                point = self._milliseconds(row, name, value)
                return point, point
        self._problem(row, "no time; expected t, or t_lo and t_hi, in milliseconds")
        return 0, 0

    def widen_points(self, header: _Header, columns: dict[str, Any]) -> None:
        """Points in time by a clock with skew, as the intervals of all times that are possible."""
        for row, skew_ms in enumerate(columns.get("skew_ms", [])):
            if not any(self._value(name, row) is not None for pair in header.interval_names for name in pair):
                columns["t_lo_ms"][row] -= skew_ms
                columns["t_hi_ms"][row] += skew_ms

    def _milliseconds(self, row: int, name: str, value: Any) -> int:
        number = parse_number(value) if self.raw.is_text else value
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if isinstance(number, bool) or not isinstance(number, int) or abs(number) >= 2**63:
            self._problem(row, f"{name} is {shown(value)}; expected a whole number of milliseconds")
            return 0
        return number

    def infer(self, name: str) -> AttributeType | None:
        """The type of an attribute by its values; None when it has none."""
        if name in HEADER_NAMES or name == TIME_ATTRIBUTE:
            self.problems.add("", f"the column {shown(name)} is reserved; name the time t (ms), the rest otherwise")
            return None
        first: dict[bool, int] = {}
        is_real = False
        for row, raw_value in enumerate(self.raw.columns[name]):
            value = parse_number(raw_value) if self.raw.is_text and raw_value is not None else raw_value
            if value is None or not self._is_scalar(row, name, value):
                continue
            is_real |= isinstance(value, float)
            first.setdefault(isinstance(value, str), row)
            if len(first) == 2:
                self._mixed(row, name, first)
                return None
        if not first:
            return None
        if True in first:
            return AttributeType.STRING
        return AttributeType.FLOAT if is_real else AttributeType.INT

    def _mixed(self, row: int, name: str, first: dict[bool, int]) -> None:
        other = first[False] if first[True] == row else first[True]
        here, there = self.raw.columns[name][row], self.raw.columns[name][other]
        kinds = ("text", "a number") if first[True] == row else ("a number", "text")
        remedy = (
            "in CSV what looks like a number is one: give text there, or JSON lines with the texts in quotes"
            if self.raw.is_text
            else "quote it, or leave it out where it is unknown"
        )
        self._problem(
            row,
            f"attribute {shown(name)} is {kinds[0]} ({shown(here)}), but {kinds[1]} ({shown(there)}) in "
            f"{self.raw.places[other]}; expected one kind for all events: {remedy}",
        )

    def declared(self, attributes: list[str], schema: EventSchema) -> dict[str, AttributeType]:
        """The types that `schema` gives; a column it does not know is a problem."""
        known = schema.attributes
        for name in attributes:
            if name not in known:
                self.problems.add("", f"no event type has the attribute {shown(name)}; see collectors/events.csv")
        return {name: known[name] for name in attributes if name in known}

    def typed(self, name: str, kind: AttributeType) -> list[Any]:
        """The values of an attribute; one that is not of `kind` is a problem."""
        convert = _CONVERT[kind]
        found: list[Any] = []
        for row, value in enumerate(self.raw.columns[name]):
            typed = None if value is None else convert(value, self.raw.is_text)
            if value is not None and typed is None:
                self._problem(row, f"attribute {shown(name)} is {shown(value)}; expected {_EXPECTED[kind]}")
            if isinstance(typed, str):
                typed = self._text(row, name, typed)
            found.append(typed)
        return found

    def carried(self) -> dict[str, list[Any]]:
        """The other header columns that the file has."""
        found: dict[str, list[Any]] = {}
        for name in _CARRIED:
            if name not in self.raw.columns or all(value is None for value in self.raw.columns[name]):
                continue
            found[name] = [
                default if value is None else self._carried(row, name, value)
                for row, value in enumerate(self.raw.columns[name])
                for default in [{"source_rank": 0, "source_seq": row, "skew_ms": 0}.get(name)]
            ]
        return found

    def _carried(self, row: int, name: str, value: Any) -> Any:
        if name == "weights":
            if not isinstance(value, list) or not all(_is_number(item) for item in value):
                self._problem(row, f"weights is {shown(value)}; expected a list of one number per millisecond")
                return None
            return value
        if name in _ENDS:
            number = parse_number(value) if self.raw.is_text else value
            end = _ENDS[name]
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < end:
                self._problem(row, f"{name} is {shown(value)}; expected a whole number from 0, below {end}")
                return 0
            return number
        if isinstance(value, bool) or not isinstance(value, int | str):
            self._problem(row, f"{name} is {shown(value)}; expected text")
            return None
        return self._text(row, name, str(value))

    def _is_scalar(self, row: int, name: str, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            remedy = "write 1 or 0" if isinstance(value, bool) else "write a number or text"
            self._problem(row, f"attribute {shown(name)} is {shown(value)}; expected a number or text: {remedy}")
            return False
        return True

    def _text(self, row: int, name: str, value: str) -> str:
        """The text itself, unless it is no Unicode text (half of a surrogate pair)."""
        if lone_surrogate(value) is not None:
            self._problem(row, f"{name} is {shown(value)}, which is no Unicode text; remove the lone surrogate")
            return ""
        return value

    def _value(self, name: str, row: int) -> Any:
        column = self.raw.columns.get(name)
        return None if column is None else column[row]

    def _problem(self, row: int, message: str) -> None:
        self.problems.add(self.raw.places[row], message)


def parse_number(text: str) -> int | float | str:
    """The number that a cell of text is, else the text."""
    stripped = text.strip()
    if _INT.fullmatch(stripped):
        return int(stripped)
    return float(stripped) if _FLOAT.fullmatch(stripped) else text


def _inferred(raw: RawEvents, types: list[str], kinds: dict[str, AttributeType]) -> EventSchema:
    """Types with the attributes that some row of the type has."""
    found: dict[str, dict[str, AttributeType]] = {event_type: {} for event_type in types}
    for name, kind in kinds.items():
        for event_type, value in zip(types, raw.columns[name], strict=True):
            if value is not None:
                found[event_type][name] = kind
    return EventSchema.of(found)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _to_int(value: Any, is_text: bool) -> int | None:
    number = parse_number(value) if is_text else value
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    return number if abs(number) <= MAX_EXACT_INT else None


def _to_float(value: Any, is_text: bool) -> float | None:
    number = parse_number(value) if is_text else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return float(number) if isinstance(number, float) or abs(number) <= MAX_EXACT_INT else None


def _to_text(value: Any, _is_text: bool) -> str | None:
    return value if isinstance(value, str) else None


_CONVERT: dict[AttributeType, Callable[[Any, bool], int | float | str | None]] = {
    AttributeType.INT: _to_int,
    AttributeType.FLOAT: _to_float,
    AttributeType.STRING: _to_text,
}
_EXPECTED = {
    AttributeType.INT: "a whole number up to 2^53",
    AttributeType.FLOAT: "a number (whole ones up to 2^53)",
    AttributeType.STRING: "text",
}


__all__ = ["LoadedEvents", "load_events", "parse_number"]
