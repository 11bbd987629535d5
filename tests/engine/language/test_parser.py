"""Text -> tree, and the errors of text that is not of the language."""

from __future__ import annotations

import pytest

from engine.errors import QueryError, QuerySyntaxError, Span
from engine.language.ast import (
    Aggregate,
    AllOf,
    Arithmetic,
    Attribute,
    Comparison,
    Component,
    Equivalence,
    Index,
    Literal,
    Output,
    Parameter,
    Query,
    Range,
    ReturnItem,
    Sequence,
    Strategy,
)
from engine.language.parser import parse, parse_expression
from engine.language.source import MAX_QUERY_CHARS

COLLAPSED = """\
PATTERN SEQ(ReducerStart a, LoadStd+ b[], ReducerEnd c)  -- as in SASE++, Table 1
WHERE   skip_till_any_match { [task_id] AND b[i].val >= b[i-1].val AND count(b[]) >= 4
                              AND b[b.len].val >= b[1].val + :min_rise }
WITHIN  10 minutes   // ten
OUTPUT  COLLAPSED   CONFIDENCE >= 0.9
RETURN  a.task_id
"""


def test_a_whole_query() -> None:
    assert parse(COLLAPSED) == Query(
        pattern=Sequence(
            (
                Component("ReducerStart", "a"),
                Component("LoadStd", "b", kleene=True),
                Component("ReducerEnd", "c"),
            )
        ),
        strategy=Strategy.SKIP_TILL_ANY_MATCH,
        equivalences=(Equivalence("task_id"),),
        predicates=(
            Comparison(">=", Attribute("b", Index.CURRENT, "val"), Attribute("b", Index.PREVIOUS, "val")),
            Comparison(">=", Aggregate("count", "b", Range.ALL, None), Literal(4)),
            Comparison(
                ">=",
                Attribute("b", Index.LAST, "val"),
                Arithmetic("+", Attribute("b", Index.FIRST, "val"), Parameter("min_rise")),
            ),
        ),
        within_ms=600_000,
        output=Output.COLLAPSED,
        confidence=0.9,
        returns=(ReturnItem(Attribute("a", Index.SINGLE, "task_id"), "task_id"),),
    )


def _text_at(span: Span | None) -> str:
    assert span is not None
    assert span.line == span.end_line
    return COLLAPSED.split("\n")[span.line - 1][span.column - 1 : span.end_column - 1]


def test_spans_cover_the_text_of_a_node() -> None:
    query = parse(COLLAPSED)
    assert _text_at(query.pattern.span) == "SEQ(ReducerStart a, LoadStd+ b[], ReducerEnd c)"
    assert [_text_at(predicate.span) for predicate in query.predicates] == [
        "b[i].val >= b[i-1].val",
        "count(b[]) >= 4",
        "b[b.len].val >= b[1].val + :min_rise",
    ]
    assert _text_at(query.equivalences[0].span) == "task_id"
    assert _text_at(query.returns[0].span) == "a.task_id"


def test_arithmetic_associates_to_the_left_and_products_bind_tighter() -> None:
    one, two, three = Literal(1), Literal(2), Literal(3)
    assert parse_expression("1 - 2 - 3") == Arithmetic("-", Arithmetic("-", one, two), three)
    assert parse_expression("1 - 2 * 3") == Arithmetic("-", one, Arithmetic("*", two, three))
    assert parse_expression("1 / 2 % 3") == Arithmetic("%", Arithmetic("/", one, two), three)


@pytest.mark.parametrize(
    ("unit", "ms"),
    [
        ("ms", 1),
        ("s", 1_000),
        ("SECONDS", 1_000),
        ("min", 60_000),
        ("m", 60_000),
        ("hours", 3_600_000),
        ("d", 86_400_000),
    ],
)
def test_units_of_durations(unit: str, ms: int) -> None:
    assert parse(f"PATTERN A a WITHIN 2 {unit}").within_ms == 2 * ms
    assert parse(f"PATTERN A a WITHIN 2{unit}").within_ms == 2 * ms


def test_keywords_are_attribute_names_after_a_dot() -> None:
    assert parse_expression("a.within = a.AND") == Comparison(
        "=", Attribute("a", Index.SINGLE, "within"), Attribute("a", Index.SINGLE, "AND")
    )


def test_default_names_of_returned_values() -> None:
    query = parse("PATTERN A+ b[] RETURN b[1].x, avg(b[].period_ms), count(b[]), max(b[].x) AS worst")
    assert [item.name for item in query.returns] == ["x", "avg_period_ms", "count_b", "worst"]


P = "PATTERN SEQ(A a, B+ b[]) "


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("", None, "the text is empty", "PATTERN"),
        ("  \n ", None, "the text is empty", "PATTERN"),
        ("WITHIN 3", None, "no PATTERN clause", "say which events match"),
        ("PATTERN SEQ(A a, B b", (1, 21), "the query ends here", ") or ,"),
        ("PATTERN SEQ()", (1, 13), "found ')'", "a name"),
        ("PATTERN SEQ(A where)", (1, 15), "found 'where'", "where is a word of the language"),
        ("PATTERN SEQ(A a[])", (1, 15), "A is not repeated", "write A+ a[]"),
        ("PATTERN SEQ(A{3,2} a)", (1, 14), "from 3 to 2", "n <= m"),
        ("PATTERN SEQ(A{0} a)", (1, 14), "from 0 to 0", "m at least 1"),
        ("PATTERN SEQ(A{9999} a)", (1, 14), "9999 repetitions", "at most 1000"),
        ("PATTERN ANY(0, A a)", (1, 13), "found 0", "at least 1"),
        ("PATTERN ANY(1, A+ a[])", (1, 16), "inside ANY", "ANY(n, Type v, ...)"),
        ("PATTERN ANY(1, A? a)", (1, 16), "inside ANY", "ANY(n, Type v, ...)"),
        (P + "WHRE a.x = 1", (1, 26), "found 'WHRE'", "did you mean WHERE?"),
        (P + "WHERE skip_till_any { a.x = 1 }", (1, 32), "no strategy is called skip_till_any", "skip_till_any_match"),
        (P + "WHERE skip-till-nxt-match AND a.x = 1", (1, 32), "no strategy is called", "skip_till_next_match"),
        (
            P + "WHERE a.x = 1 AND skip_till_any_match",
            (1, 44),
            "skip_till_any_match stands among the predicates",
            "stands first after WHERE",
        ),
        (P + "WHERE skip_till_any_match { a.x = 1 WITHIN 3", (1, 62), "found 'WITHIN'", "}"),
        (P + 'WHERE a.x = "q"', (1, 38), "found '\"'", "single quotes"),
        (P + "WHERE a.x = 'q", (1, 38), 'found "\'"', "close the string"),
        (P + "WHERE a.x && a.y", (1, 36), "found '&'", "write AND"),
        (P + "WHERE a.x = 1 = 2", (1, 40), "found '='", "an operator"),
        (P + "WHERE b[2].x = 1", (1, 34), "no such index of b", "b[i-1]"),
        (P + "WHERE b[j].x = 1", (1, 34), "no such index of b", "b[b.len]"),
        (P + "WHERE b[i-2].x = 1", (1, 34), "no such index of b", "b[i-1]"),
        (P + "WHERE b[a.len].x = 1", (1, 34), "no such index of b", "b[b.len]"),
        (P + "WHERE b[].x = 1", (1, 32), "b[] stands for several events", "write b[i].x"),
        (P + "WHERE b[..i-1].x = 1", (1, 32), "b[..i-1] stands for several events", "write b[i].x"),
        (P + "WHERE max(b[2..i-1].x) = 1", (1, 38), "no such index of b", "b[..i-1]"),
        (P + "WHERE max(b[i].x) = 1", (1, 36), "max over one event", "b[]"),
        (P + "WHERE max(b[]) = 1", (1, 36), "max needs an attribute", "max(b[].attribute)"),
        (P + "WHERE max(b[].x + 1) = 1", (1, 42), "found '+'", ")"),
        (P + "WHERE abs(a.x) = 1", (1, 32), "no function of one value is called abs", "avg, count, first"),
        (P + "WHERE maxx(a.x) = 1", (1, 32), "no function of one value is called maxx", "did you mean max?"),
        (P + "WHERE x = 1", (1, 32), "the name x stands alone", "a.x"),
        (P + "WHERE a.x = 1 OR [y]", (1, 43), "an equivalence inside", "of its own"),
        (P + "WHERE NOT [y]", (1, 36), "an equivalence inside", "of its own"),
        (P + "WHERE a.x = 99999999999999999999", (1, 38), "beyond 2^53", "decimal point"),
        (P + "WHERE a.x = " + "9" * 5000, (1, 38), "a number of 5000 characters", "at most"),
        (P + "WHERE a.x = 1e999", (1, 38), "beyond the range of doubles", ""),
        (P + "WITHIN 10 parsecs", (1, 36), "found 'parsecs'", "a unit"),
        (P + "WITHIN 0.0001 s", (1, 33), "no whole number of milliseconds", "whole milliseconds"),
        (P + "WITHIN 1e300 days", (1, 33), "more than 2^53 milliseconds", ""),
        (P + "WITHIN 1.5 EVENTS", (1, 33), "found 1.5", "a whole number"),
        (P + "WITHIN 1\nWITHIN 2 EVENTS", (2, 1), "a second WITHIN clause; the first stands in line 1", "join them"),
        (P + "REPORT 'x' ALERT info 'y'", (1, 37), "a second ALERT, INCIDENT or REPORT clause", "at most once"),
        (P + "OUTPUT FOO", (1, 33), "found 'FOO'", "COLLAPSED"),
        (P + "OUTPUT TOP 0 BY CONFIDENCE", (1, 37), "found 0", "at least 1"),
        (P + "LIMIT 0", (1, 32), "found 0", "at least 1"),
        (P + "CONFIDENCE > 0.5", (1, 37), "CONFIDENCE >", "CONFIDENCE >= c"),
        (P + "CONFIDENCE >= 2", (1, 40), "a confidence of 2", "from 0 to 1"),
        (P + "CERTAIN_ABOVE 1.5", (1, 40), "a confidence of 1.5", "from 0 to 1"),
        (P + "SLIDE 0 s", (1, 32), "a slide of no time", "positive"),
        (P + "WEIGHT 0", (1, 33), "a weight of 0", "above 0"),
        (P + "WEIGHT -2", (1, 33), "a weight of -2", "above 0"),
        (P + "CONSUME a, b, a", (1, 40), "CONSUME names a twice", "each variable once"),
        (P + "OPEN ON a.x = 1", (1, 34), "OPEN ON looks at one event", "by their name alone"),
        (P + "OPEN ON b[i].x = 1", (1, 34), "OPEN ON looks at one event", "by their name alone"),
        (P + "OPEN ON count(b[]) = 1", (1, 34), "OPEN ON looks at one event", "by their name alone"),
        (P + "OPEN ON [x]", (1, 34), "an equivalence inside", "of its own"),
        (P + "RETURN a.x, b[1].x", (1, 38), "two values are called x", "AS name"),
        (P + "RETURN a.x + 1", (1, 33), "no name of its own", "AS name"),
        (P + "PARAMETERS p = 1, p = 2", (1, 44), "two defaults for the parameter p", "one default"),
        (P + "PARAMETERS p < 1", (1, 39), "found < after p", "name = value"),
        (P + "ALERT warnin 'x'", (1, 32), "no severity is called warnin", "did you mean warning?"),
        (P + "; drop", (1, 26), "found ';'", "one query per file"),
        ("é", (1, 1), "found 'é'", "a clause"),
        (P + "\nWHERE a.x = 'x\ud83d'", (2, 15), "half of a surrogate pair (U+D83D)", "the whole character"),
        ("\x00\x1b[31m", (1, 1), "found '?'", "a clause"),
    ],
)
def test_errors_say_place_problem_and_remedy(text: str, place: tuple[int, int] | None, message: str, hint: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text, "q.cep")
    error = caught.value
    assert (None if error.span is None else (error.span.line, error.span.column)) == place
    assert message in error.message
    assert hint in f"{error.expected} {error.remedy}"
    assert str(error).startswith("q.cep" + ("" if place is None else f":{place[0]}:{place[1]}:"))


def test_error_prints_line_and_caret() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse("PATTERN SEQ(A a,\n  B b\n  WITHIN 3", "q.cep")
    assert str(caught.value).splitlines()[:3] == ["q.cep:3:3: found 'WITHIN'", "  |   WITHIN 3", "  |   ^^^^^^"]


def test_control_characters_reach_no_terminal_and_move_no_line() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse("PATTERN A a -- \x1b[31m\u2028\x0c\nALERT '\x1b[0m\r' x", "q.cep")
    assert str(caught.value).splitlines()[:2] == ["q.cep:2:7: found \"'?[0m?'\"", "  | ALERT ' [0m ' x"]


def test_open_on_reads_bare_names_as_attributes_of_the_event() -> None:
    query = parse("PATTERN A a OPEN ON type = 'JobStart' AND limit > 10")
    assert query.open_on == AllOf(
        (
            Comparison("=", Attribute("", Index.SINGLE, "type"), Literal("JobStart")),
            Comparison(">", Attribute("", Index.SINGLE, "limit"), Literal(10)),
        )
    )


def test_clauses_know_their_place() -> None:
    query = parse("PATTERN A a\nSELECT FIRST\n  CONSUME a")
    assert query.clause_span("CONSUME") == Span(3, 3, 3, 12)
    assert query.clause_span("LIMIT") == query.span


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN A a WITHIN 10 \u017f",  # a letter whose capital is S
        "PATTERN A a WHERE \u017ftrict_contiguity",
        "PATTERN A a WHERE s\u212aip_till_any_match",  # the sign of Kelvin
        "PATTERN A a TIES STR\u0130CT",
        "PATTERN A a WITHIN \uff11\uff10",
        "PATTERN A a\u00a0WITHIN 5",
    ],
)
def test_letters_that_look_or_fold_like_ours_are_others(text: str) -> None:
    with pytest.raises(QuerySyntaxError, match=r"found|no strategy"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN A a WHERE " + "(" * 40_000,
        "PATTERN A a WHERE " + "(1 + " * 5_000 + "1" + ")" * 5_000,
        "PATTERN A a WHERE " + "NOT " * 20_000 + "a.x = 1",
        "PATTERN A a WHERE a.x = " + "- " * 20_000 + "1",
        "PATTERN A a WHERE a.x = " + "1 + " * 20_000 + "1",
        "PATTERN A a WHERE " + "a.x = 1 AND (" * 3_000,
        "PATTERN " + "!" * 40_000 + "A a",
        "PATTERN " + "SEQ(" * 20_000,
        "PATTERN " + "(" * 20_000 + "A a" + ")+" * 20_000,
        "PATTERN A a WHERE a.x = '" + "''" * 40_000,
        "WHERE" * 19_000,
        "WHERE " * 16_000,
        "-" * 99_999,
        "\n" * 99_998 + "x",
    ],
    ids=lambda text: text[:30].strip() or "newlines",
)
def test_deep_and_long_texts_are_refused_without_recursion(text: str) -> None:
    with pytest.raises(QuerySyntaxError):
        parse(text)


def test_redundant_parentheses_nest_nothing() -> None:
    assert parse_expression("(" * 400 + "1" + ")" * 400) == Literal(1)
    with pytest.raises(QuerySyntaxError, match="more than 100 levels"):
        parse_expression("(" * 1_000 + "1" + ")" * 1_000)


def test_long_flat_queries_are_accepted() -> None:
    where = " AND ".join(f"a.x != {n}" for n in range(1_500))
    assert len(parse(f"PATTERN A a WHERE {where}").predicates) == 1_500


def test_texts_of_very_many_words_are_not_read_on() -> None:
    with pytest.raises(QuerySyntaxError, match="more than 10000 words") as caught:
        parse("PATTERN A a WHERE a.x IN (" + ",".join(["1"] * 49_000) + ")")
    assert caught.value.span is not None
    assert caught.value.span.column < 11_000


def test_a_megabyte_is_refused_unread() -> None:
    with pytest.raises(QuerySyntaxError, match="1000000 characters"):
        parse("(" * 1_000_000)
    assert MAX_QUERY_CHARS < 1_000_000


def test_parse_expression_refuses_what_follows() -> None:
    with pytest.raises(QueryError, match="found 'b'"):
        parse_expression("a.x b.y")
