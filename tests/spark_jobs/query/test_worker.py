"""A query that another process asks for: the oracle's rows in messages, limits, and what is told in place of rows."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.config import load_settings
from app.queries.messages import (
    End,
    EndReason,
    HistoryLimits,
    Message,
    QueryRequest,
    ResultRow,
    Tasks,
    from_json,
    request_line,
    result_row,
)
from app.settings import Settings
from collectors.schema import load_event_types
from engine import parse, reference_output, resolve
from engine.errors import QueryError
from engine.events import EventBatch
from spark_jobs.event_store import EventStore, StoreError
from spark_jobs.query import worker as query_worker
from spark_jobs.query.worker import Stopping, Teller, answer
from spark_jobs.session import SparkJobError
from tests.spark_jobs.reports.history import T0_MS, frame, history

ROOT = Path(__file__).parents[3]
TEXT = """PATTERN SEQ(JobStart a, Mapper b)
WHERE skip_till_any_match { [job_id] AND b.period_ms >= :least }
WITHIN 1 hour
RETURN b.attempt_id, b.period_ms
"""
REQUEST = QueryRequest(f"PARAMETERS least = 1\n{TEXT}", {"least": 5_000}, T0_MS, None, "slow")
LIMITS = HistoryLimits(timeout_ms=600_000)


@pytest.fixture(scope="module")
def settings(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """With a store of a history."""
    url = str(tmp_path_factory.mktemp("store") / "events")
    EventStore.create(spark, url).append(frame(spark, history(11)))
    return with_store(url)


def with_store(url: str) -> Settings:
    """Whose queries all run on Spark."""
    return changed(load_settings(ROOT / "config.yaml", {}), store=url, small_query_events=0)


def changed(settings: Settings, **of_spark: Any) -> Settings:
    return settings.model_copy(update={"spark": settings.spark.model_copy(update=of_spark)})


@pytest.fixture(autouse=True)
def _session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs run in the tests' own session."""

    @contextmanager
    def session(*_args: Any, **_more: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(query_worker, "spark_session", session)


def told(request: QueryRequest, limits: HistoryLimits, settings: Settings) -> list[Message]:
    """All messages, as the other process reads them."""
    out = io.StringIO()
    answer(request, limits, settings, Teller(out).tell, Stopping())
    return [from_json(json.loads(line)) for line in out.getvalue().splitlines()]


def test_rows_are_the_oracles_with_how_far_it_is(settings: Settings) -> None:
    messages = told(REQUEST, LIMITS, settings)
    events = EventBatch.from_rows(history(11), load_event_types()).sorted()
    chosen = EventBatch(events.table.filter([hi >= T0_MS for hi in events.t_hi_ms]))
    query = resolve(parse(REQUEST.text), load_event_types(), REQUEST.parameters)
    expected = [row.values for row in reference_output(query, chosen)]
    rows = [message for message in messages if isinstance(message, ResultRow)]
    by_attempt = {row.values["attempt_id"]: row for row in rows}
    assert len(by_attempt) == len(rows) == len(expected) > 20
    assert all(by_attempt[values["attempt_id"]].values == values for values in expected)
    assert {tuple(row.key) for row in rows} == {("job_id",)}
    assert all(row.n_bound == {"a": 1, "b": 1} and row.first_lo_ms <= row.last_hi_ms for row in rows)
    steps = [message.what for message in messages if isinstance(message, Tasks)]
    assert steps[:2] == ["Reading", "Starting Spark"]
    assert "Counting events" in steps
    end = messages[-1]
    assert isinstance(end, End)
    assert (end.reason, end.n_rows) == (EndReason.FINISHED, len(rows))
    n_read = sum(kind in ("JobStart", "Mapper") for kind in chosen.table.column("type").to_pylist())
    assert end.n_events == n_read
    *rest, last = told(REQUEST, LIMITS, changed(settings, small_query_events=n_read))  # without Spark
    assert [message.what for message in rest if isinstance(message, Tasks)] == ["Reading"]
    assert {row.values["attempt_id"]: row for row in rest if isinstance(row, ResultRow)} == by_attempt
    assert isinstance(last, End)
    assert (last.n_events, last.n_rows) == (n_read, len(rows))


def test_who_listens_no_more_gets_no_spark(settings: Settings) -> None:
    stopping = Stopping()
    stopping.ask()
    messages: list[Message] = []
    answer(REQUEST, LIMITS, changed(settings, small_query_events=10_000), messages.append, stopping)
    assert messages == [Tasks("Reading")]


def test_as_many_rows_as_may_be_told_then_the_job_is_cancelled(settings: Settings, spark: SparkSession) -> None:
    messages = told(REQUEST, HistoryLimits(timeout_ms=600_000, max_rows=7), settings)
    assert sum(isinstance(message, ResultRow) for message in messages) == 7
    end = messages[-1]
    assert isinstance(end, End)
    assert (end.reason, end.n_rows) == (EndReason.ROW_LIMIT, 7)
    assert spark.range(3).count() == 3  # the session goes on


def test_a_store_that_is_not_there_and_a_text_that_is_no_query(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(StoreError, match=r"no event store there; .*`clustercep ingest`"):
        told(REQUEST, LIMITS, with_store(str(tmp_path / "nowhere")))
    with pytest.raises(QueryError):
        told(QueryRequest("PATTERN", {}, None, None), LIMITS, settings)


def test_many_ids_are_cut_and_counted() -> None:
    nested = {"match_id": "m", "query": "q", "key": "{}", "window_start_ms": None, "window_end_ms": None,
              "first_ms": 1, "last_ms": 2, "confidence": 1.0, "at_least_one_low": 1.0, "at_least_one_high": 1.0,
              "count": 1, "count_exact": True, "bindings": json.dumps({"a": [[str(i)] for i in range(2_000)]}),
              "values": "{}", "more": None}  # fmt: skip
    row = result_row(query_worker.as_match_row(nested))
    assert row.n_bound == {"a": 2_000}
    assert len(row.bindings["a"]) == 1_000


def test_when_its_time_is_over_what_was_cancelled_is_no_mistake(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate(run: Any, *_: Any) -> None:
        assert run.stopping._is_asked.wait(60)
        raise SparkJobError("cancelled")

    monkeypatch.setattr(query_worker._Run, "evaluate", evaluate)
    (end,) = told(REQUEST, HistoryLimits(timeout_ms=1), settings)
    assert isinstance(end, End)
    assert end.reason is EndReason.TIME_LIMIT


def test_it_ends_when_nobody_listens_any_more() -> None:
    """Without a job there is nothing to cancel: what does not end by itself is ended by force."""
    script = (
        "import signal, spark_jobs.query.worker as worker\n"
        "worker.GRACE_S = 0.1\n"
        "worker.give_way = lambda: None\n"
        "worker._Run.evaluate = lambda *_: signal.pause()\n"
        "worker.main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CLUSTERCEP_CONFIG": str(ROOT / "config.yaml")},
        start_new_session=True,
    )
    process.communicate(request_line(REQUEST, LIMITS), timeout=300)
    assert process.returncode == -signal.SIGKILL
