"""Lark's errors in the words of somebody who writes queries."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from engine.errors import QuerySyntaxError, Span
from engine.language.ast import Strategy
from engine.language.source import Source, did_you_mean, shown, span_of

CLAUSES = frozenset(
    {
        "PATTERN",
        "WHERE",
        "WITHIN",
        "OUTPUT",
        "LIMIT",
        "CONFIDENCE",
        "HAVING",
        "TIES",
        "RETURN",
        "PARAMETERS",
        "ALERT",
        "REPORT",
        "INCIDENT",
        "GROUP_GAP",
        "SLIDE",
        "OPEN",
        "CERTAIN_ABOVE",
        "SELECT",
        "CONSUME",
        "WEIGHT",
        "SHOW",
        "HOSTS",
        "ONSET",
        "GROUP_BY",
        "EXACT",
    }
)

_WORDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string in single quotes",
    "UNIT": "a unit (ms, s, minutes, hours, days)",
    "COMPARE": "a comparison (= != < <= > >=)",
    "STRATEGY": "a strategy",
    "OUTPUT_FORM": "ALL, SETS, COLLAPSED, COUNT, NON_OVERLAPPING",
    "TIES_FORM": "STRICT, SOURCE",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "LBRACE": "{",
    "RBRACE": "}",
    "COMMA": ",",
    "COLON": ":",
    "DOT": ".",
    "DOTS": "..",
    "PLUS": "+",
    "MINUS": "-",
    "STAR": "*",
    "SLASH": "/",
    "PERCENT": "%",
    "BANG": "!",
    "TILDE": "~",
    "QMARK": "?",
    "$END": "the end of the query",
}
_OPERATORS = frozenset({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "COMPARE", "IN", "TIMES"})
_STRATEGIES = [strategy.value for strategy in Strategy]
_WORD = re.compile(r"[A-Za-z0-9_]+|.", re.DOTALL)
_AFTER_WHERE = re.compile(r"\bWHERE\s+([A-Za-z]+(?:[-_][A-Za-z]+)*)[ \t\r\n]*", re.IGNORECASE)


def explain_syntax_error(error: UnexpectedInput, possible: Iterable[str], source: Source) -> QuerySyntaxError:
    """The error with its place, what was found, what could stand there and, for known slips, the remedy.

    `possible` are the grammar's terminals that the parser would have accepted at the place.
    """
    span, word = _found(error, source)
    names = frozenset(name.removeprefix("_") for name in possible)
    message = f"found {shown(word)!r}" if word else "the query ends here"
    return source.syntax_error(span, message, _expected(names), _remedy(word, names))


def unknown_strategy(error: QuerySyntaxError, source: Source) -> QuerySyntaxError:
    """A better error when a word after WHERE that looks like a strategy was read as a predicate; else `error`."""
    if error.span is None:
        return error
    lines = source.text.split("\n")
    at = sum(len(line) + 1 for line in lines[: error.span.line - 1]) + error.span.column - 1
    for written in _AFTER_WHERE.finditer(source.text, 0, min(len(source.text), at + 200)):
        word = written[1]
        remedy = did_you_mean(word.replace("-", "_"), _STRATEGIES)
        if written.start(1) <= at <= written.end() and remedy is not None and "_" in word.replace("-", "_"):
            line = source.text.count("\n", 0, written.start(1))
            column = written.start(1) - (source.text.rfind("\n", 0, written.start(1)) + 1) + 1
            span = Span(line + 1, column, line + 1, column + len(word))
            return source.syntax_error(span, f"no strategy is called {word}", ", ".join(_STRATEGIES), remedy)
    return error


def _found(error: UnexpectedInput, source: Source) -> tuple[Span, str]:
    """The place and the word there; the end of the text and "" when nothing is left."""
    if isinstance(error, UnexpectedCharacters):
        found = _WORD.match(source.text, error.pos_in_stream or 0)
        word = found[0] if found else ""
        return Span(error.line, error.column, error.line, error.column + max(1, len(word))), word
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        span = span_of(error.token)
        assert span is not None  # only the end has no place
        return span, str(error.token)
    lines = source.text.rstrip().split("\n")
    return Span(len(lines), len(lines[-1]) + 1, len(lines), len(lines[-1]) + 2), ""


def _expected(possible: frozenset[str]) -> str | None:
    words = [text for name, text in _WORDS.items() if name in possible - _OPERATORS]
    if possible & _OPERATORS:
        words.append(_WORDS["COMPARE"] if possible & _OPERATORS == {"COMPARE"} else "an operator")
    words += sorted(possible - set(_WORDS) - _OPERATORS - CLAUSES)
    clauses = sorted(possible & CLAUSES)
    words += clauses if len(clauses) == 1 else ["a clause (PATTERN, WHERE, WITHIN, RETURN, ...)"] if clauses else []
    return " or ".join(words) or None


def _remedy(word: str, possible: frozenset[str]) -> str | None:
    if word in _SLIPS:
        return _SLIPS[word]
    if not re.fullmatch(r"[A-Za-z_]\w*", word):
        return None
    if word.upper() in CLAUSES | _RESERVED and word.upper() not in possible:
        is_name = "NAME" in possible or possible <= {"COMMA", "RPAR"}
        return f"{word} is a word of the language; choose another name" if is_name else None
    return did_you_mean(word, possible & CLAUSES)


_RESERVED = frozenset({"AND", "OR", "NOT", "IN", "NULL", "AS", "SEQ", "ANY"})
_SLIPS = {
    '"': "strings stand in single quotes: 'text'",
    "'": "close the string with a single quote; a quote inside is doubled: 'it''s'",
    "`": "names are written without quotes",
    "&": "write AND",
    "|": "write OR",
    ";": "one query per file, without a semicolon",
    "^": "write AND for a conjunction; there is no power operator",
    "#": "comments start with -- or //",
}
