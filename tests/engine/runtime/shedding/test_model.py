"""A shedding model: trained from a history, kept in a file, refused where it does not fit; what is dropped by it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from engine import Engine, Limits, ModelTraining, SheddingModel, compile_query, latency_bound
from engine.compiled.query import CompiledQuery
from engine.errors import StateError
from engine.events import FOREVER_MS, EventBatch
from engine.runtime.composition import compile_queries
from engine.runtime.shedding.droppable import droppable_types, kept_whole
from engine.runtime.shedding.event_shedder import EventStrategy
from engine.runtime.shedding.event_training import shedder_of
from engine.runtime.shedding.expected_once import expected_once
from tests.engine.runtime.shedding.simulated import SCHEMA, three_types

ANY = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { a.x >= 9 AND b.x >= 9 } WITHIN 20 ms"
NEXT = "PATTERN SEQ(B b, C c) WHERE skip_till_next_match { b.x >= 5 AND c.x = b.x } WITHIN 60 ms"


def compiled(**texts: str) -> dict[str, CompiledQuery]:
    return {name: compile_query(text, SCHEMA, name=name) for name, text in texts.items()}


def trained(
    queries: Mapping[str, CompiledQuery],
    stream: EventBatch,
    pane_events: int = 0,
    strategy: EventStrategy = EventStrategy.GSPICE_H,
) -> SheddingModel:
    training = ModelTraining(queries, SCHEMA, Limits(), pane_events, lambda: 0.0, strategy)
    for start in range(0, len(stream), 100):
        training.take(EventBatch(stream.table.slice(start, 100)))
    return training.finished(FOREVER_MS)


@pytest.fixture(scope="module")
def model() -> SheddingModel:
    return trained(compiled(any=ANY, next=NEXT), three_types(1_500, 5))


# ------------------------------------------------------------------- the file


def test_what_was_written_is_read(model: SheddingModel) -> None:
    queries = compiled(any=ANY, next=NEXT)
    assert SheddingModel.read(model.text(), queries).text() == model.text()
    assert (model.n_events, model.from_ms, model.to_ms) == (1_500, 0, 1_499)
    assert [name for name, _ in model.runs] == ["next"]
    assert model.events is not None
    assert model.events.features.types == ("A",)


@pytest.mark.parametrize("strategy", [EventStrategy.GSPICE_T, EventStrategy.GSPICE_F])
def test_trees_are_of_the_model_and_are_what_events_are_dropped_by(strategy: EventStrategy) -> None:
    queries, stream = compiled(any=ANY, next=NEXT), three_types(1_500, 5)
    model = trained(queries, stream, pane_events=20, strategy=strategy)
    read = SheddingModel.read(model.text(), queries)
    assert read.text() == model.text()
    assert read.events is not None
    shedder = shedder_of(read.events)
    assert shedder.strategy is strategy
    more = three_types(600, 6)
    assert shedder.keeps(more, 0.0).all()
    keeps = shedder.keeps(more, 0.5)
    kinds, x = (np.array(more.table.column(name).to_pylist()) for name in ("type", "x"))
    assert keeps[kinds != "A"].all(), "of other types none may be dropped"
    assert keeps[(kinds == "A") & (x >= 9)].all(), "those that can be in a match"
    assert (~keeps).sum() == pytest.approx(0.5 * (kinds == "A").sum(), abs=10)


def test_a_model_that_was_cut_or_changed_is_refused(model: SheddingModel) -> None:
    queries, text = compiled(any=ANY, next=NEXT), model.text()
    for end in [0, 1, *range(10, len(text), 997), len(text) - 1]:
        with pytest.raises(StateError, match="it was cut; train it again"):
            SheddingModel.read(text[:end], queries)
    for name, other in (("n_events", 7), ("from_ms", 3), ("events", None), ("runs", [])):
        with pytest.raises(StateError, match="it was changed; train it again"):
            SheddingModel.read(json.dumps({**json.loads(text), name: other}), queries)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "something else"),
        ('{"format": "clustercep shedding model", "version": 99}', "version 99, expected 1"),
        ("\x80\x04K\x01.", "no JSON"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_what_is_no_model_is_refused(text: str, message: str) -> None:
    with pytest.raises(StateError, match=message):
        SheddingModel.read(text, {})


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"any": ANY}, "next is gone"),
        ({"any": ANY, "next": NEXT, "more": ANY}, "more is new"),
        ({"any": ANY, "next": NEXT.replace("60 ms", "61 ms")}, "next means something else"),
    ],
)
def test_a_model_of_other_queries_is_refused(model: SheddingModel, texts: dict[str, str], message: str) -> None:
    with pytest.raises(StateError, match=f"trained for other queries: {message}"):
        SheddingModel.read(model.text(), compiled(**texts))


def test_states_that_a_query_does_not_have_are_refused(model: SheddingModel) -> None:
    (name, run_model), *_ = model.runs
    forged = replace(model, runs=((name, replace(run_model, branch=1)),))
    with pytest.raises(StateError, match="2 states for branch 1 of next"):
        SheddingModel.read(forged.text(), compiled(any=ANY, next=NEXT))


def test_features_that_there_are_none_of_are_refused(model: SheddingModel) -> None:
    assert model.events is not None
    observed = model.events.observed
    wrong = observed.features.copy()
    wrong[0, 0] = 5
    forged = replace(model, events=replace(model.events, observed=replace(observed, features=wrong)))
    with pytest.raises(StateError, match="features that there are none of"):
        SheddingModel.read(forged.text(), compiled(any=ANY, next=NEXT))


# ------------------------------------------------------- what may be dropped


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (ANY, set()),
        ("PATTERN A a WHERE skip_till_next_match { a.x > 3 } WITHIN 5 ms", set()),
        (NEXT, {"B", "C"}),
        ("PATTERN SEQ(A a, !B b, C c) WHERE skip_till_any_match WITHIN 9 ms", {"B"}),
        ("PATTERN SEQ(A a, B b) WHERE strict_contiguity WITHIN 9 ms", {"A", "B", "C"}),
        ("PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 9 EVENTS", {"A", "B", "C"}),
        ("PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 9 ms LIMIT 3", {"A", "B"}),
        ("PATTERN A+ WITHIN 40 ms SLIDE 40 ms RETURN COUNT(*)", {"A"}),
    ],
)
def test_types_without_whose_events_a_query_would_tell_what_is_not_so(text: str, kept: set[str]) -> None:
    queries = compiled(q=text)
    assert set(kept_whole(queries, SCHEMA)) == kept
    assert set(droppable_types(queries, SCHEMA)) == set("ABC") - kept


@pytest.mark.parametrize(
    ("user", "kept"),
    [
        ("SEQ(C c, pair p) WHERE skip_till_any_match WITHIN 20 ms SELECT FIRST", {"A", "B", "C"}),
        ("SEQ(C c, pair p) WHERE skip_till_next_match WITHIN 20 ms", {"A", "B", "C"}),
        ("SEQ(C c, pair p) WHERE skip_till_any_match WITHIN 20 ms", set()),
        ("pair+ WITHIN 40 ms SLIDE 40 ms HAVING MIN(pair.x) > 5 RETURN COUNT(*)", {"A", "B"}),
    ],
)
def test_types_of_queries_whose_matches_another_one_needs_whole(user: str, kept: set[str]) -> None:
    queries = {
        query.name: query
        for query in compile_queries({"pair": f"{ANY} RETURN a.x AS x", "u": f"PATTERN {user}"}, SCHEMA)
    }
    assert set(kept_whole(queries, SCHEMA)) == kept


def test_a_model_of_trends_of_matches_can_be_used() -> None:
    """What is learned of the matches' queries drops none of the events that these need."""
    texts = {"pair": f"{ANY} RETURN a.x AS x", "trends": "PATTERN pair+ WITHIN 40 ms SLIDE 40 ms RETURN COUNT(*)"}
    queries = {query.name: query for query in compile_queries(texts, SCHEMA)}
    found = trained(queries, three_types(600, 7))
    engine = Engine(list(queries.values()), SCHEMA, overload=latency_bound(1.0, lambda: 0.0, model=found))
    assert engine.process(three_types(60, 8), FOREVER_MS)


def test_an_incident_needs_no_query_whole() -> None:
    texts = {
        "pair": f"{ANY} RETURN a.x AS x ALERT warning 'a pair'",
        "alone": "PATTERN SEQ(pair p, !pair q, pair r) WHERE skip_till_next_match WITHIN 20 ms INCIDENT warning 'two'",
    }
    queries = {query.name: query for query in compile_queries(texts, SCHEMA)}
    assert set(kept_whole(queries, SCHEMA)) == set(kept_whole({"pair": queries["pair"]}, SCHEMA)) != {"A", "B", "C"}


@pytest.mark.parametrize("seed", range(4))
def test_dropping_events_that_may_be_dropped_makes_no_match_that_is_none(seed: int) -> None:
    texts = {
        "any": ANY,
        "next": NEXT,
        "kleene": "PATTERN SEQ(A+ a[], C c) WHERE skip_till_any_match { c.x > 8 AND a[i].x > 9 } WITHIN 15 ms",
    }
    queries, stream = compiled(**texts), three_types(600, seed)
    shedder = shedder_of(trained(queries, three_types(600, 77)).events)  # type: ignore[arg-type]
    goes_on = shedder.keeps(stream, 0.6)
    assert 0 < shedder.n_dropped < len(stream)
    assert set(shedder.dropped) == {"A"}
    whole, rest = (
        Counter(
            (row.query, tuple(row.event_ids))
            for row in Engine(list(queries.values()), SCHEMA).process(part, FOREVER_MS)
        )
        for part in (stream, stream.where(goes_on))
    )
    assert rest <= whole


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_events_of_a_type_that_was_never_seen_are_not_dropped(share: float) -> None:
    """Nothing is known of what would be lost by that, and it is not taken to be nothing."""
    history, stream = three_types(600, 77), three_types(600, 3)
    types = np.array(history.table.column("type").to_pylist())
    shedder = shedder_of(trained(compiled(any=ANY), history.where(types != "B")).events)  # type: ignore[arg-type]
    known = shedder.features.types
    assert known == ("A", "B", "C")[: len(known)]
    for start in range(0, 600, 60):
        shedder.keeps(EventBatch(stream.table.slice(start, 60)), share)
    assert set(shedder.dropped) == {"A"}
    assert shedder.expected(100, 0.1) is not None
    assert shedder.expected(100, 1.0) is None


# ------------------------------------------------------------ what it is worth


def test_each_query_is_taken_to_have_had_one_match_more() -> None:
    """Of twelve events two are accepted as a, three as b; where none is accepted, any of the type might be."""
    rows = [("A", 9), ("A", 10), ("A", 1), ("B", 9), ("B", 9), ("B", 10), ("B", 2), ("C", 1), ("C", 2)]
    stream = EventBatch.from_rows(
        [{"event_id": str(i), "type": kind, "t_lo_ms": i, "x": x, "k": 0} for i, (kind, x) in enumerate(rows)], SCHEMA
    )
    queries = compiled(any=ANY, high="PATTERN C c WHERE skip_till_any_match { c.x > 99 } WITHIN 5 ms WEIGHT 3")
    worth = expected_once(queries.values(), stream)
    assert worth == pytest.approx([1 / 2, 1 / 2, 0, 1 / 3, 1 / 3, 1 / 3, 0, 3 / 2, 3 / 2])


def test_a_model_that_is_given_is_used_from_the_first_event(model: SheddingModel) -> None:
    queries = compiled(any=ANY, next=NEXT)
    engine = Engine(list(queries.values()), SCHEMA, overload=latency_bound(1.0, lambda: 0.0, model=model))
    engine.process(three_types(200, 9), 150)
    assert engine.overload is not None
    assert engine.overload.events is not None
    assert engine.overload.shedder.is_trained
    utilities = engine.overload.shedder.watch_of("next").utilities
    assert utilities is not None
    assert np.isfinite(utilities.values).all()
