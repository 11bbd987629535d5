"""What matching returns: rows in blocks, which are made when somebody asks for them, and where they go."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import overload

import pyarrow as pa

from engine.matching.output.match_row import MatchRow
from engine.matching.output.reading.rows_as_arrow import rows_table


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


__all__ = ["MatchRows", "RowBlock", "RowSink", "first_rows", "joined_rows"]
