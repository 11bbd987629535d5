"""Matches that may have happened, as conditions on the times of uncertain events.

Every condition is a difference of two times: `x before y` is t_x - t_y <= -1, a window t_last - t_first <= WITHIN; a
bound of one time is one against ORIGIN, whose time is 0. What holds in every world is no condition any more, so that a
match without conditions is certain. The absence of a negated event is a choice: it is at or before what is left of its
position, or at or after what is right of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from engine.errors import StateError

ORIGIN = ""
"""The variable whose time is always 0."""

MAX_JSON_CHARS = 64_000
"""Beyond this a set of possible matches is kept as its bounds alone."""


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """One event: its interval (both ends inclusive) and what orders it.

    `clock`: None for a clock of its own. `number`: its place in the stream. `weights`: shares of its milliseconds, None
    for uniform. `skew_ms`: how far the unknown offset of its clock reaches to both sides; part of the interval.
    """

    event_id: str
    lo_ms: int
    hi_ms: int
    number: int
    clock: str | None = None
    source_seq: int = 0
    weights: tuple[float, ...] | None = None
    skew_ms: int = 0

    @property
    def is_precise(self) -> bool:
        """Whether its time is known to the millisecond."""
        return self.lo_ms == self.hi_ms

    @property
    def is_nominally_precise(self) -> bool:
        """Whether its time by its own clock is."""
        return self.hi_ms - self.lo_ms == 2 * self.skew_ms


class TimeConstraint(NamedTuple):
    """t[x] - t[y] <= at_most_ms."""

    x: str
    y: str
    at_most_ms: int


Choice = frozenset[TimeConstraint]
"""At least one of these must hold."""


class PossibleMatch(NamedTuple):
    """A match in exactly the worlds in which all conditions and of every choice at least one hold."""

    conditions: frozenset[TimeConstraint]
    choices: frozenset[Choice] = frozenset()

    @property
    def is_certain(self) -> bool:
        """Whether it is one in every world."""
        return not self.conditions and not self.choices

    def variables(self) -> set[str]:
        """What its conditions are about."""
        named = {v for condition in self.conditions for v in (condition.x, condition.y)}
        named |= {v for choice in self.choices for condition in choice for v in (condition.x, condition.y)}
        return named - {ORIGIN}


CERTAIN = PossibleMatch(frozenset())


class TimeDistribution(NamedTuple):
    """Where a time may be: [lo_ms, hi_ms], uniform or with weights of sum 1 for its milliseconds."""

    lo_ms: int
    hi_ms: int
    weights: tuple[float, ...] | None = None


class Part(NamedTuple):
    """Further matches of which only this is known: the probability that one of them happened lies between."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Possibilities:
    """Matches of which at least one may have happened.

    `times`: the distribution of every variable that a condition names; variables are independent. `matches`: known by
    their conditions. `parts`: others, whose dependence on these is not known.
    """

    times: Mapping[str, TimeDistribution]
    matches: frozenset[PossibleMatch]
    parts: tuple[Part, ...] = ()

    @classmethod
    def certain(cls) -> Possibilities:
        """A match that happened in every world."""
        return cls({}, frozenset({CERTAIN}))

    @classmethod
    def known_by(cls, lower: float, upper: float) -> Possibilities:
        """Matches of which no conditions are known."""
        return cls.certain() if lower >= 1.0 else cls({}, frozenset(), (Part(lower, max(lower, upper)),))

    @property
    def is_certain(self) -> bool:
        """Whether one of the matches is certain."""
        return CERTAIN in self.matches

    def to_json(self) -> str | None:
        """As text; None when that would be too long to be kept."""
        names = {name: at for at, name in enumerate(sorted(self.times))}
        numbers = {**names, ORIGIN: -1}

        def listed(conditions: Iterable[TimeConstraint]) -> list[list[int]]:
            return sorted([numbers[c.x], numbers[c.y], c.at_most_ms] for c in conditions)

        matches = sorted([listed(match.conditions), sorted(map(listed, match.choices))] for match in self.matches)
        times = [[name, *self.times[name]] for name in names]
        text = json.dumps({"times": times, "matches": matches, "parts": self.parts}, separators=(",", ":"))
        return text if len(text) <= MAX_JSON_CHARS else None

    @classmethod
    def from_json(cls, text: str) -> Possibilities:
        """What `to_json` returned; raises StateError for another text."""
        try:
            found = json.loads(text)
            names = [ORIGIN if at < 0 else found["times"][at][0] for at in range(-1, len(found["times"]))]

            def read(conditions: Sequence[Sequence[int]]) -> frozenset[TimeConstraint]:
                return frozenset(TimeConstraint(names[x + 1], names[y + 1], at_most) for x, y, at_most in conditions)

            times = {
                name: TimeDistribution(lo_ms, hi_ms, None if weights is None else tuple(weights))
                for name, lo_ms, hi_ms, weights in found["times"]
            }
            matches = frozenset(
                PossibleMatch(read(conditions), frozenset(map(read, choices)))
                for conditions, choices in found["matches"]
            )
            return cls(times, matches, tuple(Part(lower, upper) for lower, upper in found["parts"]))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise StateError(f"possible matches that were stored cannot be read: {error}") from error


def united(several: Iterable[Possibilities]) -> Possibilities:
    """The matches of all of them; parts become one, for whose bounds that makes no difference."""
    times: dict[str, TimeDistribution] = {}
    matches: set[PossibleMatch] = set()
    parts: list[Part] = []
    for one in several:
        if one.is_certain:
            return Possibilities.certain()
        times |= one.times
        matches |= one.matches
        parts += one.parts
    if len(parts) > 1:
        parts = [Part(max(part.lower for part in parts), min(1.0, sum(part.upper for part in parts)))]
    return Possibilities(times, frozenset(matches), tuple(parts))


# ------------------------------------------------------------------ from matches


@dataclass(frozen=True)
class Negated:
    """A negated event and its position: between `gap` and `gap + 1` of the match, -1 before the first, n - 1 after the
    last event; there it reaches a window back from the last or on from the first."""

    event: TimedEvent
    gap: int


Demand = tuple[TimedEvent, TimedEvent, int]
"""The second event is at least so many milliseconds later than the first."""


class _ImpossibleError(Exception):
    """No world has this match."""


class Conditions:
    """Turns matches into conditions; collects the distributions of what they are about.

    `strict_ties`: two precise events of one millisecond are in no order (TIES STRICT).
    """

    def __init__(self, within_ms: int | None, *, strict_ties: bool = False) -> None:
        self._within_ms = within_ms
        self._strict_ties = strict_ties
        self._times: dict[str, TimeDistribution] = {}

    def of_matches(self, matches: Iterable[Sequence[TimedEvent]], parts: Iterable[Part] = ()) -> Possibilities:
        """Sequences of events in the order that they must have, without negated events."""
        return self.possibilities([self.of_match(match) for match in matches], parts)

    def possibilities(self, matches: Iterable[PossibleMatch | None], parts: Iterable[Part] = ()) -> Possibilities:
        """What `of_match` returned, together with the distributions."""
        found = frozenset(match for match in matches if match is not None)
        if CERTAIN in found:
            return Possibilities.certain()
        named = {variable for match in found for variable in match.variables()}
        return Possibilities({name: self._times[name] for name in sorted(named)}, found, tuple(parts))

    def of_match(self, match: Sequence[TimedEvent], negated: Iterable[Negated] = ()) -> PossibleMatch | None:
        """The conditions under which these events, in this order, are a match; None when no world has it."""
        try:
            conditions: set[TimeConstraint] = set()
            for first, second in pairwise(match):
                known = self._known_order(first, second)
                if known is None:
                    conditions |= self._needed(self._difference(first, second, -1))
                elif not known:
                    return None
            if self._within_ms is not None:
                conditions |= self._needed(self._difference(match[-1], match[0], self._within_ms))
            choices = frozenset(filter(None, (self._absence(match, each) for each in negated)))
        except _ImpossibleError:
            return None
        return PossibleMatch(frozenset(conditions), choices)

    def of_demands(self, demanded: Iterable[Demand], absent: Iterable[Iterable[Demand]] = ()) -> PossibleMatch | None:
        """A match in the worlds where all of `demanded` hold, and of each of `absent` one does not; None: in none."""
        try:
            conditions: set[TimeConstraint] = set()
            for before, after, least_ms in demanded:
                conditions |= self._needed(self._difference(before, after, -least_ms))
            choices = set()
            for part in absent:
                ways = [self._difference(after, before, least_ms - 1) for before, after, least_ms in part]
                if True not in ways:
                    choices.add(frozenset(way for way in ways if isinstance(way, TimeConstraint)))
        except _ImpossibleError:
            return None
        return None if frozenset() in choices else PossibleMatch(frozenset(conditions), frozenset(choices))

    def _absence(self, match: Sequence[TimedEvent], negated: Negated) -> Choice | None:
        """None: it is absent in every world."""
        event, gap = negated.event, negated.gap
        within_ms = 0 if self._within_ms is None else self._within_ms
        if gap >= 0:
            left = self._not_before(match[gap], event)
        elif self._within_ms is None:
            left = False
        else:
            left = self._difference(event, match[-1], -within_ms - 1)
        if gap < len(match) - 1:
            right = self._not_before(event, match[gap + 1])
        elif self._within_ms is None:
            right = False
        else:
            right = self._difference(match[0], event, -within_ms - 1)
        if left is True or right is True:
            return None
        ways = frozenset(way for way in (left, right) if isinstance(way, TimeConstraint))
        if not ways:
            raise _ImpossibleError
        return ways

    def _not_before(self, first: TimedEvent, second: TimedEvent) -> TimeConstraint | bool:
        known = self._known_order(first, second)
        return self._difference(second, first, 0) if known is None else not known

    def _known_order(self, first: TimedEvent, second: TimedEvent) -> bool | None:
        """Whether `first` is before `second` in every world, whatever times it gives them; None: as the times say."""
        if first.is_precise and second.is_precise:
            if self._strict_ties:
                return first.lo_ms < second.lo_ms
            return (first.lo_ms, first.number) < (second.lo_ms, second.number)
        if first.clock is not None and first.clock == second.clock:
            if first.is_nominally_precise and second.is_nominally_precise and first.hi_ms == second.hi_ms:
                return first.number < second.number and not self._strict_ties
            return (first.hi_ms, first.source_seq, first.number) < (second.hi_ms, second.source_seq, second.number)
        return None

    def _needed(self, condition: TimeConstraint | bool) -> set[TimeConstraint]:
        if condition is False:
            raise _ImpossibleError
        return set() if condition is True else {condition}

    def _difference(self, x: TimedEvent, y: TimedEvent, at_most_ms: int) -> TimeConstraint | bool:
        """t[x] - t[y] <= at_most_ms, unless that is known."""
        x_name, x_ms = self._variable(x)
        y_name, y_ms = self._variable(y)
        at_most_ms += y_ms - x_ms
        if x_name == y_name:
            return at_most_ms >= 0
        x_times, y_times = self._interval(x_name), self._interval(y_name)
        if x_times[1] - y_times[0] <= at_most_ms:
            return True
        if x_times[0] - y_times[1] > at_most_ms:
            return False
        return TimeConstraint(x_name, y_name, at_most_ms)

    def _interval(self, name: str) -> tuple[int, int]:
        return (0, 0) if name == ORIGIN else self._times[name][:2]

    def _variable(self, event: TimedEvent) -> tuple[str, int]:
        """The variable that its time follows, and the distance to it.

        A record that is exact but for its clock's offset moves with the offset; all of that clock move together.
        """
        if event.is_precise:
            return ORIGIN, event.lo_ms
        if event.skew_ms and event.clock is not None:
            if event.hi_ms - event.lo_ms != 2 * event.skew_ms:
                raise UnknownConditionsError(f"event {event.event_id} is uncertain by itself and by its clock's offset")
            name = f"clock {event.clock} within {event.skew_ms}"
            self._times[name] = TimeDistribution(-event.skew_ms, event.skew_ms)
            return name, event.lo_ms + event.skew_ms
        name = f"event {event.event_id}"
        if name not in self._times:
            weights = event.weights
            if weights is not None:
                shares = np.asarray(weights, np.float64)
                weights = tuple((shares / shares.sum()).tolist())
            self._times[name] = TimeDistribution(event.lo_ms, event.hi_ms, weights)
        return name, 0


class UnknownConditionsError(ValueError):
    """A match whose conditions are no differences of independent times."""


__all__ = [
    "CERTAIN",
    "ORIGIN",
    "Choice",
    "Conditions",
    "Demand",
    "Negated",
    "Part",
    "Possibilities",
    "PossibleMatch",
    "TimeConstraint",
    "TimeDistribution",
    "TimedEvent",
    "UnknownConditionsError",
    "united",
]
