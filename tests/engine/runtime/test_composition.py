"""Queries over the matches of others: against the oracle, level by level, whatever the cut and the restarts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from engine import CompiledQuery, Engine, MatchRow, ReferenceRow, compile_queries, flat_ids, reference_output
from engine.errors import EngineError, QueryTypeError, UnsupportedQueryError
from engine.events import EventBatch
from tests.engine.matching.output.test_forms import comparable
from tests.engine.strategies import IMPRECISE, PRECISE, SCHEMA, StreamScope, deliveries, streams
from tests.examples import examples

PRODUCERS = (
    "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 6 RETURN a.x AS low, b.y AS high",
    "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match { [k] AND [j] } WITHIN 8 RETURN max(b[].x) AS low",
    "PATTERN SEQ(A a, !C c, B b) WHERE skip_till_any_match { a.x < 3 } WITHIN 9 RETURN b.x AS low, a.s AS word",
    "PATTERN SEQ(A a, B b, !C c) WHERE skip_till_any_match { [k] } WITHIN 5 RETURN a.x AS low",
    "PATTERN SEQ(A a, B b, !C c) WHERE skip_till_next_match WITHIN 4 OUTPUT NON_OVERLAPPING RETURN a.x AS low",
    "PATTERN SEQ(B+ b[]) WHERE partition_contiguity { [k] } WITHIN 7 OUTPUT COUNT RETURN b[1].k AS word",
    "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 10 SLIDE 5 RETURN b.x AS low",
    "PATTERN SEQ(A a, C? c, B b, !C d) WHERE skip_till_next_match { [k] } WITHIN 5 RETURN b.x AS low",
    "PATTERN AND(A a, B b) WHERE skip_till_any_match WITHIN 5 RETURN b.x AS low",
)
CONSUMERS = (
    "PATTERN SEQ(pairs p, B b) WHERE skip_till_any_match WITHIN 12",
    "PATTERN SEQ(A a, pairs+ p[]) WHERE skip_till_next_match WITHIN 12",
    "PATTERN SEQ(pairs p, !B n, pairs q) WHERE skip_till_any_match WITHIN 20",
    "PATTERN SEQ(pairs p, !pairs q) WHERE skip_till_any_match WITHIN 6",
    "PATTERN SEQ(A a, pairs p) WHERE strict_contiguity WITHIN 12 OUTPUT NON_OVERLAPPING",
    "PATTERN SEQ(pairs p) WHERE skip_till_any_match WITHIN 0 CERTAIN_ABOVE 0.4 RETURN p.timestamp AS t",
)


def events_of(
    query: CompiledQuery, rows: Sequence[ReferenceRow], stream: EventBatch, least: float
) -> list[dict[str, Any]]:
    """The matches as events, from the definition: the interval of the last event, after all events of its time."""
    ends = {row["event_id"]: row for row in stream.rows()}
    found = []
    for row in rows:
        if float(row.confidence) < least - 1e-9:
            continue
        identity = [query.name, query.hash, row.key, row.window, list(row.bindings.items())]
        event_id = hashlib.blake2b(json.dumps(identity).encode(), digest_size=16).hexdigest()
        last = last_of([ends[each] for ids in row.bindings.values() for each in flat_ids(ids)])
        interval = {name: last[name] for name in ("t_lo_ms", "t_hi_ms")}
        header = {"event_id": event_id, "type": query.match_type, "source_rank": 2**31 - 1, "source_seq": query.depth}
        found.append({**dict(row.key), **dict(row.values), **header, **interval})
    return found


def last_of(bound: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The latest of precise events; of imprecise ones, which are a sequence here, the last in pattern order."""
    if any(event["t_lo_ms"] != event["t_hi_ms"] for event in bound):
        return bound[-1]
    return max(bound, key=lambda event: (event["t_lo_ms"], event["source_rank"], event["source_seq"]))


def expected_rows(queries: Sequence[CompiledQuery], stream: EventBatch) -> list[ReferenceRow]:
    """Each level by the oracle, on the events and the matches below."""
    rows: dict[str, list[ReferenceRow]] = {}
    streams_of: dict[str, EventBatch] = {}
    for query in queries:
        own = stream
        for producer in query.producers:
            least = 1.0 if query.resolved.certain_above is None else query.resolved.certain_above
            derived = events_of(producer, rows[producer.name], streams_of[producer.name], least)
            own = EventBatch.concat([own, EventBatch.from_rows(derived, query.resolved.schema)])
        streams_of[query.name] = own
        rows[query.name] = reference_output(query.resolved, own)
    return [row for query in queries if not query.is_silent for row in rows[query.name]]


def check(texts: Mapping[str, str], data: st.DataObject, scope: StreamScope) -> None:
    queries = compile_queries(texts, SCHEMA)
    stream = data.draw(streams(scope, ("A", "B")))
    try:
        expected = expected_rows(queries, stream)
        engine = Engine(queries, SCHEMA)
        found: list[MatchRow] = []
        for delivery in data.draw(deliveries(stream)):
            found += engine.process(delivery.batch, delivery.watermark_ms)
            if data.draw(st.booleans()):
                state = engine.save()
                engine = Engine(list(reversed(queries)), SCHEMA)
                assert engine.restore(state) == frozenset()
        found += engine.finish()
    except UnsupportedQueryError:
        assume(False)
    merged = any(query.plan.output.value in ("COUNT",) for query in queries)
    mine = sorted(((row.query, comparable(row, merged)) for row in found), key=repr)
    theirs = sorted(((row.query, comparable(row, merged)) for row in expected), key=repr)
    assert mine == theirs


@pytest.mark.parametrize("consumer", CONSUMERS)
@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(PRODUCERS), st.data())
def test_one_level(consumer: str, producer: str, data: st.DataObject) -> None:
    check({"over": consumer, "pairs": producer}, data, PRECISE)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(PRODUCERS[:1] + PRODUCERS[2:3]), st.sampled_from(CONSUMERS), st.data())
def test_imprecise_matches(producer: str, consumer: str, data: st.DataObject) -> None:
    check({"over": consumer, "pairs": producer}, data, IMPRECISE)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(PRODUCERS), st.data())
def test_two_levels_and_two_consumers(producer: str, data: st.DataObject) -> None:
    texts = {
        "top": "PATTERN SEQ(middle_level m, pairs p) WHERE skip_till_any_match WITHIN 15 REPORT 'found'",
        "middle-level": "PATTERN SEQ(pairs p, C c) WHERE skip_till_next_match WITHIN 10 RETURN c.x AS low2",
        "side": "PATTERN SEQ(pairs p, !A a) WHERE skip_till_any_match WITHIN 3 REPORT 'found'",
        "pairs": producer,
    }
    check(texts, data, PRECISE)


def test_producers_come_first_and_are_silent_without_a_notice() -> None:
    emitted = f"{PRODUCERS[0]} ALERT info 'pair'"
    for producer, silent in ((PRODUCERS[0], True), (emitted, False)):
        pairs, over = compile_queries({"over": CONSUMERS[0], "pairs": producer}, SCHEMA)
        assert (pairs.name, over.name) == ("pairs", "over")
        assert pairs.is_silent is silent
        assert [producer.hash for producer in over.producers] == [pairs.hash]
        assert over.read_types == {"A", "B"}
        assert over.reach_ms == 18


def test_a_producer_that_changes_changes_its_consumers() -> None:
    first = compile_queries({"over": CONSUMERS[0], "pairs": PRODUCERS[0]}, SCHEMA)[1]
    second = compile_queries({"over": CONSUMERS[0], "pairs": PRODUCERS[0].replace("6", "7")}, SCHEMA)[1]
    assert first.hash != second.hash


def test_a_circle_is_refused_with_its_path() -> None:
    texts = {
        "a1": "PATTERN SEQ(b1 x, A a) WHERE skip_till_any_match WITHIN 1",
        "b1": "PATTERN SEQ(c1 x, A a) WHERE skip_till_any_match WITHIN 1",
        "c1": "PATTERN SEQ(A a, b1 x) WHERE skip_till_any_match WITHIN 1",
    }
    with pytest.raises(QueryTypeError, match="b1 -> c1 -> b1"):
        compile_queries(texts, SCHEMA)


def test_a_type_that_is_neither_event_nor_query_is_refused() -> None:
    texts = {"pairs": PRODUCERS[0], "over": "PATTERN SEQ(pears p) WHERE skip_till_any_match WITHIN 1"}
    with pytest.raises(QueryTypeError, match="no event type and no query is called pears") as caught:
        compile_queries(texts, SCHEMA)
    assert "pairs" in str(caught.value)


def test_a_value_of_another_type_under_a_known_name_is_refused() -> None:
    texts = {"pairs": PRODUCERS[0].replace("a.x AS low", "a.s AS x"), "over": CONSUMERS[0]}
    with pytest.raises(QueryTypeError, match="cannot be events: attribute x"):
        compile_queries(texts, SCHEMA)


def test_an_engine_without_the_producer_is_refused() -> None:
    over = compile_queries({"over": CONSUMERS[0], "pairs": PRODUCERS[0]}, SCHEMA)[1]
    with pytest.raises(EngineError, match="pairs, which is not among"):
        Engine([over], SCHEMA)


def test_a_new_consumer_warms_up_with_the_matches_of_the_past() -> None:
    before, after = (EventBatch.from_rows(rows, SCHEMA) for rows in (ROWS[:2], ROWS[2:]))
    queries = compile_queries({"over": CONSUMERS[0], "pairs": PRODUCERS[0]}, SCHEMA)
    engine = Engine(queries[:1], SCHEMA)
    engine.process(before, 3)
    state = engine.save()
    engine = Engine(queries, SCHEMA)
    assert engine.restore(state) == {"over"}
    engine.warm_up(["over"], before)
    assert [row.query for row in engine.process(after, 10)] == ["over"]


ROWS = [
    {"event_id": "1", "type": "A", "t_lo_ms": 1, "k": "p", "x": 1},
    {"event_id": "2", "type": "B", "t_lo_ms": 2, "k": "p", "y": 1.0},
    {"event_id": "3", "type": "B", "t_lo_ms": 5, "k": "q"},
]
