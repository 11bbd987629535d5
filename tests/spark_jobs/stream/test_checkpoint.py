"""What may change between two starts on one checkpoint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.session import SparkJobError
from spark_jobs.stream.checkpoint import StreamMeaning, check


def meaning(n_buckets: int = 4, **queries: str) -> StreamMeaning:
    groups = {"job_id": {"queries": queries, "key": ["job_id"], "n_buckets": n_buckets}}
    return StreamMeaning("0" * 16, n_buckets, {"folder": "/in", "format": "parquet"}, groups)


def test_the_same_goes_on() -> None:
    assert check(meaning(a="1"), meaning(a="1"), "here", restart_queries=False) == []


def test_other_queries_begin_afresh_when_asked() -> None:
    before, now = meaning(a="1", b="2", c="3"), meaning(a="1", b="9", d="4")
    with pytest.raises(SparkJobError, match="--restart-queries") as refused:
        check(before, now, "here", restart_queries=False)
    told = check(before, now, "here", restart_queries=True)
    assert [line.split(":")[0] for line in told] == [
        "b (by job_id) means something else",
        "c (by job_id) is gone",
        "d (by job_id) is new",
    ]
    assert all(line in str(refused.value) for line in told)


@pytest.mark.parametrize("restart_queries", [False, True])
def test_buckets_and_source_never_change(restart_queries: bool) -> None:
    before = meaning(a="1")
    with pytest.raises(SparkJobError, match=r"4 buckets, found 8.*--buckets 4"):
        check(before, meaning(8, a="1"), "here", restart_queries=restart_queries)
    other = replace(before, source={"kafka": "host:9092", "topic": "events"})
    with pytest.raises(SparkJobError, match="folder /in, format parquet, found kafka host:9092"):
        check(before, other, "here", restart_queries=restart_queries)
