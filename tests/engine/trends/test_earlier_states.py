"""States that were saved when a number of its own told whether a sum has a value: recorded with the version of then."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow as pa
import pytest

from engine import CompiledQuery, Engine, compile_query
from engine.errors import StateError
from engine.events import FOREVER_MS, EventBatch
from engine.reference import reference_output
from tests.engine.trends.evaluation import shown
from tests.engine.trends.trend_strategies import SCHEMA

RECORDED = Path(__file__).parents[2] / "fixtures" / "trend_states" / "sums.json"
"""Of each query its tables in Arrow's format, after the events of HALF."""

WINDOW = "GROUP BY g WITHIN 16 SLIDE 16"
TEXTS = {
    "sums": f"PATTERN A+ a {WINDOW} RETURN COUNT(*) AS n, SUM(a.x) AS x, MAX(a.y) AS most, SUM(a.y) AS y",
    "averages": f"PATTERN A+ a {WINDOW} RETURN SUM(a.y) AS y, AVG(a.x) AS mean, SUM(a.x) AS x, AVG(a.y) AS other",
    "inequality": f"PATTERN A+ a WHERE a.h < NEXT(a).h {WINDOW} RETURN COUNT(*) AS n, SUM(a.x) AS x",
    "calculated": f"PATTERN SEQ(A a, B+ b) WHERE a.h < NEXT(b).h AND b.h + 1 > NEXT(b).h {WINDOW} RETURN SUM(b.x) AS x",
    "exact": f"PATTERN A+ a {WINDOW} EXACT 200 BITS RETURN COUNT(*) AS n, SUM(a.x) AS x",
    "pairs": f"PATTERN A+ a AND (SEQ(A a, B))+ {WINDOW} RETURN COUNT(*) AS n, SUM(a.x) AS x",
}
HALF = 22


def queries() -> list[CompiledQuery]:
    return [compile_query(text, SCHEMA, name=name) for name, text in TEXTS.items()]


def events(first_ms: int, last_ms: int, longest_ms: int = 0) -> EventBatch:
    """Group u: values that cancel each other out; v: none at all until the second half; w: zeros, in the
    second half none."""
    rows = [
        {
            "event_id": f"e{t}",
            "type": "AAB"[t % 3],
            "t_lo_ms": t,
            "t_hi_ms": t + longest_ms * (t in (20, 24)),
            "source_seq": t,
            "x": {"u": 5 - 10 * (t // 4 % 2), "v": None if t < 30 else 3, "w": 0 if t < HALF else None}["uvwu"[t % 4]],
            "y": {"u": 1.5, "v": None, "w": 0.0}["uvwu"[t % 4]],
            "g": "uvwu"[t % 4],
            "h": 7 * t % 11,
        }
        for t in range(first_ms, last_ms)
    ]
    return EventBatch.from_rows(rows, SCHEMA)


def saved(longest_ms: int) -> dict[str, str]:
    """The state after the first half, as it was recorded."""
    running = Engine(queries(), SCHEMA)
    running.process(events(1, HALF, longest_ms), HALF)
    return {name: base64.b64encode(_bytes(table)).decode() for name, table in running.save().items()}


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def recorded(longest_ms: int) -> dict[str, pa.Table]:
    tables = json.loads(RECORDED.read_text())[str(longest_ms)]
    return {name: pa.ipc.open_stream(base64.b64decode(text)).read_all() for name, text in tables.items()}


@pytest.mark.parametrize("longest_ms", [0, 3])
def test_a_state_of_before_goes_on(longest_ms: int) -> None:
    running = Engine(queries(), SCHEMA)
    assert running.restore(recorded(longest_ms)) == frozenset()
    rows = list(running.process(events(HALF, 40, longest_ms), FOREVER_MS))
    whole = events(1, 40, longest_ms)
    for query in queries():
        if longest_ms and query.name == "pairs":  # of precise events alone
            continue
        found = shown([row for row in rows if row.query == query.name])
        expected = [row for row in reference_output(query.resolved, whole) if row.window and row.window[1] > HALF]
        assert len(expected) > 1
        assert found == shown(expected), query.name


def test_numbers_of_another_query_are_refused() -> None:
    state = recorded(0)
    name = next(name for name in state if name.endswith("/sums"))
    with pytest.raises(StateError, match="expected a multiple of"):
        Engine(queries(), SCHEMA).restore({**state, name: state[name].slice(1)})
