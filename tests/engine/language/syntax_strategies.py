"""Hypothesis strategies for syntax trees of the form that the parser makes (types and variables need not fit)."""

from __future__ import annotations

from hypothesis import strategies as st

from engine.language.ast import (
    Aggregate,
    AllOf,
    Alternative,
    AnyOf,
    Arithmetic,
    Aspect,
    Attribute,
    Comparison,
    Component,
    Conjunction,
    Default,
    Equivalence,
    Expression,
    HostRole,
    Index,
    Literal,
    Membership,
    NamedHost,
    Negation,
    Negative,
    Not,
    Notice,
    OneOf,
    Output,
    Parameter,
    Pattern,
    Query,
    Range,
    Repeat,
    ReturnItem,
    Sequence,
    Severity,
    Shown,
    Strategy,
    Ties,
)

NAMES = st.sampled_from(["a", "b", "job_id", "X1", "_y", "seconds", "len", "i"])
# A name of the language may stand where only a name can: after a dot.
ATTRIBUTES = st.sampled_from(["x", "period_ms", "timestamp", "in", "NOT", "limit", "select", "within", "i", "len"])
TYPES = st.sampled_from(["A", "B", "JobStart", "Load_Std2"])
INTEGERS = st.integers(0, 2**53)
NUMBERS = st.one_of(
    st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x != 0)
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
LITERALS = st.builds(Literal, st.one_of(NUMBERS, TEXTS, st.none()))
PARAMETERS = st.builds(Parameter, NAMES)
LEAVES = st.one_of(
    LITERALS,
    PARAMETERS,
    st.builds(Attribute, NAMES, st.sampled_from(Index), ATTRIBUTES),
    st.builds(
        Aggregate, st.sampled_from(["avg", "sum", "count", "last", "median"]), NAMES, st.sampled_from(Range), ATTRIBUTES
    ),
    st.builds(Aggregate, st.just("count"), NAMES, st.sampled_from(Range), st.none()),
)


def _not_of(kind: type, inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[tuple[Expression, ...]]:
    return st.lists(inner.filter(lambda e: not isinstance(e, kind)), min_size=2, max_size=3).map(tuple)


def _is_number(expression: Expression) -> bool:
    return isinstance(expression, Literal) and isinstance(expression.value, (int, float))


def _compound(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    options = st.lists(st.one_of(LITERALS, PARAMETERS), min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Negative, inner.filter(lambda e: not _is_number(e))),
        st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner),
        st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), inner, inner),
        st.builds(Membership, inner, options),
        st.builds(Not, inner),
        st.builds(AllOf, _not_of(AllOf, inner)),
        st.builds(OneOf, _not_of(OneOf, inner)),
    )


EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(LEAVES, _compound, max_leaves=12)
# NOT and NULL alone are the operator and the value, not names.
OWN_ATTRIBUTES = st.builds(
    Attribute, st.just(""), st.just(Index.SINGLE), NAMES | st.sampled_from(["type", "limit", "on"])
)
CONDITIONS_ON_ONE_EVENT: st.SearchStrategy[Expression] = st.recursive(
    LITERALS | PARAMETERS | OWN_ATTRIBUTES, _compound, max_leaves=6
)
NOTICES = st.one_of(
    st.builds(Notice, st.just(Severity.REPORT), TEXTS),
    st.builds(
        Notice,
        st.sampled_from([s for s in Severity if s is not Severity.REPORT]),
        TEXTS,
        st.lists(NAMES, max_size=2).map(tuple),
    ),
)
SHOWN = st.lists(st.tuples(st.sampled_from(Aspect), st.lists(NAMES, min_size=1, max_size=3)), max_size=2).map(
    lambda items: [
        Shown(aspect, name, tuple(beside))
        for aspect, (name, *beside) in items
        if len({n for _, names in items for n in names}) == sum(len(names) for _, names in items)
    ]
)
"""Each name at most once."""
COMPONENTS = st.builds(Component, TYPES, NAMES, st.booleans())
SINGLES = st.builds(Component, TYPES, NAMES)


def _bounds(pattern: Pattern) -> st.SearchStrategy[tuple[int, int | None]]:
    single = isinstance(pattern, Component) and not pattern.kleene
    bounded = st.tuples(st.integers(0, 5), st.integers(1, 5)).map(lambda b: (min(b), max(b)))
    open_ended = st.tuples(st.integers(2 if single else 0, 5), st.none())
    return st.one_of(bounded, open_ended)


def _repeats(pattern: Pattern) -> st.SearchStrategy[Pattern]:
    return _bounds(pattern).map(lambda bounds: Repeat(pattern, *bounds))


def _patterns(inner: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
    parts = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Negation, inner),
        inner.flatmap(_repeats),
        st.builds(Sequence, parts),
        st.builds(Alternative, parts),
        st.builds(Conjunction, parts),
        st.builds(AnyOf, st.integers(1, 3), st.lists(SINGLES, min_size=1, max_size=3).map(tuple)),
    )


PATTERNS: st.SearchStrategy[Pattern] = st.recursive(COMPONENTS, _patterns, max_leaves=8)


def _unique(key: str) -> dict[str, object]:
    return {"max_size": 3, "unique_by": lambda item: getattr(item, key)}


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Whole queries, every clause present or not."""
    window = draw(st.sampled_from(["time", "events", "none"]))
    output = draw(st.sampled_from(Output))
    return Query(
        pattern=draw(PATTERNS),
        strategy=draw(st.none() | st.sampled_from(Strategy)),
        predicates=tuple(draw(st.lists(EXPRESSIONS.filter(lambda e: not isinstance(e, AllOf)), max_size=3))),
        equivalences=tuple(draw(st.lists(st.builds(Equivalence, ATTRIBUTES_OF_KEYS, st.none() | NAMES), max_size=2))),
        within_ms=draw(INTEGERS | PARAMETERS) if window == "time" else None,
        within_events=draw(st.integers(1, 99)) if window == "events" else None,
        output=output,
        top_k=draw(st.integers(1, 9)) if output is Output.TOP else None,
        limit=draw(st.none() | st.integers(1, 9)),
        confidence=draw(st.none() | st.floats(0, 1) | PARAMETERS),
        ties=draw(st.none() | st.sampled_from(Ties)),
        having=draw(st.none() | EXPRESSIONS),
        returns=tuple(draw(st.lists(st.builds(ReturnItem, EXPRESSIONS, NAMES), **_unique("name")))),
        parameters=tuple(draw(st.lists(st.builds(Default, NAMES, NUMBERS | TEXTS), **_unique("name")))),
        notice=draw(st.none() | NOTICES),
        group_gap_ms=draw(st.none() | INTEGERS),
        shown=tuple(draw(SHOWN)),
        hosts=tuple(
            draw(st.lists(st.builds(NamedHost, st.sampled_from(HostRole), NAMES, st.none() | NAMES), **_unique("name")))
        ),
        onset=draw(st.none() | NAMES),
        slide_ms=draw(st.none() | st.integers(1, 2**53) | PARAMETERS),
        open_on=draw(st.none() | CONDITIONS_ON_ONE_EVENT),
        certain_above=draw(st.none() | st.floats(0, 1) | PARAMETERS),
        select_first=draw(st.booleans()),
        consume=tuple(draw(st.lists(NAMES, max_size=2, unique=True))),
        weight=draw(st.none() | st.floats(0, exclude_min=True, allow_infinity=False)),
    )


ATTRIBUTES_OF_KEYS = st.sampled_from(["job_id", "task_id", "x"])
