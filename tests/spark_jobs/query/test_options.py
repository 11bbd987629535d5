"""What `clustercep query` makes of its arguments, and what it refuses before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import AppError
from engine.errors import QueryError
from spark_jobs.query.options import QueryFormat, request_of, time_ms
from spark_jobs.session import SparkJobError

ROOT = Path(__file__).parents[3]
CONFIG = f"--config={ROOT / 'config.yaml'}"
TEXT = (
    "PATTERN SEQ(JobStart a, JobEnd b) WHERE skip_till_any_match { [job_id] AND b.period_ms > :least } WITHIN 1 hour\n"
)


@pytest.fixture
def query_file(tmp_path: Path) -> Path:
    path = tmp_path / "long-jobs.cep"
    path.write_text(f"PARAMETERS least = 5\n{TEXT}")
    return path


def test_a_file_with_options_that_take_the_place_of_clauses(query_file: Path) -> None:
    words = [
        "--param=least=7 s",
        "--limit=3",
        "--confidence=0.5",
        "--format=jsonl",
        "--from=2026-03-01",
        "--to=1772323200001",
    ]
    request = request_of([CONFIG, *words, str(query_file)])
    query = request.requested.compiled()
    assert request.requested.name == query.name == "long-jobs"
    assert query.resolved.parameters == {"least": 7000}
    assert (query.plan.limit, query.plan.confidence) == (3, 0.5)
    assert (request.from_ms, request.to_ms) == (1_772_323_200_000, 1_772_323_200_001)
    assert request.format is QueryFormat.JSONL
    assert not request.one_piece


def test_a_predefined_query_by_its_name() -> None:
    query = request_of([CONFIG, "mapper-lifetimes"]).requested.compiled()
    assert query.name == "mapper-lifetimes"
    assert query.types == {"JobStart", "Mapper", "JobEnd"}


def test_an_aggregate_of_an_installed_module(tmp_path: Path) -> None:
    path = tmp_path / "middle.cep"
    path.write_text(
        "PATTERN SEQ(JobStart a, Mapper+ b[], JobEnd c) WHERE skip_till_next_match { [job_id] } WITHIN 1 day\n"
        "RETURN median_low(b[].period_ms) AS middle_ms\n"
    )
    query = request_of([CONFIG, "--aggregate=statistics:median_low", str(path)]).requested.compiled()
    assert "median_low(b[].period_ms)" in query.explain()
    with pytest.raises(SparkJobError, match="--aggregate: found 'no_such_module:median'"):
        request_of([CONFIG, "--aggregate=no_such_module:median", str(path)])


def test_queries_over_matches(query_file: Path, tmp_path: Path) -> None:
    over = tmp_path / "twice.cep"
    over.write_text("PATTERN SEQ(long_jobs a, long_jobs b) WHERE skip_till_any_match WITHIN 1 day")
    query = request_of([CONFIG, f"--with={query_file}", str(over)]).requested.compiled()
    assert [producer.name for producer in query.producers] == ["long-jobs"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["nowhere.cep"],
            r"nowhere.cep: no such file, and no predefined query; expected a file or one of .*mapper-life",
        ),
        (
            ["queued-dta"],
            r"no such file, and no predefined query; did you mean 'queued-data'\? Expected a file or one of app",
        ),
        (["--from=yesterday", "q"], r"--from 'yesterday': expected ms since 1970, an ISO time"),
        (["--from=5", "--to=4", "q"], r"--from 5 is after --to 4"),
        (["--limit=0", "q"], r"--limit 0: expected at least 1"),
        (["--confidence=2", "q"], r"--confidence 2.0: expected a number from 0 to 1"),
        (["--format=parquet", "q"], r"--format parquet needs --out"),
        (["--param=least", "mapper-lifetimes"], r"--param 'least': expected NAME=VALUE"),
    ],
)
def test_mistakes(words: list[str], complaint: str) -> None:
    with pytest.raises(AppError, match=complaint):
        request_of([CONFIG, *words])


def test_a_query_that_is_wrong_is_told_before_spark_starts(tmp_path: Path) -> None:
    path = tmp_path / "bad.cep"
    path.write_text("PATTERN SEQ(JobStart a, Nothing b) WHERE skip_till_any_match WITHIN 1 hour")
    with pytest.raises(QueryError, match="no event type and no query is called Nothing"):
        request_of([CONFIG, str(path)]).requested.compiled()


def test_times() -> None:
    assert time_ms("--from", None) is None
    assert time_ms("--from", "1970-01-01T00:00:01+00:00") == 1000
    assert time_ms("--from", "1970-01-01T01:00:00.5+01:00") == 500
    now_ms = time_ms("--from", "0 s")
    assert now_ms is not None
    assert 0 <= now_ms - (time_ms("--from", "1 h ago") or 0) <= 3_600_000
    with pytest.raises(SparkJobError, match="--to 'noon'"):
        time_ms("--to", "noon")
