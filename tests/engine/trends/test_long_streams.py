"""Long streams in small batches: what is kept moves, is indexed anew and forgotten, and changes no row."""

from __future__ import annotations

import numpy as np
import pytest

from engine.compiled.query import compile_query
from engine.events import EventBatch
from tests.engine.trends.evaluation import evaluated, shown
from tests.engine.trends.trend_strategies import SCHEMA

N_EVENTS = 1_200


def long_stream() -> EventBatch:
    random = np.random.default_rng(5)
    kinds = random.choice(list("AAABBC"), N_EVENTS)
    t_ms = np.cumsum(random.integers(0, 3, N_EVENTS))
    rows = [
        {
            "event_id": f"e{n}",
            "type": str(kind),
            "t_lo_ms": int(t),
            "t_hi_ms": int(t),
            "source_rank": 0,
            "source_seq": n,
            "x": int(random.integers(0, 40)),
            "y": float(random.integers(0, 9)) / 2,
            "g": "uv"[int(random.integers(0, 2))],
        }
        for n, (kind, t) in enumerate(zip(kinds, t_ms, strict=True))
    ]
    return EventBatch.from_rows(rows, SCHEMA)


@pytest.mark.parametrize(
    "query",
    [
        "PATTERN SEQ(A+, B) WHERE A.x < NEXT(A).x WITHIN 500 SLIDE 125 RETURN COUNT(*), SUM(A.x), MAX(A.y)",
        "PATTERN A+ WHERE A.x >= NEXT(A).x GROUP BY g WITHIN 700 SLIDE 300 TIES SOURCE RETURN g, COUNT(*), AVG(A.y)",
        "PATTERN SEQ(A+, NOT C, B) WHERE A.x + NEXT(A).x < 30 GROUP BY g WITHIN 90 SLIDE 40 RETURN COUNT(*), MIN(A.y)",
    ],
)
def test_small_batches_and_restarts(query: str) -> None:
    compiled, stream = compile_query(query, SCHEMA), long_stream()
    whole = shown(evaluated(compiled, stream, SCHEMA))
    assert len(whole) > 4
    cuts = tuple(range(7, int(stream.t_lo_ms[-1]), 23))
    assert shown(evaluated(compiled, stream, SCHEMA, cuts)) == whole
    assert shown(evaluated(compiled, stream, SCHEMA, cuts[::4], restarts=True)) == whole
