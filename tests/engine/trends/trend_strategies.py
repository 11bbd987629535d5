"""Random trend queries and streams for them: every construct that is evaluated, ties, NULLs and equal keys often."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from engine.events import AttributeType, EventBatch, EventSchema
from engine.language import ast
from engine.language.parser import parse
from engine.language.printer import print_pattern
from engine.plan.rewrites.parts import with_children
from engine.plan.trends.template import templates_of

SCHEMA = EventSchema.of(
    {
        "A": {"x": AttributeType.INT, "y": AttributeType.FLOAT, "g": AttributeType.STRING, "h": AttributeType.INT},
        "B": {"x": AttributeType.INT, "y": AttributeType.FLOAT, "g": AttributeType.STRING, "h": AttributeType.INT},
        "C": {"x": AttributeType.INT, "y": AttributeType.FLOAT, "g": AttributeType.STRING},
        "D": {"x": AttributeType.INT},
    }
)
"""C lacks h, D has no key at all: their events are in several partitions."""


@dataclass(frozen=True)
class TrendCase:
    """A query, its events in stream order, and where the stream is cut into batches."""

    query: str
    rows: tuple[dict[str, Any], ...]
    cuts: tuple[int, ...]

    @property
    def stream(self) -> EventBatch:
        """All events."""
        return EventBatch.from_rows(self.rows, SCHEMA)


PATTERNS = (
    "A+",
    "SEQ(A+, B)",
    "(SEQ(A+, B))+",
    "SEQ(A, B+, C)",
    "SEQ(D, A+, B)",
    "(A OR B)+",
    "SEQ(A+, C?, B)",
    "SEQ(A, C*, B)",
    "A{2,} ",
    "A{1,3} ",
    "SEQ(A+, NOT C, B)",
    "SEQ(A+, NOT D, B)",
    "SEQ(NOT C, A+)",
    "SEQ(NOT D, A+, B)",
    "SEQ(A+, NOT C)",
    "SEQ(A+, B, NOT D)",
    "SEQ(NOT D, A+, NOT C)",
    "(SEQ(A+, NOT C, B))+",
    "SEQ(A+, NOT SEQ(C, D), B)",
    "(SEQ(A+, NOT SEQ(C, NOT D, C c2), B))+",
    "SEQ(A+, NOT SEQ(C, NOT SEQ(D, C c3), C c2), B)",
    "SEQ(A p, NOT SEQ(B n, NOT SEQ(C, NOT D, B m), B o), A q)",
    "SEQ(NOT SEQ(C, D), A+)",
    "SEQ(A+, NOT SEQ(C, D))",
    "SEQ(A+ , NOT (C OR D), B+)",
    "SEQ(A+, NOT C+, B)",
    "SEQ(A p, A+ q)",
    "SEQ(A+ p, A+ q)",
    "SEQ(A+ p, B, A+ q)",
    "A+ p OR SEQ(A q, B+)",
    "SEQ(NOT C, (SEQ(A, B?))+, NOT D)",
)


SELECTING = (
    *PATTERNS,
    "(SEQ(A, B?))+",
    "(SEQ(A+, B) OR C)+",
    "SEQ(A{1,2}, B)",
    "SEQ(A{2,2}, B)",
    "((SEQ(A, B)){1,2} OR C)+",
    "SEQ(A?, B+, C?)",
    "SEQ(A, (SEQ(B, C*))+, D?)",
    "(A+)+",
    "SEQ(A?, NOT C, B)",
)
"""Patterns in which strategies differ, too."""

SELECTIVE = ("skip_till_next_match", "skip_till_next_match", "partition_contiguity", "strict_contiguity")

ABSENT = (
    "SEQ(A+ p, NOT SEQ(C c, D d), B q)",
    "SEQ(A+ p, NOT SEQ(B n, C+ c), A q)",
    "SEQ(A p, NOT SEQ(B n, C+ c, A m), A q)",
    "SEQ(A p, NOT C{2,} c, A q)",
    "SEQ(A p, NOT SEQ(B n, C? c, A{2,} m), B q)",
    "SEQ(A p, NOT SEQ(B n, NOT D, C c, B m), A q)",
    "SEQ(A p, NOT SEQ(B n, NOT SEQ(C c, B b), B m), A+ q)",
    "SEQ(A p, NOT SEQ(B n, NOT SEQ(C c, NOT D, A a), B m), A q)",
    "SEQ(A p, NOT SEQ(B n, NOT SEQ(C c, NOT SEQ(A a, D d), B b), B m), A q)",
    "SEQ(A p, NOT SEQ(B+ n, NOT SEQ(C+ c, A a), C m), A q)",
    "SEQ(A p, NOT (SEQ(B n, NOT SEQ(C c, D d), A m))+, B q)",
    "SEQ(A p, NOT (SEQ(B n, C c, B m) OR SEQ(D d, C e)), A q)",
    "(SEQ(A+ p, NOT SEQ(C c, B b), B q))+",
    "SEQ(NOT SEQ(B n, NOT SEQ(C c, A a), B m), A+ p)",
    "SEQ(A+ p, NOT SEQ(B n, NOT SEQ(C c, A a), B m))",
    "SEQ(A p, NOT SEQ(B n, C c, NOT SEQ(A a, A b), B m), NOT SEQ(C x, C y), A q)",
)
"""Patterns of several events that are negated, also inside one another."""


STRATEGIES = ("", "", "", *SELECTIVE)
"""Selection strategies, "" where the query names none."""


SHARED_PAIRS = ("A+ AND SEQ(A, B)", "(A OR B)+ AND SEQ(A, B+)", "SEQ(A+, NOT C, B) AND A+", "A+ AND A{1,3} a2")
"""Of one name in both parts, or of names of which little may be asked."""


def _predicates(variables: list[str]) -> st.SearchStrategy[str]:
    """Conjuncts on one event or on neighbours of some variables; many do not fit the pattern and are refused."""
    name = st.sampled_from(variables)
    attribute = st.sampled_from(["x", "y"])
    op = st.sampled_from(["<", "<=", ">", ">=", "=", "!="])
    local = st.builds(lambda v, a, o, n: f"{v}.{a} {o} {n}", name, attribute, op, st.integers(0, 3))
    edge = st.builds(lambda v, a, o, w, b: f"{v}.{a} {o} NEXT({w}).{b}", name, attribute, op, name, attribute)
    sums = st.builds(lambda v, o, w, n: f"{v}.x + NEXT({w}).y {o} {n}", name, op, name, st.integers(0, 4))
    scaled = st.builds(lambda v, o, w: f"NEXT({w}).x {o} {v}.x * 2 - 1", name, op, name)
    return st.one_of(local, edge, edge, sums, scaled)


def _two_inequalities(variables: list[str]) -> st.SearchStrategy[list[str]]:
    """Two conjuncts on the same neighbours, each of values that are known one by one."""
    earlier = st.sampled_from(["{}.x", "{}.y", "{}.x + 1", "2 * {}.y"])
    later = st.sampled_from(["NEXT({}).x", "NEXT({}).y", "NEXT({}).x * 2 - 1"])
    one = st.tuples(earlier, st.sampled_from(["<", "<=", ">", ">="]), later)

    def conjuncts(v: str, w: str, both: list[tuple[str, str, str]]) -> list[str]:
        return [f"{first.format(v)} {op} {second.format(w)}" for first, op, second in both]

    name = st.sampled_from(variables)
    return st.builds(conjuncts, name, name, st.lists(one, min_size=2, max_size=2))


def _neighbours(variables: list[str]) -> st.SearchStrategy[str]:
    """Conjuncts on two events of one variable."""
    op = st.sampled_from(["<", "<=", ">", "!="])
    name, attribute = st.sampled_from(variables), st.sampled_from("xy")
    return st.builds(lambda v, a, o: f"{v}.{a} {o} NEXT({v}).{a}", name, attribute, op)


def _adjacent(pattern: str, *, in_negated: bool) -> list[tuple[str, str]]:
    """Variables that may be neighbours in a trend, or in one of a negated part."""
    whole = parse(f"PATTERN {pattern}").pattern
    parts = whole.parts if isinstance(whole, ast.Conjunction) else (whole,)
    found = [templates_of(part, lambda _: False) for part in parts]
    wanted = [t for each in found for t in (each.negated if in_negated else (each.positive,))]
    return sorted({(t.states[a].variable, t.states[b].variable) for t in wanted for a, b in t.transitions})


def _edges(pattern: str, *, in_negated: bool) -> st.SearchStrategy[str]:
    """Conjuncts on neighbours, or on those in negated parts; of D there is x alone."""
    op = st.sampled_from(["<", "<=", ">", ">=", "=", "!="])
    pair = st.sampled_from(_adjacent(pattern, in_negated=in_negated))
    edge = st.builds(lambda pair, o: f"{pair[0]}.x {o} NEXT({pair[1]}).x", pair, op)
    scaled = st.builds(lambda pair, o: f"{pair[0]}.x * 2 - 1 {o} NEXT({pair[1]}).x", pair, op)
    sums = st.builds(lambda pair, o, n: f"{pair[0]}.x + NEXT({pair[1]}).x {o} {n}", pair, op, st.integers(0, 5))
    return st.one_of(edge, edge, scaled, sums)


def _positive(pattern: str) -> list[str]:
    """Variables of the pattern that are not negated, but for C and D, which have few attributes."""
    components = ast.components(parse(f"PATTERN {pattern}").pattern)
    names = (c.variable for c, is_negated in components if not is_negated and c.event_type in "AB")
    return list(dict.fromkeys(names))


@st.composite
def trend_cases(draw: st.DrawFn, max_events: int = 9) -> TrendCase:
    """Queries are syntactically right; some are refused by the planner."""
    query = draw(_queries(PATTERNS, STRATEGIES))
    rows = draw(_events(max_events))
    cuts = draw(st.sets(st.integers(0, 14), max_size=4))
    return TrendCase(query, rows, tuple(sorted(cuts)))


@st.composite
def absence_cases(draw: st.DrawFn, max_events: int = 14) -> TrendCase:
    """Patterns whose negated parts are asked of neighbours and have negations, with events enough for them."""
    pattern = draw(st.sampled_from(ABSENT))
    variables = _positive(pattern)
    where = draw(st.lists(_edges(pattern, in_negated=True), max_size=3, unique=True))
    where += draw(st.one_of(st.just([]), st.just([]), st.lists(_edges(pattern, in_negated=False), max_size=1)))
    key = draw(st.sampled_from(["", "", "", "", "[g]", "[g, h]"]))
    group = draw(st.sampled_from(["", "", "", "", "GROUP BY g", "GROUP BY g, h"]))
    conditions = [each for each in (draw(st.sampled_from(STRATEGIES)), key, *where) if each]
    requested = draw(st.lists(st.sampled_from(_returned(draw(st.sampled_from(variables)))), max_size=3, unique=True))
    ends = f"{draw(st.sampled_from(['', 'TIES SOURCE']))} {draw(st.sampled_from(['', '', '', 'EXACT']))}"
    query = (
        f"PATTERN {pattern} {'WHERE ' + ' AND '.join(conditions) if conditions else ''} {group} "
        f"WITHIN {draw(st.integers(9, 16))} SLIDE {draw(st.integers(2, 9))} {ends} "
        f"RETURN {', '.join(dict.fromkeys([*requested, 'COUNT(*)']))}"
    )
    rows = draw(_events(max_events, min_events=10, types="AABBBCCCD", has_null_keys=False))
    return TrendCase(query, rows, tuple(sorted(draw(st.sets(st.integers(0, 14), max_size=4)))))


@st.composite
def pair_cases(draw: st.DrawFn, max_events: int = 7) -> TrendCase:
    """Pairs of trends of two patterns, with few events in long windows, so that there are some. Parts that may have a
    trend in common call its events alike, or little is asked of them; some queries are refused by the planner."""
    one = draw(st.sampled_from(PATTERNS))
    pattern = parse(f"PATTERN {draw(st.one_of(st.just(one), st.sampled_from(PATTERNS)))}").pattern
    is_alike = draw(st.booleans())
    negated = {component.variable for component, is_negated in ast.components(pattern) if is_negated}
    negated |= {c.variable for c, is_negated in ast.components(parse(f"PATTERN {one}").pattern) if is_negated}
    both = f"({one}) AND ({print_pattern(_called(pattern, negated if is_alike else None))})"
    variables = _positive(both)
    where = draw(st.lists(st.one_of(_predicates(variables), _neighbours(variables)), max_size=1))
    key = draw(st.sampled_from(["", "", "", "[g]", "[g, h]"]))
    group = draw(st.sampled_from(["", "", "GROUP BY g", "GROUP BY g, h"]))
    requested = draw(st.lists(st.sampled_from(_returned(variables[0])), max_size=8, unique=True)) if is_alike else []
    having = draw(st.sampled_from(["", "", "HAVING COUNT(*) > 2"]))
    ends = f"{having} {draw(st.sampled_from(['', 'TIES SOURCE']))} {draw(st.sampled_from(['', '', 'EXACT']))}"
    conditions = " AND ".join([key, *where] if key else where)
    query = (
        f"PATTERN {both} {'WHERE ' + conditions if conditions else ''} {group} "
        f"WITHIN {draw(st.integers(8, 16))} SLIDE {draw(st.integers(2, 9))} {ends} "
        f"RETURN {', '.join(dict.fromkeys([*requested, 'COUNT(*)']))}"
    )
    rows = draw(_events(max_events, min_events=6, types="AAAABBBCD", has_null_keys=False))
    return TrendCase(query, rows, tuple(sorted(draw(st.sets(st.integers(0, 14), max_size=4)))))


def _called(pattern: ast.Pattern, others: set[str] | None) -> ast.Pattern:
    """With other names for some variables, or for all."""
    if isinstance(pattern, ast.Component):
        is_same = others is not None and pattern.variable not in others
        return pattern if is_same else replace(pattern, variable=f"{pattern.variable}_other")
    return with_children(pattern, lambda part: _called(part, others))


@st.composite
def selecting_cases(draw: st.DrawFn, max_events: int = 9) -> TrendCase:
    """Under another strategy than skip till any match, seldom refused, with long windows, so that there are trends."""
    pattern = draw(st.sampled_from(SELECTING))
    variables = _positive(pattern)
    where = draw(st.lists(st.one_of(_neighbours(variables), _predicates(variables)), max_size=1))
    key = draw(st.sampled_from(["", "", "[g]", "[g, h]"]))
    group = draw(st.sampled_from(["", "", "", "GROUP BY g", "GROUP BY g, h"]))
    conditions = [draw(st.sampled_from(SELECTIVE)), *([key] if key else []), *where]
    requested = draw(st.lists(st.sampled_from(_returned(draw(st.sampled_from(variables)))), max_size=8, unique=True))
    ends = f"{draw(st.sampled_from(['', 'TIES SOURCE']))} {draw(st.sampled_from(['', '', '', 'EXACT']))}"
    query = (
        f"PATTERN {pattern} WHERE {' AND '.join(conditions)} {group} WITHIN {draw(st.integers(8, 16))} "
        f"SLIDE {draw(st.integers(2, 9))} {ends} RETURN {', '.join(dict.fromkeys([*requested, 'COUNT(*)']))}"
    )
    types = draw(st.sampled_from(["AAAABBBCCD", "AB", "ABC"]))  # of few types more patterns go on for long
    rows = draw(_events(max_events, min_events=4, types=types, has_null_keys=draw(st.booleans())))
    return TrendCase(query, rows, tuple(sorted(draw(st.sets(st.integers(0, 14), max_size=4)))))


ALIKE = (
    "A+ a",
    "SEQ(A a, B b)",
    "SEQ(A+ a, B b)",
    "SEQ(A a, B+ b)",
    "SEQ(A a, B+ b, C c)",
    "SEQ(D d, A+ a, B b)",
    "(SEQ(A+ a, B b))+",
    "(A a OR B b)+",
    "SEQ(A+ a, C? c, B b)",
    "SEQ(A a, C* c, B b)",
    "A{2,} a",
    "A{1,3} a",
    "SEQ(A{1,2} a, B b)",
    "SEQ(A{2,2} a, B b)",
    "(SEQ(A a, B? b))+",
    "SEQ(A? a, B+ b, C? c)",
    "(SEQ((SEQ(A a, B b)){1,2}, C c))+",
    "SEQ(A a, (SEQ(B b, C* c))+, D? d)",
    "A+ a OR SEQ(A q, B+ b)",
    "SEQ(A+ a, NOT C c, B b)",
    "(SEQ(A+ a, NOT C c, B b))+",
    "SEQ(A a, NOT SEQ(C c, D d), B+ b)",
)
"""Patterns of which a match binds each sequence of events once, so that matches are as many as trends."""

ALIKE_IN = {
    "A+ a": [("a.x {} NEXT(a).x", "a[i-1].x {} a[i].x")],
    "SEQ(A a, B b)": [("a.x {} NEXT(b).x", "a.x {} b.x")],
    "SEQ(A+ a, B b)": [("a.x {} NEXT(a).x", "a[i-1].x {} a[i].x"), ("a.x {} NEXT(b).x", "a[a.len].x {} b.x")],
    "SEQ(A a, B+ b)": [("b.x {} NEXT(b).x", "b[i-1].x {} b[i].x"), ("a.x {} NEXT(b).x", "a.x {} b[1].x")],
    "SEQ(A a, B+ b, C c)": [("b.x {} NEXT(b).x", "b[i-1].x {} b[i].x"), ("b.x {} NEXT(c).x", "b[b.len].x {} c.x")],
}
"""What is asked of neighbours, of trends and of matches."""


@st.composite
def alike_cases(draw: st.DrawFn, max_events: int = 9) -> tuple[TrendCase, str]:
    """A query that counts trends, and the same about matches."""
    pattern = draw(st.sampled_from(ALIKE))
    key = draw(st.sampled_from(["", "", "[g]"]))
    strategy = draw(st.sampled_from((*SELECTIVE, "skip_till_any_match")))
    predicate = of_match = ""
    if pattern in ALIKE_IN and draw(st.booleans()):
        forms = draw(st.sampled_from(ALIKE_IN[pattern]))
        op = draw(st.sampled_from(["<", "<=", ">", "!="]))
        predicate, of_match = (form.format(op) for form in forms)
    ends = (
        f"WITHIN {draw(st.integers(6, 14))} SLIDE {draw(st.integers(2, 9))} "
        f"TIES {draw(st.sampled_from(['STRICT', 'SOURCE']))}"
    )

    def query(pattern: str, *conditions: str, returns: str = "") -> str:
        where = " AND ".join(each for each in (strategy, *conditions) if each)
        return f"PATTERN {pattern} WHERE {where} {ends} {returns}"

    types = draw(st.sampled_from(["AAAABBBCCD", "AB", "ABC"]))  # of few types more patterns go on for long
    rows = draw(_events(max_events, min_events=4, types=types, has_null_keys=draw(st.booleans())))
    case = TrendCase(query(pattern, key, predicate, returns="RETURN COUNT(*) AS n"), rows, ())
    return case, query(re.sub(r"([+*]|[{][0-9,]+[}]) ([a-z])\b", r"\1 \2[]", pattern), key, of_match)


@st.composite
def overlap_cases(draw: st.DrawFn, max_events: int = 6) -> TrendCase:
    """Queries without negation over few events whose times are intervals, most of which overlap."""
    query = draw(_queries(tuple(pattern for pattern in PATTERNS if "NOT" not in pattern)))
    within_ms = parse(query).within_ms
    assert isinstance(within_ms, int)
    rows = draw(_events(max_events, max_width_ms=min(4, within_ms)))  # longer ones are left out
    cuts = draw(st.sets(st.integers(0, 14), max_size=4))
    return TrendCase(query, rows, tuple(sorted(cuts)))


@dataclass(frozen=True)
class SharingCase:
    """Queries of which many differ in windows, groups, thresholds and what they return alone. `absent`: the queries
    that are not there in the part before each cut and after the last one; the second part has all again."""

    queries: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    cuts: tuple[int, ...]
    absent: tuple[frozenset[int], ...]

    @property
    def stream(self) -> EventBatch:
        """All events."""
        return EventBatch.from_rows(self.rows, SCHEMA)


_ROUNDED = (0.1, 0.7, 1e6 + 0.3, 1e300, float("nan"))
"""Of which sums are rounded."""

_LARGE = (1, 2, 3, 2**52 + 1)
"""Of which some are too large to be added up in doubles."""


@st.composite
def sharing_cases(draw: st.DrawFn, max_events: int = 9, max_width_ms: int = 0) -> SharingCase:
    """Up to five queries of one pattern."""
    patterns = (*PATTERNS, *SHARED_PAIRS)
    pattern = draw(st.sampled_from(tuple(p for p in patterns if max_width_ms == 0 or "NOT" not in p)))
    variables = _positive(pattern)
    of_negated = [_edges(pattern, in_negated=True)] if _adjacent(pattern, in_negated=True) else []
    predicates = draw(st.lists(st.one_of(_predicates(variables), *of_negated), max_size=1))
    key = draw(st.sampled_from(["", "", "[g]", "[g, h]"]))
    strategy = "" if max_width_ms else draw(st.sampled_from(STRATEGIES))
    where = [each for each in (strategy, key, *predicates) if each]
    some = st.lists(st.tuples(st.integers(4, 8), st.integers(1, 5)), min_size=1, max_size=2)
    nested = st.lists(st.sampled_from([(8, 2), (6, 2), (4, 4), (8, 4), (2, 4), (8, 8)]), min_size=2, max_size=4)
    windows = draw(st.one_of(some, nested))
    groups = draw(st.lists(st.sampled_from(["", "GROUP BY g", "GROUP BY h", "GROUP BY g, h"]), min_size=1, max_size=2))
    ties = draw(st.sampled_from(["", "TIES SOURCE"]))
    exact = draw(st.sampled_from(["", "", "EXACT"]))

    def query() -> str:
        within, slide = draw(st.sampled_from(windows))
        v = draw(st.sampled_from(variables))
        requested = draw(st.lists(st.sampled_from(_returned(v)), min_size=1, max_size=4, unique=True))
        having = draw(st.sampled_from(["", "", "HAVING COUNT(*) > 2", f"HAVING SUM({v}.x) > COUNT(*)"]))
        emitted = draw(st.sampled_from(["", "", "ALERT warning 'found'"]))
        return (
            f"PATTERN {pattern} {'WHERE ' + ' AND '.join(where) if where else ''} {draw(st.sampled_from(groups))} "
            f"WITHIN {within} SLIDE {slide} {having} {ties} {exact} RETURN {', '.join(requested)} {emitted}"
        )

    n_queries = draw(st.integers(2, 5))
    queries = tuple(query() for _ in range(n_queries))
    rows = draw(_events(max_events, max_width_ms, _ROUNDED, _LARGE))
    cuts = tuple(sorted(draw(st.sets(st.integers(0, 14), min_size=2, max_size=4))))
    some = st.frozensets(st.integers(0, n_queries - 1), max_size=2)
    absent = tuple(draw(some) for _ in range(len(cuts) + 1))
    return SharingCase(queries, rows, cuts, absent)


def _returned(v: str) -> list[str]:
    return ["COUNT(*)", f"COUNT({v}) AS n", f"SUM({v}.x) AS sx", f"SUM({v}.y) AS sy", f"AVG({v}.y) AS ay",
            f"MIN({v}.y) AS iy", f"MAX({v}.x) AS ax", f"SUM({v}.x) / COUNT(*) AS per"]  # fmt: skip


@st.composite
def _queries(draw: st.DrawFn, patterns: Sequence[str], strategies: Sequence[str] = ("",)) -> str:
    pattern = draw(st.sampled_from(patterns))
    variables = _positive(pattern)
    of_any_kind = st.lists(_predicates(variables), max_size=2)
    predicates = draw(st.one_of(of_any_kind, of_any_kind, _two_inequalities(variables)))
    keys = draw(st.sampled_from(["", "", "[g]", "[g, h]", "[h]", f"[{variables[0]}.x]"]))
    group = draw(st.sampled_from(["", "", "GROUP BY g", "GROUP BY h", "GROUP BY g, h"]))
    strategy = draw(st.sampled_from(strategies))
    where = [each for each in (strategy, keys, *predicates) if each]
    within = draw(st.integers(1, 8))
    slide = draw(st.integers(1, 9))
    ties = draw(st.sampled_from(["", "TIES SOURCE"]))
    v = draw(st.sampled_from(variables))
    requested = draw(st.lists(st.sampled_from(_returned(v)), min_size=1, unique=True))
    having = draw(st.sampled_from(["", "", "HAVING COUNT(*) > 2", f"HAVING SUM({v}.x) > COUNT(*)"]))
    exact = draw(st.sampled_from(["", "", "EXACT", "EXACT 64 BITS"]))
    query = f"PATTERN {pattern} {'WHERE ' + ' AND '.join(where) if where else ''} {group} WITHIN {within} SLIDE {slide}"
    return f"{query} {having} {ties} {exact} RETURN {', '.join(requested)}"


@st.composite
def _events(
    draw: st.DrawFn, max_events: int, max_width_ms: int = 0,
    real: Sequence[float] = (0.5, 1.0, -2.0, float("nan")), whole: Sequence[int] = (0, 1, 2, 3), min_events: int = 0,
    types: str = "AAABBCD", has_null_keys: bool = True,
) -> tuple[dict[str, Any], ...]:  # fmt: skip
    number = st.one_of(st.sampled_from(whole), st.none())
    found: list[dict[str, Any]] = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(types),
                    "t": st.integers(0, 12),
                    "width": st.integers(0, max_width_ms),
                    "x": number,
                    "y": st.one_of(st.sampled_from(real), st.none()),
                    "g": st.sampled_from(["u", "u", "v", None if has_null_keys else "u"]),
                    "h": st.sampled_from([1, 1, 2, None if has_null_keys else 1]),
                }
            ),
            min_size=min_events,
            max_size=max_events,
        )
    )
    found.sort(key=lambda row: row["t"])
    if draw(st.integers(0, 3)) == 0:
        _number(found, alternate=draw(st.booleans()))
    return tuple(
        {
            "event_id": f"e{n}",
            "type": row["type"],
            "t_lo_ms": row["t"],
            "t_hi_ms": row["t"] + row["width"],
            "source_rank": 0,
            "source_seq": n,
            **{name: row[name] for name in SCHEMA.types[row["type"]]},
        }
        for n, row in enumerate(found)
    )


def _number(rows: list[dict[str, Any]], *, alternate: bool) -> None:
    """Give the first, second, ... event of each type the values 1, 2, ...: those of different types are the same.
    `alternate`: of A and B alone, in turn."""
    n_of = Counter[str]()
    for n, row in enumerate(rows):
        if alternate:
            row["type"] = "AB"[n % 2]
        n_of[row["type"]] += 1
        row["x"] = n_of[row["type"]]
        row["y"] = float(row["x"])


__all__ = [
    "ABSENT",
    "ALIKE",
    "PATTERNS",
    "SCHEMA",
    "SELECTING",
    "STRATEGIES",
    "SharingCase",
    "TrendCase",
    "absence_cases",
    "alike_cases",
    "overlap_cases",
    "pair_cases",
    "selecting_cases",
    "sharing_cases",
    "trend_cases",
]
