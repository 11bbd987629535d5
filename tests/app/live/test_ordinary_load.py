"""The queries that come with clustercep over an hour as clusters have it: no search is stopped."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collectors.schema import load_event_types
from engine import Engine, Limits, compile_queries
from engine.events import EventBatch

QUERIES = Path(__file__).parents[3] / "queries"
SCHEMA = load_event_types()
POLLED_MS = 15_000
LENGTH_MS = 2_400_000
N_ATTEMPTS = 40


def samples(attempt: int) -> Iterator[dict[str, Any]]:
    """An attempt that runs all the time and is asked at each poll; every fourth one stands still in the second half."""
    is_reducer = attempt % 2 == 1
    began_ms = 100 * attempt
    own = {"job_id": f"j{attempt % 5}", "task_id": f"t{attempt}", "attempt_id": f"t{attempt}_0", "host": f"n{attempt}"}
    yield {"type": "ReducerStart" if is_reducer else "MapStart", "t_lo_ms": began_ms, "t_hi_ms": began_ms, **own}
    for at_ms in range(POLLED_MS, LENGTH_MS, POLLED_MS):
        stands = attempt % 4 == 1 and at_ms > LENGTH_MS // 2
        yield {
            "type": "TaskSample", "t_lo_ms": at_ms, "t_hi_ms": at_ms, "clock_id": "rm", "elapsed_ms": at_ms - began_ms,
            "task_type": "REDUCE" if is_reducer else "MAP", "progress": 0.5 if stands else at_ms / LENGTH_MS, **own,
        }  # fmt: skip


def load() -> Iterator[dict[str, Any]]:
    """A spread that rises for ten minutes, with noise, and stays high."""
    chance = random.Random(1)
    for at_ms in range(0, LENGTH_MS, POLLED_MS):
        spread = 10 * chance.random() + 60 * min(at_ms / 600_000, 1)
        known = {"t_lo_ms": at_ms + 1, "t_hi_ms": at_ms + POLLED_MS, "clock_id": "load", "name": "cpu_user"}
        yield {"type": "LoadStd", "val": spread, "host_1": "n1", "value_1": 70.0, **known}
        yield {"type": "Imbalance" if spread > 20 else "Balance", **known}


def test_no_search_of_a_shipped_query_is_stopped() -> None:
    rows = [row for attempt in range(N_ATTEMPTS) for row in samples(attempt)] + list(load())
    rows.sort(key=lambda row: int(row["t_hi_ms"]))
    texts = {path.stem: path.read_text(encoding="utf-8") for path in QUERIES.glob("*.cep")}
    engine = Engine(compile_queries(texts, SCHEMA), SCHEMA, limits=Limits(possibilities=True))
    numbered = [{"event_id": f"e{at}", "source_seq": at, **row} for at, row in enumerate(rows)]
    for start in range(0, len(numbered), 2 * N_ATTEMPTS):
        part = numbered[start : start + 2 * N_ATTEMPTS]
        engine.process(EventBatch.from_rows(part, SCHEMA), part[-1]["t_hi_ms"] + 1)
    engine.finish()
    assert {name: told.n_unfinished for name, told in engine.statistics.items() if told.n_unfinished} == {}
    assert {name for name, told in engine.statistics.items() if told.n_rows} >= {"load-imbalance-task", "no-progress"}
