"""Events of a Kleene component compared with the whole of it, which is known when it is complete: every strategy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.compiled.query import compile_query
from engine.matching.output.match_row import MatchRow
from engine.reference.rows.output import reference_output
from engine.runtime.engine import Engine
from tests.engine.matching.pairs.test_against_oracle import comparable
from tests.engine.strategies import SCHEMA, StreamScope, deliveries, streams
from tests.examples import examples

PATTERNS = ("A+ k[]", "A a, A+ k[]", "A+ k[], B c", "A a, A+ k[], B c", "A+ k[], B+ d[]")
AGAINST_THE_WHOLE = (
    "k[i].x <= k[k.len].x + 1",
    "k[i].s = k[k.len].s",
    "k[i].x {op} {f}(k[].x)",
    "k[i].y <= max(k[..k.len-1].y)",
    "k[i].x + count(k[]) > 3",
)
OF_THE_FIRST = ("k[1].x {op} 1", "k[1].s = 'ok'")
OTHERS = ("k[i].x >= k[i-1].x", "k[i].x >= 0", "k[i].y <= k[1].y + 1", "count(k[]) >= 2")
OUTPUTS = ("", "OUTPUT COLLAPSED", "OUTPUT COUNT", "OUTPUT NON_OVERLAPPING")
STREAMS = StreamScope(max_events=7, horizon_ms=9, null_share=8)


@st.composite
def texts(draw: st.DrawFn, strategy: str) -> str:
    drawn = [draw(st.sampled_from(AGAINST_THE_WHOLE))]
    drawn += draw(st.lists(st.sampled_from(OF_THE_FIRST), max_size=1))
    drawn += draw(st.lists(st.sampled_from(OTHERS), max_size=1))
    f, op = (
        draw(st.sampled_from(["min", "max", "avg", "first", "last"])),
        draw(st.sampled_from(["<", "<=", ">=", "!="])),
    )
    where = " AND ".join(draw(st.permutations(drawn))).format(f=f, op=op)
    pattern = draw(st.sampled_from(PATTERNS))
    output = draw(st.sampled_from(OUTPUTS if strategy == "skip_till_any_match" else OUTPUTS[:1]))
    return f"PATTERN SEQ({pattern})\nWHERE {strategy} {{ {where} }}\nWITHIN 6 ms {output}"


@pytest.mark.parametrize(
    ("strategy", "scope"),
    [
        ("skip_till_any_match", STREAMS),
        ("skip_till_any_match", replace(STREAMS, max_events=5, width_ms=4)),
        ("skip_till_next_match", STREAMS),
        ("partition_contiguity", STREAMS),
        ("strict_contiguity", STREAMS),
    ],
    ids=["any match", "any match, imprecise", "next match", "partition contiguity", "strict contiguity"],
)
@settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_rows_of_the_oracle(strategy: str, scope: StreamScope, data: st.DataObject) -> None:
    text, stream = data.draw(texts(strategy)), data.draw(streams(scope, ["A", "A", "A", "B"]))
    query = compile_query(text, SCHEMA)
    expected = reference_output(query.resolved, stream)
    running = Engine([query], SCHEMA)
    found: list[MatchRow] = []
    for part in data.draw(deliveries(stream)):
        found += running.process(part.batch, part.watermark_ms)
    found += running.finish()
    merged = query.plan.output.value in ("COLLAPSED", "COUNT")
    ours = sorted(((comparable(row, merged), row.confidence) for row in found), key=repr)
    theirs = sorted(((comparable(row, merged), float(row.confidence)) for row in expected), key=repr)
    assert [row for row, _ in ours] == [row for row, _ in theirs], text
    assert [confidence for _, confidence in ours] == pytest.approx([confidence for _, confidence in theirs]), text
