"""What blocks of rows say in bulk is what their rows say one by one, whatever the runtime and the output form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine, RowSink, compile_query
from engine.errors import UnsupportedQueryError
from engine.events import FOREVER_MS, AttributeType
from engine.kernels.columns.partitions import BROADCAST
from engine.matching.output.match_row import MatchRow
from engine.matching.output.reading import arrow, match_blocks
from engine.matching.output.reading.arrow import (
    _FEW_TOGETHER,
    IDS,
    capacity_for,
    certainty,
    coded,
    encoded,
    id_each,
    id_lists,
    with_ends,
)
from engine.matching.output.reading.match_blocks import OneByOne
from engine.matching.output.reading.rows_as_arrow import rows_table
from engine.matching.output.reading.tables import rows_schema, rows_tables
from engine.matching.output.rows import MatchRows, RowBlock
from engine.stream.event_ids import IdColumn
from engine.stream.interner import KnownTexts
from engine.stream.values import keys_as_arrow, numbers_as_arrow
from tests.engine import trend_cases
from tests.engine.query_strategies import EVERYTHING, SCHEMA
from tests.engine.strategies import IMPRECISE, PRECISE, Case, cases, streams_for
from tests.examples import examples

RETURNS = {
    "SEQ(A a, B+ b[], C c)": "a.k AS k, a.x AS x, count(b[]) AS n, max(b[].x) AS most",
    "SEQ(A+ a[], B b)": "a[1].x AS x, b.k AS k",
    "SEQ(A a, B+ b[])": "a.x AS x, sum(b[].x) AS total",
    "A+ a[]": "a[a.len].x AS x",
    "SEQ(A a, B b)": "a.k AS k, b.x AS x",
    "SEQ(A a, B b, A+ c[], C d)": "a.x AS x, d.k AS k",
}
SINGLE = {shape: "a.k AS k, a.x AS x" for shape in RETURNS if "A a" in shape}
"""What rows that stand for several matches can tell as well."""


def blocks_of(rows: Sequence[MatchRow]) -> Iterator[RowBlock]:
    """The blocks that rows consist of."""
    if isinstance(rows, MatchRows):
        for part in rows.parts:
            yield from blocks_of(part)
    elif isinstance(rows, RowBlock):
        yield rows


def check(block: RowBlock) -> None:
    """Compare a block with its rows, a part of it from the middle on, and where it can be chosen another order."""
    shuffled = np.random.default_rng(len(block)).permutation(len(block))
    for some in (block, block[len(block) // 2 :], block.chosen(shuffled) if isinstance(block, OneByOne) else block):
        assert isinstance(some, RowBlock)
        if not len(some):
            continue
        mine, its = some.to_arrow(), rows_table(list(some))
        assert mine.column_names == its.column_names
        for name in mine.column_names:
            assert mine.column(name).to_pylist() == its.column(name).to_pylist(), name
        for field in mine.schema.field("bindings").type:
            assert field.type in (pa.list_(IDS), pa.list_(pa.list_(IDS)), pa.list_(pa.list_(pa.list_(IDS)))), field


SHAPES = ("SEQ(A a, B+ b[], C c)", "SEQ(A+ a[], B b)", "SEQ(A a, B+ b[])", "A+ a[]", "SEQ(A a, B b)")
FORMS = ("", "OUTPUT COLLAPSED", "OUTPUT COUNT", "OUTPUT SETS", "OUTPUT TOP 2 BY CONFIDENCE")
KEYS = ("", "{ [k] }", "{ [k] AND a.x > 0 }")
KINDS = {
    "MatchBlock": (SHAPES, ("skip_till_any_match",), ("",), PRECISE),
    "IndependentBlock": (SHAPES, ("skip_till_any_match",), ("OUTPUT COLLAPSED", "OUTPUT COUNT"), PRECISE),
    "PossibleBlock": (SHAPES[:4], ("skip_till_any_match",), ("OUTPUT COLLAPSED", "OUTPUT COUNT"), IMPRECISE),
    "ListedBlock": (SHAPES, ("skip_till_any_match",), ("", "OUTPUT TOP 2 BY CONFIDENCE"), IMPRECISE),
    "SingleKleeneBlock": (("SEQ(A a, B b, A+ c[], C d)",), ("skip_till_any_match",), FORMS[1:3], IMPRECISE),
    "RunRows": (SHAPES, ("skip_till_next_match", "partition_contiguity", "strict_contiguity"), ("",), PRECISE),
    "FormedRows": (SHAPES, ("skip_till_any_match", "skip_till_next_match"), FORMS[1:4], PRECISE),
}
"""Queries of which most are told in blocks of this class."""


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_say_what_their_rows_say(kind: str) -> None:
    shapes, strategies, forms, times = KINDS[kind]
    seen: Counter[str] = Counter()

    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data(), st.booleans())
    def compare(data: st.DataObject, in_order: bool) -> None:
        shape, strategy, form = (data.draw(st.sampled_from(some)) for some in (shapes, strategies, forms))
        key = data.draw(st.sampled_from(KEYS[: 2 + ("A a" in shape)]))
        end = "SELECT FIRST" if kind == "FormedRows" else ""
        emitted = RETURNS[shape] if not form or "TOP" in form else SINGLE.get(shape, "")
        text = f"PATTERN {shape} WHERE {strategy} {key} WITHIN 12 {end} {'RETURN ' * bool(emitted)}{emitted} {form}"
        stream = data.draw(streams_for([text], times))
        taken: list[RowBlock] = []
        sink = RowSink(taken.append, in_listing_order=in_order)
        engine = Engine([compile_query(text, SCHEMA)], SCHEMA, sink=sink if data.draw(st.booleans()) else None)
        rows = engine.process(stream, FOREVER_MS)
        for block in (part for some in (rows, *taken) for part in blocks_of(some)):
            seen[type(block).__name__] += 1
            check(block)

    compare()
    assert seen[kind] >= 3, seen


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(cases(EVERYTHING, PRECISE), cases(EVERYTHING, IMPRECISE)))
def test_whatever_a_query_asks_for(case: Case) -> None:
    try:
        rows = Engine([compile_query(case.query, SCHEMA)], SCHEMA).process(case.stream, FOREVER_MS)
    except UnsupportedQueryError:
        return
    for block in blocks_of(rows):
        check(block)
    resolved = compile_query(case.query, SCHEMA).resolved
    tables = list(rows_tables(resolved, rows, lambda row: (0.25, 0.5) if row.capped else None))
    assert all(table.schema == rows_schema(resolved) for table in tables)
    emitted = [row for table in tables for row in table.to_pylist()]
    assert [as_row(row) for row in emitted] == [as_told(row, resolved.key, set(emitted[0])) for row in rows]


def as_row(emitted: dict[str, Any]) -> dict[str, Any]:
    """A row of a table, its lists as bindings have them."""

    def nested(ids: Any) -> Any:
        return () if ids is None else ids if isinstance(ids, str) else tuple(map(nested, ids))

    bound = {name: emitted[name] for name in ("bindings", "candidates") if emitted.get(name) is not None}
    return emitted | {
        name: {variable: nested(ids) for variable, ids in of.items() if ids is not None} for name, of in bound.items()
    }


def as_told(row: MatchRow, key: Sequence[str], columns: set[str]) -> dict[str, Any]:
    """What is expected of a row in a table."""
    low, high = (0.25, 0.5) if row.capped else (None, None)
    start, end = row.window or (None, None)
    found = {
        "key": dict.fromkeys(key) | dict(row.key),
        "first_ms": row.first_lo_ms,
        "last_ms": row.last_hi_ms,
        "bindings": dict(row.bindings),
        "confidence": row.confidence,
        "values": dict(row.values),
        "capped": row.capped,
        "count": row.count,
        "count_exact": row.count_exact,
        "at_least_one_low": low,
        "at_least_one_high": high,
        "candidates": row.candidates,
        "exact": row.exact,
        "window_start_ms": start,
        "window_end_ms": end,
    }
    return {name: value for name, value in found.items() if name in columns}


def id_column(*batches: str) -> IdColumn:
    """Ids of one letter, batch by batch."""
    column = IdColumn()
    for batch in batches:
        column.append(pa.array(list(batch)))
    return column


def test_ids_are_told_once() -> None:
    ids = id_column("ab", "cd", "efgh")
    dictionary, mine, its = coded(ids, np.array([7, 1, 7]), np.array([2, 1]))
    assert dictionary.to_pylist() == ["h", "b", "c"]
    assert (mine.tolist(), its.tolist()) == ([0, 1, 0], [2, 1])
    dictionary, mine, its = coded(ids, np.array([3, 1, 3]), np.array([2, 1]))  # together: as they stand
    assert dictionary.to_pylist() == ["b", "c", "d"]
    assert (mine.tolist(), its.tolist()) == ([2, 0, 2], [1, 0])
    lists = id_lists(dictionary, np.array([0, 1, 1, 3]), mine)
    assert lists.to_pylist() == [["d"], [], ["b", "d"]]
    assert encoded(pa.array([["d"], [], ["b", "d"]])).equals(lists.cast(pa.list_(pa.string())).cast(lists.type))
    for n in (_FEW_TOGETHER - 1, 3_000_000):
        far = IdColumn(pa.nulls(n, pa.string()))
        far.append(pa.array(["z"]))
        dictionary, codes, _ = coded(far, np.array([n, 0, n]))
        assert dictionary.take(pa.array(codes)).to_pylist() == ["z", None, "z"]
    nothing, none, _ = coded(ids, np.empty(0, np.int64))
    assert (len(nothing), len(none)) == (0, 0)


def test_columns_that_all_blocks_share_are_long_enough_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_MOST_CONSTANT", 8)
    for n in (3, 0, 5, 9, 20, 2):  # beyond the bound for this one alone
        assert certainty(n).to_pylist() == [1.0] * n
        dictionary = pa.array([f"e{k}" for k in range(n)])
        assert id_each(dictionary, np.arange(n, dtype=np.int32)).to_pylist() == [[f"e{k}"] for k in range(n)]


def test_memory_of_arrow_is_filled_as_any_other() -> None:
    rooms = [capacity_for(np.int64, 2, n) for n in (3, 5_000)]
    for capacity in rooms:
        capacity[:] = np.arange(capacity.size).reshape(capacity.shape)
    assert [capacity.sum() for capacity in rooms] == [15, 9_999 * 5_000]


@pytest.mark.parametrize("most", [4, 7, 40, 44])
def test_more_ids_than_a_column_of_lists_holds_are_told_in_parts(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = trend_cases.stream("a0 b1 a2 b3 b4 b5 c6")
    query = compile_query(
        "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match WITHIN 1 h RETURN count(b[]) AS n", trend_cases.SCHEMA
    )
    (block,) = blocks_of(Engine([query], trend_cases.SCHEMA).process(stream, FOREVER_MS))
    assert isinstance(block, match_blocks.MatchBlock)
    assert len(block) == 15 + 7
    monkeypatch.setattr(match_blocks, "MOST_IN_LIST", most)
    check(block)
    assert (block.to_arrow().column("bindings").num_chunks == 1) is (most == 44)


def test_ends_of_pairs_that_are_one_event_are_there_once() -> None:
    first, last = np.array([1, 5, 7]), np.array([4, 5, 9])
    bounds, rows = with_ends(first, last, first == last, np.array([0, 2, 2, 2]), np.array([2, 3]))
    assert bounds.tolist() == [0, 4, 5, 7]
    assert rows.tolist() == [1, 2, 3, 4, 5, 7, 9]


def test_values_by_column_are_those_one_by_one() -> None:
    strings = KnownTexts({3: "three", 0: "none"})
    numbers = np.array([[3.0, 1.5, 2.0], [np.nan, np.inf, np.nan], [0.0, -0.0, -7.0], [3.0, np.nan, 2.0**53]])
    kinds = [AttributeType.STRING, AttributeType.FLOAT, AttributeType.INT]
    assert numbers_as_arrow(["s", "f", "i"], kinds, strings, numbers).to_pylist() == [
        {"s": "three", "f": 1.5, "i": 2},
        {"s": None, "f": None, "i": None},
        {"s": "none", "f": -0.0, "i": -7},
        {"s": "three", "f": None, "i": 2**53},
    ]
    assert numbers_as_arrow([], [], strings, np.empty((2, 0))).to_pylist() == [{}, {}]
    keys = np.array([[1.0], [2.0]]).view(np.int64)
    emitted = keys_as_arrow(["k"], kinds[2:], strings, keys, np.array([1, BROADCAST, 0, 1]))
    assert emitted.to_pylist() == [{"k": 2}, {"k": None}, {"k": 1}, {"k": 2}]
    assert keys_as_arrow(["k"], kinds[2:], strings, keys, np.empty(0, np.int64)).to_pylist() == []
