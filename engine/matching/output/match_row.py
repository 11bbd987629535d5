"""One row of what matching returns: one match, or a (first, last) pair of events of collapsed and counted output."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from engine.events import Value
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
    """What tells the position of a row: the ids of its first and its last event, and which event opened its window,
    where one did (its place in the stream; -1: none)."""

    first: str
    last: str
    opener: int


EventPosition = tuple[int, int, int, str]
"""t_lo_ms, source_rank, source_seq and id of an event: the order of the stream."""

RowPosition = tuple[EventPosition, EventPosition]
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
    listed matches. `position`: where the row stands in output order, of queries with LIMIT or TOP. These three are no
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
    position: RowPosition | None = field(default=None, compare=False, repr=False)

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


__all__ = [
    "Binding",
    "EventPosition",
    "Expectation",
    "MatchRow",
    "RowEnds",
    "RowPosition",
    "binding_json",
    "flat_ids",
]
