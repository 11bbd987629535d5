"""Which of an episode's matches an alert tells: the first, the last, those with the greatest and least values.

First and last go by the place of a match in event time: its last event, its first one, then what it is made of. So
nothing here depends on the order in which matches come, nor on how they are divided into steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Self

import engine
from app.alerting.recording.evidence import Bound, ends
from app.alerting.recording.match import Match
from app.store.storable import storable_values
from engine import ast

_INFINITE = {"inf": math.inf, "-inf": -math.inf}
"""As numbers that are not finite are stored, see app.store.storable."""

_LARGE = re.compile(r"-?(\d\.\d{1,20}e\+\d{3,12}|\d{19,4300})", re.ASCII)
"""Beyond doubles, or whole and beyond 64 bits, as aggregates over trends are: see engine.trends.numbers."""

_ASPECTS = [(aspect, aspect.value.lower()) for aspect in ast.Aspect]
"""With their names in templates and messages."""

_SIGNS = {ast.Aspect.MAX: 1, ast.Aspect.MIN: -1}


class Seen:
    """A match as far as its alert keeps it: its place in event time and its values."""

    __slots__ = ("_bound", "_digest", "_match", "_storable", "first_ms", "last_ms", "n_events", "values")

    def __init__(
        self,
        last_ms: int,
        first_ms: int,
        values: Mapping[str, Any],
        digest: str | None = None,
        match: Match | None = None,
    ) -> None:
        """`match`: where it has just come; its digest and events are made when somebody asks for them."""
        self.last_ms, self.first_ms = last_ms, first_ms
        self.values = values
        self.n_events = 0
        self._match = match
        self._bound: Bound | None = None
        self._digest = digest
        self._storable: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, match: Match) -> Self:
        """A match that has just come."""
        return cls(match.last_hi_ms, match.first_lo_ms, match.values, match=match)

    @property
    def digest(self) -> str:
        """Of its events and its window: names the match."""
        if self._digest is None:
            assert self._match is not None, "a match that was stored has its digest"
            window = "" if self._match.window is None else "-".join(map(str, self._match.window))
            self._digest = engine.bindings_digest(self._match.bindings) + window
        return self._digest

    @property
    def storable(self) -> Mapping[str, Any]:
        """Its values as they are stored."""
        if self._storable is None:
            found = storable_values(self.values)
            self._storable = self.values if found == self.values else found  # as a rule, and then kept once
        return self._storable

    @property
    def has_events(self) -> bool:
        """Whether its events are known: of what is kept with an alert only its values are."""
        return self._match is not None or self._bound is not None

    def evidence(self, at_most: int) -> Bound:
        """(variable, event id) of its events, the first and the last ones when there are more; sets `n_events`."""
        if self._bound is None:
            assert self._match is not None, "a match that was stored has no events"
            bound = [(name, i) for name, ids in self._match.bindings.items() for i in engine.flat_ids(ids)]
            self.n_events, self._bound = self._match.n_events or len(bound), ends(bound, at_most)
        return self._bound

    def set_events(self, bound: Bound, n_events: int) -> None:
        """The ends of its `n_events` events: of a match that was set aside."""
        self._bound, self.n_events = bound, n_events

    def is_before(self, other: Seen) -> bool:
        """Whether it comes before another match in event time; equal ones do not."""
        mine, theirs = (self.last_ms, self.first_ms), (other.last_ms, other.first_ms)
        return self.digest < other.digest if mine == theirs else mine < theirs


@dataclass
class Extremes:
    """The matches of an episode that its alert may show."""

    first: Seen
    last: Seen
    most: dict[tuple[ast.Aspect, str], Seen] = field(default_factory=dict)
    """By (MAX or MIN, name): the match with the greatest or least value; none where all are NULL or NaN."""

    @classmethod
    def of(cls, seen: Seen, numbers: Collection[str]) -> Self:
        """Those of one match; `numbers` are the names of values that are numbers."""
        known = [name for name in seen.values if name in numbers and number(seen.values[name]) is not None]
        return cls(seen, seen, {(aspect, name): seen for aspect in _SIGNS for name in known})

    def add(self, other: Extremes) -> None:
        """Those of both together."""
        if other.first.is_before(self.first):
            self.first = other.first
        if self.last.is_before(other.last):
            self.last = other.last
        for place, seen in other.most.items():
            known = self.most.get(place)
            if known is None or _exceeds(seen, known, *place):
                self.most[place] = seen

    def seen(self, aspect: ast.Aspect, name: str) -> Seen | None:
        """The match that gives the value `name`; None where no match has a number."""
        if aspect is ast.Aspect.FIRST:
            return self.first
        return self.last if aspect is ast.Aspect.LAST else self.most.get((aspect, name))

    def all(self) -> Iterator[Seen]:
        """Each of the matches, some several times."""
        yield self.first
        yield self.last
        yield from self.most.values()

    # ------------------------------------------------------------- with the alert

    def to_json(self) -> dict[str, Any]:
        """To be kept with the alert: each match once, by digest."""
        distinct = {id(seen): seen for seen in self.all()}.values()
        matches = {seen.digest: {"at": [seen.last_ms, seen.first_ms], "values": seen.storable} for seen in distinct}
        most: dict[str, dict[str, str]] = {"max": {}, "min": {}}
        for (aspect, name), seen in self.most.items():
            most[aspect.value.lower()][name] = seen.digest
        return {"matches": matches, "first": self.first.digest, "last": self.last.digest, **most}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """What `to_json` returned."""
        seen = {
            digest: Seen(match["at"][0], match["at"][1], match["values"], digest)
            for digest, match in kept["matches"].items()
        }
        most = {
            (aspect, name): seen[digest] for aspect in _SIGNS for name, digest in kept[aspect.value.lower()].items()
        }
        return cls(seen[kept["first"]], seen[kept["last"]], most)


def number(value: object) -> float | int | Decimal | None:
    """A value that was found to be a number; None for NULL and NaN. Large ones come as text."""
    if isinstance(value, str):
        return Decimal(value) if _LARGE.fullmatch(value) else _INFINITE.get(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if math.isnan(value) else value


def shown_match(extremes: Extremes, shown: tuple[ast.Shown, ...]) -> Seen:
    """The match that an alert's title shows: that of the first extreme that SHOW asks for, else the last one."""
    for item in shown:
        if (seen := extremes.seen(item.aspect, item.name)) is not None:
            return seen
    return extremes.last


def shown_values(extremes: Extremes, shown: tuple[ast.Shown, ...]) -> dict[str, Any]:
    """The values of an alert as they are stored, each from the match that SHOW asks for."""
    values = dict(extremes.last.storable)
    for item in shown:
        seen = extremes.seen(item.aspect, item.name)
        for name in (item.name, *item.beside):
            values[name] = None if seen is None else seen.storable.get(name)
    return values


def all_aspects(extremes: Extremes) -> dict[str, Any]:
    """`{"x.first": ..., "x.last": ..., "x.max": ..., "x.min": ...}` for templates, as they are stored."""
    values: dict[str, Any] = {}
    for name in extremes.last.storable:
        for aspect, told in _ASPECTS:
            seen = extremes.seen(aspect, name)
            values[f"{name}.{told}"] = None if seen is None else seen.storable.get(name)
    return values


def spread(extremes: Extremes) -> dict[str, dict[str, Any]]:
    """Of each number that the matches do not agree on: its first, last, greatest and least value."""
    found: dict[str, dict[str, Any]] = {}
    if all(seen is extremes.first for seen in extremes.all()):
        return found
    for name in sorted({name for _, name in extremes.most}):
        by_aspect = {
            told: None if (seen := extremes.seen(aspect, name)) is None else seen.values.get(name)
            for aspect, told in _ASPECTS
        }
        if len(set(map(repr, by_aspect.values()))) > 1:
            found[name] = by_aspect
    return found


def _exceeds(seen: Seen, known: Seen, aspect: ast.Aspect, name: str) -> bool:
    new, old = number(seen.values[name]), number(known.values[name])
    assert new is not None
    assert old is not None
    return (new != old and (new > old) is (aspect is ast.Aspect.MAX)) or (new == old and seen.is_before(known))


__all__ = ["Extremes", "Seen", "all_aspects", "number", "shown_match", "shown_values", "spread"]
