"""Templates: patterns as automata over event types (GRETA, Algorithm 1), with negated parts split off (Algorithm 3).

A template has a position for each component, and a transition where two may be adjacent in a trend. Alternatives,
optional parts and bounds are part of it; a repeated part with bounds has a position for each repetition that must be
told apart. A negated part is a template of its own, and stands at the transitions that lead across it.

A trend counts once, however many ways the pattern reads it (Theorem 4.2): where two paths read the same types, the
template is made deterministic, its states are sets of positions then. That is refused where the query tells the
positions of a set apart, and where negations depend on the path. It is refused under skip till next match, too, where
each path has skipped events of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.errors import Span, UnsupportedQueryError
from engine.language import ast
from engine.language.trend_checks import flat_parts
from engine.plan.trends.ways import ways_apart

MAX_STATES = 62
"""States of a template with those of its negated parts: a bit for each in 64."""

Cuts = frozenset[int]
"""Numbers of negated parts."""

_NONE: Cuts = frozenset()


@dataclass(frozen=True, slots=True)
class State:
    """Reads events for a variable."""

    variable: str
    event_type: str


@dataclass(frozen=True)
class Template:
    """`starts`, `ends`: states that read the first or last event of a trend, with the negated parts that must be absent
    before or after it; `transitions`: those that must be absent between two adjacent events. `taking`: under skip till
    next match the transitions after which nothing else may follow the earlier event (SASE+ section 3.2: a loop, or the
    begin of what comes after a single component); after the others it may be followed once more. `span`: where the
    pattern stands."""

    states: tuple[State, ...]
    starts: dict[int, Cuts]
    ends: dict[int, Cuts]
    transitions: dict[tuple[int, int], Cuts]
    taking: frozenset[tuple[int, int]] = frozenset()
    span: Span | None = None

    @property
    def cuts(self) -> Cuts:
        """All negated parts that it depends on."""
        return frozenset().union(*self.starts.values(), *self.ends.values(), *self.transitions.values())


@dataclass(frozen=True)
class Templates:
    """The positive one and the negated ones, those that others depend on later."""

    positive: Template
    negated: tuple[Template, ...]


def templates_of(
    pattern: ast.Pattern, is_distinguished: Callable[[str], bool], *, takes_next: bool = False
) -> Templates:
    """The templates of a pattern; `is_distinguished`: whether the query asks anything of the events of one variable
    alone; `takes_next`: under skip till next match.

    Raises UnsupportedQueryError for ANY, for a trend that can be read in ways that are told apart, and for
    templates that are too large.
    """
    builder = _Builder(pattern)
    positive = builder.template(ways_apart(pattern) if takes_next else pattern)
    if takes_next:
        positive = replace(positive, taking=frozenset(builder.taking))
        _check_one_way(positive, pattern)
    negated: list[Template] = []
    while len(negated) < len(builder.negated):
        inner = builder.template(builder.negated[len(negated)])
        negated.append(inner)  # what it depends on comes after it
    return Templates(_unambiguous(positive, pattern, is_distinguished), tuple(negated))


# ------------------------------------------------------------------- building


@dataclass(frozen=True)
class _Fragment:
    """A part of a template: `empty` are the cuts of the way through it without any event, None where there is none."""

    firsts: tuple[tuple[int, Cuts], ...]
    lasts: tuple[tuple[int, Cuts], ...]
    empty: Cuts | None


class _Builder:
    def __init__(self, whole: ast.Pattern) -> None:
        self.negated: list[ast.Pattern] = []
        self._whole = whole
        self._n_states = 0
        self._states: list[State] = []
        self._transitions: list[tuple[int, int, Cuts]] = []
        self.taking: set[tuple[int, int]] = set()
        """Of the latest template, where no part may be absent: see `Template`."""

    def template(self, pattern: ast.Pattern) -> Template:
        """The template of one pattern; negated parts are added to `negated`."""
        self._states, self._transitions, self.taking = [], [], set()
        whole = self._fragment(pattern)
        joined = {(one, other): cuts for (one, other), cuts in self._least(self._transitions, pattern).items()}
        return Template(
            tuple(self._states),
            {state: cuts for (state, _), cuts in self._least(((s, s, c) for s, c in whole.firsts), pattern).items()},
            {state: cuts for (state, _), cuts in self._least(((s, s, c) for s, c in whole.lasts), pattern).items()},
            joined,
            span=pattern.span,
        )

    @staticmethod
    def _least(found: Iterable[tuple[int, int, Cuts]], pattern: ast.Pattern) -> dict[tuple[int, int], Cuts]:
        """Of several ways between two states that which asks for least: a trend needs one of them."""
        ways: dict[tuple[int, int], Cuts] = {}
        for one, other, cuts in found:
            known = ways.setdefault((one, other), cuts)
            if cuts <= known:
                ways[one, other] = cuts
            elif not known <= cuts:
                raise UnsupportedQueryError(
                    "two events may be adjacent in two ways that ask for the absence of different patterns",
                    pattern.span,
                    "one way from each component to the next",
                    "split the query, or write the alternatives with components of their own",
                )
        return ways

    def _fragment(self, pattern: ast.Pattern) -> _Fragment:
        match pattern:
            case ast.Component(kleene=True):
                return self._repeated(ast.Component(pattern.event_type, pattern.variable), 1, None)
            case ast.Component(event_type=event_type, variable=variable):
                self._add(State(variable, event_type))
                own = ((len(self._states) - 1, _NONE),)
                return _Fragment(own, own, None)
            case ast.Sequence():
                return self._sequence(flat_parts(pattern))
            case ast.Repeat(pattern=inner, at_least=at_least, at_most=at_most):
                return self._repeated(inner, at_least, at_most)
            case ast.Alternative(parts=parts):
                found = [self._fragment(part) for part in parts]
                empties = [each.empty for each in found if each.empty is not None]
                if any(empties):
                    raise UnsupportedQueryError(
                        "a part that may be absent as a whole has a negation",
                        pattern.span,
                        remedy="write the alternatives as queries of their own",
                    )
                return _Fragment(
                    tuple(entry for each in found for entry in each.firsts),
                    tuple(entry for each in found for entry in each.lasts),
                    _NONE if empties else None,
                )
            case ast.AnyOf():
                raise UnsupportedQueryError(
                    "trends of ANY are not evaluated by this version",
                    pattern.span,
                    "SEQ, OR, NOT, +, *, ?, {n,m}",
                    "write a query for each order of the parts",
                )
            case ast.Negation():
                raise AssertionError("negations are parts of sequences")
            case ast.Conjunction():
                raise AssertionError("AND is the outermost operator")

    def _add(self, state: State) -> None:
        """A state of the template that is being built; refused as soon as all templates together are too large."""
        self._n_states += 1
        if self._n_states > MAX_STATES:
            raise UnsupportedQueryError(
                f"a template of over {MAX_STATES} states",
                self._whole.span,
                f"at most {MAX_STATES}",
                "lower the bounds of {n,m}, or split the query",
            )
        self._states.append(state)

    def _sequence(self, parts: Iterable[ast.Pattern]) -> _Fragment:
        firsts: list[tuple[int, Cuts]] = []
        lasts: list[tuple[int, Cuts]] = []
        empty: Cuts | None = _NONE
        is_single = False
        for part in parts:
            if isinstance(part, ast.Negation):
                self.negated.append(part.pattern)
                cut = {len(self.negated) - 1}
                lasts = [(state, cuts | cut) for state, cuts in lasts]
                empty = None if empty is None else empty | cut
                continue
            inner = self._fragment(part)
            self._join(lasts, inner.firsts, takes=is_single)
            is_single = isinstance(part, ast.Component) and not part.kleene
            if empty is not None:
                firsts += [(state, cuts | empty) for state, cuts in inner.firsts]
            if inner.empty is None:
                lasts, empty = list(inner.lasts), None
            else:
                lasts = [*inner.lasts, *((state, cuts | inner.empty) for state, cuts in lasts)]
                empty = None if empty is None else empty | inner.empty
        return _Fragment(tuple(firsts), tuple(lasts), empty)

    def _repeated(self, inner: ast.Pattern, at_least: int, at_most: int | None) -> _Fragment:
        """One copy for each repetition that must be told apart; without an upper bound the last one repeats itself."""
        n_copies = max(at_least, 1) if at_most is None else at_most
        if n_copies > MAX_STATES:
            raise UnsupportedQueryError(
                f"{n_copies} repetitions are told apart", inner.span, f"at most {MAX_STATES}", "lower the bounds"
            )
        copies: list[_Fragment] = []
        for _ in range(n_copies):
            copy = self._fragment(inner)
            if copies:
                self._join(copies[-1].lasts, copy.firsts, takes=True)
            copies.append(copy)
        if at_most is None:
            self._join(copies[-1].lasts, copies[-1].firsts, takes=True)
        lasts = tuple(entry for copy in copies[max(at_least, 1) - 1 :] for entry in copy.lasts)
        return _Fragment(copies[0].firsts, lasts, _NONE if at_least == 0 else None)

    def _join(self, lasts: Iterable[tuple[int, Cuts]], firsts: Iterable[tuple[int, Cuts]], *, takes: bool) -> None:
        entering = tuple(firsts)
        found = [(one, other, a | b) for one, a in lasts for other, b in entering]
        self._transitions += found
        if takes:
            self.taking.update((one, other) for one, other, _ in found)


# ------------------------------------------------------------- deterministic


def _unambiguous(template: Template, pattern: ast.Pattern, is_distinguished: Callable[[str], bool]) -> Template:
    """The template, or where a trend may have two paths a deterministic one."""
    pair = _ambiguous_pair(template)
    if pair is None:
        return template
    if template.cuts:
        one, other = (template.states[state].variable for state in pair)
        raise UnsupportedQueryError(
            f"a trend can be read in several ways, an event as {one} or as {other}, and negations depend on which",
            pattern.span,
            "a pattern that reads each trend in one way",
            "leave out one of the repetitions, or the negation",
        )
    return _deterministic(template, pattern, is_distinguished)


def _check_one_way(template: Template, pattern: ast.Pattern) -> None:
    """Under skip till next match."""
    pair = _ambiguous_pair(template)
    if pair is not None:
        one, other = (template.states[state].variable for state in pair)
        how = f"an event as {one} or as {other}" if one != other else f"an event of {one} in several repetitions"
        raise UnsupportedQueryError(
            f"a trend can be read in several ways, {how}, and under skip_till_next_match what it skips depends on "
            "which",
            pattern.span,
            "a pattern that reads each trend in one way",
            "leave out one of the repetitions, or use skip_till_any_match",
        )


def _ambiguous_pair(template: Template) -> tuple[int, int] | None:
    """Two states that read one event of a trend on two complete paths; None where every trend has one path."""
    n = len(template.states)
    after, before = [0] * n, [0] * n
    for one, other in template.transitions:
        after[one] |= 1 << other
        before[other] |= 1 << one
    same_type = [
        sum(1 << other for other, its in enumerate(template.states) if its.event_type == own.event_type)
        for own in template.states
    ]
    begun = _pairs(sum(1 << state for state in template.starts), after, same_type)
    ended = _pairs(sum(1 << state for state in template.ends), before, same_type)
    for state in range(n):
        others = begun[state] & ended[state] & ~(1 << state)
        if others:
            return state, next(_bits(others))
    return None


def _pairs(outer: int, following: Sequence[int], same_type: Sequence[int]) -> list[int]:
    """Pairs of states that are reached by two paths of the same types from two of the `outer` states, which are bits;
    of each state the bits of the others. One of the two goes a step after the other, so that a pair costs the edges of
    its states, not the product of both."""
    found = [same & outer if (outer >> state) & 1 else 0 for state, same in enumerate(same_type)]
    new, todo = found[:], set(_bits(outer))
    while todo:
        state = todo.pop()
        reached, new[state] = new[state], 0
        stepped = 0
        for other in _bits(reached):
            stepped |= following[other]
        for target in _bits(following[state]):
            fresh = stepped & same_type[target] & ~found[target]
            if fresh:
                found[target] |= fresh
                new[target] |= fresh
                todo.add(target)
    return found


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _deterministic(template: Template, pattern: ast.Pattern, is_distinguished: Callable[[str], bool]) -> Template:
    following: dict[int, set[int]] = {}
    for one, other in template.transitions:
        following.setdefault(one, set()).add(other)

    def by_type(states: Iterable[int]) -> list[frozenset[int]]:
        found: dict[str, set[int]] = {}
        for state in states:
            found.setdefault(template.states[state].event_type, set()).add(state)
        return [frozenset(each) for each in found.values()]

    numbers: dict[frozenset[int], int] = {}
    todo = by_type(template.starts)
    starts = todo[:]
    transitions: list[tuple[frozenset[int], frozenset[int]]] = []
    while todo:
        positions = todo.pop()
        if positions in numbers:
            continue
        numbers[positions] = len(numbers)
        if len(numbers) > MAX_STATES:
            raise UnsupportedQueryError(
                f"a trend can be read in several ways; made deterministic the pattern has over {MAX_STATES} states",
                pattern.span,
                remedy="leave out some of the repetitions",
            )
        for after in by_type(other for one in positions for other in following.get(one, ())):
            transitions.append((positions, after))
            todo.append(after)
    return Template(
        tuple(_one_state(template, positions, pattern, is_distinguished) for positions in numbers),
        {numbers[positions]: _NONE for positions in starts},
        {number: _NONE for positions, number in numbers.items() if any(p in template.ends for p in positions)},
        {(numbers[one], numbers[other]): _NONE for one, other in transitions},
    )


def _one_state(
    template: Template, positions: frozenset[int], pattern: ast.Pattern, is_distinguished: Callable[[str], bool]
) -> State:
    """What stands for a set of positions; refused where the query tells their variables apart."""
    variables = sorted({template.states[position].variable for position in positions})
    apart = [name for name in variables if is_distinguished(name)]
    if len(variables) > 1 and apart:
        other = next(name for name in variables if name != apart[0])
        raise UnsupportedQueryError(
            f"a trend can be read in several ways, an event as {apart[0]} or as {other}, and what the query asks of "
            f"{apart[0]} depends on which",
            pattern.span,
            "a pattern that reads each trend in one way, or nothing asked of these variables alone",
            "leave out one of the repetitions",
        )
    return template.states[min(positions)]


__all__ = ["MAX_STATES", "Cuts", "State", "Template", "Templates", "templates_of"]
