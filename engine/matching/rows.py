"""What matching returns: one row per match, or per (first, last) pair of events for collapsed and counted output."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias, overload

Value = int | float | str | None

Binding: TypeAlias = "tuple[str | Binding, ...]"
"""Event ids of one variable; of one in repeated groups, one entry per iteration (nested by depth)."""


@dataclass(frozen=True, slots=True)
class MatchRow:
    """One row of a query's output.

    `key`: the partition key as (attribute, value) pairs, () without one. `first_lo_ms` to `last_hi_ms`: from the
    earliest possible time of the first event to the latest of the last one. `bindings`: event ids by variable, of the
    match (OUTPUT ALL, SETS, TOP) or of the best match behind the row (COLLAPSED, COUNT), with its `confidence`
    (1.0 for precise events). `values`: RETURN. `count`: matches behind the row; a lower bound unless `count_exact`.
    `candidates` (COLLAPSED): ids per variable that occur in a match, or may do so unless `exact`. `capped`: a limit or
    the work budget stopped the listing. `window`: start and end in ms of the window that the row belongs to, where the
    query has windows of its own (SLIDE, OPEN ON).
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

    @property
    def event_ids(self) -> tuple[str, ...]:
        """The ids of all events of the match, variable by variable in pattern order."""
        return tuple(event_id for binding in self.bindings.values() for event_id in flat_ids(binding))


def flat_ids(binding: Binding) -> Iterator[str]:
    """The event ids of a binding in order, whatever its depth."""
    for entry in binding:
        if isinstance(entry, str):
            yield entry
        else:
            yield from flat_ids(entry)


class MatchRows(Sequence[MatchRow]):
    """Rows in parts, one after the other: the length costs nothing, a row may be made when it is asked for."""

    def __init__(self, parts: Iterable[Sequence[MatchRow]]) -> None:
        self._parts = [part for part in parts if len(part)]
        self._ends = list(accumulate(len(part) for part in self._parts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[MatchRow]:
        for part in self._parts:
            yield from part

    @overload
    def __getitem__(self, at: int) -> MatchRow: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[MatchRow]: ...

    def __getitem__(self, at: int | slice) -> MatchRow | Sequence[MatchRow]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = at + len(self) if at < 0 else at
        if not 0 <= number < len(self):
            raise IndexError(f"row {at} of {len(self)}")
        part = bisect_right(self._ends, number)
        return self._parts[part][number - (self._ends[part - 1] if part else 0)]

    def __eq__(self, other: object) -> bool:
        """Equal to every sequence of equal rows."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __repr__(self) -> str:
        return f"<{len(self)} rows>"


def joined_rows(parts: Iterable[Sequence[MatchRow]]) -> Sequence[MatchRow]:
    """The rows of all parts, in their order; no row is made for it."""
    return MatchRows(parts)


__all__ = ["Binding", "MatchRow", "MatchRows", "Value", "flat_ids", "joined_rows"]
