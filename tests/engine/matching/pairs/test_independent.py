"""Queries whose Kleene events are selected independently: against the oracle and against the general search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.compiled.query import CompiledQuery, compile_query
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema
from engine.kernels.pairs.independent import MOST
from engine.matching.output.match_row import MatchRow
from engine.matching.output.reading.match_blocks import MatchBlock
from engine.matching.output.reading.rows_as_arrow import rows_table
from engine.matching.output.rows import RowBlock, RowSink, joined_rows
from engine.matching.pairs import independent as independent_pairs
from engine.matching.pairs.independent import IndependentBlock
from engine.matching.protocol import Limits
from engine.plan import evaluation
from engine.plan.sequence.independent import IndependentForm, OtherForm, independent_form
from engine.reference.rows.output import reference_output
from engine.runtime.engine import Engine
from engine.stream.interner import Interner
from tests.engine.matching.feeding import advance
from tests.engine.matching.pairs.postponed import postponed
from tests.engine.matching.pairs.test_against_oracle import comparable
from tests.engine.strategies import SCHEMA, Delivery, StreamScope, deliveries, streams
from tests.examples import examples

SHAPES = ("k", "ks", "sk", "sks")
STREAMS = StreamScope(max_events=9, horizon_ms=12, null_share=8)

ON_ELEMENTS = ("k[i].x >= {n}", "k[i].x != {n}", "k[i].s = 'ok'", "k[1].x >= {n}", "k[i].y <= {n} AND k[1].s = 'ok'")
ON_SELECTION = ("count(k[]) >= 2", "count(k[]) < 4", "count(k[]) != 2", "NOT count(k[]) = 3", "max(k[].x) > {n}")
WITH_FIRST = ("k[i].x >= a.x", "k[1].x > a.x", "a.x {op} {f}(k[].x)", "a.x + 1 {op} {f}(k[].y)", "k[i].s = a.s")
WITH_LAST = ("c.x > k[i].x", "c.x {op} {f}(k[].x)", "{f}(k[].y) {op} c.x", "c.y >= {f}(k[].y)")
KLEENE_FIRST = ("k[i].x <= k[1].x + 2", "c.x >= k[1].x", "[k.x]")
KLEENE_LAST = ("k[k.len].x >= a.x", "k[i].x <= k[k.len].x + 1")
BOTH = ("a.x <= c.x", "c.timestamp - a.timestamp <= 6")


@st.composite
def queries(draw: st.DrawFn, outputs: Sequence[str] = ("ALL", "COLLAPSED", "COUNT")) -> str:
    shape = draw(st.sampled_from(SHAPES))
    names = draw(st.lists(st.sampled_from("AAABL"), min_size=len(shape), max_size=len(shape)))
    pool = [*ON_ELEMENTS, *ON_SELECTION]
    pool += WITH_FIRST if shape[0] == "s" else KLEENE_FIRST[:1] + KLEENE_FIRST[2:]
    pool += WITH_LAST if shape[-1] == "s" else ()
    pool += BOTH if shape == "sks" else ()
    pool += KLEENE_FIRST[1:2] if shape == "ks" else ()
    pool += KLEENE_LAST if shape == "sk" else ()
    drawn = draw(st.lists(st.sampled_from(pool), max_size=3, unique=True))
    conjuncts = [
        text.format(
            n=draw(st.integers(-2, 3)),
            op=draw(st.sampled_from(["<", "<=", ">", ">="])),
            f=draw(st.sampled_from(["min", "max"])),
        )
        for text in drawn
    ]
    if set(names) != {"L"} and draw(st.booleans()):
        conjuncts.append("[k]")
    variables = {"k": "k[]", "a": "a", "c": "c"}
    order = {"k": "k", "ks": "kc", "sk": "ak", "sks": "akc"}[shape]
    parts = [f"{name}{'+' if v == 'k' else ''} {variables[v]}" for name, v in zip(names, order, strict=True)]
    where = "WHERE skip_till_any_match" + (f" {{ {' AND '.join(conjuncts)} }}" if conjuncts else "")
    output = draw(st.sampled_from(list(outputs)))
    clauses = [f"PATTERN SEQ({', '.join(parts)})", where, f"WITHIN {draw(st.sampled_from([0, 3, 5, 8, 12]))} ms"]
    clauses += [f"OUTPUT {output}"] if output != "ALL" else []
    if output == "ALL" and draw(st.booleans()):
        clauses.append("RETURN sum(k[].x) AS r1, k[k.len].s AS r2, count(k[]) AS r3")
    return "\n".join(clauses)


@st.composite
def delivered(draw: st.DrawFn) -> tuple[str, EventBatch, list[Delivery]]:
    text, stream = draw(queries()), draw(streams(STREAMS, ["A", "A", "B", "L"]))
    return text, stream, draw(deliveries(stream))


def rows_of(query: CompiledQuery, parts: Sequence[Delivery], *, restarts: bool) -> list[MatchRow]:
    running = Engine([query], SCHEMA)
    rows: list[MatchRow] = []
    for part in parts:
        rows += running.process(part.batch, part.watermark_ms)
        if restarts:
            state, running = running.save(), Engine([query], SCHEMA)
            running.restore(state)
    return [*rows, *running.finish()]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(delivered(), st.booleans())
def test_the_rows_of_the_oracle_whatever_the_delivery(
    case: tuple[str, EventBatch, list[Delivery]], restarts: bool
) -> None:
    agrees(*case, restarts=restarts)


def agrees(text: str, stream: EventBatch, parts: Sequence[Delivery], *, restarts: bool) -> None:
    query = compile_query(text, SCHEMA)
    expected = reference_output(query.resolved, stream)
    found = rows_of(query, parts, restarts=restarts)
    merged = query.plan.output.value in ("COLLAPSED", "COUNT")
    ours = sorted(((comparable(row, merged), row.exact) for row in found), key=repr)
    assert ours == sorted(((comparable(row, merged), row.exact) for row in expected), key=repr), text


@pytest.mark.parametrize("more", ["a.x > max(k[].x)", "a.x <= min(k[].x)", "k[i].x >= a.x"])
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_asked_of_selections_may_depend_on_the_first_event(more: str, data: st.DataObject) -> None:
    stream = data.draw(streams(STREAMS, ["A", "A", "B"]))
    text = f"PATTERN SEQ(A a, B+ k[], A c) WHERE skip_till_any_match {{ {more} }} WITHIN 12 ms OUTPUT COLLAPSED"
    agrees(text, stream, data.draw(deliveries(stream)), restarts=False)


@pytest.mark.parametrize("pattern", ["A a, L+ k[], A c", "L a, A+ k[], A c", "L+ k[], A c", "L a, L+ k[], A c"])
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_events_of_all_partitions_are_in_the_chains_of_each(pattern: str, data: st.DataObject) -> None:
    stream = data.draw(streams(STREAMS, ["A", "A", "L"]))
    text = f"PATTERN SEQ({pattern}) WHERE skip_till_any_match {{ [k] }} WITHIN 9 ms OUTPUT COLLAPSED"
    agrees(text, stream, data.draw(deliveries(stream)), restarts=data.draw(st.booleans()))


def test_most_of_these_queries_have_the_form() -> None:
    n_of_form = 0
    texts: list[str] = []

    @settings(max_examples=200, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(queries())
    def collect(text: str) -> None:
        texts.append(text)

    collect()
    for text in texts:
        n_of_form += isinstance(independent_form(compile_query(text, SCHEMA).plan), IndependentForm)
    assert n_of_form > 0.6 * len(texts)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(delivered())
def test_the_same_rows_in_the_same_order_as_the_general_search(case: tuple[str, EventBatch, list[Delivery]]) -> None:
    text, _, parts = case
    query = compile_query(text, SCHEMA)
    found = rows_of(query, parts, restarts=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "independent_form", lambda _: OtherForm("a test"))
        general = rows_of(compile_query(text, SCHEMA), parts, restarts=False)
    # Of the longest matches of a pair either may be shown.
    shown = [row if query.plan.output.value == "ALL" else replace(row, bindings={}) for row in found]
    assert shown == [row if query.plan.output.value == "ALL" else replace(row, bindings={}) for row in general]


# ------------------------------------------------------------ large selections

STOCK = EventSchema.of({"stock": dict.fromkeys(("symbol", "price", "volume"), AttributeType.INT)})


def stock(prices: Sequence[int], symbols: Sequence[int] | None = None) -> EventBatch:
    n = len(prices)
    columns: dict[str, Any] = {
        "event_id": [f"{k:04}" for k in range(n)],
        "type": ["stock"] * n,
        "t_lo_ms": np.arange(n),
        "symbol": list(symbols or [1] * n),
        "price": list(prices),
        "volume": [0] * n,
    }
    return EventBatch.from_columns(columns, STOCK)


def run(text: str, events: EventBatch, limits: Limits | None = None) -> Sequence[MatchRow]:
    query = compile_query(text, STOCK)
    assert isinstance(independent_form(query.plan), IndependentForm)
    return advance(postponed(query.plan, Interner(), limits), events, FOREVER_MS)


PATTERN = "PATTERN SEQ(stock+ a[], stock b) WHERE skip_till_any_match {{ a[1].price = 0 AND b.price = 9 {more} }} "


def test_counts_are_those_of_binomials() -> None:
    events = stock([0, *[1] * 50, 9])
    for more, expected in (
        ("", 2**50),
        ("AND count(a[]) >= 3", 2**50 - 1 - 50),
        ("AND count(a[]) <= 5", sum(math.comb(50, k) for k in range(5))),
        ("AND max(a[].price) > 0", 2**50 - 1),
    ):
        (row,) = run(PATTERN.format(more=f"AND a[i].price < 9 {more}") + "WITHIN 100 OUTPUT COUNT", events)
        assert (row.count, row.count_exact, row.capped) == (expected, True, False)


def test_more_matches_than_an_integer_holds_are_a_lower_bound() -> None:
    events = stock([0, *[1] * 70, 9])
    for more in ("", "AND max(a[].price) > 0"):
        text = PATTERN.format(more=f"AND a[i].price < 9 {more}") + "WITHIN 100 OUTPUT COLLAPSED"
        (row,) = run(text, events)
        assert (row.count, row.count_exact, row.capped) == (MOST, False, True)
        assert len(row.bindings["a"]) == 71


def test_windows_and_rows_of_any_number() -> None:
    n_firsts, n_lasts = 400, 3
    events = stock([0] * n_firsts + [9] * n_lasts)
    for more, count, n_longest in (
        ("", lambda after: min(2**after, MOST), lambda after: 1 + after),
        ("AND count(a[]) <= 2", lambda after: 1 + after, lambda after: 1 + min(1, after)),
    ):
        rows = run(PATTERN.format(more=f"AND a[i].price = 0 {more}") + "WITHIN 1000 OUTPUT COLLAPSED", events)
        emitted = [
            (row.first_lo_ms, row.last_hi_ms, row.count, len(row.bindings["a"]), len((row.candidates or {})["a"]))
            for row in rows
        ]
        assert emitted == [
            (first, last, count(n_firsts - 1 - first), n_longest(n_firsts - 1 - first), n_firsts - first)
            for last in range(n_firsts, n_firsts + n_lasts)
            for first in range(n_firsts)
        ]


@pytest.mark.parametrize("output", ["ALL", "COLLAPSED", "COUNT"])
def test_pairs_in_small_parts_are_the_pairs(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events = stock([0, 1, 0, 2, 9, 3, 9, 0, 3, 4, 9, 9])
    text = PATTERN.format(more="AND a[i].price < 9 AND max(a[].price) >= 2") + f"WITHIN 9 OUTPUT {output}"
    whole = list(run(text, events))
    assert len(whole) > 4
    monkeypatch.setattr(independent_pairs, "_PAIRS", 1)
    assert list(run(text, events)) == whole


def test_a_listing_in_small_blocks_is_the_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    events = stock([0, *range(1, 8), 9, 0, 3, 4, 9])
    text = PATTERN.format(more="AND a[i].price < 9 AND count(a[]) >= 2 AND max(a[].price) >= 4") + "WITHIN 50"
    whole = list(run(text, events))
    monkeypatch.setattr(independent_pairs, "BLOCK_MATCHES", 3)
    cut = list(run(text, events))
    assert whole == cut
    between = [[*range(1, 8)], [*range(1, 8), 9, 0, 3, 4], [3, 4]]  # of the three pairs; 9 is not taken
    assert len(whole) == sum(
        sum(max(0, *chosen) >= 4 for size in range(1, 12) for chosen in itertools.combinations(set_aside, size))
        for set_aside in ([price for price in prices if price < 9] for prices in between)
    )


def test_blocks_tell_the_same_as_rows_and_as_arrow() -> None:
    text = PATTERN.format(more="AND a[i].price < 9 AND [symbol]") + "WITHIN 50 RETURN sum(a[].price) AS total"
    query = compile_query(text, STOCK)
    rows = advance(postponed(query.plan, Interner()), stock([0, 1, 2, 3, 9, 4, 9]), FOREVER_MS)
    assert len(rows) == 2**3 + 2**4
    table = joined_rows([rows]).to_arrow() if not isinstance(rows, MatchBlock) else rows.to_arrow()
    assert table.to_pylist() == rows_table(list(rows)).to_pylist()
    assert rows[3:9] == list(rows)[3:9]
    assert rows[-1] == list(rows)[-1]


def test_rows_stay_as_they_were_when_the_store_goes_on() -> None:
    text = PATTERN.format(more="AND a[i].price < 9 AND [symbol]") + "WITHIN 20 OUTPUT COLLAPSED"
    query = compile_query(text, STOCK)
    runtime = postponed(query.plan, Interner())
    events = stock([0, 1, 2, 9, *[0, 1, 9] * 2_000])
    kept: list[tuple[Sequence[MatchRow], list[MatchRow]]] = []
    for start in range(0, len(events), 200):
        part = EventBatch(events.table.slice(start, 200))
        rows = advance(runtime, part, int(part.t_lo_ms[-1]) + 1)
        kept.append((rows, list(rows)))
    assert runtime.n_rows < 4_500
    untouched = advance(postponed(query.plan, Interner()), events, FOREVER_MS)
    assert [row for _, then in kept for row in then] == list(untouched)
    assert all(list(rows) == then for rows, then in kept)


def test_limits_keep_the_first_rows() -> None:
    text = PATTERN.format(more="AND a[i].price < 9") + "WITHIN 50"
    events = stock([0, *range(1, 7), 9])
    rows = run(text, events, Limits(max_rows=5))
    assert [row.capped for row in rows] == [False] * 4 + [True]
    assert [replace(row, capped=False) for row in rows] == list(run(text, events))[:5]
    collapsed = run(text + " OUTPUT COLLAPSED", stock([0, 1, 9, 9, 9]), Limits(max_rows=2))
    assert [row.capped for row in collapsed] == [False, True]


def test_a_row_says_that_rows_of_the_next_part_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(independent_pairs, "_PAIRS", 1)
    text = PATTERN.format(more="AND a[i].price < 9") + "WITHIN 50 OUTPUT COLLAPSED"
    for n_lasts, expected in ((2, [False, False]), (3, [False, True])):
        rows = run(text, stock([0, 1, *[9] * n_lasts]), Limits(max_rows=2))
        assert [row.capped for row in rows] == expected


def test_chains_of_many_partitions_go_on_over_batches() -> None:
    n_keys = 300
    text = PATTERN.format(more="AND [symbol]") + f"WITHIN {2 * n_keys + 1} OUTPUT COLLAPSED"
    symbols = [*range(n_keys), *range(n_keys)]
    events = stock([0] * n_keys + [9] * n_keys, symbols=symbols)
    runtime = postponed(compile_query(text, STOCK).plan, Interner())
    rows = [
        row
        for start in range(0, len(events), 50)
        for row in advance(runtime, EventBatch(events.table.slice(start, 50)), start + 50)
    ]
    assert [(row.first_lo_ms, row.last_hi_ms) for row in rows] == [(k, n_keys + k) for k in range(n_keys)]


def test_pairs_are_columns_until_a_row_is_asked_for() -> None:
    rows = run(PATTERN.format(more="AND a[i].price < 9") + "WITHIN 50 OUTPUT COUNT", stock([0, 1, 9, 9]))
    assert all(isinstance(part, IndependentBlock) for part in rows.parts)  # type: ignore[attr-defined]
    assert rows.n_matches == 4  # type: ignore[attr-defined]


def test_a_sink_gets_every_match_in_bounded_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(independent_pairs, "BLOCK_MATCHES", 100)
    query = compile_query(PATTERN.format(more="AND a[i].price < 9") + "WITHIN 50", STOCK)
    events = stock([0, *[1] * 10, 9, 2, 9])
    sizes: list[int] = []
    bindings: list[dict[str, Any]] = []

    def take(block: RowBlock) -> None:
        sizes.append(len(block))
        bindings.extend(dict(row.bindings) for row in block)

    sink = RowSink(take)
    running = Engine([query], STOCK, limits=Limits(max_rows=7), sink=sink)
    assert list(running.process(events, FOREVER_MS)) == []
    assert max(sizes) <= 100
    assert sink.n_rows == sum(sizes) == running.statistics["query"].n_rows == 2**10 + 2**11
    listed = run(PATTERN.format(more="AND a[i].price < 9") + "WITHIN 50", events)
    assert sorted(map(str, bindings)) == sorted(str(dict(row.bindings)) for row in listed)


def test_a_sink_gets_the_rows_of_queries_of_any_form() -> None:
    text = "PATTERN SEQ(stock a, stock b) WHERE skip_till_any_match { a.price < b.price } WITHIN 50"
    taken: list[RowBlock] = []
    running = Engine([compile_query(text, STOCK)], STOCK, sink=RowSink(taken.append))
    assert list(running.process(stock([0, 1, 2]), FOREVER_MS)) == []
    assert [block.n_matches for block in taken] == [3]
    assert taken[0].to_arrow().num_rows == 3


def test_what_no_first_event_lets_pass_is_not_kept() -> None:
    text = PATTERN.format(more="AND [symbol]") + "WITHIN 5 OUTPUT COLLAPSED"
    runtime = postponed(compile_query(text, STOCK).plan, Interner())
    rows = advance(runtime, stock([1, 2, 9, 0, 1, 9, *[1] * 200]), 210)
    assert [row.count for row in rows] == [2]
    assert runtime.n_rows < 10
