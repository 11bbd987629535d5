"""What is evaluated apart, by key or by time, gives the rows of the whole: random queries of every construct."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from engine import compile_query
from engine.errors import UnsupportedQueryError
from tests.engine.runtime.dividing import Part, by_key, by_time, comparable, rows_of
from tests.engine.strategies import ANY, EVERYTHING, IMPRECISE, NEXT, PARTITION, PRECISE, SCHEMA, STRICT, Case, cases

N_EXAMPLES = int(os.environ.get("CLUSTERCEP_EXAMPLES", "40"))
QUERIES = replace(
    EVERYTHING, outputs=("ALL", "ALL", "SETS", "COLLAPSED", "COUNT", "NON_OVERLAPPING"), limit=False, ties=True
)
_SETTINGS = settings(
    max_examples=N_EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.fixture(autouse=True)
def _no_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Streams are small; what is kept of them is dropped at once."""
    monkeypatch.setattr("engine.matching.runs.runtime._LEAST_ROWS", 0)
    monkeypatch.setattr("engine.matching.automaton.runtime._LEAST_ROWS", 0)
    return


def check(case: Case, n_buckets: int, length_ms: int, origin_ms: int, n_batches: int) -> tuple[bool, bool]:
    """Compare where the query can be divided: by key, by time."""
    note(f"{case}\n{n_buckets} buckets, slices of {length_ms} ms from {origin_ms}, {n_batches} batches")
    try:
        query = compile_query(case.query, SCHEMA, name="q")
        whole = comparable(rows_of([query], Part(case.stream)))
    except UnsupportedQueryError:
        return False, False
    found = query.distribution
    if found.keys:
        parts = by_key(case.stream, found, n_buckets)
        assert comparable([row for part in parts for row in rows_of([query], part, n_batches)]) == whole
    if found.sliceable:
        parts = by_time(case.stream, found, length_ms, origin_ms)
        assert comparable([row for part in parts for row in rows_of([query], part, n_batches)]) == whole
    return bool(found.keys), found.sliceable


_CUT = st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(-3, 3), st.integers(1, 3))


@pytest.mark.parametrize("strategy", [ANY, NEXT, PARTITION, STRICT])
def test_precise_events(strategy: str) -> None:
    divided = []

    @_SETTINGS
    @given(cases(replace(QUERIES, strategies=(strategy,)), replace(PRECISE, max_events=9, horizon_ms=30)), _CUT)
    def run(case: Case, cut: tuple[int, int, int, int]) -> None:
        divided.append(check(case, *cut))

    run()
    assert any(by_time for _, by_time in divided)
    assert strategy == STRICT or any(by_key for by_key, _ in divided)


def test_imprecise_events() -> None:
    divided = []
    query = replace(QUERIES, strategies=(ANY,), within_events=False, selection=False)

    @_SETTINGS
    @given(cases(query, replace(IMPRECISE, horizon_ms=25)), _CUT)
    def run(case: Case, cut: tuple[int, int, int, int]) -> None:
        divided.append(check(case, *cut))

    run()
    assert any(by_key for by_key, _ in divided)
    assert any(by_time for _, by_time in divided)
