"""Query text -> syntax tree.

Safe on hostile text: characters, tokens and the depth of nesting are bounded, nothing recurses over unbounded input,
and only QueryError comes out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import resources
from typing import TypeVar

from lark import Lark, Token
from lark.exceptions import UnexpectedInput

from engine.errors import QuerySyntaxError, Span
from engine.events import lone_surrogate
from engine.language.ast import Expression, Query
from engine.language.build_expression import build_expression
from engine.language.build_query import build_query
from engine.language.source import MAX_DEPTH, MAX_QUERY_CHARS, MAX_STACK, MAX_TOKENS, Branch, Source
from engine.language.syntax_errors import explain_syntax_error, unknown_strategy

_Built = TypeVar("_Built", Query, Expression)


@lru_cache(maxsize=256)  # who loads a folder of queries asks several times for each: types, defaults, to compile
def parse(text: str, name: str = "query") -> Query:
    """The syntax tree of a query.

    `name` (a file or query name) is what errors call the text. Raises QuerySyntaxError, with the place and the
    remedy, for text that is not of the language, and UnsupportedQueryError for aggregates that trends do not have.
    """
    return _parse(text, name, "start", build_query)


def parse_expression(text: str, name: str = "expression") -> Expression:
    """The syntax tree of one predicate or value, as it stands in WHERE, HAVING or RETURN; errors as `parse`."""
    return _parse(text, name, "expression", build_expression)


def _parse(text: str, name: str, start: str, build: Callable[[Branch, Source], _Built]) -> _Built:
    _check_size(text, name)
    source = Source(text, name)
    _check_unicode(source)
    try:
        tree = _tree(source, start)
        _check_depth(tree, source)
        return build(tree, source)
    except QuerySyntaxError as error:
        raise unknown_strategy(error, source) from None


def _check_size(text: str, name: str) -> None:
    if len(text) > MAX_QUERY_CHARS:
        raise QuerySyntaxError(
            f"a text of {len(text)} characters", None, f"at most {MAX_QUERY_CHARS} characters", name=name
        )
    if not text.strip():
        raise QuerySyntaxError("the text is empty", None, "a query: PATTERN ... WHERE ... WITHIN ...", name=name)


def _check_unicode(source: Source) -> None:
    at = lone_surrogate(source.text)
    if at is None:
        return
    line = source.text.count("\n", 0, at) + 1
    column = at - source.text.rfind("\n", 0, at)
    raise source.syntax_error(
        Span(line, column, line, column + 1),
        f"half of a surrogate pair (U+{ord(source.text[at]):04X}), which is no character",
        "Unicode text",
        "write the whole character, or leave it out",
    )


def _tree(source: Source, start: str) -> Branch:
    # Step by step, because only this form can be stopped in time, and can say what the parser would have accepted.
    steps = _lark().parse_interactive(source.text, start=start)
    last: Token | None = None
    try:
        for n_tokens, last in enumerate(steps.iter_parse(), start=1):
            if n_tokens > MAX_TOKENS:
                raise source.syntax_error(
                    last, f"a text of more than {MAX_TOKENS} words and symbols", remedy="write several queries"
                )
            if len(steps.parser_state.state_stack) > MAX_STACK:
                raise _too_deep(last, source)
        tree: Branch = steps.feed_eof(last)  # type: ignore[no-untyped-call] # Lark's
    except UnexpectedInput as error:
        possible: set[str] = steps.accepts()  # type: ignore[no-untyped-call] # Lark's
        raise explain_syntax_error(error, possible, source) from None
    return tree


@cache
def _lark() -> Lark:
    grammar = resources.files("engine.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(
        grammar,
        parser="lalr",
        start=["start", "expression"],
        propagate_positions=True,
        g_regex_flags=re.ASCII,  # without it, letters of other scripts match the keywords' letters
        maybe_placeholders=False,
    )


def _check_depth(tree: Branch, source: Source) -> None:
    pending: list[tuple[Branch, int]] = [(tree, 1)]
    while pending:
        branch, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise _too_deep(branch, source)
        pending += [(child, depth + 1) for child in branch.children if not isinstance(child, Token)]


def _too_deep(node: Branch | Token, source: Source) -> QuerySyntaxError:
    return source.syntax_error(
        node,
        f"nested more than {MAX_DEPTH} levels deep (a chain of operators nests, too)",
        remedy="split the expression or leave out parentheses",
    )


__all__ = ["parse", "parse_expression"]
