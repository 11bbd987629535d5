"""LIMIT and TOP count over all steps: hand-made streams, cut in every way; generated ones: `test_random_cases`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import CompiledQuery, Engine, MatchRow, compile_queries, compile_query, reference_output
from engine.events import FOREVER_MS, EventBatch
from engine.parallel import workers
from tests.engine.strategies import ANY, NEXT, PRECISE, SCHEMA, Case, QueryScope, cases
from tests.examples import examples

ONE = "PATTERN SEQ(A a) WHERE skip_till_any_match WITHIN 5 ms"
PAIR = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 10 ms"


def stream(*events: tuple[str, int] | tuple[str, int, int]) -> EventBatch:
    """(type, t) or (type, t_lo, t_hi), in this order in their source; ids are e0, e1 and so on."""
    rows = [
        {"event_id": f"e{n}", "type": kind, "t_lo_ms": lo_ms, "t_hi_ms": hi_ms[0] if hi_ms else lo_ms, "source_seq": n}
        for n, (kind, lo_ms, *hi_ms) in enumerate(events)
    ]
    return EventBatch.from_rows([{**row, "k": "p", "j": 1} for row in rows], SCHEMA)


def emitted(
    queries: Sequence[CompiledQuery], events: EventBatch, watermarks: Sequence[int], *, restarts: bool = False
) -> tuple[list[MatchRow], Engine]:
    """The rows of events that come in steps up to these watermarks; the engine at the end."""
    engine, rows, before_ms = Engine(queries, SCHEMA), list[MatchRow](), -FOREVER_MS
    for watermark_ms in [*watermarks, FOREVER_MS]:
        inside = (events.t_lo_ms >= before_ms) & (events.t_lo_ms < watermark_ms)
        rows += engine.process(events.where(inside), watermark_ms)
        before_ms = watermark_ms
        if restarts:
            state, engine = engine.save(), Engine(queries, SCHEMA)
            engine.restore(state)
    return rows, engine


def every_cut(events: EventBatch) -> list[list[int]]:
    """Watermarks between any of the events' times."""
    times = sorted(set((events.t_lo_ms + 1).tolist()))
    return [list(cut) for n in range(min(len(times), 6) + 1) for cut in combinations(times, n)]


CASES = {
    "one row of five": (f"{ONE} LIMIT 1", stream(*[("A", 10 * n) for n in range(5)])),
    "two best of five": (
        f"{PAIR} OUTPUT TOP 2 BY CONFIDENCE",
        stream(("A", 1, 4), ("B", 3, 6), ("A", 11, 14), ("B", 12, 16), ("A", 22, 26), ("B", 23, 25)),
    ),
    "the best of equals is the first": (f"{ONE} OUTPUT TOP 2 BY CONFIDENCE", stream(("A", 1), ("A", 2), ("A", 3))),
    "per window": (f"{PAIR} SLIDE 5 ms LIMIT 1", stream(("A", 1), ("B", 2), ("B", 3), ("A", 6), ("B", 9), ("B", 14))),
    "best per window": (
        f"{PAIR} SLIDE 5 ms OUTPUT TOP 1 BY CONFIDENCE",
        stream(("A", 1, 3), ("B", 2, 3), ("B", 3), ("A", 6), ("B", 9), ("B", 14)),
    ),
    "per opening event": (f"{PAIR} OPEN ON type = 'A' LIMIT 1", stream(("A", 1), ("A", 1), ("B", 2), ("B", 3))),
    # Decided in the order e0, e2 (a + WITHIN), e1; told as a ends.
    "a negation at the end decides late": (
        "PATTERN SEQ(A a, B b, !N n) WHERE skip_till_any_match WITHIN 10 ms LIMIT 2",
        stream(("A", 1), ("A", 2), ("B", 3), ("B", 4)),
    ),
    # The last event of the later row begins earlier and ends later.
    "an imprecise last event is decided late": (
        f"{PAIR} LIMIT 1",
        stream(("A", 1), ("B", 2, 9), ("B", 3, 4)),
    ),
    "counted pairs": (
        "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_any_match WITHIN 10 ms OUTPUT COUNT LIMIT 2",
        stream(("A", 1), ("B", 2), ("B", 3), ("B", 4)),
    ),
}


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_rows_are_the_same_for_every_cut(name: str, *, restarts: bool) -> None:
    text, events = CASES[name]
    query = compile_query(text, SCHEMA, name="q")
    expected = reference_output(query.resolved, events)
    assert expected
    for watermarks in every_cut(events):
        rows, _ = emitted([query], events, watermarks, restarts=restarts)
        found = [(row.window, row.bindings, pytest.approx(float(row.confidence))) for row in rows]
        assert found == [(row.window, row.bindings, float(row.confidence)) for row in expected], watermarks


@pytest.mark.parametrize("output", ["", "OUTPUT COUNT", "OUTPUT SETS", "OUTPUT TOP 2 BY CONFIDENCE"])
@pytest.mark.parametrize("pattern", ["SEQ(L a, A+ b[], L c)", "SEQ(L a, A b, L c, !N n)", "SEQ(L a, A? b, P? d, L c)"])
@pytest.mark.parametrize("strategy", [ANY, NEXT])
def test_ids_decide_between_partitions(strategy: str, pattern: str, output: str) -> None:
    """One first and one last event for all keys: the partitions are known in another order than that of the ids."""
    rows = [{"event_id": "l0", "type": "L", "t_lo_ms": 0}, {"event_id": "l1", "type": "L", "t_lo_ms": 12}]
    for n, name in enumerate(("x9", "x8", "x1", "x5", "x4")):
        rows.append({"event_id": name, "type": "A", "t_lo_ms": 2 + n, "k": "pqrst"[n], "j": 1})
    events = EventBatch.from_rows([{**row, "source_seq": n} for n, row in enumerate(rows)], SCHEMA)
    bound = output if "TOP" in output else f"{output} LIMIT 2"
    query = compile_query(f"PATTERN {pattern} WHERE {strategy} {{ [k] }} WITHIN 50 {bound}", SCHEMA, name="q")
    expected = [row.bindings for row in reference_output(query.resolved, events)]
    for watermarks in ([], [4], [3, 5, 13]):
        assert [row.bindings for row in emitted([query], events, watermarks)[0]] == expected


def test_it_is_told_that_there_are_more() -> None:
    """Of the row only where it is known by then; of the query always."""
    query, events = compile_query(f"{ONE} LIMIT 2", SCHEMA, name="q"), stream(("A", 1), ("A", 2), ("A", 3))
    rows, engine = emitted([query], events, [])
    assert [row.capped for row in rows] == [False, True]
    assert engine.statistics["q"].n_limited == 1
    assert engine.statistics["q"].is_full
    rows, engine = emitted([query], events, [3])
    assert [row.capped for row in rows] == [False, False]
    assert engine.statistics["q"].n_limited == 1
    rows, engine = emitted([query], stream(("A", 1), ("A", 2)), [2])
    assert (len(rows), engine.statistics["q"].n_limited, engine.statistics["q"].is_full) == (2, 0, False)


def test_a_limit_in_each_window_is_counted_window_by_window() -> None:
    query = compile_query(f"{ONE} SLIDE 5 ms LIMIT 1", SCHEMA, name="q")
    events = stream(("A", 1), ("A", 2), ("A", 6), ("A", 11), ("A", 12), ("A", 13))
    for watermarks in ([], [2, 3, 7, 12, 13]):
        rows, engine = emitted([query], events, watermarks)
        assert [row.bindings["a"] for row in rows] == [("e0",), ("e2",), ("e3",)]
        assert engine.statistics["q"].n_limited == 2
        assert engine.statistics["q"].n_rows == 3


def test_windows_that_have_passed_are_forgotten() -> None:
    """What is kept of a stream without end is that of its last windows."""
    query = compile_query(f"{ONE} SLIDE 5 ms LIMIT 1", SCHEMA, name="q")
    sizes = []
    for n in (20, 200):
        _, engine = emitted([query], stream(*[("A", 3 * k) for k in range(n)]), [])
        quota = engine.save()["q/quota"]
        sizes.append(len(quota.schema.metadata[b"state"]) // 10)
        assert quota.num_rows == 0
    engine = Engine([query], SCHEMA)
    kept = []
    for n in range(200):
        engine.process(stream(*[("A", 3 * n)]), 3 * n + 1)
        kept.append(engine.save()["q/quota"].num_rows)
    assert max(kept) < 12
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("clause", ["LIMIT 2", "OUTPUT TOP 2 BY CONFIDENCE"])
def test_others_use_the_matches_that_are_told(clause: str) -> None:
    texts = {
        "few": f"{ONE} {clause}",
        "uses": "PATTERN SEQ(few f, B b) WHERE skip_till_any_match WITHIN 100 ms",
    }
    queries, events = compile_queries(texts, SCHEMA), stream(("A", 1), ("A", 2), ("A", 3), ("B", 4))
    for watermarks in every_cut(events):
        rows, _ = emitted(queries, events, watermarks)
        assert sum(row.query == "uses" for row in rows) == 2, watermarks


def test_a_state_of_before_begins_to_count() -> None:
    query = compile_query(f"{ONE} LIMIT 1", SCHEMA, name="q")
    state = Engine([query], SCHEMA).save()
    del state["q/quota"]
    engine = Engine([query], SCHEMA)
    assert not engine.restore(state)
    assert len(engine.process(stream(("A", 1), ("A", 2)), FOREVER_MS)) == 1


LIMITED = QueryScope(
    strategies=(ANY, NEXT), outputs=("ALL", "COUNT", "TOP 2 BY CONFIDENCE"), limit=True, slide=True, negation=True
)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(LIMITED, replace(PRECISE, max_events=9)), st.integers(1, 3))
def test_threads_count_together(case: Case, n_threads: int) -> None:
    """However many threads divide a batch by key or time, the count is of the query."""
    query = compile_query(case.query, SCHEMA, name="q")
    expected = [(row.window, row.bindings) for row in reference_output(query.resolved, case.stream)]
    least, workers.LEAST_EVENTS = workers.LEAST_EVENTS, 1
    try:
        engine = Engine([query], SCHEMA, threads=n_threads)
        rows = [*engine.process(case.stream, FOREVER_MS), *engine.finish()]
    finally:
        workers.LEAST_EVENTS = least
    assert sorted([(row.window, row.bindings) for row in rows], key=repr) == sorted(expected, key=repr)


def test_rows_of_windows_that_end_together_are_in_output_order() -> None:
    """Both events of 1 ms open a window: its rows, which LIMIT counts by themselves, are told with the other's."""
    query = compile_query("PATTERN B b WHERE skip_till_next_match WITHIN 6 EVENTS OPEN ON k = 'p' LIMIT 4", SCHEMA)
    events = stream(("A", 1), ("B", 1), ("B", 6))
    rows, _ = emitted([query], events.where(events.t_lo_ms <= 6), [])
    assert [row.bindings["b"] for row in rows] == [("e1",), ("e1",), ("e2",), ("e2",), ("e2",)]
