"""User-defined aggregates against the oracle, and what is refused of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine, MatchRow, compile_query, reference_output, register_aggregate
from engine.errors import EngineError, QueryTypeError, UnsupportedQueryError
from tests.engine.matching.output.test_forms import comparable
from tests.engine.strategies import ANY, NEXT, PARTITION, PRECISE, SCHEMA, STRICT, deliveries, streams
from tests.examples import examples


def spread(values: Sequence[float]) -> float:
    """Largest minus smallest; NULL of a single value."""
    return float(np.max(values) - np.min(values)) if len(values) > 1 else math.nan


register_aggregate("spread", spread)

QUERIES = (
    "PATTERN SEQ(A a, B+ b[]) WHERE {s} {{ spread(b[].x) >= 2 }} WITHIN 12 RETURN spread(b[].x) AS r1, a.x AS r2",
    "PATTERN SEQ(A+ a[], B b) WHERE {s} {{ [k] }} WITHIN 12 HAVING spread(a[].y) < b.y + 1",
    "PATTERN SEQ(B+ b[]) WHERE {s} {{ [k] AND NOT spread(b[].x) = 1 AND b[i].x > b[i-1].x }} WITHIN 9 OUTPUT COUNT",
    "PATTERN SEQ(A a, B+ b[], !C c) WHERE {s} {{ spread(b[].x) > count(b[]) }} WITHIN 6 OUTPUT NON_OVERLAPPING",
    "PATTERN SEQ(A a, B* b[]) WHERE {s} {{ spread(b[].x) > 1 }} WITHIN 8 RETURN spread(b[].y) AS r1",
)
IN_AUTOMATA = (
    "PATTERN SEQ(A+ a[], B b) WHERE {s} {{ b.x > spread(a[].x) }} WITHIN 12",
    "PATTERN SEQ(A a, AND(B+ b[], C c)) WHERE {s} WITHIN 9 HAVING spread(b[].x) > 0 RETURN spread(b[].y) AS r1",
    "PATTERN (SEQ(A+ a[], B b))+ WHERE {s} {{ [k] AND spread(a[].x) >= 1 }} WITHIN 12 RETURN spread(b[].x) AS r1",
    "PATTERN (SEQ(A a, B? b, C? c)){{1,3}} WHERE {s} {{ NOT spread(b[].x) = 1 }} WITHIN 9 HAVING spread(c[].x) > 0",
    "PATTERN SEQ((A+ a[] OR B+ b[]), C c) WHERE {s} {{ spread(a[].x) > 0 AND spread(b[].y) > 0 }} WITHIN 9",
)
ELSEWHERE = (
    "PATTERN SEQ(A+ a[], B b, C c) WHERE {s} {{ c.x > spread(a[].x) }} WITHIN 12",
    "PATTERN SEQ(A+ a[]) WHERE {s} {{ a[i].x > spread(a[..i-1].x) }} WITHIN 12",
    "PATTERN (SEQ(A a, B b))+ WHERE {s} {{ b[i].x > spread(b[..i-1].x) }} WITHIN 12",
)


@pytest.mark.parametrize(
    ("text", "strategy"),
    [(text, s) for s in (ANY, NEXT, PARTITION, STRICT) for text in (*QUERIES, *IN_AUTOMATA)]
    + [(text, s) for s in (ANY, PARTITION, STRICT) for text in ELSEWHERE],
)
@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_rows_of_the_oracle(text: str, strategy: str, data: st.DataObject) -> None:
    query = compile_query(text.format(s=strategy), SCHEMA)
    stream = data.draw(streams(PRECISE, ("A", "B", "B")))
    expected = reference_output(query.resolved, stream, {"spread": spread})
    engine = Engine([query], SCHEMA)
    found: list[MatchRow] = []
    for delivery in data.draw(deliveries(stream)):
        found += engine.process(delivery.batch, delivery.watermark_ms)
        if data.draw(st.booleans()):
            state = engine.save()
            engine = Engine([query], SCHEMA)
            engine.restore(state)
    found += engine.finish()
    merged = "COUNT" in text
    ours = sorted((comparable(row, merged) for row in found), key=repr)
    assert ours == sorted((comparable(row, merged) for row in expected), key=repr)


@pytest.mark.parametrize("text", ELSEWHERE)
def test_what_may_not_wait_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedQueryError, match="under skip_till_next_match"):
        compile_query(text.format(s=NEXT), SCHEMA)


def test_unknown_aggregates_are_refused_with_those_that_are_known() -> None:
    with pytest.raises(QueryTypeError, match="nonsense") as caught:
        compile_query("PATTERN SEQ(A+ a[]) WHERE skip_till_any_match { nonsense(a[].x) > 1 } WITHIN 1", SCHEMA)
    assert "spread" in str(caught.value)


@pytest.mark.parametrize("name", ["avg", "two words", "spread"])
def test_names_that_cannot_be_registered(name: str) -> None:
    with pytest.raises(EngineError, match="aggregate"):
        register_aggregate(name, lambda values: float(values[0]))


def test_a_kernel_that_gives_no_number() -> None:
    with pytest.raises(EngineError, match="expected a number"):
        register_aggregate("texts", lambda _: "text")  # type: ignore[arg-type,return-value]
