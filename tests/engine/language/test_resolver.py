"""Checks against the schema, parameters, and the partition key."""

from __future__ import annotations

import pytest

from engine.compiled.query import compile_query
from engine.errors import QueryTypeError
from engine.events import AttributeType, EventSchema
from engine.language.ast import Aspect, Comparison, HostRole, Literal, NamedHost, Parameter, Shown, walk
from engine.language.parser import parse
from engine.language.printer import print_query
from engine.language.resolver import ResolvedQuery, Value, resolve

INT, FLOAT, STRING = AttributeType.INT, AttributeType.FLOAT, AttributeType.STRING
SCHEMA = EventSchema.of(
    {
        "JobStart": {"job_id": STRING, "user": STRING, "n_maps": INT},
        "JobEnd": {"job_id": STRING, "status": STRING, "period_ms": INT},
        "Mapper": {"job_id": STRING, "task_id": STRING, "period_ms": INT, "ratio": FLOAT},
        "LoadStd": {"val": FLOAT},
        "ReducerStart": {"job_id": STRING, "task_id": STRING},
        "ReducerEnd": {"job_id": STRING, "task_id": STRING},
    }
)
JOB = "PATTERN SEQ(JobStart a, !JobEnd n, Mapper+ b[], JobEnd c) "


def _resolve(text: str, **parameters: Value) -> ResolvedQuery:
    return resolve(parse(text), SCHEMA, parameters, text=text, name="q.cep")


def _where(predicate: str, rest: str = "") -> str:
    return f"{JOB}WHERE skip_till_any_match {{ {predicate} }} WITHIN 1 day {rest}"


@pytest.mark.parametrize(
    "predicate",
    [
        "a.user = 'root'",
        "a.user IN ('root', NULL, 'hdfs')",
        "NOT a.user = b[i].job_id",
        "a.n_maps + 1 > count(b[]) * 2",
        "b[i].ratio >= b[i-1].period_ms",
        "b[i].ratio > avg(b[..i-1].ratio) AND b[1].ratio < 2",
        "b[b.len].period_ms > 2 * avg(b[..b.len-1].period_ms)",
        "first(b[].task_id) = last(b[].task_id)",
        "count(b[].task_id) IN (1, 2.5)",
        "c.timestamp - a.timestamp > 5 s",
        "n.status = 'FAILED' AND n.period_ms > a.n_maps",
        "a.n_maps = NULL OR a.n_maps % 2 = 0",
        "[b.task_id] AND [job_id]",
        "-b[i].ratio < -1",
    ],
)
def test_well_typed_predicates(predicate: str) -> None:
    _resolve(_where(predicate))


@pytest.mark.parametrize(
    ("text", "found", "hint"),
    [
        ("PATTERN JobStrt a WITHIN 1", "no event type is called JobStrt", "did you mean JobStart?"),
        (
            "PATTERN slow_jobs a WITHIN 1",
            "no event type is called slow_jobs",
            "name of a query that is compiled together",
        ),
        ("PATTERN SEQ(JobStart a, JobEnd a) WITHIN 1", "variable a stands for two components", "a variable of its own"),
        ("PATTERN SEQ(Mapper, Mapper) WITHIN 1", "variable Mapper stands for two", "a variable of its own"),
        ("PATTERN OR(JobStart a, JobEnd a) WITHIN 1", "different things in the parts of an OR", "JobStart a"),
        ("PATTERN SEQ(JobStart a?, (JobEnd b)*) WITHIN 1", "can match without any event", "mandatory"),
        ("PATTERN OR(JobStart a, JobEnd b?) WITHIN 1", "can match without any event", "mandatory"),
        ("PATTERN SEQ(!JobStart a) WITHIN 1", "only negated parts", "add the event"),
        ("PATTERN !JobStart a WITHIN 1", "no part of a sequence", "put it into a SEQ"),
        ("PATTERN AND(JobStart a, !JobEnd b) WITHIN 1", "no part of a sequence", "put it into a SEQ"),
        ("PATTERN SEQ(JobStart a, !!JobEnd b) WITHIN 1", "inside a negated pattern", "leave the inner one out"),
        ("PATTERN SEQ(Mapper m, !SEQ(JobEnd b, !JobStart a), JobEnd c) WITHIN 1", "inside a negated", "!SEQ(A a, B b)"),
        ("PATTERN SEQ(JobStart a, (!JobEnd b)+) WITHIN 1", "no part of a sequence", "put it into a SEQ"),
        ("PATTERN SEQ(JobStart a, (SEQ(!JobEnd b))+) WITHIN 1", "a repeated pattern can match without", "leave out"),
        (
            "PATTERN SEQ(Mapper m, AND(SEQ(!JobEnd b, JobStart a), LoadStd d)) WITHIN 1",
            "at the start of an operand of AND",
            "between two parts of the operand",
        ),
        (
            "PATTERN SEQ(AND(SEQ(JobStart a, Mapper m?, !JobEnd b), LoadStd d), JobEnd e) WITHIN 1",
            "at the end of an operand of AND",
            "beside the AND",
        ),
        (
            f"PATTERN SEQ(JobStart z, {', '.join(f'Mapper m{k}?' for k in range(40))}) WITHIN 1",
            "stands for about 10^12 patterns",
            "at most 256",
        ),
        (
            f"PATTERN SEQ(JobStart z, ANY(20, {', '.join(f'Mapper m{k}' for k in range(40))})) WITHIN 1",
            "stands for about 10^11 patterns",
            "several queries",
        ),
        (
            "PATTERN SEQ(JobStart a, !JobEnd n, Mapper m, !LoadStd k, JobEnd c) "
            "WHERE skip_till_any_match { n.period_ms > k.val } WITHIN 1",
            "belong to two negated patterns",
            "negate them together",
        ),
        ("PATTERN SEQ(JobStart a, !JobEnd b?) WITHIN 1", "the negated pattern can match without", "leave out"),
        ("PATTERN SEQ(JobStart a, (Mapper b?)+) WITHIN 1", "a repeated pattern can match without", "leave out"),
        ("PATTERN ANY(3, JobStart a, JobEnd b) WITHIN 1", "ANY(3, ...) of 2 components", "at most 2"),
        ("PATTERN JobStart a WITHIN 1", "names no event selection strategy", "skip_till_any_match"),
        ("PATTERN JobStart a WHERE skip_till_any_match", "no WITHIN clause", "how far apart"),
        (_where("d.user = 'x'"), "no variable d", "one of a, n, b, c"),
        (_where("a.usr = 'x'"), "JobStart have no attribute usr", "did you mean user?"),
        (_where("a.task_id = 'x'"), "JobStart have no attribute task_id", "Mapper, ReducerEnd, ReducerStart have it"),
        (_where("b.period_ms > 1"), "b stands for several events", "b[i].period_ms"),
        (_where("b.len > 1"), "b stands for several events", "count(b[])"),
        (_where("a[i].n_maps > 1"), "a is a single event and has no index", "write JobStart+ a[]"),
        (_where("a[1].n_maps > 1"), "a is a single event and has no index", "a.n_maps"),
        (_where("sum(a[].n_maps) > 1"), "sum aggregates several", "a.n_maps"),
        (_where("sum(b[].task_id) > 1"), "sum of b's task_id, which is text", "a numeric attribute"),
        (_where("max(b[].task_id) = 'x'"), "max of b's task_id, which is text", "a numeric attribute"),
        (_where("maxx(b[].ratio) > 1"), "no aggregate is called maxx", "did you mean max?"),
        (_where("a.user > 'x'"), "text has no order for >", "= or != or IN"),
        (_where("a.user = 1"), "compares text with a whole number", "single quotes"),
        (_where("a.user + 1 = 2"), "a.user is text", "a number for +"),
        (_where("-a.user = 2"), "a.user is text", "a number for the sign"),
        (_where("a.user IN ('x', 1)"), "1 is a whole number", "text, as a.user"),
        (_where("a.n_maps IN (1, 'x')"), "'x' is text", "a whole number, as a.n_maps"),
        (_where("a.n_maps"), "a.n_maps is a whole number", "compare it"),
        (_where("NOT a.n_maps"), "a.n_maps is a whole number", "compare it"),
        (_where("(a.n_maps = 1) = (a.n_maps = 2)"), "a.n_maps = 1 is a condition", "AND, OR, NOT"),
        (_where("(a.n_maps = 1) + 1 = 2"), "a.n_maps = 1 is a condition", "a number for +"),
        (_where("[rack]"), "no event of the pattern has the attribute rack", "at least one"),
        (_where("[jobid]"), "no event of the pattern has the attribute jobid", "did you mean job_id?"),
        (_where("[a.task_id]"), "no event of a has the attribute task_id", "at least one"),
        (_where("[d.task_id]"), "no variable d", "one of a, n, b, c"),
        (_where("a.n_maps > :k"), "the parameter k has no value", "write PARAMETERS k = value"),
        (_where("", "RETURN b[i].ratio"), "b[i].ratio stands for each event in turn", "b[1].ratio"),
        (_where("", "RETURN max(b[..i-1].ratio)"), "depends on i", "b[]"),
        (_where("", "RETURN n.status"), "n is negated", "not negated"),
        (_where("", "RETURN a.n_maps > 1 AS x"), "a.n_maps > 1 is a condition", "a number or text"),
        (_where("", "HAVING count(b[])"), "count(b[]) is a whole number", "compare it"),
        (_where("", "RETURN a.user ALERT info 'by {usr}'"), "mentions {usr}", "did you mean user?"),
        (_where("", "RETURN a.user ALERT info 'x' PER user, usr"), "PER names usr", "did you mean user?"),
        (_where("", "REPORT '{user}'"), "mentions {user}", "a RETURN clause with that value"),
        (_where("", "RETURN a.n_maps ALERT info '{n_map:size}'"), "mentions {n_map:size}", "did you mean n_maps?"),
        (_where("", "RETURN a.n_maps ALERT info '{n_maps:bytes}'"), "no format is called bytes", "size (of bytes)"),
        (_where("", "RETURN a.n_maps ALERT info '{n_maps:}'"), "no format is called", "duration (of milliseconds)"),
        (_where("", "RETURN a.n_maps ALERT info '{n_maps.}'"), "no value is called", "{n_maps.first}"),
        (_where("", "RETURN a.n_maps ALERT info '{n_maps.maximum}'"), "called maximum", "{n_maps.max}"),
        (_where("", "RETURN a.n_maps ALERT info '{n_maps.lst}'"), "called lst", "did you mean last?"),
        (
            _where("", "RETURN a.n_maps ALERT info '{n_maps.max:size.x}'"),
            "no format is called size.x",
            "did you mean size?",
        ),
        (_where("", "RETURN a.n_maps ALERT info '{n_maps:unit}'"), "which is no value of RETURN", "one of n_maps"),
        (_where("", "RETURN a.n_maps ALERT info '{queries}'"), "mentions {queries}", "one of n_maps"),
        (_where("", "RETURN a.n_maps INCIDENT info '{queries:size}'"), "mentions {queries:size}", "one of n_maps"),
        (_where("", "RETURN a.n_maps ALERT info '{n_maps size}'"), "mentions {n_maps size}", "one of n_maps"),
        (_where("", "RETURN a.user ALERT info '{user:time}'"), "user is text", "a number for time"),
        (_where("", "RETURN a.user ALERT info '{user.min}'"), "user is text", "ask for FIRST or LAST"),
        (_where("", "RETURN a.n_maps REPORT '{n_maps.max}'"), "a row of a report is of one match", "{n_maps}"),
        (_where("", "RETURN a.n_maps ALERT info 'x' SHOW MAX n_map"), "SHOW names n_map", "did you mean n_maps?"),
        (_where("", "RETURN a.n_maps ALERT info 'x' SHOW MAX n_maps WITH (y)"), "SHOW names y", "add it to RETURN"),
        (_where("", "RETURN a.user ALERT info 'x' SHOW MAX user"), "MAX user, but user is text", "FIRST or LAST"),
        (_where("", "RETURN a.user SHOW LAST user"), "the query raises none", "add ALERT"),
        (_where("", "RETURN a.user REPORT 'x' HOSTS SUSPECT user"), "HOSTS says what an alert tells", "add ALERT"),
        (_where("", "REPORT 'x' ONSET a"), "ONSET says what an alert tells", "leave ONSET out"),
        (_where("", "RETURN a.user ALERT info 'x' HOSTS SUSPECT usr"), "HOSTS names usr", "did you mean user?"),
        (_where("", "RETURN a.user ALERT info 'x' HOSTS SUSPECT user (y)"), "shows y beside user", "add it to RETURN"),
        (
            _where("", "RETURN a.n_maps ALERT info 'x' HOSTS SUSPECT n_maps"),
            "which is a whole number",
            "name of a host",
        ),
        (_where("", "ALERT info 'x' ONSET d"), "no variable of the pattern", "one of a, b, c"),
        (_where("", "ALERT info 'x' ONSET n"), "which is negated", "one of a, b, c"),
        (
            "PATTERN SEQ(Mapper+ a[], Mapper+ b[]) WHERE skip_till_any_match { a[i].ratio = b[i].ratio } WITHIN 1",
            "step through two variables at once",
            "b[1], b[b.len]",
        ),
        (
            "PATTERN SEQ(Mapper+ a[], Mapper+ b[]) WHERE skip_till_any_match { a[i-1].ratio = b[i].ratio } WITHIN 1",
            "step through two variables at once",
            "b[1], b[b.len]",
        ),
    ],
)
def test_errors_say_what_is_wrong_and_what_to_write(text: str, found: str, hint: str) -> None:
    with pytest.raises(QueryTypeError) as caught:
        _resolve(text)
    error = caught.value
    assert found in error.message
    assert hint in f"{error.expected} {error.remedy}"
    assert error.span is not None
    assert str(error).startswith(f"q.cep:{error.span.line}:{error.span.column}: ")
    assert "^" in str(error)


def test_key_is_what_every_variable_shares_and_other_types_are_broadcast() -> None:
    resolved = _resolve(
        "PATTERN SEQ(ReducerStart a, LoadStd+ b[], ReducerEnd c, JobEnd d) "
        "WHERE skip_till_any_match { [task_id, job_id] AND [a.job_id] AND [task_id] } WITHIN 1"
    )
    assert resolved.key == ("task_id", "job_id")
    both = ("task_id", "job_id")
    assert resolved.keyed == {"a": both, "b": (), "c": both, "d": ("job_id",)}


def test_an_equivalence_of_one_variable_is_no_key() -> None:
    resolved = _resolve(_where("[b.task_id]"))
    assert (resolved.key, resolved.keyed) == ((), {"a": (), "n": (), "b": (), "c": ()})
    assert resolved.query.equivalences[0].variable == "b"


def test_variables_know_type_kleene_and_negation() -> None:
    variables = _resolve(_where("")).variables.values()
    assert [(v.name, v.event_type, v.kleene, v.negated) for v in variables] == [
        ("a", "JobStart", False, False),
        ("n", "JobEnd", False, True),
        ("b", "Mapper", True, False),
        ("c", "JobEnd", False, False),
    ]


NESTED = "PATTERN SEQ((SEQ(Mapper+ a[], JobEnd b, (SEQ(LoadStd d, LoadStd e))+))+, (JobStart f){2,3}, ReducerEnd c) "


def _nested(predicate: str) -> ResolvedQuery:
    return _resolve(f"{NESTED}WHERE skip_till_any_match {{ {predicate} }} WITHIN 1 day")


def test_variables_know_the_repeated_groups_around_them() -> None:
    variables = _nested("").variables.values()
    assert [(v.name, v.path, v.kleene, v.closure, v.at_least, v.at_most) for v in variables] == [
        ("a", (0,), True, True, 1, None),
        ("b", (0,), True, False, 1, 1),
        ("d", (0, 1), True, False, 1, 1),
        ("e", (0, 1), True, False, 1, 1),
        ("f", (), True, True, 2, 3),
        ("c", (), False, False, 1, 1),
    ]


@pytest.mark.parametrize(
    ("predicate", "context"),
    [
        ("1 = 2", ()),
        ("b.period_ms > 1", (0,)),  # plain: in each iteration
        ("d.val < e.val", (0, 1)),
        ("d.val < b.period_ms", (0, 1)),
        ("c.timestamp > b.timestamp", (0,)),
        ("b[i].period_ms > b[i-1].period_ms", ()),  # across iterations
        ("d[i].val > d[i-1].val", (0,)),
        ("a[i].ratio > a[i-1].ratio", (0,)),  # within each iteration
        ("count(a[]) >= 2", (0,)),
        ("a[i].ratio > b.period_ms", (0,)),
        ("a[i].ratio > b[b.len].period_ms", ()),
        ("a[i].ratio > d[1].val", (0,)),
        ("max(a[].ratio) < c.timestamp", ()),  # over all
        ("count(f[]) = 2", ()),
        ("count(f[]) = count(d[])", ()),
        ("d.val > avg(b[].period_ms)", (0, 1)),
    ],
)
def test_context_of_a_conjunct(predicate: str, context: tuple[int, ...]) -> None:
    (reading,) = _nested(predicate).reading
    assert reading.context == context


def test_sentences_name_the_group_of_the_context() -> None:
    first, second = _nested("d.val < e.val AND a[i].ratio > a[i-1].ratio").reading
    assert first.sentence == "d.val < e.val holds once, in each iteration of {d, e}"
    assert second.sentence.endswith("needs an event before, in each iteration of {a, b, d, e}")


def test_plain_references_into_two_groups_are_refused() -> None:
    with pytest.raises(QueryTypeError) as caught:
        _resolve(
            "PATTERN SEQ((SEQ(JobStart a, JobEnd b))+, (SEQ(LoadStd d, LoadStd e))+) "
            "WHERE skip_till_any_match { a.n_maps > d.val } WITHIN 1"
        )
    assert "a.n_maps and d.val stand in different repeated groups" in caught.value.message
    assert caught.value.expected is not None
    assert "a is in the group {a, b}, d in the group {d, e}" in caught.value.expected
    assert "d[1]" in (caught.value.remedy or "")


@pytest.mark.parametrize("rest", ["RETURN b.period_ms", "HAVING d.val > 1", "RETURN f.n_maps", "RETURN b[i].period_ms"])
def test_results_see_repeated_groups_from_outside(rest: str) -> None:
    with pytest.raises(QueryTypeError, match=r"several events|in turn"):
        _resolve(f"{NESTED}WHERE skip_till_any_match WITHIN 1 {rest}")
    _resolve(f"{NESTED}WHERE skip_till_any_match WITHIN 1 RETURN b[1].period_ms, max(d[].val), count(f[]), c.job_id")


def test_parts_of_an_or_share_no_variable_of_different_groups() -> None:
    with pytest.raises(QueryTypeError, match="a stands for different things"):
        _resolve(
            "PATTERN OR((SEQ(JobStart a, JobEnd b))+, (SEQ(JobStart a, JobEnd c))+) WHERE skip_till_any_match WITHIN 1"
        )


PLAIN = "PATTERN SEQ(JobStart a, !JobEnd n, Mapper+ b[]) WHERE skip_till_any_match "


def test_clauses_have_plain_values() -> None:
    resolved = _resolve(
        PLAIN + "WITHIN 1 day SLIDE :step CERTAIN_ABOVE :sure SELECT FIRST CONSUME a, b WEIGHT 2 "
        "PARAMETERS step = 1 hour, sure = 0.5"
    )
    assert (resolved.slide_ms, resolved.certain_above, resolved.weight) == (3_600_000, 0.5, 2.0)
    assert (resolved.select_first, resolved.consume, resolved.open_on) == (True, ("a", "b"), None)
    assert parse(print_query(resolved.query)) == resolved.query
    plain = _resolve(PLAIN + "WITHIN 1 day OPEN ON type = 'JobEnd' AND period_ms > :p OR timestamp > 5", p=4)
    assert (plain.slide_ms, plain.certain_above, plain.weight, plain.consume) == (None, None, 1.0, ())
    assert "period_ms > 4" in print_query(plain.query)


@pytest.mark.parametrize(
    ("rest", "found", "hint", "at"),
    [
        ("WITHIN 5 EVENTS SLIDE 1 s", "SLIDE steps through time", "WITHIN duration", "SLIDE 1 s"),
        ("WITHIN 5 SLIDE 1 OPEN ON val > 1", "SLIDE and OPEN ON exclude", "leave one", "SLIDE 1"),
        ("WITHIN 5 SLIDE :s PARAMETERS s = 0", "a slide of no time", "positive", "SLIDE :s"),
        ("WITHIN 5 OUTPUT TOP 3 BY CONFIDENCE LIMIT 5", "both bound the number of rows", "leave LIMIT out", "LIMIT 5"),
        ("WITHIN 5 CONSUME a, c", "CONSUME names c", "one of a, b", "CONSUME a, c"),
        ("WITHIN 5 CONSUME n", "n, which is negated", "not negated", "CONSUME n"),
        ("WITHIN 5 OPEN ON vall > 1", "no event has an attribute vall", "did you mean val?", "vall"),
        ("WITHIN 5 OPEN ON type = 'JobEnds'", "no event type is called JobEnds", "did you mean JobEnd?", "'JobEnds'"),
        ("WITHIN 5 OPEN ON type IN ('X')", "no event type is called X", "one of JobEnd", "'X'"),
        ("WITHIN 5 OPEN ON type > 'X'", "text has no order", "= or !=", "type > 'X'"),
        ("WITHIN 5 OPEN ON val", "val is a real number", "compare it", "val"),
        ("WITHIN 5 OPEN ON val = 'x'", "compares text with a real number", "single quotes", "val = 'x'"),
    ],
)
def test_clauses_that_do_not_go_together_are_refused_at_their_place(rest: str, found: str, hint: str, at: str) -> None:
    with pytest.raises(QueryTypeError) as caught:
        _resolve(PLAIN + rest)
    error = caught.value
    assert found in error.message
    assert hint in f"{error.expected} {error.remedy}"
    assert error.span is not None
    assert (PLAIN + rest)[error.span.column - 1 : error.span.end_column - 1] == at


@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(JobStart a, !SEQ(Mapper m, (LoadStd l)+, OR(JobEnd e, ReducerEnd f)), JobEnd c)",
        "SEQ(JobStart a, SEQ(!Mapper m, JobEnd b))",
        "(SEQ(!LoadStd l, JobStart a, !Mapper m, JobEnd b, !ReducerEnd r)){2,3}",
        "SEQ(Mapper x, AND(SEQ(JobStart a, !LoadStd l, JobEnd b), Mapper m), !ReducerEnd r)",
        "SEQ(!LoadStd l, AND(JobStart a, JobEnd b))",
    ],
)
def test_places_of_negations(pattern: str) -> None:
    _resolve(f"PATTERN {pattern} WHERE skip_till_any_match WITHIN 1")


def test_components_of_one_negated_pattern_may_be_related() -> None:
    _resolve(
        "PATTERN SEQ(JobStart a, !SEQ(JobEnd n, LoadStd k), JobEnd c) "
        "WHERE skip_till_any_match { n.period_ms > k.val + a.n_maps } WITHIN 1"
    )


def test_registered_aggregates_are_functions_of_numbers() -> None:
    text = _where("median(b[].period_ms) > 3 AND median(b[..i-1].ratio) > 2", "RETURN median(b[].period_ms)")
    resolved = resolve(parse(text), SCHEMA, aggregates=["median"])
    assert resolved.return_types == (FLOAT,)
    with pytest.raises(QueryTypeError, match="which is text"):
        resolve(parse(_where("median(b[].task_id) > 3")), SCHEMA, aggregates=["median"])
    with pytest.raises(QueryTypeError) as caught:
        resolve(parse(_where("medan(b[].ratio) > 3")), SCHEMA, aggregates=["median"])
    assert caught.value.expected == "one of avg, count, first, last, max, min, repeats, stddev, sum, median"
    assert caught.value.remedy == "did you mean median?"


def test_parts_of_an_or_share_a_variable() -> None:
    text = "PATTERN OR(SEQ(JobStart a, JobEnd b), SEQ(JobStart a, Mapper c)) WHERE skip_till_any_match {} WITHIN 1"
    assert list(_resolve(text).variables) == ["a", "b", "c"]
    _resolve(
        "PATTERN OR(SEQ(JobStart a, !LoadStd n, JobEnd b), SEQ(JobStart a, !LoadStd n, Mapper c)) "
        "WHERE skip_till_any_match { n.val > a.n_maps } WITHIN 1"
    )


PARAMETERS = (
    "PATTERN SEQ(JobStart a, JobEnd c) "
    "WHERE skip_till_any_match { c.period_ms >= -:low AND a.user IN ('x', :who) AND a.n_maps = :n } "
    "WITHIN :window CONFIDENCE >= :sure RETURN c.period_ms * :n AS scaled "
    "PARAMETERS low = 5, who = 'root', n = 2, window = 10 minutes, sure = 0.9"
)


def test_defaults_become_literals_everywhere() -> None:
    resolved = _resolve(PARAMETERS)
    assert resolved.parameters == {"low": 5, "who": "root", "n": 2, "window": 600_000, "sure": 0.9}
    assert (resolved.within_ms, resolved.confidence) == (600_000, 0.9)
    assert not [node for node in walk(resolved.query) if isinstance(node, Parameter)]
    first = resolved.query.predicates[0]
    assert isinstance(first, Comparison)
    assert first.right == Literal(-5)
    assert parse(print_query(resolved.query)) == resolved.query


def test_given_values_win_over_defaults() -> None:
    resolved = _resolve(PARAMETERS, low=1.5, window=7, sure=1)
    assert resolved.parameters == {"low": 1.5, "who": "root", "n": 2, "window": 7, "sure": 1}
    assert (resolved.within_ms, resolved.confidence) == (7, 1.0)
    assert "-1.5" in print_query(resolved.query)


def test_a_parameter_without_default_is_given() -> None:
    assert _resolve(_where("a.n_maps > :k"), k=3).parameters == {"k": 3}


@pytest.mark.parametrize(
    ("given", "found", "hint"),
    [
        ({"loww": 1}, "parameter loww, which the query does not have", "did you mean low?"),
        ({"low": "5"}, "low is given '5'", "a number, as its default"),
        ({"who": 5}, "who is given 5", "a text, as its default"),
        ({"who": "a\udcff"}, "who is given 'a\\udcff', with half of a surrogate pair", "in UTF-8"),
        ({"low": True}, "low is given True (bool)", "a number or text"),
        ({"low": None}, "low is given None (NoneType)", "a number or text"),
        ({"low": float("nan")}, "low is given nan", "finite"),
        ({"low": 2**53 + 1}, "low is given 9007199254740993", "2^53"),
        ({"window": -1}, "window is -1", "a duration"),
        ({"window": 1.5}, "window is 1.5", "a duration"),
        ({"sure": 1.1}, "sure is 1.1", "from 0 to 1"),
        ({"sure": -0.1}, "sure is -0.1", "from 0 to 1"),
    ],
)
def test_parameters_are_refused_never_replaced(given: dict[str, Value], found: str, hint: str) -> None:
    with pytest.raises(QueryTypeError) as caught:
        _resolve(PARAMETERS, **given)
    assert found in caught.value.message
    assert hint in f"{caught.value.expected} {caught.value.remedy}"


def test_a_parameter_of_the_wrong_kind_fails_where_it_is_used() -> None:
    with pytest.raises(QueryTypeError, match="compares text with a whole number"):
        _resolve(_where("a.user = :k"), k=3)


def test_types_of_returned_values() -> None:
    resolved = _resolve(
        _where(
            "",
            "RETURN a.user, a.n_maps, avg(b[].period_ms), sum(b[].period_ms), max(b[].ratio), count(b[]), "
            "last(b[].task_id) AS task, a.n_maps / 2 AS half, a.n_maps % 2 AS odd, a.timestamp, a.n_maps + 0.5 AS more",
        )
    )
    assert resolved.return_types == (STRING, INT, FLOAT, INT, FLOAT, INT, STRING, FLOAT, INT, INT, FLOAT)


def test_what_an_alert_tells_is_checked_and_carried() -> None:
    text = _where(
        "",
        "RETURN a.user, a.n_maps, max(b[].ratio) AS ratio "
        "ALERT info '{user} {user.first} {n_maps:duration} {ratio.max:size} {n_maps.last:time}' "
        "SHOW MAX ratio WITH (n_maps), FIRST user HOSTS SUSPECT user (ratio) ONSET b",
    )
    query = _resolve(text).query
    assert query.shown == (Shown(Aspect.MAX, "ratio", ("n_maps",)), Shown(Aspect.FIRST, "user"))
    assert (query.hosts, query.onset) == ((NamedHost(HostRole.SUSPECT, "user", "ratio"),), "b")


@pytest.mark.parametrize("notice", ["ALERT info '{n_maps.max:unit}'", "INCIDENT info '{n_maps:unit}: {queries}'"])
def test_texts_may_name_units_and_what_is_behind_an_incident(notice: str) -> None:
    assert _resolve(_where("", f"RETURN a.n_maps, a.user AS unit {notice}")).query.notice is not None


def test_what_becomes_of_matches_is_no_part_of_their_meaning() -> None:
    plain = compile_query(_where("", "RETURN a.user"), SCHEMA)
    told = compile_query(
        _where("", "RETURN a.user ALERT info '{user}' SHOW LAST user HOSTS SUSPECT user ONSET b GROUP_GAP 1 s"), SCHEMA
    )
    other = compile_query(_where("", "RETURN a.n_maps"), SCHEMA)
    assert plain.hash == told.hash != other.hash


def test_what_repeats_is_counted_before_an_event() -> None:
    _resolve(_where("repeats(b[..i-1].task_id) = 0"))
    with pytest.raises(QueryTypeError, match=r"repeats\(b\[\].task_id\) has no event to compare with") as caught:
        resolve(parse(_where("repeats(b[].task_id) = 0")), SCHEMA)
    assert caught.value.expected == "repeats(b[..i-1].task_id)"
    with pytest.raises(QueryTypeError, match="depends on i"):
        resolve(parse(_where("b[i].period_ms > 0", "RETURN repeats(b[..i-1].task_id)")), SCHEMA)
