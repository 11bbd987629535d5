"""The log of commits: one winner, nothing half, errors that name the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.event_store.commits import EMPTY, SNAPSHOT_EVERY, Commit, CommitLog, path_of, snapshot_path_of
from app.event_store.folder import rooted
from spark_jobs.event_store import StoredFile, StoreError
from spark_jobs.event_store.file_system import StoreFiles

COLUMNS = {"event_id": "string"}


def file(name: str) -> StoredFile:
    return StoredFile(f"data/date=1970-01-01/type=A/{name}.parquet", "1970-01-01", "A", 1, 10, 0, 0, 0)


def add(name: str, *removed: str) -> Commit:
    return Commit("append", 5, (file(name),), tuple(file(old).path for old in removed), COLUMNS, {"n": 1})


@pytest.fixture(params=["link", "create"])
def files(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> StoreFiles:
    """As on this machine, and as on a file system of which nothing is known."""
    opened = StoreFiles(spark, str(tmp_path / "store"))
    if request.param == "create":
        opened.scheme = "other"
    return opened


def test_one_of_two_writers_wins(files: StoreFiles) -> None:
    one, other = CommitLog(files), CommitLog(files)
    first = one.try_commit(EMPTY, Commit("create", 1))
    assert first is not None
    assert other.try_commit(EMPTY, Commit("create", 2)) is None
    assert one.try_commit(first, add("a")) is not None
    assert other.try_commit(first, add("b")) is None
    seen = other.read(first)
    assert other.try_commit(seen, add("b", "a")) is not None
    assert set(one.read().files) == {file("b").path}
    assert one.read().columns == COLUMNS
    assert [commit.operation for _, commit in one.commits(above=0)] == ["append", "append"]
    assert one.commit(2) == add("b", "a")
    # Nothing but commits is left behind.
    assert files.names("_commits") == [path_of(n).rpartition("/")[2] for n in range(3)]


def test_a_snapshot_stands_for_what_came_before(spark: SparkSession, tmp_path: Path) -> None:
    files = StoreFiles(spark, str(tmp_path))
    log = CommitLog(files)
    state = EMPTY
    early = None
    for number in range(2 * SNAPSHOT_EVERY + 2):
        commit = Commit("create", 0) if number == 0 else add(str(number), *([str(number - 1)] if number > 3 else []))
        following = log.try_commit(state, commit)
        assert following is not None
        state = following
        early = state if number == 3 else early
    assert early is not None
    assert log.oldest_needed() == SNAPSHOT_EVERY
    assert log.read() == log.read(early) == state
    for number in range(SNAPSHOT_EVERY):
        files.remove(path_of(number))
    assert log.read() == log.read(early) == state
    # A damaged snapshot is passed over: an earlier one and the commits tell the same.
    (tmp_path / snapshot_path_of(2 * SNAPSHOT_EVERY)).write_text("{")
    assert log.read() == state
    files.remove(path_of(SNAPSHOT_EVERY + 1))
    with pytest.raises(StoreError, match=r"0021\.json is missing, though later commits are there"):
        log.read()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "a damaged commit"),
        ('{"format": 1', "a damaged commit"),
        ("[]", "no JSON object"),
        ('{"format": true}', "format True is no number"),
        ('{"format": 1}', "it lacks 'operation'"),
        ({"format": 2}, "found format 2.*newer version of clustercep: update"),
        ({"removed": ["data/x"]}, "removes data/x, which the store does not have"),
        ({"added": [{"path": "data/x"}]}, "it lacks 'date'"),
        ({"added": [{**json.loads(add("a").to_json())["added"][0], "n_rows": "3"}]}, "no whole number"),
        ({"added": [{**json.loads(add("a").to_json())["added"][0], "path": "../x"}]}, r"\.\./x.*below data/"),
    ],
)
def test_a_damaged_commit_is_named(
    spark: SparkSession, tmp_path: Path, content: str | dict[str, Any], expected: str
) -> None:
    files = StoreFiles(spark, str(tmp_path))
    if isinstance(content, dict):
        content = json.dumps({**json.loads(Commit("append", 1).to_json()), **content})
    files.make_folder("_commits")
    (tmp_path / path_of(0)).write_text(content)
    with pytest.raises(StoreError, match=f"{path_of(0)}.*{expected}"):
        CommitLog(files).read()


def test_the_folder_has_a_name_that_hadoop_takes_as_it_is(tmp_path: Path) -> None:
    assert rooted(str(tmp_path)) == f"file://{tmp_path}"
    assert rooted("hdfs://master:8020/events/") == "hdfs://master:8020/events"
    with pytest.raises(StoreError, match="reads as a pattern"):
        rooted("/data/a*")
    with pytest.raises(StoreError, match="empty URL"):
        rooted(" ")


def test_a_file_system_that_nobody_knows_is_named(spark: SparkSession) -> None:
    with pytest.raises(StoreError, match=r"^nosuch://x/y: cannot open it: .*nosuch"):
        StoreFiles(spark, "nosuch://x/y")
