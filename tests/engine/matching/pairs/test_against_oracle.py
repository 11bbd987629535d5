"""The postponed runtime against the oracle: random queries, streams, deliveries, restarts."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from engine.compiled.query import compile_query
from engine.errors import UnsupportedQueryError
from engine.events import FOREVER_MS, EventBatch
from engine.matching.output.match_row import MatchRow
from engine.matching.protocol import Limits
from engine.reference.rows.output import ReferenceRow, reference_output
from engine.runtime.engine import Engine
from engine.stream.interner import Interner
from tests.engine.matching.feeding import advance
from tests.engine.matching.pairs.postponed import postponed
from tests.engine.matching.pairs.test_runtime import SCHEMA as CLUSTER_SCHEMA
from tests.engine.matching.pairs.test_runtime import batch, run
from tests.engine.strategies import (
    ANY,
    IMPRECISE,
    PRECISE,
    SCHEMA,
    SKEWED,
    WEIGHTED,
    QueryScope,
    StreamScope,
    cases,
    deliveries,
)
from tests.examples import examples

TOLERANCE = 1e-12

QUERIES = QueryScope(
    strategies=(ANY,),
    outputs=("ALL", "SETS", "COLLAPSED", "COUNT", "NON_OVERLAPPING"),
    confidence=True,
    having=True,
    partial_keys=True,
)

Comparable = tuple[object, ...]


def comparable(row: MatchRow | ReferenceRow, merged: bool) -> Comparable:
    """What a row must agree in; of rows that stand for several matches any of the best may be shown."""
    n_events = sum(len(ids) for ids in row.bindings.values())
    values = sorted(
        (name, value if isinstance(value, str) else float(value or 0)) for name, value in row.values.items()
    )
    shown = None if merged else (tuple(row.bindings.items()), tuple((n, v) for n, v in values if isinstance(v, str)))
    candidates = None if row.candidates is None else tuple(row.candidates.items())
    return (row.key, row.first_lo_ms, row.last_hi_ms, row.count, n_events, candidates, shown)


@pytest.mark.parametrize(
    ("queries", "streams"),
    [
        (QUERIES, PRECISE),
        (replace(QUERIES, negation=False), replace(IMPRECISE, clocks=False)),
        (QUERIES, replace(WEIGHTED, clocks=False, max_events=4, width_ms=5)),
        (QUERIES, SKEWED),
    ],
    ids=["precise", "imprecise", "weighted with negation", "skewed with negation"],
)
def test_the_rows_of_the_oracle_whatever_the_delivery(queries: QueryScope, streams: StreamScope) -> None:
    @settings(max_examples=examples(35), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        case = data.draw(cases(queries, streams))
        # The planner's reading of [v.x] for NULL is tested where it is made.
        assume(not re.search(r"\[v\d\.", case.query))
        try:
            query = compile_query(case.query, SCHEMA)
            expected = reference_output(query.resolved, case.stream)
            engine = Engine([query], SCHEMA)
            found: list[MatchRow] = []
            for delivery in data.draw(deliveries(case.stream)):
                found += engine.process(delivery.batch, delivery.watermark_ms)
                if data.draw(st.booleans()):
                    state = engine.save()
                    engine = Engine([query], SCHEMA)
                    engine.restore(state)
            found += engine.finish()
        except UnsupportedQueryError:
            assume(False)
        merged = query.plan.output.value in ("SETS", "COLLAPSED", "COUNT")
        ours = sorted(((comparable(row, merged), row.confidence) for row in found), key=repr)
        theirs = sorted(((comparable(row, merged), float(row.confidence)) for row in expected), key=repr)
        assert [row for row, _ in ours] == [row for row, _ in theirs], case.query
        for (row, mine), (_, exact) in zip(ours, theirs, strict=True):
            assert mine == pytest.approx(exact, abs=TOLERANCE), row

    check()


CONJUNCTS = (
    "b[i].val >= b[i-1].val",
    "b[b.len].val >= b[1].val + 1",
    "count(b[]) >= 2",
    "count(b[]) < 4",
    "max(b[].val) > 2",
    "min(b[..b.len-1].val) <= 1",
    "b[i].val != 2",
    "sum(b[].val) > 3",
    "b[i].val > max(b[..i-1].val)",
)


BETWEEN_NEIGHBOURS = (*CONJUNCTS[:4], "b[i].val != 2")
"""Those that are counted as chains over neighbours."""


@settings(max_examples=examples(90), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from([CONJUNCTS, BETWEEN_NEIGHBOURS]).flatmap(
        lambda conjuncts: st.lists(st.sampled_from(conjuncts), max_size=3, unique=True)
    ),
    st.lists(st.integers(0, 4), min_size=1, max_size=8),
    st.integers(0, 12),
    st.integers(1, 14),
    st.integers(-12, 6),
    st.sampled_from(["", " CONFIDENCE >= 0.6"]),
    st.sampled_from([0, 0, 1, 4]),
)
def test_counted_rows_equal_the_listed_matches(
    conjuncts: list[str], values: list[int], start: int, width: int, after: int, threshold: str, skew: int
) -> None:
    """COLLAPSED counts without listing: number, best and candidates are those of OUTPUT ALL."""
    where = " AND ".join(["[task]", *conjuncts])
    text = f"PATTERN SEQ(Start a, Sample+ b[], End c) WHERE skip_till_any_match {{ {where} }} WITHIN 1 hour{threshold}"
    samples = [("Sample", 10 * k, 10 * k + width - 1, float(v)) for k, v in enumerate(values)]
    end = 10 * len(values) + after
    stream = _off_by(skew, batch(("Start", start, start, "r"), *samples, ("End", end, end, "r")))
    listed, _ = run(text, stream)
    counted, _ = run(text + " OUTPUT COLLAPSED", stream)
    assert len(counted) == min(1, len(listed))
    for row in counted:
        assert (row.count, row.count_exact) == (len(listed), True)
        best = max(listed, key=lambda match: (round(match.confidence, 9), len(match.bindings["b"])))
        assert row.confidence == pytest.approx(best.confidence, abs=TOLERANCE)
        assert len(row.bindings["b"]) == len(best.bindings["b"])
        assert row.bindings in [match.bindings for match in listed]
        assert row.candidates is not None
        assert set(row.candidates["b"]) == {name for match in listed for name in match.bindings["b"]}


def _off_by(skew_ms: int, events: EventBatch) -> EventBatch:
    """The clock of the samples may be off."""
    rows = list(events.rows())
    for row in rows:
        if "clock_id" in row:
            lo, hi = row["t_lo_ms"] - skew_ms, row["t_hi_ms"] + skew_ms
            row |= {"t_lo_ms": lo, "t_hi_ms": hi, "skew_ms": skew_ms}
    return EventBatch.from_rows(rows, CLUSTER_SCHEMA).sorted()


def test_a_small_work_budget_never_invents_matches() -> None:
    """Whatever stops the work, a count is at most the true one and says that it is a lower bound."""
    text = """PATTERN SEQ(Start a, Sample+ b[], End c) WHERE skip_till_any_match { [task] AND avg(b[].val) > 2 }
              WITHIN 1 hour OUTPUT COUNT"""
    samples = [("Sample", 10 * k, 10 * k + 9, float(k % 5)) for k in range(1, 11)]
    query = compile_query(text, CLUSTER_SCHEMA)
    stream = batch(("Start", 0, 0, "r"), *samples, ("End", 200, 200, "r")).of_types(query.types)
    counts = {}
    for budget in (10, 100, 1_000, 2_000_000):
        rows = advance(postponed(query.plan, Interner(), Limits(work_budget=budget)), stream, FOREVER_MS)
        counts[budget] = [(row.count, row.count_exact) for row in rows]
    ((true, exact),) = counts[2_000_000]
    assert exact
    for found in counts.values():
        assert all(count <= true and (known == (count == true)) for count, known in found)
