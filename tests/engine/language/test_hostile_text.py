"""Only QueryError comes out of the parser and the resolver, whatever the text; what is accepted survives printing."""

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
from tests.engine import strategies
from tests.engine.language.fixture_lines import cases

QUERIES = [text for text, _ in cases("queries.txt")]
PIECES = sorted({word for text in QUERIES for word in text.replace("(", " ( ").replace(")", " ) ").split()})
# Characters that fold, combine, order or count like others: long s, Kelvin, dotted I, full width, right to left,
# joiners, other digits, spaces that are none of ours, line ends that are none, half of a pair, null.
UNUSUAL = (
    "\u017f\u212a\u0130\u0131\uff21\uff11\u0661\u200d\u200f\u202e\u0301\u00a0"
    "\u2003\u2028\u0085\x0b\x0c\ud800\x00\ufeffß🙂"
)
GARBAGE = st.one_of(
    st.text(),
    st.binary().map(lambda raw: raw.decode("latin-1")),
    st.binary().map(lambda raw: raw.decode("utf-8", errors="surrogateescape")),
    st.text(alphabet="()[]{}'\"-+*/%!~?.,:=<>0123456789 abi\n"),
    st.text(alphabet=UNUSUAL + "sKip_till 'a.x=1"),
    st.lists(st.sampled_from(PIECES), max_size=30).map(" ".join),
)
ATTRIBUTES = {"x": AttributeType.INT, "y": AttributeType.STRING, "job_id": AttributeType.STRING}
SCHEMA = EventSchema.of(dict.fromkeys("ABCD", ATTRIBUTES))


@st.composite
def mutated_queries(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A query with a few cuts, insertions, exchanges and pieces of another query."""
    text, other = draw(texts), draw(texts)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 8)))
        from_idx = draw(st.integers(0, len(other)))
        inserted = draw(
            st.one_of(
                st.text(max_size=4),
                st.text(alphabet=UNUSUAL, max_size=2),
                st.sampled_from(PIECES),
                st.just(other[from_idx : from_idx + 20]),
            )
        )
        text = text[:start] + inserted + text[end:]
    return text


@st.composite
def nested_texts(draw: st.DrawFn) -> str:
    """One construct around itself, more or less deep, closed or not."""
    before, inner, after = draw(
        st.sampled_from(
            [
                ("PATTERN {} WHERE skip_till_any_match WITHIN 5", "A a", [("(", ")"), ("(", ")+"), ("SEQ(", ")")]),
                (
                    "PATTERN {} WHERE skip_till_any_match WITHIN 5",
                    "A a",
                    [("AND(", ")"), ("OR(", ")"), ("!(", "){2,3}")],
                ),
                ("PATTERN A a WHERE {}", "a.x", [("(", ")"), ("-", ""), ("1 + ", ""), ("(1 * ", ")")]),
                ("PATTERN A a WHERE {}", "a.x = 1", [("(", ")"), ("NOT ", ""), ("(a.x = 1 OR ", " AND a.x = 2)")]),
                ("PATTERN A a OPEN ON {}", "x = 1", [("(", ")"), ("NOT ", ""), ("(x = 1 OR ", ")")]),
            ]
        )
    )
    left, right = draw(st.sampled_from(after))
    depth = draw(st.sampled_from([1, 5, 20, 33, 34, 50, 97, 98, 99, 100, 101, 150, 700, 3_000]))
    return before.format(left * depth + inner + right * (depth - draw(st.sampled_from([0, 0, 0, 1]))))


@given(st.one_of(GARBAGE, mutated_queries(st.sampled_from(QUERIES)), nested_texts()))
@example("PATTERN A a WHERE b[")
@example("PATTERN A a WHERE 'x\r\n\u2028")
@example("\ufeffPATTERN A a")
@example("PATTERN A a WHERE a.x = \ud800")
@example("PATTERN A a WITHIN 5 \u017f")
@example("PATTERN A a WHERE \u017ftrict_contiguity")
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
    assert all(line.isprintable() for line in message.split("\n"))


@given(mutated_queries(strategies.queries()))
def test_a_mutated_query_resolves_or_says_where_it_is_wrong(text: str) -> None:
    found: QueryError | None = None
    try:
        resolved = resolve(parse(text), strategies.SCHEMA, text=text)
        assert parse(print_query(resolved.query)) == resolved.query
    except QueryError as error:
        found = error
    assert found is None or found.span is not None or not text.strip()


@pytest.mark.parametrize("text", QUERIES)
def test_every_prefix_gives_a_query_or_a_query_error(text: str) -> None:
    for end in range(len(text)):
        with contextlib.suppress(QueryError):
            parse(text[:end])


@pytest.mark.parametrize(
    "piece", ["(", "a", " ", "\n", "é", "'", "[", "1", "!", "A a,", "PATTERN ", "\0", "\ud800", "🙂"]
)
def test_huge_texts_are_refused(piece: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(piece * (1_000_000 // len(piece)))
    assert "1000000 characters" in caught.value.message or "999" in caught.value.message
    with pytest.raises(QueryError):
        parse("PATTERN A a WHERE a.x = (" + piece * (99_000 // len(piece)))
