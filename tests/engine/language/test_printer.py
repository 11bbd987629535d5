"""parse(print(tree)) is the tree, and print(parse(text)) the canonical text."""

from __future__ import annotations

import pytest
from hypothesis import given

from engine.language.ast import Expression, Query
from engine.language.parser import parse, parse_expression
from engine.language.printer import print_expression, print_query
from tests.engine.language.fixture_lines import cases
from tests.engine.language.syntax_strategies import EXPRESSIONS, queries


@pytest.mark.parametrize(("text", "canonical"), cases("expressions.txt"))
def test_expression_prints_in_canonical_form(text: str, canonical: str) -> None:
    tree = parse_expression(text)
    assert print_expression(tree) == canonical
    assert parse_expression(canonical) == tree


@pytest.mark.parametrize(("text", "canonical"), cases("queries.txt"))
def test_query_prints_in_canonical_form(text: str, canonical: str) -> None:
    tree = parse(text)
    assert print_query(tree).replace("\n", " ").strip() == canonical
    assert parse(canonical) == tree


@given(EXPRESSIONS)
def test_every_expression_survives_printing(expression: Expression) -> None:
    assert parse_expression(print_expression(expression)) == expression


@given(queries())
def test_every_query_survives_printing(query: Query) -> None:
    assert parse(print_query(query)) == query
