"""Hypothesis strategies of the search: cases of one query, of several in one engine, of queries on queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from engine.language import ast
from engine.language.parser import parse
from engine.language.printer import print_query
from engine.language.resolver import resolve
from tests.conformance.ways import Setting
from tests.engine.strategies import (
    ANY,
    EVERYTHING,
    IMPRECISE,
    MIXED,
    NEXT,
    PARTITION,
    PRECISE,
    SCHEMA,
    SKEWED,
    STRICT,
    WEIGHTED,
    QueryScope,
    StreamScope,
    deliveries,
    queries,
    streams_for,
)
from tests.fuzz.case import FuzzCase, of_parts
from tests.fuzz.trees import replaced

FORMS = ("ALL", "SETS", "COLLAPSED", "COUNT", "NON_OVERLAPPING", "TOP 1 BY CONFIDENCE", "TOP 3 BY CONFIDENCE")


@dataclass(frozen=True)
class Field:
    """A part of what can be drawn, and how: `n_queries` in one engine; `is_cascade`: the last reads the first."""

    query: QueryScope
    stream: StreamScope
    n_queries: int = 1
    is_cascade: bool = False


_PLAIN = QueryScope(negation=False, having=True, limit=True, returns=True)
_ALL = replace(EVERYTHING, outputs=FORMS)
_OF_MATCHES = ("ALL", "SETS", "NON_OVERLAPPING", "TOP 1 BY CONFIDENCE")
_CERTAIN = replace(PRECISE, max_events=9)
_LONG = replace(PRECISE, max_events=40, horizon_ms=60)
_SURE = replace(MIXED, max_events=6, width_ms=4, horizon_ms=9)


def _any(scope: QueryScope) -> QueryScope:
    """As imprecise events need it."""
    return replace(scope, strategies=(ANY,), within_events=False, confidence=True)


FIELDS: Mapping[str, Field] = {
    "plain": Field(_PLAIN, _CERTAIN),
    "several negations, imprecise": Field(
        _any(replace(_PLAIN, negation=True, n_negated=(1, 2, 2, 3), outputs=("ALL", "SETS", "COUNT"))), _SURE
    ),
    "lists of one event": Field(
        replace(_PLAIN, n_components=(1, 2), outputs=("ALL", "ALL", "COUNT", "COLLAPSED", "SETS")),
        replace(_CERTAIN, max_events=4),
    ),
    "negated patterns, imprecise": Field(
        _any(replace(_PLAIN, n_components=(1, 2), negation=False, negated_patterns=True, n_negated=(1, 1, 2))), _SURE
    ),
    "output": Field(replace(_PLAIN, negation=True, outputs=FORMS), _CERTAIN),
    "everything": Field(_ALL, replace(PRECISE, max_events=10)),
    "several negations": Field(replace(_PLAIN, negation=True, n_negated=(1, 2, 3)), _CERTAIN),
    "everything, imprecise": Field(_any(_ALL), IMPRECISE),
    "windows": Field(
        replace(_PLAIN, negation=True, within_events=True, slide=True, open_on=True, outputs=FORMS), _CERTAIN
    ),
    "groups": Field(replace(_PLAIN, groups=True, negation=True), _CERTAIN),
    "wild numbers": Field(replace(_PLAIN, n_components=(1, 3)), replace(_CERTAIN, wild=True)),
    "conjunctions": Field(replace(_PLAIN, conjunctions=True, negation=True, any_of=True), _CERTAIN),
    "output, imprecise": Field(_any(replace(_PLAIN, negation=True, outputs=FORMS)), MIXED),
    "unions": Field(replace(_PLAIN, unions=True, negation=True, outputs=FORMS), _CERTAIN),
    "nested, imprecise": Field(
        _any(replace(_PLAIN, groups=True, conjunctions=True, unions=True, negation=True, negated_patterns=True)), _SURE
    ),
    "together": Field(replace(_ALL, n_components=(1, 3)), _CERTAIN, n_queries=3),
    "selection": Field(replace(_PLAIN, selection=True, negation=True, outputs=FORMS), _CERTAIN),
    "queries on queries": Field(
        replace(_ALL, n_components=(1, 2), outputs=_OF_MATCHES), _CERTAIN, n_queries=2, is_cascade=True
    ),
    "queries on queries, imprecise": Field(
        _any(replace(_PLAIN, n_components=(1, 2), negation=True)), MIXED, n_queries=2, is_cascade=True
    ),
    "partly keyed": Field(replace(_PLAIN, partial_keys=True, negation=True, outputs=FORMS), _CERTAIN),
    "windows of events, partly keyed": Field(
        replace(_PLAIN, n_components=(1, 3), groups=True, unions=True, partial_keys=True, within_events=True), _CERTAIN
    ),
    "pairs, imprecise": Field(_any(replace(_PLAIN, n_components=(1, 2), outputs=("COUNT", "COLLAPSED"))), MIXED),
    "weighted": Field(_any(replace(_PLAIN, negation=True, n_negated=(0, 1), outputs=FORMS)), WEIGHTED),
    "skewed": Field(_any(replace(_PLAIN, negation=True, outputs=FORMS)), SKEWED),
    "long streams": Field(replace(_ALL, n_components=(1, 3)), _LONG),
    "next match": Field(replace(_ALL, strategies=(NEXT,)), replace(PRECISE, max_events=14)),
    "at one time": Field(replace(_ALL, n_components=(1, 2), limit=True), replace(PRECISE, max_events=14, horizon_ms=3)),
    "contiguity": Field(replace(_ALL, strategies=(PARTITION, STRICT)), replace(PRECISE, max_events=14)),
}
"""What one round after the other draws from."""


@st.composite
def fuzz_cases(draw: st.DrawFn, field: Field) -> FuzzCase:
    """A case of a field."""
    texts = {f"q{n}": draw(queries(field.query)) for n in range(1, field.n_queries + 1)}
    if field.is_cascade:
        texts = {
            "q1": _telling(draw(queries(replace(field.query, outputs=("ALL",), returns=False, limit=False)))),
            "q2": _reading(texts["q2"], "q1", draw(st.sampled_from([None, 0.0, 0.3, 0.999]))),
        }
    parameters: dict[str, dict[str, int | float | str]] = {}
    if draw(st.integers(0, 5)) == 0:
        name = draw(st.sampled_from(sorted(texts)))
        texts[name], parameters[name] = draw(_with_parameter(texts[name]))
    stream = draw(streams_for(list(texts.values()), field.stream))
    parts = draw(deliveries(stream, 5))
    restarts = draw(st.frozensets(st.integers(0, len(parts) - 1))) if draw(st.booleans()) else frozenset()
    return of_parts(Setting(texts, parameters), parts, restarts)


def _telling(text: str) -> str:
    """The query with RETURN values that have the names and the types of attributes of events."""
    resolved = resolve(parse(text), SCHEMA, text=text)
    name, variable = next((name, v) for name, v in resolved.variables.items() if not v.negated)
    event = f"{name}[1]" if variable.kleene else name
    return f"{text}\nRETURN {event}.x AS x, {event}.y AS y, {event}.s AS s"


def _reading(text: str, producer: str, least: float | None) -> str:
    """The query with the matches of another for its first component that must have an event."""
    query = parse(text)
    first = next(component for component, negated in ast.components(query.pattern) if not negated)
    pattern = replaced(query.pattern, first, replace(first, event_type=producer))
    return print_query(replace(query, pattern=pattern, certain_above=least))


@st.composite
def _with_parameter(draw: st.DrawFn, text: str) -> tuple[str, dict[str, int | float | str]]:
    """The query with a parameter in place of a number, which has a default or is given, or both."""
    query = parse(text)
    literals = [node for p in query.predicates for node in ast.walk(p) if isinstance(node, ast.Literal)]
    numbers = [(node, node.value) for node in literals if isinstance(node.value, int | float)]
    if not numbers:
        return text, {}
    chosen, value = draw(st.sampled_from(numbers))
    has_default = draw(st.booleans())
    given: dict[str, int | float | str] = {} if has_default and draw(st.booleans()) else {"limit_of": value}
    general = replace(
        query,
        predicates=tuple(replaced(p, chosen, ast.Parameter("limit_of")) for p in query.predicates),
        parameters=(ast.Default("limit_of", value if not given else 7),) if has_default else (),
    )
    return print_query(general), given


__all__ = ["FIELDS", "Field", "fuzz_cases"]
