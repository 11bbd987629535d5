"""The recorded log, in each of its forms, against a second reading of its plain text."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.spark.logs import (
    APPLICATION,
    CODECS,
    NAME,
    ROLLED,
    collector,
    put_rolled,
    recorded,
    rows_of,
    told,
)

TEXT = [json.loads(line) for line in recorded().splitlines()]


def of(event: str) -> list[dict[str, Any]]:
    return [record for record in TEXT if record["Event"] == f"SparkListener{event}"]


def put(root: Path, form: str) -> None:
    if form == ROLLED:
        put_rolled(root)
    else:
        (root / f"{NAME}{form}").write_bytes(recorded(form))


def test_counts_are_those_of_the_text(tmp_path: Path) -> None:
    put(tmp_path, "")
    found = Counter(row["type"] for row in told(tmp_path))
    assert found == {
        "SparkApplicationStart": len(of("ApplicationStart")),
        "SparkApplicationEnd": len(of("ApplicationEnd")),
        "SparkJobStart": len(of("JobStart")),
        "SparkJobEnd": len(of("JobEnd")),
        "SparkStageStart": len(of("StageSubmitted")),
        "SparkStageEnd": len(of("StageCompleted")),
        "SparkTaskEnd": len(of("TaskEnd")),
        "SparkExecutorAdded": len(of("ExecutorAdded")),
        "SparkExecutorRemoved": len(of("ExecutorRemoved")),
    }
    assert found["SparkTaskEnd"] == 22


def test_tasks_are_those_of_the_text(tmp_path: Path) -> None:
    put(tmp_path, "")
    rows = {row["task_number"]: row for row in told(tmp_path) if row["type"] == "SparkTaskEnd"}
    for record in of("TaskEnd"):
        info, row = record["Task Info"], rows[record["Task Info"]["Task ID"]]
        assert row["t_lo_ms"] == row["t_hi_ms"] == info["Finish Time"]
        assert row["period_ms"] == info["Finish Time"] - info["Launch Time"]
        assert (row["host"], row["executor_id"]) == (info["Host"], info["Executor ID"])
        assert row["stage"] == f"{record['Stage ID']}.{record['Stage Attempt ID']}"
        assert row["task"] == f"{info['Index']}.{info['Attempt']}"
        assert (
            (row["status"] == "SUCCEEDED") == (record["Task End Reason"]["Reason"] == "Success") == (not info["Failed"])
        )
        metrics = record.get("Task Metrics")
        assert row.get("run_ms") == (metrics and metrics["Executor Run Time"])
        shuffled = metrics and metrics["Shuffle Read Metrics"]
        assert row.get("shuffle_read_bytes") == (
            shuffled and shuffled["Remote Bytes Read"] + shuffled["Local Bytes Read"]
        )


def test_what_went_wrong_is_told(tmp_path: Path) -> None:
    put(tmp_path, "")
    rows = told(tmp_path)
    failed = [row for row in rows if row["type"] == "SparkTaskEnd" and row["status"] == "FAILED"]
    assert len(failed) == 6
    assert sum("was lost" in row["reason"] for row in failed) == 1
    assert all("\n" not in row["reason"] for row in failed)
    (lost,) = (row for row in rows if row["type"] == "SparkExecutorRemoved")
    assert (lost["lost"], lost["reason"]) == (1, "Command exited with code 137")
    (added,) = (
        row for row in rows if row["type"] == "SparkExecutorAdded" and row["executor_id"] == lost["executor_id"]
    )
    assert lost["host"] == added["host"]
    assert [row["status"] for row in rows if row["type"] == "SparkJobEnd"] == ["SUCCEEDED"] * 4 + ["FAILED"]
    assert [row["status"] for row in rows if row["type"] == "SparkStageEnd"] == ["SUCCEEDED"] * 5 + ["FAILED"]
    for row in rows:
        assert (row["application_id"], row["application_attempt"], row["queue"]) == (APPLICATION, "1", "research")
        assert (row["application_name"], row["user"]) == ("sum of orders", "ann")


@pytest.mark.parametrize("form", [*CODECS[1:], ROLLED])
def test_every_form_tells_the_same(tmp_path: Path, form: str) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "other").mkdir()
    put(tmp_path / "plain", "")
    put(tmp_path / "other", form)
    reading = collector(tmp_path / "other")
    polled = reading.poll(1_900_000_000_000)
    assert polled.problems == ()
    assert rows_of([polled]) == told(tmp_path / "plain")
    assert rows_of([reading.poll(1_900_000_005_000)]) == []


@pytest.mark.parametrize("form", CODECS)
def test_a_log_that_ends_anywhere_tells_what_stands_before(tmp_path: Path, form: str) -> None:
    whole, data = recorded(form), told_whole(tmp_path, form)
    for cut in range(0, len(whole), 1 + len(whole) // 23):
        root = tmp_path / str(cut)
        root.mkdir()
        (root / f"{NAME}{form}").write_bytes(whole[:cut])
        polled = collector(root).poll(1_900_000_000_000)
        rows = rows_of([polled])
        assert rows == data[: len(rows)]
        assert {problem.kind for problem in polled.problems} <= {"truncated", "unfinished"}
        if cut:
            assert "unfinished" in {problem.kind for problem in polled.problems}


def told_whole(tmp_path: Path, form: str) -> list[dict[str, Any]]:
    (tmp_path / "whole").mkdir()
    put(tmp_path / "whole", form)
    return told(tmp_path / "whole")
