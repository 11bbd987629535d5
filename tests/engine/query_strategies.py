"""Hypothesis strategies: random queries as text, over one schema.

The values are chosen so that doubles are exact (small integers, halves) and equal ones are frequent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

_COMPARE = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
_NUMBER = st.integers(-3, 4)
HALVES = st.integers(-4, 6).map(lambda n: n / 2)
_AGGREGATE = st.sampled_from(["min", "max", "sum", "avg", "count", "first", "last"])
_COVERED = st.sampled_from(["{v}[]", "{v}[]", "{v}[..{v}.len-1]"])


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
    conjuncts = draw(st.lists(_conjuncts(parts), max_size=draw(st.sampled_from([0, 0, 1, 1, 2, 3])))) + draw(
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
        clauses.append(f"CONFIDENCE >= {draw(st.sampled_from(['0.1', '0.5', '0.95']))}")
    if scope.limit and not output.startswith("TOP") and draw(st.integers(0, 3)) == 0:
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
    "{v}[{v}.len].x {op} first({v}[..{v}.len-1].x)",
    "{v}[i].x {op} {f}({v}[..{v}.len-1].x)",
    "NOT {f}({v}[..{v}.len-1].x) {op} {n}",
    "stddev({v}[..{v}.len-1].x) > 0.75",
    "{v}[1].y {op} {h} AND {v}[i].y {op} {f}({v}[].y)",
)
_LIST_AND_SINGLE = (
    "{w}.y > stddev({v}[].x)",
    "{v}[i].x >= {w}.x",
    "{v}[1].x {op} {w}.x",
    "{w}.x {op} {f}({v}[].x)",
    "{v}[{v}.len].y <= {w}.y",
)
_SINGLE_AND_LIST = ("{v}.x > {u}[i].x", "{v}.x {op} {f}({u}[].x)", "{v}.x {op} {u}[{u}.len].x", "{v}.y >= {u}[1].y")


_TWO_LISTS = (
    "{v}[i].x {op} {f}({u}[].x)",
    "{v}[{v}.len].x {op} {u}[1].x",
    "{v}[1].y {op} {u}[{u}.len].y",
    "count({v}[]) {op} count({u}[])",
    "sum({v}[].x) > sum({u}[].x)",
)


@st.composite
def _values(draw: st.DrawFn, parts: Sequence[Part]) -> str:
    part = draw(st.sampled_from(list(parts)))
    many = (f"{{f}}({draw(_COVERED)}.x)", "count({v}[])", "{v}[1].x", "{v}[{v}.len].x")
    return draw(st.sampled_from(many if part.is_many else ("{v}.x", "{v}.x * 2"))).format(
        v=part.variable, f=draw(_AGGREGATE)
    )


CONSTRUCTS: dict[str, Callable[[str], bool] | str] = {
    "kleene": r"\w\+ v",
    "two kleene": r"\+ v.*\+ v",
    "trailing kleene": r"\+ v\d\[\]\)\n",
    "leading kleene": r"SEQ\(\w\+",
    "negation at the start": r"SEQ\(!",
    "negation in the middle": r"SEQ\([^!)]+, !\w \w+, [^!]",
    "negation at the end": r"!\w v\d\)\n",
    "or": r"OR\(",
    "repeated group": r"\)(\+|\*|\{[\d,]+\})",
    "bounded group": r"\)\{",
    "optional group": r"\)\*",
    "group in a group": r"\)(\+|\*|\{[\d,]+\})[^\n]*\)\)(\+|\*|\{[\d,]+\})",
    "kleene in a group alone": r"\(\w\+ v\d+\[\]\)",
    "choice in a group": r"\(SEQ\((?=[^\n]*OR\()[^\n]*\)\)(\+|\*|\{)",
    "and": r"AND\(",
    "and in a group": r"\([^\n]*AND\([^\n]*\)\)(\+|\*|\{)",
    "group in and": r"AND\([^\n]*\)(\+|\*|\{)[^\n]*\)",
    "any": r"ANY\(",
    "negated sequence": r"!SEQ\(",
    "negated kleene": r"!\w\+ v",
    "negated or": r"!OR\(",
    "negated and": r"!AND\(",
    "negated group": r"!\(SEQ",
    "negated bounded": r"!\w\{",
    "negation in a group": r"\(SEQ\([^\n]*!\w v[^\n]*\)\)(\+|\*|\{)",
    "two lists": r"v\d+\[v\d+\.len\]\.x \S+ v\d+\[1\]|v\d+\[\]\) \S+ (count|sum)",
    "sliding windows": r"SLIDE",
    "windows opened by events": r"OPEN ON",
    "windows of events opened by events": r"EVENTS OPEN ON",
    "selection": r"SELECT FIRST",
    "consumption": r"CONSUME",
    "optional": r"\? v",
    "star": r"\* v",
    "bounded": r"\w\{",
    "one type twice": r"SEQ\(.*\b([ABCLP])\b.*\b\1\b.*\)\n",
    "broadcast type under a key": lambda text: "L" in text.split("\n")[0] and "[k]" in text,
    "partly keyed type": lambda text: "P v" in text and "[j]" in text,
    "two key attributes": r"\[k\] AND \[j\]",
    "equivalence of one variable": r"\[v\d\.x\]",
    "previous": r"\[i-1\]\.",
    "first": r"v\d\[1\]",
    "last": r"\.len\]",
    "running aggregate": r"\[\.\.i-1\]",
    "aggregate but the last": r"\.len-1\]",
    "several negations": r"!.*!",
    "aggregate": r"(min|max|sum|avg|first|last)\(v\d\[\]",
    "stddev": r"stddev",
    "every event against a single one": r"v\d\.x > v\d\[i\]|\[i\]\.x >= v\d\.x",
    "text": r"= 'ok'",
    "membership": r" IN \(",
    "remainder": r"% 2",
    "division": r"/ 2",
    "disjunction": r" OR ",
    "not": r"NOT v",
    "time attribute": r"timestamp",
    "window of events": r"EVENTS",
    "ties": r"TIES STRICT",
    "sets": r"OUTPUT SETS",
    "collapsed": r"OUTPUT COLLAPSED",
    "count": r"OUTPUT COUNT",
    "non-overlapping": r"NON_OVERLAPPING",
    "top": r"TOP 2",
    "threshold": r"CONFIDENCE >=",
    "limit": r"LIMIT",
    "return": r"RETURN",
    "having": r"HAVING",
    **{strategy: strategy for strategy in (ANY, NEXT, PARTITION, STRICT)},
}
"""What EVERYTHING must reach: a pattern of the query's text, or a test of it."""


__all__ = [
    "ANY",
    "CONSTRUCTS",
    "EVERYTHING",
    "HALVES",
    "NEXT",
    "PARTITION",
    "SCHEMA",
    "STRICT",
    "QueryScope",
    "queries",
]
