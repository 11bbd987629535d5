"""Logs that are followed while they grow, roll, end, move and are restarted on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.base import NO_PROMISE_MS, Collected, PositionError, SourceUnavailableError
from tests.collectors.positions import saved
from tests.collectors.spark.logs import (
    APPLICATION,
    CODECS,
    LATER_MS,
    NAME,
    RECORDED,
    ROLLED,
    T0_MS,
    collector,
    ended,
    lines,
    recorded,
    rows_of,
    stage,
    started,
    task,
    told,
)

WHOLE = [
    *started(),
    stage(0, T0_MS + 1_000),
    task(0, 0, T0_MS + 1_000, T0_MS + 2_000),
    task(1, 0, T0_MS + 1_000, T0_MS + 3_000),
    stage(0, T0_MS + 3_000, "Completed"),
    stage(1, T0_MS + 4_000),
    task(2, 1, T0_MS + 4_000, T0_MS + 9_000),
    stage(1, T0_MS + 9_000, "Completed"),
    ended(T0_MS + 10_000),
]


def types(polled: Collected) -> list[str]:
    return [row["type"].removeprefix("Spark") for row in rows_of([polled])]


@pytest.mark.parametrize("form", CODECS)
@pytest.mark.parametrize("step", [997, 5_003])
def test_a_growing_log_is_read_once_whatever_is_cut_and_restarted(tmp_path: Path, form: str, step: int) -> None:
    (tmp_path / "live").mkdir()
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / f"{NAME}{form}").write_bytes(recorded(form))
    growing, data = tmp_path / "live" / f"{NAME}{form}.inprogress", recorded(form)
    reading, polled = collector(tmp_path / "live"), list[Collected]()
    for end in range(0, len(data) + step, step):
        growing.write_bytes(data[:end])
        polled.append(reading.poll(LATER_MS + end))
        position = saved(reading.checkpoint())
        reading = collector(tmp_path / "live")
        reading.restore(position)
    growing.rename(growing.with_name(f"{NAME}{form}"))
    polled.append(reading.poll(LATER_MS + 100_000))
    assert [problem for one in polled for problem in one.problems] == []
    assert rows_of(polled) == told(tmp_path / "whole")
    stages = [set(history.events.strings("stage").to_pylist()) for one in polled for history in one.finished]
    assert sorted(stage for told_now in stages for stage in told_now) == [f"{n}.0" for n in range(6)]  # each whole
    assert len(stages) >= 2


def test_a_rolled_log_is_followed_over_its_parts(tmp_path: Path) -> None:
    folder, parts = tmp_path / ROLLED, sorted((RECORDED / ROLLED).glob("events_*"))
    folder.mkdir()
    (folder / f"appstatus_{NAME}.inprogress").touch()
    reading, polled = collector(tmp_path), list[Collected]()
    for number, part in enumerate(parts):
        data = part.read_bytes()
        for end in (100, len(data) // 2, len(data)):
            (folder / part.name).write_bytes(data[:end])
            polled.append(reading.poll(LATER_MS + 10 * number))
            reading.restore(saved(reading.checkpoint()))
    assert [problem for one in polled for problem in one.problems] == []
    (folder / f"appstatus_{NAME}.inprogress").rename(folder / f"appstatus_{NAME}")
    polled.append(reading.poll(LATER_MS + 100))
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / NAME).write_bytes(recorded())
    assert rows_of(polled) == told(tmp_path / "whole")
    assert reading.checkpoint()["logs"] == {}


def test_a_compact_part_stands_for_those_before_it(tmp_path: Path) -> None:
    folder = tmp_path / f"eventlog_v2_{NAME}"
    folder.mkdir()
    (folder / f"events_1_{NAME}").write_bytes(lines(*WHOLE[:6]))
    reading = collector(tmp_path)
    assert types(reading.poll(LATER_MS)) == ["ApplicationStart", "StageStart", "TaskEnd", "TaskEnd", "StageEnd"]
    (folder / f"events_1_{NAME}").unlink()
    (folder / f"events_2_{NAME}.compact").write_bytes(lines(*WHOLE[:2]))
    (folder / f"events_3_{NAME}").write_bytes(lines(*WHOLE[6:]))
    later = reading.poll(LATER_MS)
    assert later.problems == ()
    assert types(later)[1:] == ["StageStart", "TaskEnd", "StageEnd", "ApplicationEnd"]
    (new,) = (row for row in rows_of([later]) if row["type"] == "SparkApplicationStart")
    (old,) = (row for row in told(tmp_path) if row["type"] == "SparkApplicationStart")
    assert new["event_id"] == old["event_id"]  # what a compact part repeats is a copy


def test_a_part_that_is_missing_is_told(tmp_path: Path) -> None:
    folder = tmp_path / f"eventlog_v2_{NAME}"
    folder.mkdir()
    (folder / f"events_3_{NAME}").write_bytes(lines(*WHOLE[9:]))
    polled = collector(tmp_path).poll(LATER_MS)
    assert [problem.kind for problem in polled.problems] == ["missing_part"]
    (end,) = rows_of([polled])
    assert (end["type"], end["application_id"], end["application_attempt"]) == ("SparkApplicationEnd", APPLICATION, "1")


def test_stages_are_told_whole_and_once_they_are_over(tmp_path: Path) -> None:
    log, reading = tmp_path / f"{NAME}.inprogress", collector(tmp_path)
    log.write_bytes(lines(*WHOLE[:4]))
    assert types(reading.poll(LATER_MS)) == ["ApplicationStart"]
    log.write_bytes(lines(*WHOLE[:7]))
    (first,) = reading.poll(LATER_MS).finished
    assert first.source == "spark_events"
    assert first.job_id == APPLICATION
    assert first.events.strings("type").to_pylist() == [
        "SparkStageStart",
        "SparkTaskEnd",
        "SparkTaskEnd",
        "SparkStageEnd",
    ]
    log.write_bytes(lines(*WHOLE))
    log.rename(tmp_path / NAME)
    (second,) = reading.poll(LATER_MS).finished
    assert set(second.events.strings("stage").to_pylist()) == {"1.0"}


def test_a_log_that_does_not_go_on_tells_what_its_stages_told(tmp_path: Path) -> None:
    log, reading = tmp_path / f"{NAME}.inprogress", collector(tmp_path, quiet_ms=60_000)
    log.write_bytes(lines(*WHOLE[:4])[:-1])  # the last line without its line feed
    assert types(reading.poll(LATER_MS)) == ["ApplicationStart"]
    assert types(reading.poll(LATER_MS + 59_999)) == []
    assert types(reading.poll(LATER_MS + 60_000)) == ["StageStart", "TaskEnd"]
    assert types(reading.poll(LATER_MS + 90_000)) == []
    log.write_bytes(lines(*WHOLE[:6]))
    assert types(reading.poll(LATER_MS + 95_000)) == ["TaskEnd", "StageEnd"]


def test_a_half_written_line_waits_and_what_breaks_off_is_told(tmp_path: Path) -> None:
    log, reading = tmp_path / f"{NAME}.inprogress", collector(tmp_path)
    log.write_bytes(lines(*WHOLE[:3])[:-20])
    assert types(reading.poll(LATER_MS)) == ["ApplicationStart"]
    assert reading.poll(LATER_MS).problems == ()
    log.rename(tmp_path / NAME)
    assert {problem.kind for problem in reading.poll(LATER_MS).problems} == {"truncated", "unfinished"}


def test_nothing_later_than_now_is_read(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(lines(*WHOLE))
    reading, polled = collector(tmp_path), list[Collected]()
    for second in (0, 2, 3, 5, 11):
        polled.append(reading.poll(T0_MS + 1_000 * second))
        reading.restore(saved(reading.checkpoint()))
    assert [types(one) for one in polled] == [
        ["ApplicationStart"],
        [],
        ["StageStart", "TaskEnd", "TaskEnd", "StageEnd"],
        [],
        ["StageStart", "TaskEnd", "StageEnd", "ApplicationEnd"],
    ]
    assert len(told(tmp_path, T0_MS, hold_future=False)) == 9


def test_the_promise(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(lines(*WHOLE))
    (tmp_path / f"{NAME}_2").write_bytes(lines(*WHOLE))
    reading, polled = collector(tmp_path, max_bytes_per_poll=500), list[Collected]()
    while not polled or polled[-1].goes_on:
        polled.append(reading.poll(LATER_MS + len(polled)))
        reading.restore(saved(reading.checkpoint()))
    assert {one.watermark_ms for one in polled[:-1]} == {NO_PROMISE_MS}  # it began with more than a poll may read
    last = reading.poll(LATER_MS + 100)
    assert last.watermark_ms == LATER_MS + 100 - 5_000
    assert len(rows_of([*polled, last])) == 18


def test_a_log_that_moves_is_the_same_and_a_second_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "done").mkdir()
    log, reading = tmp_path / f"{NAME}.inprogress", collector(tmp_path)
    log.write_bytes(lines(*WHOLE[:7]))
    reading.poll(LATER_MS)
    log.unlink()
    (tmp_path / "done" / NAME).write_bytes(lines(*WHOLE))  # under another inode
    assert types(reading.poll(LATER_MS)) == ["StageStart", "TaskEnd", "StageEnd", "ApplicationEnd"]
    (tmp_path / NAME).write_bytes(lines(*WHOLE))
    polled = reading.poll(LATER_MS)
    assert rows_of([polled]) == []
    assert [problem.kind for problem in polled.problems] == ["not_spark_log"]
    assert "a second log of this name" in polled.problems[0].message


def test_a_log_that_is_cut_is_told(tmp_path: Path) -> None:
    log, reading = tmp_path / f"{NAME}.inprogress", collector(tmp_path)
    log.write_bytes(lines(*WHOLE[:7]))
    reading.poll(LATER_MS)
    log.write_bytes(lines(*WHOLE[:2]))
    polled = reading.poll(LATER_MS)
    assert [problem.kind for problem in polled.problems] == ["truncated"]
    assert types(polled) == ["ApplicationStart"]


def test_what_is_forgotten_is_told_first(tmp_path: Path) -> None:
    log, reading = tmp_path / f"{NAME}.inprogress", collector(tmp_path, forget_ms=1_000)
    log.write_bytes(lines(*WHOLE[:4]))
    reading.poll(LATER_MS)
    log.unlink()
    assert types(reading.poll(LATER_MS + 1_000)) == []
    assert types(reading.poll(LATER_MS + 1_001)) == ["StageStart", "TaskEnd"]
    assert reading.checkpoint()["logs"] == {}


def test_fetch_failures_speculation_and_executors_that_are_let_go(tmp_path: Path) -> None:
    server = {"Executor ID": "2", "Host": "10.0.0.3", "Port": 7337}
    failed = {"Reason": "FetchFailed", "Block Manager Address": server, "Shuffle ID": 0, "Message": "no route\n at X"}
    killed = {"Reason": "TaskKilled", "Kill Reason": "another attempt succeeded"}
    removed = [
        {"Event": "SparkListenerExecutorRemoved", "Timestamp": T0_MS, "Executor ID": f"{n}", "Removed Reason": reason}
        for n, reason in enumerate(
            ("Executor killed by driver.", "Executor decommission: spot", "Container from a bad")
        )
    ]
    added = {"Event": "SparkListenerExecutorAdded", "Timestamp": T0_MS, "Executor ID": "2",
             "Executor Info": {"Host": "10.0.0.3", "Total Cores": 4}}  # fmt: skip
    events = [
        *started(), added, stage(0, T0_MS), task(0, 0, T0_MS, T0_MS + 9, failed),
        task(1, 0, T0_MS, T0_MS + 9, killed, Speculative=True, Killed=True), *removed, ended(T0_MS + 9),
    ]  # fmt: skip
    (tmp_path / NAME).write_bytes(lines(*events))
    rows = told(tmp_path, hosts={"10.0.0.3": "node3"})
    (fetch,) = (row for row in rows if row["type"] == "SparkFetchFailed")
    assert (fetch["host"], fetch["source_host"], fetch["source_executor_id"]) == ("n1", "node3", "2")
    assert fetch["reason"] == "FetchFailed: no route"
    ends = [row for row in rows if row["type"] == "SparkTaskEnd"]
    assert [(row["status"], row["speculative"]) for row in ends] == [("FAILED", 0), ("KILLED", 1)]
    assert ends[1]["reason"] == "TaskKilled: another attempt succeeded"
    assert (ends[0]["run_ms"], ends[0]["cpu_ms"]) == (7, 5)
    lost = [row for row in rows if row["type"] == "SparkExecutorRemoved"]
    assert [row["lost"] for row in lost] == [0, 0, 1]
    assert [row.get("host") for row in lost] == [None, None, "node3"]


def test_what_heuristics_need(tmp_path: Path) -> None:
    settings = {"spark.executor.memory": "4g", "spark.sql.shuffle.partitions": " 400 ", "spark.executor.cores": "many",
                "spark.app.name": "orders", "spark.memory.fraction": "0.6", "spark.speculation": "TRUE",
                "spark.executor.instances": 7}  # fmt: skip
    environment = {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": settings}
    jobs = [
        {"Event": "SparkListenerJobStart", "Job ID": n, "Submission Time": T0_MS, "Stage IDs": ids}
        for n, ids in enumerate(([3, 1, 2], [], [0] * 5_001, [1, "2"], None))
    ]
    tasks = [
        task(n, 0, T0_MS, T0_MS + 9) | {"Task Metrics": {"Memory Bytes Spilled": 70, "Disk Bytes Spilled": 7}, **more}
        for n, more in enumerate((
            {"Task Executor Metrics": {"JVMHeapMemory": 900, "OnHeapStorageMemory": 30, "OffHeapStorageMemory": 4}},
            {"Task Executor Metrics": {"JVMHeapMemory": 0, "OnHeapStorageMemory": 0}},  # never sampled
            {},
        ))
    ]  # fmt: skip
    first, second = started()
    (tmp_path / NAME).write_bytes(lines(first, environment, second, *jobs, stage(0, T0_MS), *tasks, ended(T0_MS + 9)))
    rows = told(tmp_path)
    assert json.loads(rows[0]["settings"]) == {
        "spark.executor.memory": "4g", "spark.sql.shuffle.partitions": "400", "spark.memory.fraction": "0.6",
        "spark.speculation": "TRUE",
    }  # fmt: skip
    assert [row.get("stages") for row in rows if row["type"] == "SparkJobStart"] == ["3 1 2", "", None, None, None]
    ends = [row for row in rows if row["type"] == "SparkTaskEnd"]
    assert [(row["memory_spilled_bytes"], row["spilled_bytes"]) for row in ends] == [(70, 7)] * 3
    assert [(row.get("peak_heap_bytes"), row.get("peak_storage_bytes")) for row in ends] == [
        (900, 34), (None, None), (None, None)
    ]  # fmt: skip


def test_settings_survive_a_stop_before_the_start(tmp_path: Path) -> None:
    environment = {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.executor.memory": "4g"}}
    first, second = started()
    log, reading = tmp_path / f"{NAME}.inprogress", collector(tmp_path)
    log.write_bytes(lines(first, environment))
    assert rows_of([reading.poll(LATER_MS)]) == []
    position = saved(reading.checkpoint())
    log.write_bytes(lines(first, environment, second))
    reading.restore(position)
    (start,) = rows_of([reading.poll(LATER_MS)])
    assert start["settings"] == '{"spark.executor.memory":"4g"}'
    before = {**position["logs"][NAME], "application": dict(position["logs"][NAME]["application"])}
    del before["application"]["settings"]  # a position from before they were kept
    reading.restore({**position, "logs": {NAME: before}})
    (start,) = rows_of([reading.poll(LATER_MS)])
    assert "settings" not in start


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError):
        collector(tmp_path / "nowhere").poll(LATER_MS)


def test_damaged_positions_are_refused(tmp_path: Path) -> None:
    log, reading = tmp_path / f"{NAME}.inprogress", collector(tmp_path)
    log.write_bytes(lines(*WHOLE[:4]))
    reading.poll(LATER_MS)
    position = saved(reading.checkpoint())
    damaged: list[dict[str, Any]] = [
        {**position, "version": 7},
        {**position, "held": {}},
        {**position, "held": {"events": position["held"]["events"].slice(1)}},
        {**position, "done": {"x": [1]}},
        {**position, "logs": {NAME: {**position["logs"][NAME], "position": [0, -1, 0, False]}}},
        {**position, "logs": {NAME: {**position["logs"][NAME], "application": {"x": 1}}}},
    ]
    for wrong in damaged:
        with pytest.raises(PositionError):
            collector(tmp_path).restore(wrong)
