"""Trends by definition: all are built, each once, then aggregated (GRETA, Definitions 1 and 2; DESIGN 3).

A trend is a sequence of events inside one window (k * slide, k * slide + within] that the pattern reads, each event
after the one before it: by their times, or with TIES SOURCE by their order in the stream. Its events agree on each
attribute of `[x]` and GROUP BY that their types have. Local predicates hold for its events, edge predicates for those
that are adjacent in it. Between two adjacent events with a NOT between them no trend of the negated pattern lies; a NOT
at the start reaches back to the start of the window, one at the end to its end.

`P AND Q` counts pairs: each unordered pair of two different trends, one of P and one of Q, whose events agree in the
key with each other, too. They may have events in common; what is asked of a pair's events is asked of those of both.

Where times are intervals this holds in each possible world, one for each choice of times: counts and sums are expected
values over all worlds, an average is the quotient of two of them, least and greatest values are those of any world.

Under other strategies than skip till any match a trend is, beside that, what a run selects: see
`engine.reference.trends.selected`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from engine.errors import UnsupportedQueryError
from engine.events import AttributeType
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.language.trend_checks import flat_parts, trend_aggregates, variables_of
from engine.reference.expressions import evaluate, truth
from engine.reference.observed import ObservedEvent
from engine.reference.trends.selected import Named, named, selected

Reading = tuple[tuple[ObservedEvent, str], ...]
"""Events in order, each with the variable that reads it."""

Component = tuple[str, frozenset[str]]
"""What the events of some variables agree on: an attribute, and these variables."""

Key = Mapping[Component, object]

Weighted = tuple[Fraction, Reading]
"""A trend of a possible world, and how likely that world is."""

MAX_WORLDS = 20_000
"""Possible worlds after which the oracle gives up."""

MAX_TRENDS = 1_000_000
"""Readings of one window after which the oracle gives up, or pairs of them."""


@dataclass(frozen=True)
class TrendRow:
    """The values of one window and group; `last`: the latest event of its trends; `is_certain`: these are there in
    every world."""

    start_ms: int
    end_ms: int
    group: tuple[tuple[str, object], ...]
    values: dict[str, object]
    last: ObservedEvent
    is_certain: bool = True


@dataclass(frozen=True)
class Absent:
    """No trend of a negated pattern lies between two events of a reading: their places in it, -1 or its length where
    it reaches to the window's start or end."""

    pattern: ast.Pattern
    after: int
    before: int


@dataclass(frozen=True)
class _Part:
    """A reading of a part of a pattern, with the negations that are still to be looked at."""

    events: Reading
    absent: tuple[Absent, ...]


def trend_rows(resolved: ResolvedQuery, events: Sequence[ObservedEvent]) -> list[TrendRow]:
    """The rows of all windows, in the order of windows, then of groups.

    Raises UnsupportedQueryError for what is not evaluated over trends: among events whose times are intervals those
    whose times depend on each other, and negations among them.
    """
    _refuse(resolved, events)
    trends = trends_among(resolved, events)
    worlds = list(_worlds(resolved, events))
    rows: list[TrendRow] = []
    for start_ms, end_ms in _windows(resolved, events):
        by_group: dict[tuple[tuple[str, object], ...], list[Weighted]] = {}
        for weight, world in worlds:
            inside = [event for event in world if start_ms < event.lo_ms <= end_ms]
            for reading in trends.counted(inside):
                by_group.setdefault(trends.group_of(reading), []).append((weight, reading))
        for group in sorted(by_group, key=_in_order):
            values = _values(resolved, by_group[group], dict(group))
            if values is not None:
                last = max((reading[-1][0] for _, reading in by_group[group]), key=lambda event: event.stream_order)
                is_certain = isinstance(resolved.query.pattern, ast.Conjunction) or _are_certain(by_group[group])
                rows.append(TrendRow(start_ms, end_ms, group, values, last, is_certain))
    return rows


def trends_among(resolved: ResolvedQuery, events: Sequence[ObservedEvent]) -> Trends:
    """Of a whole stream, in its order."""
    found = Trends(resolved, frozenset(event.event_id for event in events if not event.is_precise))
    strategy = resolved.query.strategy
    assert strategy is not None
    if strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH:
        found.selected = selected(resolved.query.pattern, strategy, resolved.schema, found, events)
    return found


def _are_certain(readings: Sequence[Weighted]) -> bool:
    """Whether each trend is there in every world."""
    shares: dict[tuple[str, ...], Fraction] = {}
    for weight, reading in readings:
        ids = tuple(event.event_id for event, _ in reading)
        shares[ids] = shares.get(ids, Fraction(0)) + weight
    return all(share == 1 for share in shares.values())


def _worlds(resolved: ResolvedQuery, events: Sequence[ObservedEvent]) -> Iterator[tuple[Fraction, list[ObservedEvent]]]:
    """Every choice of times for the events of the pattern, with how likely it is; in each they are exact."""
    own = [event for event in events if event.event_type in _types(resolved)]
    if prod(len(event.times) for event in own) > MAX_WORLDS:
        raise UnsupportedQueryError(f"more than {MAX_WORLDS} possible worlds, which the oracle goes through")
    for times in product(*(event.times.items() for event in own)):
        placed = (replace(event, lo_ms=at_ms, hi_ms=at_ms) for event, (at_ms, _) in zip(own, times, strict=True))
        yield prod((share for _, share in times), start=Fraction(1)), list(placed)


def _types(resolved: ResolvedQuery) -> frozenset[str]:
    return frozenset(component.event_type for component, _ in ast.components(resolved.query.pattern))


def _in_order(group: tuple[tuple[str, object], ...]) -> tuple[object, ...]:
    return tuple((isinstance(value, str), value) for _, value in group)


def _refuse(resolved: ResolvedQuery, events: Sequence[ObservedEvent]) -> None:
    query = resolved.query
    for node in ast.walk(query.pattern):
        if isinstance(node, ast.AnyOf):
            raise UnsupportedQueryError("trends of ANY are not evaluated by this version", node.span)
    own = [event for event in events if event.event_type in _types(resolved)]
    if query.strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH:
        assert query.strategy is not None
        if isinstance(query.pattern, ast.Conjunction):
            raise UnsupportedQueryError(f"pairs of trends under {query.strategy.value}", query.pattern.span)
        for event in own:
            if not event.is_precise:
                raise UnsupportedQueryError(
                    f"{query.strategy.value} is not defined over imprecise events: event {event.event_id}"
                )
    imprecise = [event for event in own if not event.is_precise]
    if imprecise and any(isinstance(node, ast.Negation) for node in ast.walk(query.pattern)):
        raise UnsupportedQueryError(
            f"the order of event {imprecise[0].event_id} is uncertain, and a pattern is negated"
        )
    if imprecise and isinstance(query.pattern, ast.Conjunction):
        raise UnsupportedQueryError(
            f"the time of event {imprecise[0].event_id} is uncertain, and both trends of a pair depend on it"
        )
    for event in imprecise:
        if event.skew_ms:
            raise UnsupportedQueryError(f"the clock of event {event.event_id} has an unknown offset")
        for other in own:
            is_same = event.clock_id is not None and event.clock_id == other.clock_id and event is not other
            if is_same and event.lo_ms <= other.hi_ms and other.lo_ms <= event.hi_ms:
                raise UnsupportedQueryError(f"events {event.event_id} and {other.event_id} of one clock overlap")


def _windows(resolved: ResolvedQuery, events: Sequence[ObservedEvent]) -> list[tuple[int, int]]:
    """Those that hold an event: (k * slide, k * slide + within] for every whole k."""
    within_ms, slide_ms = resolved.within_ms, resolved.slide_ms
    assert within_ms is not None
    assert slide_ms is not None
    found: set[int] = set()
    for event in events:
        k = (event.hi_ms - 1) // slide_ms
        while k * slide_ms + within_ms >= event.lo_ms:
            found.add(k)
            k -= 1
    return [(k * slide_ms, k * slide_ms + within_ms) for k in sorted(found)]


class Trends:
    """The readings of a pattern over the events of one window; `imprecise`: ids of those whose time is one of several
    possible ones; `selected`: what runs select, None where any sequence is as good."""

    def __init__(self, resolved: ResolvedQuery, imprecise: frozenset[str] = frozenset()) -> None:
        self.resolved = resolved
        self.imprecise = imprecise
        self.query = resolved.query
        self.components = _components(resolved)
        self.is_strict = self.query.ties is ast.Ties.STRICT
        self.selected: frozenset[Named] | None = None

    def counted(self, events: Sequence[ObservedEvent]) -> list[Reading]:
        """What COUNT(*) counts: trends, or of AND pairs of them, each as the events of both.

        Raises UnsupportedQueryError where two readings of one are not the same to the query.
        """
        if not isinstance(self.query.pattern, ast.Conjunction):
            return list(self._of(self.query.pattern, events).values())
        one, other = (self._of(part, events) for part in self.query.pattern.parts)
        if len(one) * len(other) > MAX_TRENDS:
            raise UnsupportedQueryError(
                f"more than {MAX_TRENDS} pairs of trends in one window, which the oracle builds"
            )
        found: dict[frozenset[tuple[str, ...]], Reading] = {}
        for mine, reading in one.items():
            for its, others in other.items():
                pair = tuple(sorted(reading + others, key=lambda read: read[0].stream_order))
                if mine == its or self._key_of(pair) is None:
                    continue
                first = found.setdefault(frozenset((mine, its)), pair)
                if _contributions(self.resolved, first) != _contributions(self.resolved, pair):
                    raise UnsupportedQueryError("a pair of trends is read in two ways that aggregates tell apart")
        return list(found.values())

    def _of(self, pattern: ast.Pattern, events: Sequence[ObservedEvent]) -> dict[tuple[str, ...], Reading]:
        """Every trend once, by the ids of its events."""
        found: dict[tuple[str, ...], Reading] = {}
        for n_read, part in enumerate(self._read(pattern, events, None)):
            if n_read > MAX_TRENDS:
                raise UnsupportedQueryError(f"more than {MAX_TRENDS} trends in one window, which the oracle builds")
            if self.selected is not None and named(part.events) not in self.selected:
                continue
            key = self._key_of(part.events)
            if key is None or not all(self._is_absent(each, part.events, events, key) for each in part.absent):
                continue
            first = found.setdefault(tuple(event.event_id for event, _ in part.events), part.events)
            if _contributions(self.resolved, first) != _contributions(self.resolved, part.events):
                raise UnsupportedQueryError("a trend is read in two ways that aggregates tell apart")
        return found

    def group_of(self, reading: Reading) -> tuple[tuple[str, object], ...]:
        """The values of GROUP BY; None for one that none of its events has."""
        schema, variables = self.resolved.schema, self.resolved.variables
        return tuple(
            (
                name,
                next((e.raw[name] for e, v in reading if name in schema.types[variables[v].event_type]), None),
            )
            for name in self.query.group_by
        )

    # ---------------------------------------------------------------- reading

    def _read(
        self, pattern: ast.Pattern, events: Sequence[ObservedEvent], after: ObservedEvent | None
    ) -> Iterator[_Part]:
        """The readings of a pattern whose events come after one; of a pattern that may be absent also the empty one."""
        match pattern:
            case ast.Component(variable=variable, kleene=kleene):
                for event in self._following(events, after):
                    if not self.is_vertex(event, variable):
                        continue
                    own = _Part(((event, variable),), ())
                    yield own
                    if kleene:
                        yield from self._joined(own, pattern, events)
            case ast.Sequence():
                yield from self._read_sequence(flat_parts(pattern), events, after)
            case ast.Alternative(parts=parts):
                for part in parts:
                    yield from self._read(part, events, after)
            case ast.Repeat(pattern=inner, at_least=at_least, at_most=at_most):
                yield from self._repeated(inner, at_least, at_most, events, after)
            case _:
                raise AssertionError(f"{pattern} has no readings of its own")

    def _repeated(
        self,
        inner: ast.Pattern,
        at_least: int,
        at_most: int | None,
        events: Sequence[ObservedEvent],
        after: ObservedEvent | None,
    ) -> Iterator[_Part]:
        if at_least == 0:
            yield _Part((), ())
        if at_most == 0:
            return
        for own in self._read(inner, events, after):
            if at_least <= 1:
                yield own
            if at_most != 1:
                rest = ast.Repeat(inner, max(1, at_least - 1), None if at_most is None else at_most - 1)
                yield from self._joined(own, rest, events)

    def _joined(self, own: _Part, following: ast.Pattern, events: Sequence[ObservedEvent]) -> Iterator[_Part]:
        last = own.events[-1][0]
        for part in self._read(following, events, last):
            if self.are_adjacent(own.events[-1], part.events[0]):
                yield _Part(own.events + part.events, own.absent + _shifted(part.absent, len(own.events)))

    def _read_sequence(
        self,
        parts: Sequence[ast.Pattern],
        events: Sequence[ObservedEvent],
        after: ObservedEvent | None,
        negated: tuple[ast.Pattern, ...] = (),
        before: Reading = (),
    ) -> Iterator[_Part]:
        """`negated`: patterns that are absent between the events `before`, of this sequence, and those to come."""
        if not parts:
            if before or not negated:
                yield _Part(before, tuple(Absent(each, len(before) - 1, len(before)) for each in negated))
            return
        first, *rest = parts
        if isinstance(first, ast.Negation):
            yield from self._read_sequence(rest, events, after, (*negated, first.pattern), before)
            return
        for part in self._read(first, events, after):
            if not part.events:
                yield from self._read_sequence(rest, events, after, negated, before)
                continue
            if before and not self.are_adjacent(before[-1], part.events[0]):
                continue
            here = tuple(Absent(each, len(before) - 1, len(before)) for each in negated)
            own = here + _shifted(part.absent, len(before))
            for whole in self._read_sequence(rest, events, part.events[-1][0], (), before + part.events):
                yield replace(whole, absent=own + whole.absent)

    # ----------------------------------------------------------- single events

    def _following(self, events: Sequence[ObservedEvent], after: ObservedEvent | None) -> Iterator[ObservedEvent]:
        return (event for event in events if after is None or self.is_before(after, event))

    def is_before(self, one: ObservedEvent, other: ObservedEvent) -> bool:
        if self.is_strict or not self.imprecise.isdisjoint((one.event_id, other.event_id)):
            return one.lo_ms < other.lo_ms
        return one.stream_order < other.stream_order

    def is_vertex(self, event: ObservedEvent, variable: str) -> bool:
        """Whether a variable may read an event: type, key attributes, local predicates."""
        if event.event_type != self.resolved.variables[variable].event_type:
            return False
        if any(event.values.get(name) is None for name, holders in self.components if variable in holders):
            return False
        return all(
            truth(predicate, {variable: [event]}, 1) is True
            for predicate in self.query.predicates
            if variables_of(predicate) in (((variable,), ()), ((), ()))
        )

    def are_adjacent(self, one: tuple[ObservedEvent, str], other: tuple[ObservedEvent, str]) -> bool:
        """Whether the edge predicates of two variables hold for two events."""
        (left, left_variable), (right, right_variable) = one, other
        binding: dict[str, Sequence[ObservedEvent]] = {left_variable: [left], right_variable: [right]}
        if left_variable == right_variable:
            binding = {left_variable: [left, right]}
        return all(
            truth(predicate, binding, 1) is True
            for predicate in self.query.predicates
            if variables_of(predicate) == ((left_variable,), (right_variable,))
        )

    # ------------------------------------------------------------------- keys

    def _key_of(self, reading: Reading, given: Key | None = None) -> dict[Component, object] | None:
        """What the events agree on, with each other and with `given`; None where they do not."""
        key = dict(given or {})
        for event, variable in reading:
            for component in self.components:
                if (
                    variable in component[1]
                    and key.setdefault(component, event.values[component[0]]) != (event.values[component[0]])
                ):
                    return None
        return key

    def _is_absent(self, absent: Absent, reading: Reading, events: Sequence[ObservedEvent], key: Key) -> bool:
        """Whether no trend of the negated pattern with this key lies between its neighbours."""
        after = reading[absent.after][0] if absent.after >= 0 else None
        before = reading[absent.before][0] if absent.before < len(reading) else None
        for part in self._read(absent.pattern, events, after):
            own = self._key_of(part.events, key)
            if own is None or (before is not None and not self.is_before(part.events[-1][0], before)):
                continue
            if all(self._is_absent(each, part.events, events, own) for each in part.absent):
                return False
        return True


def _shifted(absent: Sequence[Absent], by: int) -> tuple[Absent, ...]:
    return tuple(Absent(each.pattern, each.after + by, each.before + by) for each in absent)


def _components(resolved: ResolvedQuery) -> tuple[Component, ...]:
    """What events agree on: `[x]` and GROUP BY x among all variables whose type has x, `[v.x]` among those of v."""
    named = [(each.attribute, each.variable) for each in resolved.query.equivalences]
    named += [(name, None) for name in resolved.query.group_by]
    found: dict[Component, None] = {}
    for name, only in named:
        has = {v.name for v in resolved.variables.values() if name in resolved.schema.types[v.event_type]}
        found[name, frozenset(has if only is None else {only})] = None
    return tuple(found)


# ----------------------------------------------------------------- aggregates


def _contributions(resolved: ResolvedQuery, reading: Reading) -> list[tuple[object, ...]]:
    """What a reading adds to each aggregate."""
    asked = (*(item.expression for item in resolved.query.returns), resolved.query.having)
    return [
        tuple(sorted(str(event.values.get(each.name or "")) for event, v in reading if v == each.variable))
        for each in trend_aggregates(asked)
    ]


def _values(
    resolved: ResolvedQuery, readings: Sequence[Weighted], group: Mapping[str, object]
) -> dict[str, object] | None:
    """RETURN of one row; None where HAVING does not hold."""
    query = resolved.query
    if query.having is not None and truth(_filled(query.having, readings, group), {}, 1) is not True:
        return None
    values = {item.name: evaluate(_filled(item.expression, readings, group), {}, 1) for item in query.returns}
    whole = {item.name for item in query.returns if query.exact_bits and _is_whole(item.expression, resolved)}
    return {name: _plain(value, exact=name in whole) for name, value in values.items()}


def _is_whole(node: Any, resolved: ResolvedQuery) -> bool:
    """Whether EXACT keeps all digits: of counts, of whole attributes, and of what is not divided."""
    match node:
        case ast.TrendAggregate(function="avg"):
            return False
        case ast.TrendAggregate(variable=str() as variable, name=str() as name):
            own = resolved.variables.get(variable)
            return own is None or resolved.schema.types[own.event_type].get(name) is not AttributeType.FLOAT
        case ast.Literal(value=value):
            return not isinstance(value, float)
        case ast.Negative(operand=operand):
            return _is_whole(operand, resolved)
        case ast.Arithmetic(op=op, left=left, right=right):
            return op != "/" and _is_whole(left, resolved) and _is_whole(right, resolved)
        case _:
            return True


def _filled(node: Any, readings: Sequence[Weighted], group: Mapping[str, object]) -> Any:
    """An expression with the values of a row in place of what it asks for."""
    match node:
        case ast.TrendAggregate():
            return ast.Literal(_aggregate(node, readings))  # type: ignore[arg-type]  # exact, as the oracle's numbers
        case ast.Attribute(variable="", name=name):
            return ast.Literal(group[name])  # type: ignore[arg-type]  # a value of an event
        case ast.Negative() | ast.Not() | ast.Membership():
            return replace(node, operand=_filled(node.operand, readings, group))
        case ast.Arithmetic() | ast.Comparison():
            return replace(node, left=_filled(node.left, readings, group), right=_filled(node.right, readings, group))
        case ast.AllOf() | ast.OneOf():
            return replace(node, operands=tuple(_filled(part, readings, group) for part in node.operands))
        case _:
            return node


def _aggregate(node: ast.TrendAggregate, readings: Sequence[Weighted]) -> Fraction | float | None:
    """GRETA, Definition 2; values that are NULL are left out, an aggregate of none is NULL."""
    if node.variable is None:
        return sum((weight for weight, _ in readings), start=Fraction(0))
    events = [
        (weight, event) for weight, reading in readings for event, variable in reading if variable == node.variable
    ]
    if node.name is None:
        return sum((weight for weight, _ in events), start=Fraction(0))
    numbers = [
        (weight, value)
        for weight, event in events
        if isinstance(value := event.values.get(node.name), Fraction | float)
    ]
    if not numbers:
        return None
    match node.function:
        case "min":
            return min(value for _, value in numbers)
        case "max":
            return max(value for _, value in numbers)
    total = sum((_weighted(weight, value) for weight, value in numbers), start=Fraction(0))
    return total if node.function == "sum" else total / sum(weight for weight, _ in numbers)


def _weighted(weight: Fraction, value: Fraction | float) -> Fraction | float:
    return value if isinstance(value, float) else weight * value  # floats are infinite


def _plain(value: object, *, exact: bool) -> object:
    """Whole numbers beyond 64 bits are text under EXACT, with all digits."""
    if isinstance(value, Fraction):
        whole = int(value) if value.denominator == 1 else None
        return float(value) if whole is None else str(whole) if exact and abs(whole) >= 2**63 else whole
    return value


__all__ = ["TrendRow", "Trends", "trend_rows", "trends_among"]
