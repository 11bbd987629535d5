"""Kleene events that are compared with their neighbours: counted as chains, against the list of all matches."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine, MatchRow, compile_query, reference_output
from engine.events import FOREVER_MS, EventBatch
from engine.language import ast
from engine.matching.output.match_row import flat_ids
from engine.matching.protocol import Limits
from engine.plan.sequence.chain_form import ChainForm, chain_form
from engine.stream.interner import Interner
from tests.conformance.comparison import check_rows
from tests.engine.matching.feeding import advance
from tests.engine.matching.pairs.postponed import postponed
from tests.engine.strategies import SCHEMA
from tests.examples import examples

SHAPES = ("SEQ(A a, B+ b[], C c)", "SEQ(A a, B+ b[])", "SEQ(B+ b[], C c)", "B+ b[]", "SEQ(B a, B+ b[], B c)")

ORDERED = (
    *(f"b[i].x {operation} b[i-1].x" for operation in ("<", "<=", ">", ">=", "=", "!=")),
    "b[i].x > b[i-1].x + 2",
    "b[i-1].x * -2 < b[i].x",
    "b[i].x - b[i-1].x > 1",
    "b[i-1].x / -2 + b[i].y - 1 <= 3 - b[i].x",
    "NOT b[i].x > b[i-1].x",
    "b[i].y >= b[i-1].y",
    "b[i].s = b[i-1].s",
    "b[i].s != b[i-1].s",
)
"""Conditions on neighbours that are about one key, each by itself."""

UNORDERED = ("b[i].x * b[i-1].x > 2", "(b[i].x > b[i-1].x OR b[i].y < b[i-1].y)", "b[i].x + b[i-1].x = 3")

LOCAL = ("b[i].x != 1", "b[i].y > -1")

OF_THE_WHOLE = ("count(b[]) >= 2", "count(b[]) < 4", "count(b[]) = 3", "b[b.len].x >= b[1].x + 1", "b[b.len].y < 2")

OF_A = ("b[i].x > b[i-1].x + a.x", "b[i].x >= a.x", "b[b.len].x > a.x", "b[1].x != a.x")

OF_C = ("b[i].x <= b[i-1].x + c.x", "b[i].x >= c.x", "b[b.len].x > c.x", "b[1].x != c.x", "c.x - b[1].x > b[b.len].x")

NUMBERS = st.one_of(st.none(), st.integers(-3, 3))
FLOATS = st.one_of(st.none(), st.sampled_from([-2.5, -1.0, 0.0, 0.5, 2.0, math.inf, -math.inf]))


@st.composite
def texts(draw: st.DrawFn) -> str:
    shape = draw(st.sampled_from(SHAPES))
    neighbours = draw(st.lists(st.sampled_from(ORDERED + UNORDERED), min_size=1, max_size=2, unique=True))
    others = [*LOCAL, *OF_THE_WHOLE, *(OF_A if " a," in shape else ()), *(OF_C if " c)" in shape else ())]
    conjuncts = [*neighbours, *draw(st.lists(st.sampled_from(others), max_size=2, unique=True))]
    within = draw(st.sampled_from([3, 6, 20]))
    output = draw(st.sampled_from(["COUNT", "COLLAPSED"]))
    ties = draw(st.sampled_from(["", "", " TIES STRICT"]))
    having = draw(st.sampled_from(["", "", "", " HAVING b[b.len].y < 1 AND count(b[]) >= 2"]))
    where = f"skip_till_any_match {{ {' AND '.join(conjuncts)} }}"
    return f"PATTERN {shape} WHERE {where} WITHIN {within} ms{ties} OUTPUT {output}{having}"


@st.composite
def streams(draw: st.DrawFn, widths: Sequence[int] = (0,)) -> EventBatch:
    kinds = draw(st.lists(st.sampled_from("ABBBBC"), min_size=1, max_size=9))
    t_ms, rows = 0, []
    for number, kind in enumerate(kinds):
        t_ms += draw(st.sampled_from([0, 1, 1, 2]))
        rows.append(
            {
                "event_id": f"e{number}",
                "type": kind,
                "t_lo_ms": t_ms,
                "t_hi_ms": t_ms + draw(st.sampled_from(widths)),
                "source_seq": number,
                "x": draw(NUMBERS),
                "y": draw(FLOATS),
                "s": draw(st.sampled_from([None, "p", "q"])),
            }
        )
    return EventBatch.from_rows(rows, SCHEMA)


def found(text: str, stream: EventBatch) -> list[MatchRow]:
    return list(Engine([compile_query(text, SCHEMA, name="q")], SCHEMA).process(stream, FOREVER_MS))


def check(text: str, stream: EventBatch) -> None:
    """Counts, candidates and confidences are the oracle's, and each row shows a longest of the most certain matches."""
    resolved = compile_query(text, SCHEMA, name="q").resolved
    rows = found(text, stream)
    check_rows(resolved.query.output, rows, reference_output(resolved, stream), stream)
    listed = reference_output(replace(resolved, query=replace(resolved.query, output=ast.Output.ALL)), stream)
    for row in rows:
        ends = (row.event_ids[0], row.event_ids[-1])
        behind = [match for match in listed if (ids_of(match)[0], ids_of(match)[-1]) == ends]
        best = max(round(float(match.confidence), 9) for match in behind)
        lengths = [len(match.bindings["b"]) for match in behind if round(float(match.confidence), 9) == best]
        assert len(row.bindings["b"]) == max(lengths)
        assert row.bindings in [match.bindings for match in behind]


def ids_of(match: Any) -> list[str]:
    return [event for bound in match.bindings.values() for event in flat_ids(bound)]


@settings(max_examples=examples(400), deadline=None, suppress_health_check=list(HealthCheck))
@given(texts(), streams())
def test_the_oracles_counts(text: str, stream: EventBatch) -> None:
    check(text, stream)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(texts(), streams((0, 0, 1, 3)), st.sampled_from(["", " CONFIDENCE >= 0.4"]))
def test_the_oracles_counts_over_imprecise_events(text: str, stream: EventBatch, least: str) -> None:
    check(text + least, stream)


@pytest.mark.parametrize("shape", SHAPES[:4])
@pytest.mark.parametrize("ties", ["TIES STRICT", "TIES SOURCE"])
def test_first_and_last_events_at_one_time(shape: str, ties: str) -> None:
    """Pairs that are counted together, whose first, or last, events stand beside each other."""
    kinds, times = "ABBABBBCC", (0, 0, 0, 0, 1, 1, 1, 3, 3)
    values = (0, 1, 2, 0, 3, 2, 4, 0, 0)
    rows = [
        {"event_id": f"e{n}", "type": kind, "t_lo_ms": t_ms, "source_seq": n, "x": x}
        for n, (kind, t_ms, x) in enumerate(zip(kinds, times, values, strict=True))
    ]
    for output in ("COUNT", "COLLAPSED"):
        check(where("b[i].x > b[i-1].x", shape=shape, output=output, rest=ties), EventBatch.from_rows(rows, SCHEMA))


def form_of(text: str) -> ChainForm:
    form = chain_form(compile_query(text, SCHEMA).plan)
    assert isinstance(form, ChainForm)
    return form


def where(*conjuncts: str, output: str = "COUNT", shape: str = SHAPES[0], rest: str = "") -> str:
    condition = f"skip_till_any_match {{ {' AND '.join(conjuncts)} }}"
    return f"PATTERN {shape} WHERE {condition} WITHIN 1 hour OUTPUT {output} {rest}"


@pytest.mark.parametrize("condition", ORDERED)
def test_conditions_about_one_key(condition: str) -> None:
    assert form_of(where(condition)).ordered


@pytest.mark.parametrize(
    "conditions",
    [
        ("b[i].x > b[i-1].x", "b[i].x < b[i-1].x + 10"),
        ("b[i].x > a.x * 2 + b[i-1].x", "b[i].x != b[i-1].x", "b[i].x - b[i-1].x < 9"),
        ("b[i].x > b[i-1].x", "b[i].y > 3", "b[1].x = b[b.len].x"),
    ],
)
def test_several_conditions_about_one_key(conditions: tuple[str, ...]) -> None:
    assert form_of(where(*conditions)).ordered


@pytest.mark.parametrize("conditions", [*((each,) for each in UNORDERED), ("b[i].x > b[i-1].x", "b[i].y > b[i-1].y")])
def test_conditions_about_several_keys(conditions: tuple[str, ...]) -> None:
    assert not form_of(where(*conditions)).ordered


def drawn(kinds: Sequence[str], values: Sequence[float | None]) -> EventBatch:
    rows = [
        {"event_id": f"e{n}", "type": kind, "t_lo_ms": n, "x": x, "y": -1.0 if x is None else -x}
        for n, (kind, x) in enumerate(zip(kinds, values, strict=True))
    ]
    return EventBatch.from_rows(rows, SCHEMA)


def work(text: str, kinds: Sequence[str], limits: Limits | None = None) -> tuple[int, list[MatchRow]]:
    """Steps and rows of one step over events in random order of x."""
    values = random.Random(len(kinds)).sample(range(len(kinds)), len(kinds))
    query = compile_query(text, SCHEMA, name="q")
    runtime = postponed(query.plan, Interner(), limits or Limits())
    rows = list(advance(runtime, drawn(kinds, values).of_types(query.types), FOREVER_MS))
    return runtime.n_work, rows


@pytest.mark.parametrize("output", ["COUNT", "COLLAPSED"])
@pytest.mark.parametrize("conditions", [("b[i].x > b[i-1].x",), ("b[i].x - b[i-1].x > 5", "count(b[]) >= 3")])
def test_one_key_takes_n_log_n_steps(conditions: tuple[str, ...], output: str) -> None:
    for n in (250, 1_000, 4_000):
        steps, rows = work(where(*conditions, output=output), ["A", *"B" * n, "C"])
        assert len(rows) == 1
        assert steps < 25 * n * math.log2(n)


def test_several_keys_take_n_squared_steps() -> None:
    for n in (250, 500, 1_000):
        steps, _ = work(where("b[i].x > b[i-1].x", "b[i].s = b[i-1].s OR b[i].y < b[i-1].y"), ["A", *"B" * n, "C"])
        assert steps < 4 * n**2


@pytest.mark.parametrize("shape", ["SEQ(A a, B+ b[])", "SEQ(A a, B+ b[], B c)"])
def test_the_last_events_of_one_first_share_its_pass(shape: str) -> None:
    for n in (250, 1_000):
        steps, rows = work(where("b[i].x > b[i-1].x", shape=shape), ["A", *"B" * n])
        assert len(rows) >= n - 1
        assert steps < 25 * n * math.log2(n)


def test_no_more_work_than_rows_are_asked_for() -> None:
    """A row for each pair of a first and a last event: only those that LIMIT leaves are looked for."""
    steps = {}
    for n in (300, 900):
        text = where("b[i].x > b[i-1].x", rest="LIMIT 5")
        steps[n], rows = work(text, [*"AB" * (n // 2), *"C" * n])
        assert len(rows) == 5 + 1  # it is known that there are more
    assert steps[900] < 4 * steps[300]


@pytest.mark.parametrize("output", ["COUNT", "COLLAPSED"])
def test_the_steps_for_a_comparison_with_the_first_kleene_event_are_bounded(output: str) -> None:
    """One pass for each b[1]: what the budget leaves out makes the count a lower bound, and stays a candidate."""
    text = where("b[i].x > b[i-1].x", "b[b.len].x > b[1].x + 10", output=output)
    kinds = ["A", *"B" * 400, "C"]
    n_all, ((whole,)) = work(text, kinds)
    n_cut, ((cut,)) = work(text, kinds, Limits(work_budget=n_all // 300))
    assert whole.count_exact or whole.count == 2**62 - 1
    assert n_cut < n_all
    assert not cut.count_exact
    assert cut.capped
    assert 0 < cut.count <= whole.count
    if cut.candidates is not None and whole.candidates is not None:
        assert set(cut.candidates["b"]) >= set(whole.candidates["b"])
        assert not cut.exact


def brute(values: Sequence[float | None]) -> Counter[int]:
    """Strictly rising selections of b by their number of events, by the definition."""
    chains: list[Counter[int]] = []
    for j, value in enumerate(values):
        own: Counter[int] = Counter({1: 1})
        for i in range(j):
            before = values[i]
            if value is not None and before is not None and value > before:
                own.update({length + 1: number for length, number in chains[i].items()})
        chains.append(own)
    return sum(chains, Counter())


@pytest.mark.parametrize("least", [1, 2, 5])
def test_counts_of_longer_streams(least: int) -> None:
    """Exact up to 2^62 - 2, with ties, NULLs and negative numbers."""
    chosen = random.Random(least)
    values = [None if chosen.random() < 0.1 else chosen.randrange(-20, 20) for _ in range(120)]
    by_length = brute(values)
    text = where("b[i].x > b[i-1].x", f"count(b[]) >= {least}")
    (row,) = found(text, drawn(["A", *"B" * 120, "C"], [0, *values, 0]))
    assert (row.count, row.count_exact) == (sum(n for length, n in by_length.items() if length >= least), True)
    assert len(row.bindings["b"]) == max(by_length)


def test_a_number_that_is_too_great_is_a_lower_bound() -> None:
    (row,) = found(where("b[i].x >= b[i-1].x"), drawn(["A", *"B" * 70, "C"], [1] * 72))
    assert (row.count, row.count_exact, row.capped) == (2**62 - 1, False, True)
    assert len(row.bindings["b"]) == 70
    (row,) = found(where("b[i].x >= b[i-1].x"), drawn(["A", *"B" * 61, "C"], [1] * 63))
    assert (row.count, row.count_exact, row.capped) == (2**61 - 1, True, False)


@pytest.mark.parametrize("output", ["COUNT", "COLLAPSED"])
@pytest.mark.parametrize("shape", ["SEQ(A a, B d, B+ b[], C c)", "SEQ(A a, B+ b[], C c)"])
def test_other_forms_end_at_some_work_budgets(shape: str, output: str) -> None:
    """Polynomial work is bounded too; what is left out makes the count a lower bound."""
    text = where("b[i].x > max(b[..i-1].x)", shape=shape, output=output)
    kinds = ["A", *"B" * 60, "C"]
    n_all, ((whole,)) = work(text, kinds)
    n_cut, ((cut,)) = work(text, kinds, Limits(work_budget=100))
    assert whole.count_exact
    assert n_cut < 1_000 + 100 + n_all // 10
    assert not cut.count_exact
    assert 0 < cut.count < whole.count


@pytest.mark.parametrize(
    ("conditions", "cost"),
    [
        (("b[i].x > b[i-1].x",), "compared by: n log n per first event"),
        (("b[i].x > b[i-1].x", "count(b[]) >= 3"), "compared by: 4 n log n per first event"),
        (("b[i].x > b[i-1].x", "b[1].x < b[b.len].y"), "n log n per first event and first Kleene event"),
        (("b[i].x > b[i-1].x + c.x",), "n log n per first event and last event"),
        (("b[i].x > b[i-1].x", "b[i].y > b[i-1].y"), "pair by pair: n^2 per first event"),
    ],
)
def test_explain_says_how_matches_are_counted(conditions: tuple[str, ...], cost: str) -> None:
    (line,) = [
        line
        for line in compile_query(where(*conditions), SCHEMA).explain().splitlines()
        if line.startswith("selection")
    ]
    assert "counted as chains of neighbours" in line
    how, _, which_pairs = line.partition("   [")
    assert how.endswith(cost)
    assert which_pairs == "pairs whose events fit into one pass]"


def test_explain_says_when_matches_are_listed() -> None:
    text = where("b[i].x > b[i-1].x", rest="SELECT FIRST")
    assert "step by step" in compile_query(text, SCHEMA).explain()
