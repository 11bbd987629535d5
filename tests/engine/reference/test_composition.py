"""Queries over the matches of others, and aggregates that a caller gives a meaning."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from fractions import Fraction

import pytest

from engine import Engine, compile_queries
from engine.errors import UnsupportedQueryError
from engine.events import AttributeType, EventBatch, EventSchema
from engine.language.parser import parse
from engine.language.resolver import ResolvedQuery, resolve
from engine.reference import ReferenceRow, reference_cascade, reference_matches
from tests.engine.strategies import SCHEMA

PAIRS = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 5 RETURN b.x AS height REPORT 'a pair'"
OVER = "PATTERN SEQ(pair_s p, C c) WHERE skip_till_any_match { p.height > 1 } WITHIN 5 REPORT 'a pair and C'"
WITH_MATCHES = EventSchema.of(
    {**SCHEMA.types, "pair_s": {"k": AttributeType.STRING, "height": AttributeType.INT}},
)


def stream(*events: tuple[str, int, int], width_ms: int = 0) -> EventBatch:
    """Type, time and x of each event; all have the key p."""
    rows = [
        {"event_id": f"e{n}", "type": name, "t_lo_ms": t, "t_hi_ms": t + width_ms, "source_seq": n, "x": x, "k": "p"}
        for n, (name, t, x) in enumerate(events)
    ]
    return EventBatch.from_rows(rows, WITH_MATCHES)


def cascade(*texts: tuple[str, str]) -> list[ResolvedQuery]:
    return [resolve(parse(text), WITH_MATCHES, text=text, name=name) for name, text in texts]


def test_a_match_is_an_event_at_the_place_of_its_last_one() -> None:
    events = stream(("A", 1, 0), ("B", 2, 1), ("B", 3, 2), ("C", 3, 0), ("C", 8, 0), ("C", 9, 0))
    found = reference_cascade(cascade(("over", OVER), ("pair-s", PAIRS)), events)
    assert [row.values for row in found["pair-s"]] == [{"height": 1}, {"height": 2}]
    # The match e0 e2 comes after the C of its millisecond, so that e3 is before it; e5 is 6 ms behind it.
    assert [(row.bindings["c"], row.first_lo_ms, row.last_hi_ms) for row in found["over"]] == [(("e4",), 3, 8)]


def test_uncertain_matches_need_certain_above() -> None:
    events = stream(("A", 1, 0), ("B", 2, 5), ("C", 7, 0), width_ms=2)
    plain = reference_cascade(cascade(("over", OVER), ("pair-s", PAIRS)), events)
    assert [row.confidence for row in plain["pair-s"]] == [Fraction(2, 3)]
    assert plain["over"] == []
    admitted = reference_cascade(cascade(("over", f"{OVER} CERTAIN_ABOVE 0.6"), ("pair-s", PAIRS)), events)
    assert len(admitted["over"]) == 1


def test_a_circle_is_refused() -> None:
    own = "PATTERN SEQ(pair_s p, B b) WHERE skip_till_any_match WITHIN 5 RETURN b.x AS height REPORT 'x'"
    with pytest.raises(UnsupportedQueryError, match="in a circle: pair-s -> pair-s"):
        reference_cascade(cascade(("pair-s", own)), stream(("A", 1, 0)))


def test_the_engine_has_the_same_rows() -> None:
    queries = compile_queries({"over": OVER, "pair-s": PAIRS}, SCHEMA)
    hashes = {query.name: query.hash for query in queries}

    def identify(resolved: ResolvedQuery, row: ReferenceRow) -> str:
        identity = [resolved.name, hashes[resolved.name], row.key, row.window, list(row.bindings.items())]
        return hashlib.blake2b(json.dumps(identity).encode(), digest_size=16).hexdigest()

    events = stream(*[("ABC"[n % 3], 2 * n, n % 4) for n in range(14)])
    wanted = reference_cascade([query.resolved for query in queries], events, identify=identify)
    engine = Engine(queries, SCHEMA)
    rows = [*engine.process(events, 12), *engine.finish()]
    assert wanted["over"]
    for name in ("over", "pair-s"):
        assert [dict(row.bindings) for row in rows if row.query == name] == [row.bindings for row in wanted[name]]


def test_a_match_in_two_windows_that_look_alike_is_two_events() -> None:
    """Both events of 1 ms open a window, which hold the second: as two matches, of one span."""
    texts = {
        "over": "PATTERN pair_s p WHERE skip_till_any_match WITHIN 5 RETURN p.height AS height REPORT 'x'",
        "pair-s": "PATTERN B b WHERE skip_till_any_match WITHIN 5 OPEN ON k = 'p' RETURN b.x AS height REPORT 'x'",
    }
    events = stream(("B", 1, 1), ("B", 1, 2))
    expected = [1, 2, 2]
    assert [row.values["height"] for row in reference_cascade(cascade(*texts.items()), events)["over"]] == expected
    rows = Engine(compile_queries(texts, SCHEMA), SCHEMA).process(events, 100)
    own = [row for row in rows if row.query == "over"]
    assert sorted(row.values["height"] for row in own) == expected
    assert len({row.bindings["p"] for row in own}) == 3


def range_of(values: Sequence[float]) -> float:
    return max(values) - min(values) if len(values) > 1 else math.nan


def test_a_user_defined_aggregate_sees_the_values_that_are_not_null() -> None:
    text = (
        "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match { range_of(b[].x) >= 2 } WITHIN 9 "
        "RETURN range_of(b[].x) AS spread"
    )
    resolved = resolve(parse(text), SCHEMA, text=text, aggregates=["range_of"])
    events = stream(("A", 1, 0), ("B", 2, 1), ("B", 3, 2), ("B", 4, 4))
    found = reference_matches(resolved, events, {"range_of": range_of})
    # One value has no range: NULL, which is not >= 2. 2 - 1 is too little.
    assert [(match.bindings["b"], match.values) for match in found] == [(("e1", "e2", "e3"), {"spread": 3.0})]
    with pytest.raises(UnsupportedQueryError, match="does not know the aggregate range_of"):
        reference_matches(resolved, events)
