"""Lark's errors in the words of somebody who writes queries."""

from __future__ import annotations

import re

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from engine.errors import QuerySyntaxError, Span
from engine.language.ast import Strategy
from engine.language.source import Source, did_you_mean, shown

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
        "GROUP_GAP",
    }
)
_REFUSED_CLAUSES = frozenset({"GROUP_BY", "SLIDE", "EXACT", "OPEN", "SELECT", "CONSUME", "WEIGHT"})

_WORDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string in single quotes",
    "UNIT": "a unit (ms, s, minutes, hours, days)",
    "COMPARE": "a comparison (= != < <= > >=)",
    "STRATEGY": "a strategy (" + ", ".join(strategy.value for strategy in Strategy) + ")",
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
    "__ANON_0": "..",
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
_OPERATORS = frozenset({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "COMPARE", "IN"})
_STRATEGY_LIKE = re.compile(r"[A-Za-z]+([-_][A-Za-z]+)+")


def explain_syntax_error(error: UnexpectedInput, source: Source) -> QuerySyntaxError:
    """The error with its place, what was found, what could stand there and, for known slips, the remedy."""
    span = _span(error, source)
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        word, found = str(error.token), f"found {shown(str(error.token))!r}"
    elif isinstance(error, UnexpectedCharacters):
        word = _word_at(source.text, error.pos_in_stream or 0)
        found = f"found {shown(word)!r}"
    else:
        word, found = "", "the query ends here"
    possible = _possible(error)
    return QuerySyntaxError(
        found, span, _expected(possible), _remedy(word, possible, source, error), source.text, source.name
    )


def _span(error: UnexpectedInput, source: Source) -> Span:
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        token = error.token
        assert token.line is not None
        assert token.column is not None
        return Span(token.line, token.column, token.end_line or token.line, token.end_column or token.column + 1)
    if isinstance(error, UnexpectedCharacters):
        return Span(error.line, error.column, error.line, error.column + 1)
    lines = source.text.rstrip().split("\n")
    return Span(len(lines), len(lines[-1]) + 1, len(lines), len(lines[-1]) + 2)


def _word_at(text: str, position: int) -> str:
    found = re.compile(r"[A-Za-z0-9_]+|.", re.DOTALL).match(text, position)
    return found[0] if found else ""


def _possible(error: UnexpectedInput) -> frozenset[str]:
    """Terminals that could stand at the place, without the underscore of the grammar's silent ones."""
    names: set[str] = set()
    if isinstance(error, UnexpectedToken):
        names = set(error.accepts or error.expected)
    elif isinstance(error, UnexpectedCharacters):
        names = set(error.allowed or ())
    return frozenset(name if name.startswith("__") else name.removeprefix("_") for name in names)


def _expected(possible: frozenset[str]) -> str | None:
    words = [_WORDS[name] for name in _WORDS if name in possible and name not in _OPERATORS]
    if _OPERATORS & possible:
        words.append(_WORDS["COMPARE"] if possible & _OPERATORS == {"COMPARE"} else "an operator")
    keywords = possible - set(_WORDS) - _OPERATORS - CLAUSES - _REFUSED_CLAUSES - {"WHITESPACE", "COMMENT"}
    words += sorted(name for name in keywords if name.isupper() and not name.startswith("__"))
    clauses = possible & CLAUSES
    if len(clauses) == 1:
        words += clauses
    elif clauses:
        words.append("a clause (PATTERN, WHERE, WITHIN, RETURN, ...)")
    return " or ".join(words) or None


def _remedy(word: str, possible: frozenset[str], source: Source, error: UnexpectedInput) -> str | None:
    if word in _SLIPS:
        return _SLIPS[word]
    if isinstance(error, UnexpectedToken) and error.token.type == "STRATEGY":
        return "the strategy stands first after WHERE: WHERE strategy { ... } or WHERE strategy AND ..."
    if "STRATEGY" in _previous_possible(error):
        written = _STRATEGY_LIKE.match(source.text, _start_of_previous(source.text, error))
        if written:
            return did_you_mean(written[0].replace("-", "_"), [strategy.value for strategy in Strategy])
    if re.fullmatch(r"[A-Za-z_]\w*", word):
        if word.upper() in CLAUSES | _RESERVED and "NAME" in possible:
            return f"{word} is a word of the language; choose another name"
        if "WHERE" in possible:
            return did_you_mean(word, CLAUSES)
    return None


def _previous_possible(error: UnexpectedInput) -> frozenset[str]:
    """STRATEGY when the text right before the error is the first word after WHERE."""
    position = error.pos_in_stream
    history = getattr(error, "token_history", None)
    last: Token | None = history[-1] if history else None
    if position is None or last is None or last.type != "NAME":
        return frozenset()
    return frozenset({"STRATEGY"})


def _start_of_previous(text: str, error: UnexpectedInput) -> int:
    before = text[: error.pos_in_stream or 0].rstrip()
    return max(before.rfind(separator) for separator in " \t\n\r") + 1


_RESERVED = frozenset({"AND", "OR", "NOT", "IN", "NULL", "AS", "SEQ", "ANY"}) | _REFUSED_CLAUSES
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
