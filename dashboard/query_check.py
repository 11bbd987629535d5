"""Whether a text is a query, with the engine's words and place when it is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import engine
from app.event_columns import parse_number
from app.queries import MAX_QUERY_BYTES, parameter_values
from collectors.schema import load_event_types
from dashboard.editor_component import ShownProblem
from engine.errors import EngineError, QueryError

Values = Mapping[str, int | float | str]


@dataclass(frozen=True)
class Checked:
    """`compiled` of a valid text, or the `problem`; `parameters` as they were read."""

    compiled: engine.CompiledQuery | None
    problem: ShownProblem | None
    parameters: Values


def check_query(text: str, written: Mapping[str, str], name: str = "query") -> Checked:
    """Parse, type, plan; and make the runtime, which refuses what only the oracle evaluates.

    `written`: values of parameters as typed, "" for the default; durations may have a unit. Never raises for a text.
    """
    n_bytes = len(text.encode("utf-8", "replace"))
    if n_bytes > MAX_QUERY_BYTES:
        told = f"the text has {n_bytes:,} bytes"
        return Checked(None, ShownProblem(told, expected=f"at most {MAX_QUERY_BYTES:,} bytes"), {})
    try:
        values = parameter_values(text, {key: _typed(value) for key, value in written.items() if value.strip()}, name)
    except QueryError as error:
        return Checked(None, shown_problem(error), {})
    except ValueError as error:
        message, _, expected = str(error).removeprefix(f"queries.parameters.{name}.").partition("; expected ")
        return Checked(None, ShownProblem(f"parameter {message}", expected=expected or None), {})
    try:
        compiled = engine.compile_query(text, load_event_types(), values, name=name)
        engine.Engine([compiled], load_event_types())
    except QueryError as error:
        return Checked(None, shown_problem(error), values)
    except (EngineError, RecursionError) as error:
        return Checked(None, ShownProblem(str(error) or "the text is nested too deeply"), values)
    return Checked(compiled, None, values)


def shown_problem(error: QueryError) -> ShownProblem:
    """The engine's refusal, part by part."""
    excerpt = tuple(line[4:] for line in str(error).split("\n")[1:3] if line.startswith("  | "))
    span = error.span
    if span is None:
        return ShownProblem(error.message, expected=error.expected, remedy=error.remedy)
    return ShownProblem(
        error.message,
        line=span.line,
        column=span.column,
        end_line=span.end_line,
        end_column=span.end_column,
        excerpt=excerpt,
        expected=error.expected,
        remedy=error.remedy,
    )


def _typed(text: str) -> int | float | str:
    return parse_number(text.strip())


__all__ = ["Checked", "check_query", "shown_problem"]
