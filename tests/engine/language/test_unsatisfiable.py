"""Warnings about predicates that no match can satisfy: what is told, what is not, and that the oracle agrees."""

from __future__ import annotations

import operator

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from engine.errors import QueryTypeError
from engine.events import AttributeType, EventBatch, EventSchema
from engine.language.parser import parse
from engine.language.resolver import ResolvedQuery, resolve
from engine.reference import reference_matches
from tests.engine import strategies
from tests.engine.strategies import Case, StreamScope, cases, streams

INT, FLOAT, STRING = AttributeType.INT, AttributeType.FLOAT, AttributeType.STRING
SCHEMA = EventSchema.of(
    {
        "JobStart": {"job_id": STRING, "user": STRING, "n_maps": INT},
        "JobEnd": {"job_id": STRING, "status": STRING, "period_ms": INT},
        "Mapper": {"job_id": STRING, "task_id": STRING, "period_ms": INT, "ratio": FLOAT},
    }
)
JOB = "SEQ(JobStart a, Mapper+ b[], JobEnd c)"
GROUP = "SEQ((SEQ(JobStart a, Mapper+ b[])){2,3}, JobEnd c)"
OPTIONAL = "SEQ(JobStart a, Mapper b?, (JobEnd c){0,2})"
TWO = "SEQ(JobStart a, (Mapper b){2,3})"


def _resolve(pattern: str, where: str, rest: str = "WITHIN 1 hour") -> ResolvedQuery:
    text = f"PATTERN {pattern} WHERE skip_till_any_match {{ {where} }} {rest}"
    return resolve(parse(text), SCHEMA, text=text, name="q.cep")


@pytest.mark.parametrize(
    ("pattern", "where", "reason"),
    [
        (JOB, "1 = 2", "can satisfy 1 = 2"),
        (JOB, "'x' = 'y' OR 3 < 2", "can satisfy 'x' = 'y' OR 3 < 2"),
        (JOB, "NOT 2 > 1", "can satisfy NOT 2 > 1"),
        (JOB, "a.n_maps = NULL", "a comparison with NULL is never true"),
        (JOB, "NOT a.n_maps + NULL < 3", "a comparison with NULL is never true"),
        (JOB, "NULL", "is never true"),
        (JOB, "a.user NOT IN ('x', NULL)", "a comparison with NULL is never true"),
        (JOB, "a.n_maps / 0 > 1", "a.n_maps / 0 > 1"),
        (JOB, "a.n_maps > 5 AND a.n_maps < 3", "a.n_maps > 5 and a.n_maps < 3 together"),
        (JOB, "a.n_maps > 1 AND a.n_maps < 2", "together"),  # whole numbers
        (JOB, "a.n_maps = 1.5", "a.n_maps = 1.5"),
        (JOB, "2 * a.n_maps + 1 > 7 AND 3 >= a.n_maps", "together"),
        (JOB, "a.n_maps IN (1, 2) AND a.n_maps NOT IN (2) AND a.n_maps > 1", "together"),
        (JOB, "a.n_maps = 3 AND a.n_maps != 3", "together"),
        (JOB, "a.n_maps % 2 = 0 AND a.n_maps % 2 = 1", "together"),
        (JOB, "a.user = 'x' AND a.user = 'y'", "together"),
        (JOB, "a.user IN ('x', 'y') AND a.user != 'x' AND a.user != 'y'", "together"),
        (JOB, "a.user = c.status AND a.user = 'x' AND c.status != 'x'", "together"),
        (JOB, "a.user = c.status AND c.status != a.user", "together"),
        (JOB, "a.n_maps > c.period_ms AND a.n_maps < c.period_ms", "together"),
        (JOB, "a.n_maps = c.period_ms AND a.n_maps != c.period_ms", "together"),
        (
            JOB,
            "a.n_maps > c.period_ms AND c.period_ms > b[1].period_ms AND b[1].period_ms >= a.n_maps",
            "a.n_maps > c.period_ms and c.period_ms > b[1].period_ms and b[1].period_ms >= a.n_maps together",
        ),
        (JOB, "a.n_maps > 3 AND (a.n_maps = 2 OR a.n_maps IN (1, 3))", "a.n_maps > 3 and (a.n_maps = 2 OR"),
        (JOB, "b[i].ratio > 5 AND b[i].ratio < 3", "together"),
        (JOB, "b[i].ratio > 5 AND b[b.len].ratio < 3", "together"),
        (JOB, "b[i].ratio > a.n_maps AND a.n_maps > 3 AND b[1].ratio < 2", "together"),
        (JOB, "b[i].ratio > b[i-1].ratio AND b[i].ratio < b[i-1].ratio AND count(b[]) > 1", "together"),
        (TWO, "b[i].ratio > b[i-1].ratio AND b[i].ratio < b[i-1].ratio", "together"),
        (JOB, "count(b[]) < 1", "b has at least 1 event"),
        (TWO, "count(b[]) > 3", "b has at most 3 events"),
        (TWO, "count(b[..b.len-1]) < 1", "b has at least 2 events"),
        (JOB, "count(b[]) = 1 AND avg(b[..b.len-1].ratio) > 3", "avg(b[..b.len-1].ratio) is then NULL"),
        (JOB, "stddev(b[].ratio) < 0", "a standard deviation is not negative"),
        (JOB, "b[1].ratio > max(b[].ratio)", "max is over all events of b"),
        (JOB, "min(b[].ratio) > max(b[].ratio)", "over all events of b"),
        (JOB, "c.timestamp - a.timestamp > 2 h", "WITHIN 1 hour bounds the time"),
        (JOB, "c.timestamp < a.timestamp", "a is before c"),
        (JOB, "b[b.len].timestamp < b[1].timestamp", "the events of b are in order"),
        (JOB, "[job_id] AND a.job_id = 'x' AND c.job_id = 'y'", "[job_id] makes a.job_id and c.job_id equal"),
        (JOB, "[b.task_id] AND b[1].task_id = 'x' AND b[b.len].task_id != 'x'", "[b.task_id] makes"),
        (GROUP, "a.n_maps > 3 AND a.n_maps + 1 < b[1].ratio AND b[1].ratio < 4", "together"),
        (GROUP, "a[i].n_maps > a[i-1].n_maps AND a[i-1].n_maps > a[i].n_maps", "together"),
        (GROUP, "b[1].timestamp < a.timestamp", "a is before b"),
        (GROUP, "count(a[]) > 3", "a has at most 3 events"),
        (OPTIONAL, "count(c[]) > 2", "c has at most 2 events"),
    ],
)
def test_contradictions_are_told_with_place_and_reason(pattern: str, where: str, reason: str) -> None:
    (warning,) = _resolve(pattern, where).warnings
    first, excerpt, caret = warning.splitlines()
    assert reason in first
    assert "no match can satisfy" in first
    assert first.startswith("q.cep:1:")
    assert excerpt.startswith("  | ")
    assert "^" in caret


@pytest.mark.parametrize(
    ("pattern", "where"),
    [
        (JOB, "a.n_maps > 1 AND a.n_maps < 3"),
        (JOB, "b[i].ratio > 1 AND b[i].ratio < 2"),
        (JOB, "b[1].ratio < 3 AND b[i].ratio > 5"),  # begin and take
        (JOB, "b[1].ratio < 3 AND b[b.len].ratio > 5"),
        (JOB, "b[i].ratio > b[i-1].ratio AND b[i].ratio < b[i-1].ratio"),  # one event of b
        (JOB, "a.n_maps IN (1, NULL)"),
        (JOB, "a.n_maps > 5 OR a.n_maps < 3"),
        (JOB, "a.n_maps = NULL OR a.n_maps = 1"),
        (JOB, "count(b[]) = 1 AND count(b[..b.len-1]) = 0"),
        (JOB, "a.n_maps >= c.period_ms AND a.n_maps <= c.period_ms"),
        (JOB, "c.timestamp - a.timestamp >= 1 h"),
        (JOB, "a.timestamp = c.timestamp"),
        (JOB, "[job_id] AND a.job_id = 'x' AND c.status = 'y'"),
        (OPTIONAL, "b.ratio > 1 AND b.ratio < 0"),  # matches without b remain
        (OPTIONAL, "count(c[]) < 1"),
        (OPTIONAL, "c[1].period_ms > a.n_maps AND c[1].period_ms < a.n_maps"),
        (GROUP, "a.n_maps > 3 AND a[1].n_maps < 5 AND a[a.len].n_maps > 7"),
        (GROUP, "b[1].timestamp < a[a.len].timestamp"),
        ("SEQ(JobStart a, !Mapper n, JobEnd c)", "n.ratio > 1 AND n.ratio < 0"),
        ("SEQ(JobStart a, !(Mapper n)+, JobEnd c)", "count(n[]) < 1"),
        ("AND(JobStart a, JobEnd c)", "c.timestamp < a.timestamp"),
        ("OR(JobStart a, JobEnd c)", "a.n_maps > 5 AND a.n_maps < 3"),
    ],
)
def test_what_some_match_can_satisfy_is_not_told(pattern: str, where: str) -> None:
    assert _resolve(pattern, where).warnings == ()


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("WITHIN 2 EVENTS", "no match fits into WITHIN 2 EVENTS: each has at least 3 events"),
        ("WITHIN 1 HAVING c.period_ms > 3 AND c.period_ms < 1", "no match can satisfy c.period_ms > 3"),
        ("WITHIN 1 HAVING a.n_maps < 2", "no match can satisfy a.n_maps > 2 and a.n_maps < 2 together"),
        ("WITHIN 1 OPEN ON type = 'JobEnd' AND type = 'Mapper'", "no event can satisfy type = 'JobEnd' and"),
        ("WITHIN 1 OPEN ON n_maps > 2 AND n_maps < 1", "no event can satisfy n_maps > 2 and n_maps < 1 together"),
        ("WITHIN 1 OPEN ON type IN ('JobEnd') AND n_maps > 2", "together: JobEnd has no n_maps"),
    ],
)
def test_clauses_are_looked_at_too(rest: str, reason: str) -> None:
    (warning,) = _resolve(JOB, "a.n_maps > 2", rest).warnings
    assert reason in warning


OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.mark.parametrize("first", OPERATORS)
@pytest.mark.parametrize("second", OPERATORS)
def test_two_comparisons_are_told_exactly_when_no_number_satisfies_both(first: str, second: str) -> None:
    left, right = OPERATORS[first], OPERATORS[second]
    numbers = (-1.0, 0.0, 1.0)
    both = _resolve(JOB, f"b[1].ratio {first} 0 AND b[1].ratio {second} 0").warnings
    assert bool(both) is not any(left(x, 0) and right(x, 0) for x in numbers)
    one = _resolve(JOB, f"NOT b[1].ratio {first} 0 AND b[1].ratio {second} 0").warnings
    assert bool(one) is not any(not left(x, 0) and right(x, 0) for x in numbers)


def test_independent_contradictions_are_told_each() -> None:
    warnings = _resolve(JOB, "a.n_maps > 2 AND a.user = 'x' AND a.n_maps < 1 AND a.user = 'y' AND 1 = 2").warnings
    assert len(warnings) == 3


def test_a_long_query_is_analysed_in_part() -> None:
    where = " AND ".join(f"a.n_maps > {n}" for n in range(1_200)) + " AND a.n_maps < 0"
    assert _resolve(JOB, where).warnings == ()


def test_predicates_in_parameters_count() -> None:
    text = f"PATTERN {JOB} WHERE skip_till_any_match {{ count(b[]) >= :low AND count(b[]) <= :high }} WITHIN 1"
    parameters = {"low": 4, "high": 3}
    assert resolve(parse(text), SCHEMA, parameters, text=text).warnings
    assert not resolve(parse(text), SCHEMA, {**parameters, "high": 4}, text=text).warnings


# ------------------------------------------------------------ and the oracle

B = ("b[1]", "b[i]", "b[i-1]", "b[b.len]")
PLACES = {
    "SEQ(A a, B+ b[], C c)": ("a", "c", *B),
    "SEQ(A a, B{2,3} b[])": ("a", *B),
    "SEQ(A a?, B+ b[])": ("a", *B),
    "SEQ(B* b[], A a)": ("a", *B),
    "SEQ(A a, !C c, B+ b[])": ("a", "c", *B),
    "SEQ(OR(A a, C c), B+ b[])": ("a", "c", *B),
    "SEQ(A+ a[], B+ b[])": ("a[1]", "a[a.len]", "a[i]", *B),
    "(SEQ(A a, B+ b[]))+": ("a", "a[i]", "a[i-1]", "a[a.len]", *B),
    "(SEQ(A a, B b)){2,3}": ("a", "b", "a[i]", "a[i-1]", *B),
    "SEQ((SEQ(A? a, B b))+, C c)": ("a", "c", "b", *B),
    "AND(SEQ(A a, B+ b[]), C c)": ("a", "c", *B),
    "SEQ(ANY(1, A a, C c), B+ b[])": ("a", "c", *B),
}
TERMS = ["x", "y", "timestamp"]
AGGREGATES = ["count(b[])", "count(b[..b.len-1])", "min(b[].x)", "max(b[].x)", "avg(b[..b.len-1].x)", "stddev(b[].y)"]
STREAM = StreamScope(max_events=6, horizon_ms=6, null_share=8)


@st.composite
def _conjuncts(draw: st.DrawFn, places: tuple[str, ...], numbers: tuple[str, ...]) -> str:
    left, op = draw(st.sampled_from(numbers)), draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
    right = draw(st.sampled_from(["0", "1", "2", "-1", "0.5", "NULL", *numbers, *(f"{x} - 1" for x in numbers)]))
    text = f"{draw(st.sampled_from(places))}.s"
    forms = [
        *[f"{left} {op} {right}"] * 5,
        f"NOT {left} {op} {right}",
        f"({left} {op} {right} OR {text} = 'p')",
        f"{text} {draw(st.sampled_from(['=', '!=']))} {draw(st.sampled_from(['p', 'q']))!r}",
        f"{left} IN (1, 2)",
    ]
    return draw(st.sampled_from(forms))


@st.composite
def _queries(draw: st.DrawFn) -> str:
    """Conjuncts on few terms, so that many contradict each other."""
    strategy = draw(st.sampled_from([strategies.ANY, strategies.NEXT]))
    pattern = draw(st.sampled_from(sorted(PLACES)))
    places = PLACES[pattern]
    attributes = [f"{place}.{name}" for place in places for name in TERMS]
    numbers = tuple(draw(st.lists(st.sampled_from([*attributes, *AGGREGATES]), min_size=1, max_size=2)))
    conjuncts = draw(st.lists(_conjuncts(places, numbers), min_size=2, max_size=4))
    key = draw(st.sampled_from(["", "", "[k] AND "]))
    having = draw(st.sampled_from(["", "", f"HAVING {draw(_conjuncts(places, numbers))}"]))
    within = draw(st.integers(0, 5))
    return f"PATTERN {pattern} WHERE {strategy} {{ {key}{' AND '.join(conjuncts)} }} WITHIN {within} {having}"


def _resolved(text: str) -> ResolvedQuery | None:
    """None for a random query that steps through two variables, or whose HAVING does."""
    try:
        return resolve(parse(text), strategies.SCHEMA, text=text)
    except QueryTypeError:
        return None


@given(_queries(), streams(STREAM, ("A", "B", "C")))
def test_a_query_with_a_warning_has_no_match(text: str, batch: EventBatch) -> None:
    resolved = _resolved(text)
    if resolved is None:
        return
    if resolved.warnings:
        event("warned")
        assert reference_matches(resolved, batch) == [], (text, resolved.warnings)


@given(cases(stream=STREAM))
def test_a_random_query_with_a_warning_has_no_match(case: Case) -> None:
    resolved = resolve(parse(case.query), strategies.SCHEMA, text=case.query)
    if resolved.warnings:
        event("warned")
        assert reference_matches(resolved, case.stream) == [], resolved.warnings
