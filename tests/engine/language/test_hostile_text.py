"""Only QueryError comes out of the parser and the resolver, whatever the text."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import QueryError
from engine.events import AttributeType, EventSchema
from engine.language.parser import parse
from engine.language.printer import print_query
from engine.language.resolver import resolve
from tests.engine.language.fixture_lines import cases

QUERIES = [text for text, _ in cases("queries.txt")]
PIECES = sorted({word for text in QUERIES for word in text.replace("(", " ( ").replace(")", " ) ").split()})
GARBAGE = st.one_of(
    st.text(),
    st.binary().map(lambda raw: raw.decode("latin-1")),
    st.text(alphabet="()[]{}'\"-+*/%!~?.,:=<>0123456789 abi\n"),
    st.lists(st.sampled_from(PIECES), max_size=30).map(" ".join),
)
SCHEMA = EventSchema.of(
    {name: {"x": AttributeType.INT, "y": AttributeType.STRING, "job_id": AttributeType.STRING} for name in "ABCD"}
)


@st.composite
def mutated_queries(draw: st.DrawFn) -> str:
    """A query with a few cuts, insertions and exchanges."""
    text = draw(st.sampled_from(QUERIES))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 8)))
        text = text[:start] + draw(st.one_of(st.text(max_size=4), st.sampled_from(PIECES))) + text[end:]
    return text


@given(st.one_of(GARBAGE, mutated_queries()))
@example("PATTERN A a WHERE b[")
@example("PATTERN A a WHERE 'x\r\n\u2028")
@example("\ufeffPATTERN A a")
@example("PATTERN A a WHERE a.x = \ud800")
def test_any_text_gives_a_query_or_a_query_error(text: str) -> None:
    try:
        query = parse(text)
    except QueryError as error:
        message = str(error)
    else:
        message = "accepted"
        assert parse(print_query(query)) == query
        with contextlib.suppress(QueryError):
            resolve(query, SCHEMA, text=text)
    assert message


@pytest.mark.parametrize("text", QUERIES)
def test_every_prefix_gives_a_query_or_a_query_error(text: str) -> None:
    for end in range(len(text)):
        with contextlib.suppress(QueryError):
            parse(text[:end])
