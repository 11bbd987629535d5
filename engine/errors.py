"""Errors of the engine: one hierarchy; language errors carry the place, a caret, what was expected and the remedy."""

from __future__ import annotations

from dataclasses import dataclass, field


class EngineError(Exception):
    """Anything the engine refuses."""


class EventError(EngineError):
    """An event or a batch that cannot enter: says which event, what was found, what was expected."""


class StateError(EngineError):
    """A saved state that cannot be restored (another schema version, another query, a damaged file)."""


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a query text: lines and columns count from 1, `end_column` is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass
class QueryError(EngineError):
    """A query that cannot be accepted.

    `message` says what is wrong, `expected` what would have been right, `remedy` what to do; `span` is None only for
    errors that belong to no place (an empty text).
    """

    message: str
    span: Span | None = None
    expected: str | None = None
    remedy: str | None = None
    text: str | None = field(default=None, repr=False)
    name: str = "query"

    def __str__(self) -> str:
        place = f"{self.name}:{self.span.line}:{self.span.column}" if self.span else self.name
        lines = [_on_one_line(f"{place}: {self.message}")]
        if self.span and self.text is not None:
            lines += self._excerpt(self.span, self.text)
        if self.expected:
            lines.append(f"  expected: {_on_one_line(self.expected)}")
        if self.remedy:
            lines.append(f"  remedy: {_on_one_line(self.remedy)}")
        return "\n".join(lines)

    @staticmethod
    def _excerpt(span: Span, text: str, width: int = 110) -> list[str]:
        source = text.split("\n")  # the lines that spans count; splitlines() also splits at other characters
        if not 1 <= span.line <= len(source):
            return []
        line = _on_one_line(source[span.line - 1], " ")
        start = max(0, span.column - 1 - width // 2) if len(line) > width else 0
        shown = line[start : start + width]
        last = span.end_column if span.end_line == span.line else len(line) + 1
        caret_at = span.column - 1 - start
        n_carets = max(1, min(last - span.column, len(shown) - caret_at))
        return [f"  | {shown}", f"  | {' ' * caret_at}{'^' * n_carets}"]


def _on_one_line(text: str, instead: str = "?") -> str:
    """Text of a query or a file name as a terminal may print it: without control characters."""
    return "".join(c if c.isprintable() else instead for c in text)


class QuerySyntaxError(QueryError):
    """The text is not of the language."""


class QueryTypeError(QueryError):
    """An unknown type, attribute, variable or parameter, or an operation that its operands do not have."""


class UnsupportedQueryError(QueryError):
    """A valid query that this runtime refuses; the remedy names one that evaluates it."""


__all__ = [
    "EngineError",
    "EventError",
    "QueryError",
    "QuerySyntaxError",
    "QueryTypeError",
    "Span",
    "StateError",
    "UnsupportedQueryError",
]
