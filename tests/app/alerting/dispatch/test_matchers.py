"""Matchers: Alertmanager's forms and meanings, written down by hand; regular expressions against Python's."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.alerting.dispatch.matchers import (
    MAX_MATCHERS,
    all_match,
    made,
    matchers_text,
    matches_whole,
    parse_matchers,
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('severity="critical"', [("severity", "=", "critical")]),
        ("severity=critical", [("severity", "=", "critical")]),
        (" severity != critical ", [("severity", "!=", "critical")]),
        ('{severity="critical",team=~"a|b"}', [("severity", "=", "critical"), ("team", "=~", "a|b")]),
        ('{ severity = "critical" , }', [("severity", "=", "critical")]),
        ('summary!~"a, {b}=\\"c\\""', [("summary", "!~", 'a, {b}="c"')]),
        ('foo="line\\nnext\\\\"', [("foo", "=", "line\nnext\\")]),
        ('"über job"="x"', [("über job", "=", "x")]),
        ("host=", [("host", "=", "")]),
        ('host=""', [("host", "=", "")]),
        ("host=~node[0-9]+", [("host", "=~", "node[0-9]+")]),
        ("job=two words", [("job", "=", "two words")]),
        ("{}", []),
        ("", []),
    ],
)
def test_forms(text: str, parts: list[tuple[str, str, str]]) -> None:
    assert [(m.name, m.operator, m.value) for m in parse_matchers(text)] == parts


@pytest.mark.parametrize(
    "text",
    [
        "severity",
        '="x"',
        'a="b',
        'a=="b" c',
        '{a="b"',
        'a="b"}',
        'a="b" c="d"',
        'a=~"("',
        'a=~"(?=x)"',
        '""="x"',
        ',a="b"',
    ],
)
def test_what_is_no_matcher_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|RE2|without"):
        parse_matchers(text)


def test_too_many_and_too_long_are_refused() -> None:
    with pytest.raises(ValueError, match=f"more than {MAX_MATCHERS}"):
        parse_matchers(",".join(f'a{i}="x"' for i in range(MAX_MATCHERS + 1)))
    with pytest.raises(ValueError, match="shorter"):
        made("a", "=~", "x" * 5_000)


@pytest.mark.parametrize(
    ("matcher", "labels", "holds"),
    [
        ('a="x"', {"a": "x"}, True),
        ('a="x"', {}, False),
        ('a=""', {}, True),
        ('a=""', {"a": "x"}, False),
        ('a!="x"', {}, True),
        ('a!=""', {}, False),
        ('a=~"x|y"', {"a": "y"}, True),
        ('a=~"x|y"', {"a": "xy"}, False),
        ('a=~"x"', {"a": "axa"}, False),
        ('a=~".*x.*"', {"a": "axa"}, True),
        ('a=~""', {}, True),
        ('a=~".+"', {}, False),
        ('a=~"x|"', {}, True),
        ('a!~"x|y"', {}, True),
        ('a!~".+"', {"a": "x"}, False),
        ('a=~"x$|y"', {"a": "x"}, True),
        ('a=~".*"', {"a": "x\ny"}, False),
    ],
)
def test_meanings(matcher: str, labels: dict[str, str], holds: bool) -> None:
    assert all_match(parse_matchers(matcher), labels) is holds


def test_nested_repetition_takes_linear_time() -> None:
    assert not matches_whole("(a|a)*b", "a" * 200_000)
    assert not matches_whole("(a*)*c", "a" * 200_000)


PATTERNS = st.text("ab|.*+()?[]x", max_size=8)


@given(PATTERNS, st.text("abx", max_size=6))
def test_regular_expressions_are_as_pythons(pattern: str, value: str) -> None:
    """On what both know: possessive quantifiers and what RE2 refuses are left out."""
    try:
        made("a", "=~", pattern)
        expected = re.compile(pattern)
    except (ValueError, re.error):
        return
    if re.search(r"[*+?][+?*]", pattern):
        return
    assert matches_whole(pattern, value) is (expected.fullmatch(value) is not None)


NAMES = st.from_regex(r"[A-Za-z_:][A-Za-z0-9_:]{0,5}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\x0b\x0c\x85"), max_size=8)


@given(st.lists(st.tuples(NAMES, st.sampled_from(["=", "!="]), VALUES), max_size=4))
def test_what_is_printed_is_read_again(parts: list[tuple[Any, ...]]) -> None:
    matchers = tuple(made(*part) for part in parts)
    assert parse_matchers(matchers_text(matchers)) == matchers


@pytest.mark.parametrize("pattern", ["node1)|(?:[a-z0-9]+", "a)", "(a", "[a"])
def test_an_expression_that_is_none_by_itself_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="no regular expression of RE2"):
        made("host", "=~", pattern)


@pytest.mark.parametrize(
    "pattern", ["(((.{0,9}){0,10}){0,10})", r"(?i)\pL" * 200, "(((.?){10}){10}){9}", "([^a]{90}){9}"]
)
def test_an_expression_that_takes_long_however_short_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="fewer or smaller repetitions"):
        made("host", "=~", pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}", "[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}",
        "|".join(f"node{n}[.]example[.]org" for n in range(100)),
        r"job_\d{13}_\d{4,}", "(a|b)*c+d?", r"\pL{1,20}", "x{500}",
    ],
)  # fmt: skip
def test_expressions_as_people_write_them_are_taken(pattern: str) -> None:
    assert made("host", "=~", pattern).value == pattern


def test_quoted_expressions_end_with_the_text() -> None:
    assert made("host", "=~", r"\Qnode.1").matches({"host": "node.1"})
    assert not made("host", "=~", r"\Qnode.1\E").matches({"host": "nodex1"})
