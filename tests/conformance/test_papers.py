"""What the papers state of their worked examples besides the matches (cases/papers.yaml): runs, merging, edges."""

from __future__ import annotations

import pytest

from engine import CompiledQuery, compile_query
from engine.baselines import BaselineKind, make_baseline
from engine.events import FOREVER_MS, EventBatch
from engine.matching.protocol import Limits
from engine.matching.runs.runtime import NfaRuntime
from engine.plan.explain import explain
from engine.runtime.factory import make_runtime
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from tests.engine.strategies import SCHEMA

ONE_STOCK = """
PATTERN SEQ(A+ a[], A b)
WHERE skip_till_next_match {{ [k] AND a[1].x > 1000 AND a[i].y > {aggregate}(a[..i-1].y) AND b.x < 0.8 * a[a.len].x }}
WITHIN 1 hour
"""
PRICES = (100, 120, 120, 121, 120, 125, 120, 120)
VOLUMES = (1010, 990, 1005, 999, 999, 750, 950, 700)


def stocks(first: int, last: int) -> EventBatch:
    """The events e<first> to e<last> of the stream in cases/papers.yaml: y is the price, x the volume."""
    rows = [
        {"event_id": f"e{n}", "type": "A", "t_lo_ms": 1000 * n, "source_seq": n, "k": "s"}
        | {"y": float(PRICES[n - 1]), "x": VOLUMES[n - 1]}
        for n in range(first, last + 1)
    ]
    return EventBatch.from_rows(rows, SCHEMA)


def after_e4(aggregate: str, limits: Limits | None = None) -> NfaRuntime:
    query = compile_query(ONE_STOCK.format(aggregate=aggregate), SCHEMA)
    interner = Interner()
    runtime = make_runtime(query, interner, limits or Limits())
    assert isinstance(runtime, NfaRuntime)
    assert len(runtime.advance(StreamColumns(stocks(1, 4), interner), 4001)) == 0
    return runtime


def test_runs_of_different_running_values_stay_apart() -> None:
    """Figure 5 of SASE+: after e4 the runs of e1 and of e3 have different means."""
    runtime = after_e4("avg")
    assert (runtime.n_runs, runtime.n_merged) == (2, 0)


def test_runs_of_equal_computation_state_are_merged() -> None:
    """Figure 6 of SASE+: with max() the two have one future, and each keeps its own beginning."""
    runtime = after_e4("max")
    assert (runtime.n_runs, runtime.n_merged) == (1, 1)
    assert after_e4("max", Limits(merge_runs=False)).n_runs == 2
    rows = runtime.advance(StreamColumns(stocks(5, 8), runtime.store.interner), FOREVER_MS)
    assert {row.event_ids for row in rows} == {("e1", "e2", "e4", "e6"), ("e3", "e4", "e6")}


def test_edges_of_query_3() -> None:
    """Figure 2 of SASE+: each conjunct stands on an edge of its last identifier's state."""
    query = compile_query(ONE_STOCK.format(aggregate="avg"), SCHEMA)
    text = explain(query.evaluation, query.resolved)
    states = text[text.index("states") : text.index("accept")]
    first, second = states.split("1 b: A")
    assert "begin   a[1].x > 1000" in first
    assert "take    a[i].y > avg(a[..i-1].y)" in first
    assert "begin   b.x < 0.8 * a[a.len].x" in second


def sase_plus_plus(kind: BaselineKind, query: CompiledQuery, word: str, times: tuple[int, ...]) -> tuple[int, int]:
    """(matches, runs) of a word of types whose x rises."""
    rows = [
        {"event_id": f"{letter}{n}", "type": letter, "t_lo_ms": time_ms, "source_seq": n, "x": n}
        for n, (letter, time_ms) in enumerate(zip(word, times, strict=True))
    ]
    interner = Interner()
    baseline = make_baseline(kind, query.plan, interner)
    found = baseline.advance(StreamColumns(EventBatch.from_rows(rows, SCHEMA), interner), FOREVER_MS)
    return len(found), baseline.statistics.n_runs


@pytest.mark.parametrize(
    ("where", "word", "times", "expected"),
    [("", "AABBC", (1, 2, 5, 6, 7), (6, 14)), ("{ b[i].x >= b[i-1].x }", "ABBBC", (1, 4, 5, 6, 7), (7, 15))],
    ids=["figure 3", "figure 4"],
)
def test_runs_on_the_fly(where: str, word: str, times: tuple[int, ...], expected: tuple[int, int]) -> None:
    """Figures 3 and 4 of SASE++: one run per partial match makes 14 and 15 runs for 6 and 7 matches."""
    query = compile_query(f"PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match {where} WITHIN 10", SCHEMA)
    assert sase_plus_plus(BaselineKind.RUNS, query, word, times) == expected
