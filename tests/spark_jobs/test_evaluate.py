"""What executors do with parts, without Spark: generated queries and streams against the live engine and the oracle."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from engine import CompiledQuery, reference_output
from engine.errors import QueryError, UnsupportedQueryError
from engine.events import EventBatch, EventSchema
from spark_jobs.best_rows import Best
from spark_jobs.evaluate import PART, TYPE_CODE, PartStatistics, Task, evaluate
from spark_jobs.match_rows import Source
from spark_jobs.query.few_events import find
from spark_jobs.query.job import rows_of
from spark_jobs.query.rows import RequestedQuery, apart
from tests.conformance.comparison import check_rows
from tests.engine.runtime.dividing import Part, by_key, by_time
from tests.engine.strategies import (
    ANY,
    EVERYTHING,
    IMPRECISE,
    NEXT,
    PARTITION,
    PRECISE,
    SCHEMA,
    STRICT,
    Case,
    StreamScope,
    cases,
)
from tests.engine.trends.trend_strategies import SCHEMA as OF_TRENDS
from tests.engine.trends.trend_strategies import TrendCase, overlap_cases, selecting_cases, trend_cases
from tests.examples import each_drawn_anew
from tests.spark_jobs.generated_stream import stored
from tests.spark_jobs.parity import engine_rows, of_columns, of_engine

N_EXAMPLES = int(os.environ.get("CLUSTERCEP_EXAMPLES", "25"))
QUERIES = replace(EVERYTHING, outputs=("ALL", "ALL", "SETS", "COLLAPSED", "COUNT", "NON_OVERLAPPING"), limit=False)
_SETTINGS = settings(
    max_examples=N_EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def types_of(schema: EventSchema) -> dict[str, dict[str, str]]:
    return {name: {a: kind.value for a, kind in has.items()} for name, has in schema.types.items()}


def task_of(requested: RequestedQuery, query: CompiledQuery, parts: Sequence[Part], least_batch: int) -> Task:
    best, texts = apart(requested, query)
    ranges = {number: (part.from_ms, part.to_ms) for number, part in enumerate(parts)}
    source = Source(query.name, query.hash)
    types = types_of(requested.schema)
    return Task(
        requested.name, texts, requested.parameters, tuple(types), types, source, best, ranges, least_batch=least_batch
    )


def batches_of(parts: Sequence[Part], n_rows: int, schema: EventSchema = SCHEMA) -> Iterator[pa.RecordBatch]:
    """The parts one after the other, in batches of few rows, as Spark hands them over: ties in any order."""
    names = list(schema.types)
    for number, part in enumerate(parts):
        table = part.events.sorted().table
        n = table.num_rows
        times_ms = table.column("t_lo_ms").to_numpy()
        table = table.take(np.lexsort((np.arange(n)[::-1], times_ms)))
        codes = [names.index(name) for name in table.column("type").to_pylist()]
        table = table.drop_columns("type").append_column(TYPE_CODE, pa.array(codes, pa.int32()))
        if table.column("t_hi_ms").equals(table.column("t_lo_ms")):
            table = table.drop_columns("t_hi_ms")
        table = table.append_column(PART, pa.array(np.full(n, number, np.int32)))
        yield from table.to_batches(max_chunksize=n_rows)


def check(
    case: Case | TrendCase, n_buckets: int, length_ms: int, n_rows: int, least_batch: int, schema: EventSchema = SCHEMA
) -> int:
    """Compare each way in which the query can be divided; returns how many there are."""
    note(f"{case}\n{n_buckets} buckets, slices of {length_ms} ms, batches of {n_rows}, steps of {least_batch}")
    requested = RequestedQuery("q", {"q": case.query}, schema)
    try:
        query = requested.compiled()
        expected = engine_rows(query, case.stream)
    except UnsupportedQueryError:
        return 0
    except QueryError:
        assert isinstance(case, TrendCase)  # some drawn predicates are about no neighbours
        return 0
    if len(case.stream) <= 6 and isinstance(case, Case):
        _check_against_oracle(query, case.stream)
    found = query.distribution
    ways: list[list[Part]] = []
    if found.keys:
        ways.append(list(by_key(case.stream, found, n_buckets)))
    is_precise = bool(np.array_equal(case.stream.t_lo_ms, case.stream.t_hi_ms))
    if found.sliceable and (is_precise or not found.needs_exact_times):
        ways.append(list(by_time(case.stream, found, length_ms)))
    for parts in ways:
        told: dict[int, PartStatistics] = {}
        task = task_of(requested, query, parts, least_batch)
        rows = of_columns(evaluate(batches_of(parts, n_rows, schema), task, told.update))
        assert rows == of_engine(query, expected)
        assert sum(each.n_rows for each in told.values()) == len(rows)
        assert sum(each.n_parts for each in told.values()) == sum(len(part.events) > 0 for part in parts)
    return len(ways)


def _check_against_oracle(query: CompiledQuery, stream: EventBatch) -> None:
    try:
        expected = reference_output(query.resolved, stream)
    except UnsupportedQueryError:
        return  # it lists worlds
    check_rows(query.resolved.query.output, engine_rows(query, stream), expected, stream)


FORMS = ("ALL", "ALL", "SETS", "COUNT", "COLLAPSED", "TOP 1 BY CONFIDENCE", "TOP 3 BY CONFIDENCE")
_FEW = replace(EVERYTHING, n_components=(1, 2), outputs=FORMS, limit=True)
"""Short patterns: those that one kernel lists, beside others."""


def check_few(case: Case) -> bool:
    """Compare what is found without Spark, where events are few; returns whether LIMIT or TOP counted over parts."""
    requested = RequestedQuery("q", {"q": case.query}, SCHEMA)
    try:
        query = requested.compiled()
        expected = engine_rows(query, case.stream)
    except UnsupportedQueryError:
        return False
    is_divided = bool(query.distribution.keys) or query.distribution.slice_obstacle is None
    found = find(stored(case.stream, SCHEMA), requested, one_piece=not is_divided, enough=lambda: False)
    assert found is not None
    assert of_columns(rows_of(found, in_order=False)) == of_engine(query, expected)
    return bool(expected) and found.best != Best()


@pytest.mark.parametrize("clause", ["LIMIT 3", "OUTPUT TOP 3 BY CONFIDENCE", "OUTPUT COUNT LIMIT 3"])
@pytest.mark.parametrize("within", ["25 ms", "25 ms SLIDE 10 ms"])
@pytest.mark.parametrize("key", ["", "{ [k] }"])
@pytest.mark.parametrize("pattern", ["A a, B b", "A a, B+ b[]", "A+ a[], B b", "A+ a[]", "A a, B* b[], C c"])
def test_limit_and_top_of_what_is_listed_in_blocks(pattern: str, key: str, within: str, clause: str) -> None:
    rows = [
        {
            "event_id": f"e{n}",
            "type": "ABC"[n % 3],
            "t_lo_ms": 3 * n,
            "t_hi_ms": 3 * n,
            "source_seq": n,
            "k": "pq"[n % 2],
        }
        for n in range(24)
    ]
    text = f"PATTERN SEQ({pattern}) WHERE {ANY} {key} WITHIN {within}\n{clause}"
    assert check_few(Case(text, EventBatch.from_rows(rows, SCHEMA)))


@pytest.mark.parametrize("scope", [PRECISE, IMPRECISE], ids=["exact times", "intervals"])
def test_limit_and_top_of_drawn_queries(scope: StreamScope) -> None:
    queries = _FEW if scope is PRECISE else replace(_FEW, strategies=(ANY,), within_events=False)
    n_counted = []

    @settings(_SETTINGS, max_examples=4 * N_EXAMPLES)
    @given(cases(queries, scope))
    def run(case: Case) -> None:
        note(str(case))
        n_counted.append(check_few(case))

    with each_drawn_anew():
        run()
    assert sum(n_counted) > 0


_CUT = st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 4), st.integers(1, 6))


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("strategy", [ANY, NEXT, PARTITION, STRICT])
def test_precise_events(strategy: str) -> None:
    n_ways = []

    @_SETTINGS
    @given(cases(replace(QUERIES, strategies=(strategy,)), replace(PRECISE, horizon_ms=25)), _CUT)
    def run(case: Case, cut: tuple[int, int, int, int]) -> None:
        n_ways.append(check(case, *cut))

    run()
    assert sum(n_ways) > 0


@pytest.mark.parametrize("strategy", [ANY, NEXT])
@_SETTINGS
@given(length_ms=st.integers(3, 9))
def test_events_at_every_border(strategy: str, length_ms: int) -> None:
    rows = [
        {"event_id": f"e{n}", "type": "AB"[n % 2], "t_lo_ms": n // 2, "t_hi_ms": n // 2, "source_seq": n}
        for n in range(40)
    ]
    case = Case(f"PATTERN SEQ(A a, B b) WHERE {strategy} WITHIN 3 ms", EventBatch.from_rows(rows, SCHEMA))
    assert check(case, 1, length_ms, 7, 5) == 1


def test_imprecise_events() -> None:
    n_ways = []

    @_SETTINGS
    @given(
        cases(
            replace(QUERIES, strategies=(ANY,), within_events=False, selection=False), replace(IMPRECISE, horizon_ms=20)
        ),
        _CUT,
    )
    def run(case: Case, cut: tuple[int, int, int, int]) -> None:
        n_ways.append(check(case, *cut))

    run()
    assert sum(n_ways) > 0


@pytest.mark.parametrize(
    "drawn", [trend_cases(), selecting_cases(), overlap_cases()], ids=["exact times", "strategies", "intervals"]
)
def test_aggregates_over_trends(drawn: st.SearchStrategy[TrendCase]) -> None:
    n_ways = []

    @_SETTINGS
    @given(drawn, _CUT)
    def run(case: TrendCase, cut: tuple[int, int, int, int]) -> None:
        n_ways.append(check(case, *cut, OF_TRENDS))

    run()
    assert sum(n_ways) > 0
