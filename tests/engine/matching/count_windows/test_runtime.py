"""Windows of n events against the oracle: random queries, streams, cuts of the stream, restarts."""

from __future__ import annotations

import re
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine, compile_query
from engine.events import FOREVER_MS, EventBatch, Int64Array
from engine.matching.positioned import PositionedRows
from tests.engine.matching.output.test_forms import check_against_the_oracle
from tests.engine.strategies import ANY, EVERYTHING, NEXT, PARTITION, SCHEMA, STRICT, Case, QueryScope, cases
from tests.examples import examples

FORMS = ("ALL", "SETS", "COLLAPSED", "COUNT", "NON_OVERLAPPING")


def in_events(case: Case, n_events: int) -> Case:
    """The query with a window of events in place of one of time."""
    return replace(case, query=re.sub(r"WITHIN \d+ ms", f"WITHIN {n_events} EVENTS", case.query))


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("strategy", [ANY, NEXT, PARTITION, STRICT])
def test_the_rows_of_the_oracle(strategy: str) -> None:
    scope = QueryScope(strategies=(strategy,), outputs=FORMS, having=True, unions=True)

    @settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
    @given(cases(scope), st.integers(1, 6), st.sampled_from(["", "\nSELECT FIRST"]), st.data())
    def check(case: Case, n_events: int, extra: str, data: st.DataObject) -> None:
        counted = in_events(case, n_events)
        check_against_the_oracle(replace(counted, query=counted.query + extra), data)

    check()


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("strategy", [ANY, NEXT, PARTITION])
def test_the_rows_of_the_oracle_in_pieces(strategy: str) -> None:
    """Batches whose events many partitions have are looked at piece by piece."""
    scope = QueryScope(strategies=(strategy,), outputs=FORMS, having=True, unions=True)

    @settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
    @given(cases(scope), st.integers(1, 6), st.sampled_from(["", "\nSELECT FIRST", "\nLIMIT 2"]), st.data())
    def check(case: Case, n_events: int, extra: str, data: st.DataObject) -> None:
        counted = in_events(case, n_events)
        with patch("engine.matching.count_windows.runtime._COPIED_TOGETHER", 1):
            check_against_the_oracle(replace(counted, query=counted.query + extra), data)

    check()


def test_copies_of_events_that_many_partitions_have_are_made_a_bounded_number_at_once() -> None:
    text = "PATTERN SEQ(!L b, A a) WHERE skip_till_any_match { [k] } WITHIN 20 EVENTS"
    n_keys, n = 100, 2_000
    kinds = [("L", None) if at % 10 else ("A", f"key{at // 10 % n_keys}") for at in range(n)]
    rows = [{"event_id": str(at), "type": kind, "t_lo_ms": at, "k": key} for at, (kind, key) in enumerate(kinds)]
    batch = EventBatch.from_rows(rows, SCHEMA)
    appended: list[int] = []
    append = PositionedRows.append

    def spied(placed: PositionedRows, partition: Int64Array, *columns: Int64Array) -> None:
        appended.append(len(partition))
        append(placed, partition, *columns)

    whole = Engine([compile_query(text, SCHEMA)], SCHEMA).process(batch, FOREVER_MS)
    most = 5_000
    with (
        patch("engine.matching.count_windows.runtime._COPIED_TOGETHER", most),
        patch.object(PositionedRows, "append", spied),
    ):
        found = Engine([compile_query(text, SCHEMA)], SCHEMA).process(batch, FOREVER_MS)
    assert [row.event_ids for row in found] == [row.event_ids for row in whole]
    assert sum(appended) > 10 * most
    assert max(appended) <= 2 * most


def test_events_without_the_key_count_in_every_partition() -> None:
    query = compile_query("PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 3 EVENTS", SCHEMA)
    kinds = [("A", "p"), ("L", None), ("A", "q"), ("B", "p"), ("L", None), ("B", "q")]
    rows = [{"event_id": str(n), "type": kind, "t_lo_ms": n, "k": key} for n, (kind, key) in enumerate(kinds)]
    found = Engine([query], SCHEMA).process(EventBatch.from_rows(rows, SCHEMA), FOREVER_MS)
    assert [row.event_ids for row in found] == [("0", "3"), ("2", "5")]
    rows.insert(4, {"event_id": "more", "type": "L", "t_lo_ms": 4})
    found = Engine([query], SCHEMA).process(EventBatch.from_rows(rows, SCHEMA), FOREVER_MS)
    assert [row.event_ids for row in found] == [("0", "3")]


def test_what_is_kept_is_bounded_by_the_window() -> None:
    query = compile_query("PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 5 EVENTS", SCHEMA)
    engine = Engine([query], SCHEMA)
    for start in range(0, 20_000, 500):
        rows = [{"event_id": str(n), "type": "A", "t_lo_ms": n, "k": f"key{n % 3}"} for n in range(start, start + 500)]
        engine.process(EventBatch.from_rows(rows, SCHEMA), start + 500)
    assert engine.statistics["query"].n_kept < 3 * 2_000


def test_a_stream_that_has_ended_tells_nothing_twice() -> None:
    text = "PATTERN SEQ(A a, !B b) WHERE skip_till_any_match { [k] } WITHIN 5 EVENTS"
    rows = [{"event_id": str(n), "type": "A", "t_lo_ms": n, "k": f"key{n % 2}"} for n in range(4)]
    engine = Engine([compile_query(text, SCHEMA)], SCHEMA)
    found = [*engine.process(EventBatch.from_rows(rows, SCHEMA), FOREVER_MS), *engine.finish()]
    assert sorted(row.event_ids for row in found) == [("0",), ("1",), ("2",), ("3",)]


EVERY_WINDOW = replace(EVERYTHING, slide=False, outputs=FORMS, limit=False)


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("strategy", [ANY, NEXT, PARTITION, STRICT])
def test_every_construct(strategy: str) -> None:
    """Types with a part of the key, ties, negations everywhere, windows that open at events."""

    @settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
    @given(cases(replace(EVERY_WINDOW, strategies=(strategy,))), st.integers(1, 6), st.data())
    def check(case: Case, n_events: int, data: st.DataObject) -> None:
        check_against_the_oracle(in_events(case, n_events), data)

    check()


def test_what_was_told_is_not_told_again_when_another_partition_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runtimes and positions keep events of partitions that stand still for different times."""
    monkeypatch.setattr("engine.stream.intake._COMPACT_AT", 0)
    monkeypatch.setattr("engine.matching.positioned._LEAST_ROWS", 0)
    query = compile_query("PATTERN SEQ(A a, A b, !B c) WHERE skip_till_any_match { [k] } WITHIN 3 EVENTS", SCHEMA)
    engine = Engine([query], SCHEMA)
    chosen = np.random.default_rng(7)
    share = 0.5 ** np.arange(12)
    keys = chosen.choice(12, 400, p=share / share.sum()).tolist()
    found = []
    for start in range(0, len(keys), 25):
        rows = [
            {"event_id": str(n), "type": "A", "t_lo_ms": n, "t_hi_ms": n, "source_seq": n, "k": f"key{keys[n]}"}
            for n in range(start, start + 25)
        ]
        found += engine.process(EventBatch.from_rows(rows, SCHEMA), start + 25)
    found += engine.finish()
    of_key = [[n for n, key in enumerate(keys) if key == own] for own in range(12)]
    pairs = [(a, b) for own in of_key for at, a in enumerate(own) for b in own[at + 1 : at + 3]]
    assert sorted(row.event_ids for row in found) == sorted((str(a), str(b)) for a, b in pairs)
