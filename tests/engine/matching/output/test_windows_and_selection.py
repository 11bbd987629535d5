"""Windows of a query's own, SELECT FIRST and CONSUME against the oracle: random queries, streams, cuts, restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine, compile_query, reference_output
from engine.events import EventBatch
from engine.language import ast
from engine.language.parser import parse
from tests.engine.matching.output.test_forms import check_against_the_oracle
from tests.engine.strategies import (
    ANY,
    IMPRECISE,
    NEXT,
    PARTITION,
    PRECISE,
    SCHEMA,
    STRICT,
    Case,
    QueryScope,
    StreamScope,
    cases,
)
from tests.examples import examples

FORMS = ("ALL", "SETS", "COLLAPSED", "COUNT", "NON_OVERLAPPING")
EXTRAS = (
    "SLIDE 3 ms",
    "SLIDE 7 ms",
    "OPEN ON type = 'A'",
    "OPEN ON x > 0 AND type != 'C'",
    "OPEN ON s = 'ok' OR timestamp % 4 = 0",
    "SELECT FIRST",
    "CONSUME {v}",
    "SELECT FIRST\nCONSUME {v}",
    "SLIDE 4 ms\nCONSUME {v}",
    "OPEN ON type = 'B'\nSELECT FIRST",
)


def with_clause(case: Case, extra: str) -> Case:
    """The query with one more clause; {v} in it is the first variable that is not negated."""
    positive = [part.variable for part, negated in ast.components(parse(case.query).pattern) if not negated]
    return replace(case, query=f"{case.query}\n{extra.format(v=positive[0])}")


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize(
    ("strategies", "streams"),
    [((NEXT, PARTITION, STRICT), PRECISE), ((ANY,), PRECISE), ((ANY,), IMPRECISE)],
    ids=["runs", "any", "any, imprecise"],
)
def test_the_rows_of_the_oracle(strategies: tuple[str, ...], streams: StreamScope, extra: str) -> None:
    precise = streams.width_ms == 1
    scope = QueryScope(strategies=strategies, outputs=FORMS, negation=precise, confidence=not precise, having=True)

    @settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
    @given(cases(scope, streams), st.data())
    def check(case: Case, data: st.DataObject) -> None:
        check_against_the_oracle(with_clause(case, extra), data)

    check()


@pytest.mark.parametrize("steps_ms", [(), (34,), (20, 26, 30, 34, 37)])
def test_what_is_consumed_does_not_depend_on_the_steps(steps_ms: tuple[int, ...]) -> None:
    """The set {e0, e1, e2} ends in e1 in the only order that can be, before e0 alone does in listing order; it is too
    unlikely to be told, yet consumes e0. Its e2 ends last of all."""
    spans = [("A", 26, 29), ("B", 23, 30), ("B", 29, 36)]
    stream = EventBatch.from_rows(
        [
            {"event_id": f"e{n}", "source_seq": n, "type": kind, "t_lo_ms": lo, "t_hi_ms": hi, "x": -3 * (n == 2)}
            for n, (kind, lo, hi) in enumerate(spans)
        ],
        SCHEMA,
    )
    text = (
        "PATTERN SEQ(A+ a[], B* b[]) WHERE skip_till_any_match { b[b.len].x > 2 * avg(b[..b.len-1].x) } WITHIN 15 "
        "OUTPUT SETS CONFIDENCE >= 0.95 SELECT FIRST CONSUME a, b"
    )
    query = compile_query(text, SCHEMA)
    assert reference_output(query.resolved, stream) == []
    engine = Engine([query], SCHEMA)
    arrived_ms = 0
    for watermark_ms in (*steps_ms, 100):
        part = stream.where((stream.t_lo_ms >= arrived_ms) & (stream.t_lo_ms < watermark_ms))
        assert len(engine.process(part, watermark_ms)) == 0
        arrived_ms = watermark_ms
    assert len(engine.finish()) == 0
