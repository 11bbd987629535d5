"""OR, `?`, `*` and ANY outside repeated groups stand for unions: one pattern for each way to read them.

Inside a repeated group they are alternatives of each iteration, and stay (DESIGN 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, islice, product

from engine.errors import UnsupportedQueryError
from engine.language import ast

MAX_BRANCHES = 256
"""More patterns than this behind one query are refused."""

_NOTHING = ast.Sequence(())


def expanded(pattern: ast.Pattern) -> tuple[ast.Pattern, ...]:
    """The patterns whose union `pattern` is, each once, in textual order.

    Raises UnsupportedQueryError when they are more than MAX_BRANCHES.
    """
    found = dict.fromkeys(islice(_expand(pattern), MAX_BRANCHES + 1))
    if len(found) > MAX_BRANCHES:
        raise UnsupportedQueryError(
            f"the pattern stands for more than {MAX_BRANCHES} patterns",
            pattern.span,
            f"at most {MAX_BRANCHES} ways to choose among OR, ?, * and ANY",
            "split the query, or give alternatives one event type with an attribute that tells them apart",
        )
    return tuple(found)


def _expand(pattern: ast.Pattern) -> Iterator[ast.Pattern]:
    match pattern:
        case ast.Component():
            yield pattern
        case ast.Alternative(parts=parts):
            for part in parts:
                yield from _expand(part)
        case ast.Sequence(parts=parts) | ast.Conjunction(parts=parts):
            for chosen in _products(parts):
                kept = tuple(part for part in chosen if part != _NOTHING)
                yield replace(pattern, parts=kept) if kept else _NOTHING
        case ast.AnyOf(count=count, parts=components):
            for some in combinations(components, count):
                yield ast.Conjunction(some, pattern.span)
        case ast.Negation(pattern=inner):
            # Neither of the alternatives may be in the place.
            none_of = tuple(replace(pattern, pattern=branch) for branch in _expand(inner))
            yield ast.Sequence(none_of, pattern.span) if len(none_of) > 1 else none_of[0]
        case ast.Repeat():
            yield from _repeated(pattern)


def _repeated(pattern: ast.Repeat) -> Iterator[ast.Pattern]:
    if pattern.at_least == 0:
        yield _NOTHING
    if pattern.at_most == 0:
        return
    if pattern.at_most == 1:
        yield from _expand(pattern.pattern)
        return
    inner, at_least = pattern.pattern, max(pattern.at_least, 1)
    if isinstance(inner, ast.Component) and not inner.kleene and at_least == 1 and pattern.at_most is None:
        yield replace(inner, kleene=True)
    else:
        yield replace(pattern, at_least=at_least)


def _products(parts: tuple[ast.Pattern, ...]) -> Iterable[tuple[ast.Pattern, ...]]:
    return product(*(tuple(islice(_expand(part), MAX_BRANCHES + 1)) for part in parts))


__all__ = ["MAX_BRANCHES", "expanded"]
