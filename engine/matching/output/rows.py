"""What matching returns: one row per match, or per (first, last) pair of events for collapsed and counted output."""

from __future__ import annotations

import json
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple, TypeAlias, overload

import pyarrow as pa

from engine.events import Value
from engine.matching.output.reading.arrow import encoded
from engine.uncertainty.existence import AtLeastOne, at_least_one
from engine.uncertainty.possibilities import Possibilities

Binding: TypeAlias = "tuple[str | Binding, ...]"
"""Event ids of one variable; of one in repeated groups, one entry per iteration (nested by depth)."""


class Expectation(StrEnum):
    """What the numbers of a row about trends are, where it depends on unknown times which trends there are."""

    EXPECTED = "expected"
    """Counts and sums are expected values over all possible worlds."""
    UPPER_BOUND = "upper bound"
    """Of counts, and of sums of values that are not negative; too many events overlapped to be told apart."""


class RowEnds(NamedTuple):
    """What tells the place of a row: the ids of its first and its last event, and which event opened its window, where
    one did (its place in the stream; -1: none)."""

    first: str
    last: str
    opener: int


EventPlace = tuple[int, int, int, str]
"""t_lo_ms, source_rank, source_seq and id of an event: the order of the stream."""

RowPlace = tuple[EventPlace, EventPlace]
"""Of the last and of the first event of a row."""


@dataclass(frozen=True, slots=True)
class MatchRow:
    """One row of a query's output.

    `key`: the partition key as (attribute, value) pairs, () without one. `first_lo_ms` to `last_hi_ms`: from the
    earliest possible time of the first event to the latest of the last one. `bindings`: event ids by variable, of the
    match (OUTPUT ALL, SETS, TOP) or of the best match behind the row (COLLAPSED, COUNT), with its `confidence`
    (1.0 for precise events). `values`: RETURN. `count`: matches behind the row; a lower bound unless `count_exact`.
    `candidates` (COLLAPSED): ids per variable that occur in a match, or may do so unless `exact`. `capped`: a limit or
    the work budget stopped the listing. `window`: start and end in ms of the window that the row belongs to, where the
    query has windows of its own (SLIDE, OPEN ON). `last_lo_ms`: earliest possible time of the last event, None where it
    is precise. `n_events`: of a row about trends that people are told of, the events that its trends come to, of
    which `bindings` then has the first and the last ones. `expected`: of a row about trends over events whose times are
    intervals, None where these leave nothing open. `possible`: the matches behind the row by what they
    demand of a world, where `Limits.possibilities` asks for them and none of them is certain. `ends`: of forms over
    listed matches. `place`: where the row stands in output order, of queries with LIMIT or TOP. These three are no
    part of what makes rows equal.
    """

    query: str
    key: tuple[tuple[str, Value], ...]
    first_lo_ms: int
    last_hi_ms: int
    bindings: Mapping[str, Binding]
    confidence: float
    values: Mapping[str, Value]
    count: int = 1
    count_exact: bool = True
    candidates: Mapping[str, tuple[str, ...]] | None = None
    exact: bool = True
    capped: bool = False
    window: tuple[int, int] | None = None
    last_lo_ms: int | None = None
    n_events: int | None = None
    expected: Expectation | None = None
    possible: Possibilities | None = field(default=None, compare=False, repr=False)
    ends: RowEnds | None = field(default=None, compare=False, repr=False)
    place: RowPlace | None = field(default=None, compare=False, repr=False)

    def without_events(self) -> MatchRow:
        """For whom they are nothing but an identity (see `brief_rows`)."""
        return replace(self, bindings={}, candidates=None, possible=None)

    @property
    def is_of_trends(self) -> bool:
        """Whether it is about all trends of a window; the events that come with it are a sample."""
        return self.window is not None and (self.n_events is not None or not self.bindings)

    @property
    def event_ids(self) -> tuple[str, ...]:
        """The ids of all events of the match, variable by variable in pattern order."""
        return tuple(event_id for binding in self.bindings.values() for event_id in flat_ids(binding))

    @property
    def possibilities(self) -> Possibilities:
        """The matches behind the row, by their confidence alone where nothing more is known of them."""
        if self.possible is not None:
            return self.possible
        is_one = self.count == 1 and self.count_exact
        return Possibilities.known_by(float(self.confidence), float(self.confidence) if is_one else 1.0)

    def at_least_one(self, seed: int = 0) -> AtLeastOne:
        """P(at least one of the matches behind the row happened); evaluated anew at each call."""
        return at_least_one(self.possibilities, seed=seed)


def flat_ids(binding: Binding) -> Iterator[str]:
    """The event ids of a binding in order, whatever its depth."""
    for entry in binding:
        if isinstance(entry, str):
            yield entry
        else:
            yield from flat_ids(entry)


def binding_json(binding: Binding) -> str:
    """What `json.dumps` returns for it: quicker where ids are plain, for a match may have thousands of them."""
    try:
        joined = '", "'.join(binding)  # type: ignore[arg-type]  # ids of repeated groups are nested
    except TypeError:
        return json.dumps(binding)
    needs_no_escape = joined.isascii() and joined.isprintable() and "\\" not in joined
    if binding and needs_no_escape and joined.count('"') == 2 * (len(binding) - 1):
        return f'["{joined}"]'
    return json.dumps(binding)


class RowBlock(Sequence[MatchRow]):
    """Rows as columns, with what can be had of them without making any."""

    @property
    @abstractmethod
    def n_matches(self) -> int:
        """Matches behind the rows (at least, where one of them is a lower bound)."""

    @property
    def is_columnar(self) -> bool:
        """Whether each row is one match without anything unusual, and `to_arrow` makes no row to say so."""
        return False

    @property
    def is_bulk(self) -> bool:
        """Whether `to_arrow` makes no row to say so."""
        return self.is_columnar

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """See `rows_table`."""

    def __eq__(self, other: object) -> bool:
        """Equal to every sequence of equal rows."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __repr__(self) -> str:
        return f"<{len(self)} rows>"


class ChunkedRows(RowBlock):
    """A block whose rows are made CHUNK at a time, when one of them is asked for."""

    CHUNK = 1024

    _made: tuple[int, list[MatchRow]] = (-1, [])
    """The last chunk that was asked for by number."""

    @abstractmethod
    def _rows(self, start: int) -> list[MatchRow]:
        """A chunk from row `start` on."""

    @abstractmethod
    def _part(self, start: int, stop: int) -> Sequence[MatchRow]:
        """The rows [start, stop) as a block of their own."""

    def __iter__(self) -> Iterator[MatchRow]:
        for start in range(0, len(self), self.CHUNK):
            yield from self._rows(start)

    @overload
    def __getitem__(self, at: int) -> MatchRow: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[MatchRow]: ...

    def __getitem__(self, at: int | slice) -> MatchRow | Sequence[MatchRow]:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            if step != 1:
                return [self[number] for number in range(start, stop, step)]
            return self._part(start, max(start, stop))
        number = at + len(self) if at < 0 else at
        if not 0 <= number < len(self):
            raise IndexError(f"row {at} of {len(self)}")
        chunk = number // self.CHUNK
        if self._made[0] != chunk:
            self._made = (chunk, self._rows(chunk * self.CHUNK))
        return self._made[1][number % self.CHUNK]


def rows_table(rows: Sequence[MatchRow]) -> pa.Table:
    """Rows as an Arrow table: key, first_lo_ms, last_hi_ms, bindings, confidence, values, and what is not as usual.

    key, bindings and values are structs with a field per attribute, variable (ids as lists, nested as the binding is,
    over dictionaries; NULL where an iteration lacks its event) and RETURN item; they are typed by the rows. count,
    count_exact, candidates, exact, capped and window are columns when one of the rows has them.
    """
    columns: dict[str, list[object]] = {
        "key": [dict(row.key) for row in rows],
        "first_lo_ms": [row.first_lo_ms for row in rows],
        "last_hi_ms": [row.last_hi_ms for row in rows],
        "bindings": _as_lists([row.bindings for row in rows]),
        "confidence": [float(row.confidence) for row in rows],
        "values": [dict(row.values) for row in rows],
    }
    if any(row.count != 1 or not row.count_exact or row.candidates is not None for row in rows):
        columns["count"] = [row.count for row in rows]
        columns["count_exact"] = [row.count_exact for row in rows]
    if any(row.candidates is not None for row in rows):
        columns["candidates"] = [None if row.candidates is None else dict(row.candidates) for row in rows]
        columns["exact"] = [row.exact for row in rows]
    if any(row.capped for row in rows):
        columns["capped"] = [row.capped for row in rows]
    if any(row.window is not None for row in rows):
        columns["window_start_ms"] = [None if row.window is None else row.window[0] for row in rows]
        columns["window_end_ms"] = [None if row.window is None else row.window[1] for row in rows]
    table = pa.table(columns)
    for name in ("bindings", "candidates"):
        at = table.schema.get_field_index(name)
        if at >= 0:
            table = table.set_column(at, name, encoded(table.column(at)))
    return table


def _as_lists(bindings: Sequence[Mapping[str, Binding]]) -> list[object]:
    """Bindings whose ids are all equally deep: an absent event, () among ids, is None."""
    depths: dict[str, int] = {}
    for name, binding in (item for bound in bindings for item in bound.items()):
        depths[name] = max(depths.get(name, 0), _depth(binding))

    def leveled(binding: str | Binding, depth: int) -> object:
        return (binding or None) if depth == 0 else [leveled(each, depth - 1) for each in binding]

    return [
        {
            name: binding if depths[name] <= 1 and () not in binding else leveled(binding, depths[name])
            for name, binding in bound.items()
        }
        for bound in bindings
    ]


def _depth(binding: str | Binding) -> int:
    """How many lists are around its ids; 0 without any."""
    if isinstance(binding, str):
        return 0
    below = [_depth(each) for each in binding if each]
    return 1 + max(below) if below else 0


class MatchRows(RowBlock):
    """Rows in parts, one after the other: the length costs nothing, a row may be made when it is asked for."""

    def __init__(self, parts: Iterable[Sequence[MatchRow]]) -> None:
        self.parts = [part for part in parts if len(part)]
        """Each with one row at least."""
        self._ends = list(accumulate(len(part) for part in self.parts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[MatchRow]:
        for part in self.parts:
            yield from part

    @overload
    def __getitem__(self, at: int) -> MatchRow: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[MatchRow]: ...

    def __getitem__(self, at: int | slice) -> MatchRow | Sequence[MatchRow]:
        if isinstance(at, slice):
            return self._slice(*at.indices(len(self)))
        number = at + len(self) if at < 0 else at
        if not 0 <= number < len(self):
            raise IndexError(f"row {at} of {len(self)}")
        part = bisect_right(self._ends, number)
        return self.parts[part][number - (self._ends[part - 1] if part else 0)]

    def _slice(self, start: int, stop: int, step: int) -> Sequence[MatchRow]:
        if step != 1:
            return [self[number] for number in range(start, stop, step)]
        chosen: list[Sequence[MatchRow]] = []
        for part, end in zip(self.parts, self._ends, strict=True):
            before = end - len(part)
            chosen.append(part[max(0, start - before) : max(0, stop - before)])
        return MatchRows(chosen)

    @property
    def n_matches(self) -> int:
        """Matches behind all rows (at least, where one of them is a lower bound)."""
        return sum(
            part.n_matches if isinstance(part, RowBlock) else sum(row.count for row in part) for part in self.parts
        )

    @property
    def is_columnar(self) -> bool:
        """Whether all parts are."""
        return all(isinstance(part, RowBlock) and part.is_columnar for part in self.parts)

    def to_arrow(self) -> pa.Table:
        """All rows; see `rows_table`."""
        tables = [part.to_arrow() if isinstance(part, RowBlock) else rows_table(part) for part in self.parts]
        return pa.concat_tables(tables, promote_options="permissive") if tables else rows_table([])


@dataclass
class RowSink:
    """Where rows go as they are made, in blocks: however many there are, they never stand in memory together.

    `take` gets blocks with `n_matches`, `to_arrow()` and, as sequences, rows that are made when asked for; a block
    stays valid for as long as it is kept. Rows come query by query in the order of their last events; of the matches
    between one first and one last event those that begin earlier come first, or, `in_listing_order`, those of lower ids
    (slower where there are very many). `n_rows`: rows taken so far.
    """

    take: Callable[[RowBlock], None]
    in_listing_order: bool = False
    n_rows: int = 0

    def hand_over(self, rows: Sequence[MatchRow]) -> None:
        """Hand over rows, if there are any."""
        if not len(rows):
            return
        self.n_rows += len(rows)
        self.take(rows if isinstance(rows, RowBlock) else MatchRows([rows]))


def first_rows(rows: Sequence[MatchRow], most: int) -> Sequence[MatchRow]:
    """The first `most` rows; the last of them says so (`capped`) when there are more."""
    if len(rows) <= most:
        return rows
    return MatchRows([rows[: most - 1], [replace(rows[most - 1], capped=True)]])


def joined_rows(parts: Iterable[Sequence[MatchRow]]) -> Sequence[MatchRow]:
    """The rows of all parts, in their order; no row is made for it."""
    return MatchRows(parts)


__all__ = [
    "Binding",
    "EventPlace",
    "Expectation",
    "MatchRow",
    "MatchRows",
    "RowBlock",
    "RowEnds",
    "RowPlace",
    "RowSink",
    "binding_json",
    "first_rows",
    "flat_ids",
    "joined_rows",
    "rows_table",
]
