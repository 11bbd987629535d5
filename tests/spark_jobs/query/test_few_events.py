"""Queries that need no Spark: the rows are the job's, and what is too much is left to it. The matches of predefined and
of generated queries: see `test_parity` and `test_stream_parity`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine import parse, reference_output, resolve
from engine.events import EventBatch
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.schema import to_rows
from spark_jobs.query import few_events, job
from spark_jobs.query.few_events import find
from spark_jobs.query.rows import RequestedQuery
from spark_jobs.session import SparkJobError
from tests.spark_jobs.reports.history import frame, history
from tests.spark_jobs.test_parity import CLUSTER

TEXT = """PATTERN SEQ(JobStart a, Mapper b)
WHERE skip_till_any_match { [job_id] AND b.period_ms >= 5000 }
WITHIN 1 hour
RETURN b.attempt_id
"""
EVENTS = EventBatch.from_rows(history(11), CLUSTER).sorted()


class StartedError(Exception):
    """Spark was to be started."""


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a history."""
    folder = tmp_path_factory.mktemp("store") / "events"
    EventStore.create(spark, str(folder)).append(frame(spark, history(11)))
    return folder


@pytest.fixture
def words(spark: SparkSession, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of a query over the store, where Spark cannot be started."""
    (tmp_path / "slow.cep").write_text(TEXT)

    @contextmanager
    def session(*_: Any) -> Iterator[SparkSession]:
        raise StartedError
        yield spark

    monkeypatch.setattr(job, "spark_session", session)
    return [str(tmp_path / "slow.cep"), f"--store={store}"]


def attempts() -> list[str]:
    query = resolve(parse(TEXT), CLUSTER, {})
    return sorted(row.values["attempt_id"] for row in reference_output(query, EVENTS))


def test_few_events_do_not_wait_for_the_compiler(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[str] = []
    monkeypatch.setattr(few_events, "answer_while_compiling", lambda: requested.append("asked"))
    assert job.main([*words, "--format=jsonl"]) == 0
    assert requested == ["asked"]
    capsys.readouterr()


def test_few_events_need_no_spark(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert job.main([*words, "--format=jsonl", "--order"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(row["values"]["attempt_id"] for row in printed) == attempts() != []
    assert job.main([*words, "--to=5"]) == 1
    assert job.main([*words, "--format=jsonl", "--limit=3"]) == 0
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 3
    assert "the limit was reached" in told.err


@pytest.mark.parametrize("more", [["--master=local[2]"], ["--explain"], ["--format=parquet", "--out=rows"]])
def test_who_asks_for_spark_gets_it(words: list[str], more: list[str]) -> None:
    with pytest.raises(StartedError):
        job.main([*words, *more])


def test_more_events_than_few(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTERCEP__SPARK__SMALL_QUERY_EVENTS", "10")
    with pytest.raises(StartedError):
        job.main(words)


def test_what_takes_too_long_is_left_to_spark(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.query.few_events.MOST_S", 0.0)
    with pytest.raises(StartedError):
        job.main(words)
    requested = RequestedQuery("slow", {"slow": TEXT}, CLUSTER)
    assert find(to_rows(EVENTS, None), requested, enough=lambda: True) is None


def test_what_cannot_be_divided_is_refused_as_by_the_job() -> None:
    text = "PATTERN SEQ(JobStart a, JobEnd b) WHERE skip_till_any_match WITHIN 3 ms OUTPUT NON_OVERLAPPING"
    requested = RequestedQuery("q", {"q": text}, CLUSTER)
    with pytest.raises(SparkJobError, match="--one-slice"):
        find(to_rows(EVENTS, None), requested)
    found = find(to_rows(EVENTS, None), requested, one_piece=True)
    assert found is not None
    assert found.rows.num_rows == len(reference_output(resolve(parse(text), CLUSTER, {}), EVENTS))
