"""A second definition of what a pattern matches: the meaning of each construct as a set of words with their bindings.

A word is a sequence of events in the order of one world. SEQ is every way to cut the word, AND every way to deal its
events out, a repetition every way to cut it into iterations, OR the union. There are no branches, no runs, no places. A
match is spoilt when the pattern without the `!` of one negation has a match with the same positive events and more.
Only for skip till any match, and without clocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from engine.events import EventBatch
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.reference.conditions import Condition, conditions_of
from engine.reference.observed import ObservedEvent, observe

Value = ObservedEvent | list["Value"]
"""What a variable has: an event, the events of a Kleene component, a list with one entry per iteration."""

Binding = dict[str, Value]
World = dict[str, int]
Word = tuple[ObservedEvent, ...]
Listed = tuple[tuple[str, object], ...]


def denoted(resolved: ResolvedQuery, batch: EventBatch) -> dict[Listed, Fraction]:
    """Bindings as nested tuples of ids -> the share of worlds in which they are a match."""
    query = resolved.query
    events = observe(batch, resolved.schema)
    names = {component.event_type for component, _ in ast.components(query.pattern)}
    # What is longer than the window takes no part (docs/decisions.md, 50).
    longest_ms = resolved.within_ms or 0
    relevant = [event for event in events if event.event_type in names and event.hi_ms - event.lo_ms <= longest_ms]
    found: dict[Listed, Fraction] = {}
    judged: dict[Listed, bool] = {}
    for points in itertools.product(*(event.times.items() for event in relevant)):
        share = Fraction(1)
        for _, p in points:
            share *= p
        world = {event.event_id: ms for event, (ms, _) in zip(relevant, points, strict=True)}
        order = sorted(relevant, key=lambda event: (world[event.event_id], event.stream_order))
        for listed in _matches(resolved, order, world, judged):
            found[listed] = found.get(listed, Fraction(0)) + share
    return found


def _matches(
    resolved: ResolvedQuery, order: Sequence[ObservedEvent], world: World, judged: dict[Listed, bool]
) -> set[Listed]:
    """The matches of one world."""
    pattern, strict_ties = resolved.query.pattern, resolved.query.ties is ast.Ties.STRICT
    negated = {component.variable for component, is_negated in ast.components(pattern) if is_negated}
    plain = [c for c in conditions_of(resolved.query) if not c.variables & negated]
    matches: set[Listed] = set()
    for word in _words(resolved, order):
        if _length_ms(word, world) <= (resolved.within_ms or 0):
            for binding in Meaning(world, strict_ties).of(pattern, word):
                listed = _listed(binding)
                if listed not in judged:
                    judged[listed] = all(_holds(c, resolved, binding) for c in plain)
                if judged[listed]:
                    matches.add(listed)
    if matches:
        for node in ast.walk(pattern):
            if isinstance(node, ast.Negation):
                matches -= _spoilt(resolved, Meaning(world, strict_ties, node), order, negated)
    return matches


def _spoilt(
    resolved: ResolvedQuery, meaning: Meaning, order: Sequence[ObservedEvent], negated: set[str]
) -> set[Listed]:
    """The positive parts of what matches when the negation that `meaning` reads as positive has a match."""
    assert meaning.negation is not None
    own = {component.variable for component, _ in ast.components(meaning.negation.pattern)}
    conditions = [c for c in conditions_of(resolved.query) if c.variables & own]
    spoilt: set[Listed] = set()
    for word in _words(resolved, order):
        for binding in meaning.of(resolved.query.pattern, word):
            positive = {v: value for v, value in binding.items() if v not in negated}
            intruders = [e.event_id for v, value in binding.items() if v in own for e in _flat(value)]
            if not intruders or _listed(positive) in spoilt:
                continue
            times = [meaning.world[e.event_id] for value in positive.values() for e in _flat(value)]
            least, most = max(times) - (resolved.within_ms or 0), min(times) + (resolved.within_ms or 0)
            in_window = all(least <= meaning.world[i] <= most for i in intruders)
            if in_window and all(_holds(c, resolved, binding) for c in conditions):
                spoilt.add(_listed(positive))
    return spoilt


def _words(resolved: ResolvedQuery, order: Sequence[ObservedEvent]) -> Iterator[Word]:
    for size in range(1, len(order) + 1):
        for word in itertools.combinations(order, size):
            if _same_key(resolved, word):
                yield word


def _length_ms(word: Word, world: World) -> int:
    times = [world[event.event_id] for event in word]
    return max(times) - min(times)


def _listed(binding: Binding) -> Listed:
    return tuple(sorted((v, _ids(value, top=True)) for v, value in binding.items()))


def _ids(value: Value, *, top: bool = False) -> object:
    if isinstance(value, ObservedEvent):
        return (value.event_id,) if top else value.event_id
    return tuple(_ids(entry) for entry in value)


def _same_key(resolved: ResolvedQuery, word: Word) -> bool:
    for name in resolved.key:
        values = {event.values[name] for event in word if name in resolved.schema.types[event.event_type]}
        if None in values or len(values) > 1:
            return False
    return True


@dataclass(frozen=True)
class Meaning:
    """Words in one world; the one `negation` may be left out or be matched, the others are left out."""

    world: World
    strict_ties: bool
    negation: ast.Negation | None = None

    def of(self, pattern: ast.Pattern, word: Word) -> Iterator[Binding]:
        """The bindings under which the whole word is a match of the pattern."""
        match pattern:
            case ast.Component(variable=variable, event_type=event_type, kleene=kleene):
                if all(event.event_type == event_type for event in word) and self._increases(word):
                    if kleene and word:
                        yield {variable: list(word)}
                    elif not kleene and len(word) == 1:
                        yield {variable: word[0]}
            case ast.Sequence(parts=parts):
                yield from self._sequence(parts, word)
            case ast.Alternative(parts=parts):
                for part in parts:
                    yield from self.of(part, word)
            case ast.Conjunction(parts=parts):
                yield from self._shuffle(parts, word)
            case ast.AnyOf(count=count, parts=parts):
                for chosen in itertools.combinations(parts, count):
                    yield from self._shuffle(chosen, word)
            case ast.Repeat():
                yield from self._repeat(pattern, word)
            case ast.Negation(pattern=inner):
                if not word:
                    yield {}
                elif pattern is self.negation:
                    yield from self.of(inner, word)

    def _sequence(self, parts: Sequence[ast.Pattern], word: Word) -> Iterator[Binding]:
        if not parts:
            if not word:
                yield {}
            return
        for cut in range(len(word) + 1):
            if self._separates(word, cut):
                for first in self.of(parts[0], word[:cut]):
                    for rest in self._sequence(parts[1:], word[cut:]):
                        yield first | rest

    def _shuffle(self, parts: Sequence[ast.Pattern], word: Word) -> Iterator[Binding]:
        for dealt in itertools.product(range(len(parts)), repeat=len(word)):
            hands = [
                tuple(event for event, owner in zip(word, dealt, strict=True) if owner == k) for k in range(len(parts))
            ]
            for bindings in itertools.product(*(list(self.of(p, hand)) for p, hand in zip(parts, hands, strict=True))):
                merged: Binding = {}
                for binding in bindings:
                    merged |= binding
                yield merged

    def _repeat(self, pattern: ast.Repeat, word: Word) -> Iterator[Binding]:
        inner = pattern.pattern
        if pattern.at_least == 0 and not word:
            yield {}
        for iterations in self._iterations(inner, word):
            if not max(pattern.at_least, 1) <= len(iterations):
                continue
            if pattern.at_most is not None and len(iterations) > pattern.at_most:
                continue
            if pattern.at_most == 1:
                yield iterations[0]
            elif isinstance(inner, ast.Component) and not inner.kleene:
                yield {inner.variable: [binding[inner.variable] for binding in iterations]}
            else:
                variables = [c.variable for c, is_negated in ast.components(inner) if not is_negated]
                if self.negation is not None:
                    variables += [v for binding in iterations for v in binding if v not in variables]
                yield {v: [binding.get(v, []) for binding in iterations] for v in variables}

    def _iterations(self, inner: ast.Pattern, word: Word) -> Iterator[list[Binding]]:
        """Every way to cut the word into one match of the pattern after the other."""
        for cut in range(1, len(word) + 1):
            if not self._separates(word, cut):
                continue
            for first in self.of(inner, word[:cut]):
                if cut == len(word):
                    yield [first]
                else:
                    for rest in self._iterations(inner, word[cut:]):
                        yield [first, *rest]

    def _increases(self, word: Word) -> bool:
        return all(self._before(one, other) for one, other in itertools.combinations(word, 2))

    def _separates(self, word: Word, cut: int) -> bool:
        return all(self._before(one, other) for one in word[:cut] for other in word[cut:])

    def _before(self, one: ObservedEvent, other: ObservedEvent) -> bool:
        if one.is_precise and other.is_precise and not self.strict_ties:
            return one.stream_order < other.stream_order
        return self.world[one.event_id] < self.world[other.event_id]


def _holds(condition: Condition, resolved: ResolvedQuery, binding: Binding) -> bool:
    """The conjunct in every iteration of its context, walking down the nested lists."""
    paths = _paths(resolved.query.pattern)
    plain = [paths[v] for v in condition.plain]
    if plain:
        context = max(plain, key=len)
    else:
        lists = [paths[v] if resolved.variables[v].closure else paths[v][:-1] for v in condition.variables]
        context = _prefix(lists)
    for number in _numbers(context, paths, binding):
        lists_here = {
            v: list(_flat(_at(binding.get(v, []), number[: len(_prefix([paths[v], context]))])))
            for v in condition.variables
        }
        absent = frozenset(v for v, events in lists_here.items() if not events)
        if condition.applies_without(absent) and not condition.holds_for_all(lists_here):
            return False
    return True


def _paths(pattern: ast.Pattern) -> dict[str, tuple[int, ...]]:
    """The groups around each variable, each group known by the object that it is."""
    found: dict[str, tuple[int, ...]] = {}

    def walk(node: ast.Pattern, path: tuple[int, ...]) -> None:
        match node:
            case ast.Component(variable=variable):
                found[variable] = path
            case ast.Repeat(pattern=inner, at_most=at_most):
                is_component = isinstance(inner, ast.Component) and not inner.kleene
                walk(inner, path if at_most == 1 or is_component else (*path, id(node)))
            case ast.Negation(pattern=inner):
                walk(inner, path)
            case _:
                for part in node.parts:
                    walk(part, path)

    walk(pattern, ())
    return found


def _prefix(paths: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    common = paths[0] if paths else ()
    for path in paths[1:]:
        while path[: len(common)] != common:
            common = common[:-1]
    return common


def _numbers(
    context: tuple[int, ...], paths: dict[str, tuple[int, ...]], binding: Binding
) -> Iterator[tuple[int, ...]]:
    """The iterations of the context: numbers of its groups, outermost first."""
    if not context:
        yield ()
        return
    inside = [v for v, path in paths.items() if path[: len(context)] == context and v in binding]
    if not inside:
        return
    for outer in _numbers(context[:-1], paths, binding):
        entries = _at(binding[inside[0]], outer)
        assert isinstance(entries, list)
        yield from ((*outer, n) for n in range(len(entries)))


def _at(value: Value, number: tuple[int, ...]) -> Value:
    for n in number:
        assert isinstance(value, list)
        value = value[n] if value else []
    return value


def _flat(value: Value) -> Iterator[ObservedEvent]:
    if isinstance(value, ObservedEvent):
        yield value
    else:
        for entry in value:
            yield from _flat(entry)
