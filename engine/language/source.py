"""A query text under construction: places, limits and errors that carry them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass

from lark import Token, Tree

from engine.errors import QuerySyntaxError, Span, UnsupportedQueryError
from engine.events import MAX_EXACT_INT

Branch = Tree[Token]

MAX_QUERY_CHARS = 100_000
"""A longer text is refused unread: no query is that long."""

MAX_DEPTH = 100
"""Levels of nesting, also of a chain such as `a + b + c`, which nests to the left. Keeps walks over a tree safe."""

MAX_TOKENS = 10_000
"""Words and symbols of a text: what is refused is refused within half a second."""

MAX_STACK = 6 * MAX_DEPTH
"""Entries of the parser's stack, of which each level of nesting needs up to six; a deeper text is not read on."""

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNITS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """`did you mean x?` for the closest of `known`, None when none is close; case is ignored."""
    by_folded = {name.casefold(): name for name in sorted(known)}
    close = difflib.get_close_matches(word[:100].casefold(), by_folded, n=1, cutoff=0.6)
    return f"did you mean {by_folded[close[0]]}?" if close else None


def listed(names: Iterable[str], limit: int = 400) -> str:
    """The names, joined by commas; their first ones when they are too many for a message."""
    known = list(names)
    text = ", ".join(known)
    return text if len(text) <= limit else ", ".join(known[:10]) + f" and {len(known) - 10} more"


def shown(text: str, limit: int = 40) -> str:
    """Text of the query as a message may print it: one line, short, without control characters."""
    short = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(c if c.isprintable() else "?" for c in short)


def span_of(node: Branch | Token) -> Span | None:
    """The place of a tree or token; None for an empty tree."""
    if isinstance(node, Token):
        if node.line is None or node.column is None:
            return None
        return Span(node.line, node.column, node.end_line or node.line, node.end_column or node.column + 1)
    meta = node.meta
    return None if meta.empty else Span(meta.line, meta.column, meta.end_line, meta.end_column)


@dataclass(frozen=True)
class Source:
    """The text being parsed and its name, for errors.

    `one_event`: the expression is one of OPEN ON, where a name alone is an attribute of the event at hand.
    `aggregates_trends`: the query is about trends. `one_group`: the expression is one of their RETURN or HAVING, where
    a name alone is an attribute of GROUP BY.
    """

    text: str
    name: str
    one_event: bool = False
    aggregates_trends: bool = False
    one_group: bool = False

    def syntax_error(
        self, node: Branch | Token | Span | None, message: str, expected: str | None = None, remedy: str | None = None
    ) -> QuerySyntaxError:
        """The error at `node`."""
        span = node if isinstance(node, Span) or node is None else span_of(node)
        return QuerySyntaxError(message, span, expected, remedy, self.text, self.name)

    def unsupported(self, node: Branch | Token, message: str, remedy: str) -> UnsupportedQueryError:
        """The refusal of something that the language has and this version does not evaluate."""
        return UnsupportedQueryError(message, span_of(node), None, remedy, self.text, self.name)

    def number(self, token: Token) -> int | float:
        """The value of a NUMBER; refuses what a double cannot hold exactly (integers) or at all."""
        if len(token) > 400:
            raise self.syntax_error(token, f"a number of {len(token)} characters", "at most 400 characters")
        if token.isdigit():
            value = int(token)
            if value > MAX_EXACT_INT:
                raise self.syntax_error(
                    token,
                    f"the integer {shown(token)} is beyond 2^53 and would not be compared exactly",
                    remedy="write it as a real number (with a decimal point) if that is meant",
                )
            return value
        real = float(token)
        if not math.isfinite(real):
            raise self.syntax_error(token, f"the number {shown(token)} is beyond the range of doubles")
        return real

    def integer(self, token: Token, what: str, at_least: int) -> int:
        """The value of a NUMBER that must be whole."""
        value = self.number(token)
        if not isinstance(value, int) or value < at_least:
            raise self.syntax_error(token, f"found {shown(token)}", f"{what}: a whole number, at least {at_least}")
        return value

    def duration_ms(self, node: Branch) -> int:
        """Milliseconds of a NUMBER and an optional unit; a bare number is milliseconds."""
        number, *unit = [child for child in node.children if isinstance(child, Token)]
        value = self.number(number) * (_UNIT_MS[_UNITS[unit[0].lower()]] if unit else 1)
        if value > MAX_EXACT_INT:
            raise self.syntax_error(node, "a duration of more than 2^53 milliseconds")
        whole = round(value)
        if abs(whole - value) > 1e-6:
            raise self.syntax_error(node, f"{value} ms is no whole number of milliseconds", "whole milliseconds")
        return whole


def duration_text(duration_ms: int) -> str:
    """A duration in its largest whole unit, as the language writes it."""
    names = {"d": "day", "h": "hour", "m": "minute", "s": "second"}
    for unit in ("d", "h", "m", "s"):
        n_units, rest = divmod(duration_ms, _UNIT_MS[unit])
        if n_units and not rest:
            return f"{n_units} {names[unit]}" + ("" if n_units == 1 else "s")
    return f"{duration_ms} ms"
