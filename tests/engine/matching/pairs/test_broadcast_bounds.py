"""Events without the key are in every partition: what they are looked at there is paid for by the stream."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.compiled.query import compile_query
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema
from engine.matching.automaton.runtime import AutomatonRuntime
from engine.matching.protocol import Limits
from engine.runtime.factory import make_runtime
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner

SCHEMA = EventSchema.of({**{name: {"k": AttributeType.INT} for name in "AB"}, "L": {}})
LISTED = "PATTERN SEQ(AND(A a, B b), L l) WHERE skip_till_any_match { [k] } WITHIN 10 min"
RUNS = "PATTERN SEQ(L l, AND(A a, B b)) WHERE partition_contiguity { [k] } WITHIN 10 min"
N_KEYS, N_BROADCAST = 50, 80


def batch(types: str, first: int = 0) -> EventBatch:
    """One event every ten milliseconds; keys take turns."""
    rows = [
        {"event_id": f"e{at}", "type": name, "t_lo_ms": 10 * at, "source_seq": at}
        | ({} if name == "L" else {"k": at % N_KEYS})
        for at, name in enumerate(types, first)
    ]
    return EventBatch.from_rows(rows, SCHEMA)


def runtime_of(text: str, budget: int) -> AutomatonRuntime:
    runtime = make_runtime(compile_query(text, SCHEMA), Interner(), Limits(work_budget=budget))
    assert isinstance(runtime, AutomatonRuntime)
    return runtime


@pytest.mark.parametrize(("text", "steps"), [(LISTED, 1), (RUNS, 3)])
def test_a_broadcast_event_pays_for_each_partition_that_has_events(text: str, steps: int) -> None:
    runtime = runtime_of(text, 1_000_000)
    before = runtime._work.account[0]
    runtime.advance(StreamColumns(batch("A" * N_KEYS + "L"), runtime._interner), FOREVER_MS)
    assert before - runtime._work.account[0] >= steps * N_KEYS
    assert runtime.n_unfinished == 0
    poor = runtime_of(text, 100)
    poor.advance(StreamColumns(batch("A" * N_KEYS + "L" * N_BROADCAST), poor._interner), FOREVER_MS)
    assert poor.n_unfinished > 0


@given(
    st.sampled_from((LISTED, RUNS)), st.sampled_from((5, 60, 400)), st.text("AABL", min_size=20, max_size=80),
    st.sets(st.integers(1, 79), max_size=6),
)  # fmt: skip
def test_what_is_left_out_of_broadcast_events_is_the_same_for_every_division(
    text: str, budget: int, types: str, cuts: set[int]
) -> None:
    text = text.replace("10 min", "150 ms")
    whole = runtime_of(text, budget)
    expected = list(whole.advance(StreamColumns(batch(types), whole._interner), FOREVER_MS))
    parts = runtime_of(text, budget)
    found = []
    for start, end in pairwise(sorted({0, len(types), *(cut for cut in cuts if cut < len(types))})):
        watermark_ms = FOREVER_MS if end == len(types) else 10 * end
        found += list(parts.advance(StreamColumns(batch(types[start:end], start), parts._interner), watermark_ms))
    assert [(row.bindings, row.capped) for row in found] == [(row.bindings, row.capped) for row in expected]
    assert parts.n_unfinished == whole.n_unfinished
