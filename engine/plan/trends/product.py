"""The trends that two patterns both match: the product of their templates (GRETA, section 9).

Each template reads a trend in one way at most, so that the product does, too: a state of it is one of each, by which
both read an event. Absence that either asks for is asked of the pair of transitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from engine.errors import UnsupportedQueryError
from engine.language import ast
from engine.plan.trends.template import MAX_STATES, Cuts, State, Template, Templates

Pair = tuple[int, int]


@dataclass(frozen=True)
class Product:
    """`templates`: of the trends that both match. `names`: what the variable of each of their states is called in the
    one pattern and in the other; negated ones keep their names."""

    templates: Templates
    names: Mapping[str, tuple[str, str]]


def product_of(one: Templates, other: Templates, pattern: ast.Pattern) -> Product | None:
    """None where no trend is one of both; raises UnsupportedQueryError for one that is too large."""
    moved = Templates(
        _moved(other.positive, len(one.negated)), tuple(_moved(t, len(one.negated)) for t in other.negated)
    )
    pairs = _useful(one.positive, moved.positive)
    if not pairs:
        return None
    negated = (*one.negated, *moved.negated)
    n_states = len(pairs) + sum(len(template.states) for template in negated)
    if n_states > MAX_STATES:
        raise UnsupportedQueryError(
            f"the trends that both parts of AND match have a template of {n_states} states",
            pattern.span,
            f"at most {MAX_STATES}",
            "lower the bounds of {n,m}, or let parts begin or end with other types, so that no trend is of both",
        )
    names = {_name(one.positive, moved.positive, pair): _names(one.positive, moved.positive, pair) for pair in pairs}
    return Product(Templates(_product(one.positive, moved.positive, pairs), negated), names)


def _moved(template: Template, by: int) -> Template:
    """The same, with its negated parts numbered from `by` on."""

    def cuts(own: Cuts) -> Cuts:
        return frozenset(number + by for number in own)

    return Template(
        template.states,
        {state: cuts(own) for state, own in template.starts.items()},
        {state: cuts(own) for state, own in template.ends.items()},
        {step: cuts(own) for step, own in template.transitions.items()},
        span=template.span,
    )


def _product(one: Template, other: Template, pairs: tuple[Pair, ...]) -> Template:
    numbers = {pair: number for number, pair in enumerate(pairs)}
    return Template(
        tuple(State(_name(one, other, pair), one.states[pair[0]].event_type) for pair in pairs),
        {numbers[a, b]: one.starts[a] | other.starts[b] for a, b in pairs if a in one.starts and b in other.starts},
        {numbers[a, b]: one.ends[a] | other.ends[b] for a, b in pairs if a in one.ends and b in other.ends},
        {
            (numbers[a, b], numbers[c, d]): one.transitions[a, c] | other.transitions[b, d]
            for (a, b), (c, d) in _steps(one, other, pairs)
        },
    )


def _steps(one: Template, other: Template, pairs: tuple[Pair, ...]) -> Iterator[tuple[Pair, Pair]]:
    known = frozenset(pairs)
    for a, c in one.transitions:
        for b, d in other.transitions:
            if (a, b) in known and (c, d) in known:
                yield (a, b), (c, d)


def _useful(one: Template, other: Template) -> tuple[Pair, ...]:
    """The pairs of states on the way from two that begin a trend to two that end one."""
    alike = tuple(
        (a, b)
        for a, mine in enumerate(one.states)
        for b, its in enumerate(other.states)
        if mine.event_type == its.event_type
    )
    steps = tuple(_steps(one, other, alike))
    begun = _reached(((a, b) for a, b in alike if a in one.starts and b in other.starts), steps)
    back = tuple((later, earlier) for earlier, later in steps)
    ended = _reached(((a, b) for a, b in alike if a in one.ends and b in other.ends), back)
    return tuple(pair for pair in alike if pair in begun and pair in ended)


def _reached(first: Iterable[Pair], steps: Iterable[tuple[Pair, Pair]]) -> frozenset[Pair]:
    following: dict[Pair, list[Pair]] = {}
    for earlier, later in steps:
        following.setdefault(earlier, []).append(later)
    found = set(first)
    todo = list(found)
    while todo:
        for pair in following.get(todo.pop(), ()):
            if pair not in found:
                found.add(pair)
                todo.append(pair)
    return frozenset(found)


def _names(one: Template, other: Template, pair: Pair) -> tuple[str, str]:
    return one.states[pair[0]].variable, other.states[pair[1]].variable


def _name(one: Template, other: Template, pair: Pair) -> str:
    """Of a variable of both; no name of a query has the sign between two."""
    mine, its = _names(one, other, pair)
    return mine if mine == its else f"{mine}&{its}"


__all__ = ["Product", "product_of"]
