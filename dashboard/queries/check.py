"""Whether a text is a query, with the engine's words and place when it is not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import engine
from app.event_columns import parse_number
from app.queries.loading import MAX_QUERY_BYTES, parameter_values
from collectors.schema import load_event_types
from dashboard.components.query_editor import ShownProblem
from engine.errors import EngineError, QueryError

NO_NAME, NAME_OF_OWN = "query", "my-query"
"""What a text is called that no file has, and what its file should be called."""

Values = Mapping[str, int | float | str]


@dataclass(frozen=True)
class OtherQueries:
    """Queries whose matches others may use: texts and values of parameters by name."""

    texts: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Values] = field(default_factory=dict)

    def chosen(self, names: Collection[str]) -> OtherQueries:
        """Those of these names."""
        return OtherQueries(
            {name: text for name, text in self.texts.items() if name in names},
            {name: values for name, values in self.parameters.items() if name in names},
        )


NO_OTHERS = OtherQueries()


@dataclass(frozen=True)
class Checked:
    """`compiled` of a valid text, or the `problem`; `parameters` as they were read; `used`: what it needs to run."""

    compiled: engine.CompiledQuery | None
    problem: ShownProblem | None
    parameters: Values
    used: OtherQueries = NO_OTHERS


def check_query(
    text: str, written: Mapping[str, str], name: str = NO_NAME, others: OtherQueries = NO_OTHERS
) -> Checked:
    """Parse, type, plan; and make the runtime, which refuses what only the oracle evaluates.

    `written`: values of parameters as typed, "" for the default; durations may have a unit. `others`: queries whose
    matches it may use. Never raises for a text.
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
        texts, parameters = {**others.texts, name: text}, {**others.parameters, name: values}
        queries = engine.compile_queries(texts, load_event_types(), parameters, only=[name])
        engine.Engine(queries, load_event_types())
    except QueryError as error:
        return Checked(None, shown_problem(error) if error.name in (name, None) else _of_another(error), values)
    except (EngineError, RecursionError) as error:
        return Checked(None, ShownProblem(str(error) or "the text is nested too deeply"), values)
    return Checked(queries[-1], None, values, others.chosen({query.name for query in queries[:-1]}))


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


def _of_another(error: QueryError) -> ShownProblem:
    """A refusal of a query that this one uses: its place is not in this text."""
    told = f"it uses the matches of {error.name}, which is refused: {error.message}"
    return ShownProblem(told, expected=error.expected, remedy=error.remedy)


def _typed(text: str) -> int | float | str:
    return parse_number(text.strip())


__all__ = ["NAME_OF_OWN", "NO_NAME", "NO_OTHERS", "Checked", "OtherQueries", "check_query", "shown_problem"]
