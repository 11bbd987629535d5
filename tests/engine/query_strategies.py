"""Hypothesis strategies: random queries as text, over one schema.

The values are chosen so that doubles are exact (small integers, halves) and equal ones are frequent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from engine.events import AttributeType, EventSchema
from tests.engine.pattern_strategies import KEYED_TYPES, Part, PatternScope, patterns

_INT, _FLOAT, _STRING = AttributeType.INT, AttributeType.FLOAT, AttributeType.STRING
_KEYED = {"k": _STRING, "j": _INT, "x": _INT, "y": _FLOAT, "s": _STRING}

SCHEMA = EventSchema.of(
    {
        "A": _KEYED,
        "B": _KEYED,
        "C": _KEYED,
        "N": _KEYED,
        "L": {"x": _INT, "y": _FLOAT, "s": _STRING},  # without a key: broadcast
        "P": {"k": _STRING, "x": _INT, "y": _FLOAT, "s": _STRING},  # with the first key attribute only
    }
)

ANY = "skip_till_any_match"
NEXT = "skip_till_next_match"
PARTITION = "partition_contiguity"
STRICT = "strict_contiguity"

_COMPARE = st.sampled_from(["=", "!=", "!=", "<", "<=", "<=", ">", ">=", ">="])
_NUMBER = st.integers(-3, 4)
HALVES = st.integers(-4, 6).map(lambda n: n / 2)
_AGGREGATE = st.sampled_from(["min", "max", "sum", "avg", "count", "first", "last"])


@dataclass(frozen=True)
class QueryScope(PatternScope):
    """What queries to draw. Fields name the constructs and clauses that may occur."""

    strategies: tuple[str, ...] = (ANY, NEXT, PARTITION, STRICT)
    outputs: tuple[str, ...] = ("ALL",)
    within_events: bool = False
    slide: bool = False
    open_on: bool = False
    selection: bool = False
    confidence: bool = False
    ties: bool = True
    returns: bool = True
    having: bool = False
    limit: bool = False


EVERYTHING = QueryScope(
    outputs=("ALL", "SETS", "COLLAPSED", "COUNT", "NON_OVERLAPPING", "TOP 2 BY CONFIDENCE"),
    unions=True,
    groups=True,
    conjunctions=True,
    any_of=True,
    negated_patterns=True,
    n_negated=(0, 0, 0, 0, 1, 2),
    within_events=True,
    slide=True,
    open_on=True,
    selection=True,
    partial_keys=True,
    confidence=True,
    having=True,
    limit=True,
)


@st.composite
def queries(draw: st.DrawFn, scope: QueryScope = EVERYTHING) -> str:
    """The text of a query over SCHEMA that resolves."""
    strategy = draw(st.sampled_from(scope.strategies))
    pattern, parts = draw(patterns(scope))
    conjuncts = draw(st.lists(_conjuncts(parts), max_size=draw(st.sampled_from([0, 0, 1, 1, 1, 2, 3])))) + draw(
        _equivalences(parts, scope)
    )
    where = f"WHERE {strategy}" + (f" {{ {' AND '.join(conjuncts)} }}" if conjuncts else "")
    output = draw(st.sampled_from(scope.outputs))
    clauses = [f"PATTERN {pattern}", where, draw(_windows(scope))]
    if output != "ALL":
        clauses.append(f"OUTPUT {output}")
    if scope.ties and draw(st.integers(0, 3)) == 0:
        clauses.append("TIES STRICT")
    if scope.confidence and draw(st.booleans()):
        clauses.append(f"CONFIDENCE >= {draw(st.sampled_from(_THRESHOLDS))}")
    if scope.limit and not output.startswith("TOP") and draw(st.booleans()):
        clauses.append(f"LIMIT {draw(st.integers(1, 4))}")
    bound = [part for part in parts if part.negation is None]
    clauses += draw(_selections(bound)) if scope.selection else []
    if scope.returns and output not in ("COLLAPSED", "COUNT") and draw(st.booleans()):
        clauses.append(f"RETURN {draw(_values(bound))} AS r1, {draw(_values(bound))} AS r2")
    if scope.having and output not in ("COLLAPSED", "COUNT") and draw(st.integers(0, 3)) == 0:
        clauses.append(f"HAVING {draw(_values(bound))} {draw(_COMPARE)} {draw(_NUMBER)}")
    return "\n".join(clauses)


def _windows(scope: QueryScope) -> st.SearchStrategy[str]:
    by_time = st.sampled_from([0, 3, 5, 6, 8, 10, 12, 12, 15, 15, 20, 20]).map("WITHIN {} ms".format)
    by_count = st.integers(1, 8).map("WITHIN {} EVENTS".format)
    plain = [by_time, by_time] + ([by_count] if scope.within_events else [])
    own = []
    if scope.slide:
        steps = st.sampled_from([1, 2, 3, 5, 7, 12]).map(" SLIDE {} ms".format)
        own.append(st.tuples(by_time, steps).map("".join))
    if scope.open_on:
        lengths = st.one_of(plain)
        openers = st.sampled_from(
            ["type = 'A'", "type IN ('L', 'N')", "x > 1", "type = 'B' AND NOT s = 'ok'", "k = 'p'"]
        )
        own.append(st.tuples(lengths, openers).map(" OPEN ON ".join))
    return st.one_of([*plain, *own])


# Some that confidences are equal to, and just above and below these.
_THRESHOLDS = [
    "0.1",
    "0.5",
    "0.95",
    "0",
    "1",
    "0.25",
    "0.75",
    *(f"{n / 8 + d:.12f}" for n in (2, 4, 6) for d in (4e-10, -4e-10)),
]


@st.composite
def _selections(draw: st.DrawFn, bound: Sequence[Part]) -> list[str]:
    clauses = ["SELECT FIRST"] if draw(st.integers(0, 3)) == 0 else []
    if draw(st.integers(0, 3)) == 0:
        consumed = draw(
            st.lists(st.sampled_from([part.variable for part in bound]), min_size=1, max_size=2, unique=True)
        )
        clauses.append(f"CONSUME {', '.join(consumed)}")
    return clauses


@st.composite
def _equivalences(draw: st.DrawFn, parts: Sequence[Part], scope: QueryScope) -> list[str]:
    found = []
    types = {part.event_type for part in parts if part.negation is None}  # a match itself has a key
    if types & {*KEYED_TYPES, "N", "P"} and draw(st.booleans()):
        found.append("[k]")
        if types & {*KEYED_TYPES, "N"} and (scope.partial_keys or "P" not in types) and draw(st.booleans()):
            found.append("[j]")
    lists = [part for part in parts if part.is_many and part.negation is None]
    if lists and draw(st.integers(0, 5)) == 0:
        found.append(f"[{draw(st.sampled_from(lists)).variable}.x]")
    return found


def _may_meet(one: Part, other: Part) -> bool:
    """Whether a conjunct may name both: parts of two negations have nothing to do with each other."""
    return one is not other and (one.negation is None or other.negation is None or one.negation == other.negation)


def _shares_iterations(one: Part, other: Part) -> bool:
    """Whether plain references to both mean one iteration: the groups of one are around the other."""
    n_shared = min(len(one.path), len(other.path))
    return one.path[:n_shared] == other.path[:n_shared]


@st.composite
def _conjuncts(draw: st.DrawFn, parts: Sequence[Part]) -> str:
    """A predicate on one part, or on two of them."""
    # Lists have most forms of predicates, so they come up more often.
    part = draw(st.sampled_from([*parts, *(part for part in parts if part.is_many for _ in range(2))]))
    others = [other for other in parts if _may_meet(part, other)]
    as_list = part.closure or (part.is_many and draw(st.booleans()))
    singles = [other.variable for other in others if not other.closure and (as_list or _shares_iterations(part, other))]
    lists = [other.variable for other in others if other.is_many]
    own = _LIST if as_list else _SINGLE
    kinds = [own] * (2 if as_list else 4)
    if singles:
        kinds.append(_LIST_AND_SINGLE if as_list else _TWO_SINGLES)
    if lists:
        kinds.append(_TWO_LISTS if as_list else _SINGLE_AND_LIST)
    template = draw(st.sampled_from(draw(st.sampled_from(kinds))))
    return template.format(
        v=part.variable,
        w=draw(st.sampled_from(singles)) if singles else "",
        u=draw(st.sampled_from(lists)) if lists else "",
        op=draw(_COMPARE),
        n=draw(_NUMBER),
        h=draw(HALVES),
        f=draw(_AGGREGATE),
    )


_SINGLE = (
    "{v}.x {op} {n}",
    "{v}.y {op} {h}",
    "{v}.s = 'ok'",
    "{v}.s IN ('bad', 'ok')",
    "{v}.s NOT IN ('ok')",
    "{v}.x % 2 = 1",
    "{v}.timestamp >= 4",
    "NOT {v}.x {op} {n}",
    "NOT {v}.y = {h}",
    "({v}.x {op} {n} OR {v}.y < {h})",
    "{v}.x / 2 {op} {h}",
    "{v}.y {op} {v}.x / 2",
    "({v}.x % 2 = 0 OR NOT {v}.y {op} {h})",
    "-{v}.x * 2 {op} {n}",
    "({v}.x < {n} OR {v}.s = 'ok' AND {v}.y > {h})",
)
_TWO_SINGLES = (
    "{v}.x {op} {w}.x",
    "{v}.x + {w}.x {op} {n}",
    "{v}.s != {w}.s",
    "{v}.timestamp - {w}.timestamp <= 6",
    "{v}.timestamp < {w}.timestamp + 4",
    "({v}.x > {w}.x OR {v}.y = {w}.y)",
)
_LIST = (
    "{v}[i].x {op} {n}",
    "{v}[i].x >= {v}[i-1].x",
    "{v}[i].y {op} {v}[i-1].y",
    "{v}[1].x {op} {n}",
    "{v}[i].x <= {v}[1].x + 2",
    "{v}[{v}.len].x {op} {v}[1].x",
    "{v}[{v}.len].y {op} {h}",
    "{v}[i].x {op} {f}({v}[..i-1].x)",
    "{v}[i].x > max({v}[..i-1].x)",
    "repeats({v}[..i-1].x) = 0",
    "repeats({v}[..i-1].s) {op} 1",
    "{v}[i].x <= min({v}[..i-1].x)",
    "{f}({v}[].x) {op} {n}",
    "count({v}[]) >= 2",
    "count({v}[..i-1].x) < 2",
    "stddev({v}[].x) > 0.75",
    "{h} > stddev({v}[].y)",
    "{v}[{v}.len].x > 2 * avg({v}[..{v}.len-1].x)",
    "({v}[i].s = 'ok' OR {v}[i].x {op} {n})",
    "{v}[i].x <= {v}[{v}.len].x + 1",
    "{v}[i].x {op} {f}({v}[].x)",
    "{v}[i].y <= max({v}[..{v}.len-1].y)",
    "{v}[{v}.len].x {op} {f}({v}[..{v}.len-1].x)",
    "{v}[{v}.len].x > 2 * {f}({v}[..{v}.len-1].x)",
    "{f}({v}[..{v}.len-1].y) {op} {h}",
    "{v}[{v}.len].x {op} first({v}[..{v}.len-1].x)",
    "NOT {f}({v}[..{v}.len-1].x) {op} {n}",
    "({f}({v}[..{v}.len-1].x) {op} {n} OR {v}[1].s = 'ok')",
    "count({v}[..{v}.len-1].x) {op} 1",
    "stddev({v}[..{v}.len-1].y) < 1",
    "{v}[i].x {op} {f}({v}[..{v}.len-1].x)",
    "{f}({v}[..i-1].y) - {v}[i-1].y {op} {h}",
    "count({v}[].x) {op} count({v}[])",
    "first({v}[].s) = last({v}[].s)",
    "last({v}[..{v}.len-1].s) = 'ok'",
    "sum({v}[].y) / count({v}[]) {op} {h}",
    "{v}[1].y {op} {h} AND {v}[i].y {op} {f}({v}[].y)",
)
_LIST_AND_SINGLE = (
    "{w}.y > stddev({v}[].x)",
    "{v}[i].x >= {w}.x",
    "{v}[i].x >= {w}.x - 1",
    "{v}[1].x {op} {w}.x",
    "{w}.x {op} {f}({v}[].x)",
    "{v}[{v}.len].y <= {w}.y",
    "{w}.x {op} {f}({v}[..{v}.len-1].x)",
    "{v}[i].timestamp - {w}.timestamp < 5",
)
_SINGLE_AND_LIST = (
    "{v}.x > {u}[i].x",
    "{v}.x > {u}[i].x - 2",
    "{v}.x {op} {f}({u}[].x)",
    "{v}.x {op} {u}[{u}.len].x",
    "{v}.y >= {u}[1].y",
)


_TWO_LISTS = (
    "{v}[i].x {op} {f}({u}[].x)",
    "{v}[{v}.len].x {op} {u}[1].x",
    "{v}[1].y {op} {u}[{u}.len].y",
    "count({v}[]) {op} count({u}[])",
    "sum({v}[].x) > sum({u}[].x)",
)


_VALUES_OF_LIST = (
    "{f}({v}[].x)",
    "count({v}[])",
    "{v}[1].x",
    "{v}[{v}.len].x",
    "{f}({v}[..{v}.len-1].x)",
    "{f}({v}[..{v}.len-1].y)",
    "stddev({v}[].y)",
    "count({v}[].x)",
    "{v}[1].y - {v}[{v}.len].x",
)
_VALUES_OF_SINGLE = ("{v}.x", "{v}.x * 2", "{v}.y", "{v}.timestamp", "{v}.x / 2 - {v}.y", "{v}.x % 2")


@st.composite
def _values(draw: st.DrawFn, parts: Sequence[Part]) -> str:
    part = draw(st.sampled_from(list(parts)))
    return draw(st.sampled_from(_VALUES_OF_LIST if part.is_many else _VALUES_OF_SINGLE)).format(
        v=part.variable, f=draw(_AGGREGATE)
    )


__all__ = [
    "ANY",
    "EVERYTHING",
    "HALVES",
    "NEXT",
    "PARTITION",
    "SCHEMA",
    "STRICT",
    "QueryScope",
    "queries",
]
