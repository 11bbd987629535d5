"""Ended applications as YARN's timeline server tells them, poll by poll, and what happens when it does not."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from collectors.base import Collected, OptionError, PositionError, SourceUnavailableError
from collectors.exit_codes import SPARED
from collectors.identity import lifecycle_id
from collectors.rest.yarn_timeline import OVERLAP_MS, YarnTimelineCollector
from collectors.schema import event_table
from tests.collectors.rest.timeline_server import (
    AFTER_MS,
    APPS,
    FIRST_END_MS,
    GREEDY,
    KILLED,
    KILLED_MASTER,
    LAST_END_MS,
    URL,
    Timeline,
    collector,
    down,
)

LATENESS_MS = 10_000


TOLD = {row.attribute for row in event_table() if row.type == "ApplicationEnd"}


def rows(*polls: Collected) -> list[dict[str, Any]]:
    return [dict.fromkeys(TOLD) | row for polled in polls for row in polled.events.rows()]


def ends(*polls: Collected) -> dict[str, dict[str, Any]]:
    return {row["application_id"]: row for row in rows(*polls)}


def restarted(timeline: Timeline, before: YarnTimelineCollector, **options: Any) -> YarnTimelineCollector:
    after = collector(timeline, **options)
    after.restore(json.loads(json.dumps(before.checkpoint())))
    return after


def test_each_application_is_told_once_at_its_end() -> None:
    timeline = Timeline()
    yarn = collector(timeline)
    first, second = yarn.poll(AFTER_MS), yarn.poll(AFTER_MS + 30_000)
    told = [(row["application_id"], row["t_lo_ms"], row["t_hi_ms"]) for row in rows(first)]
    listed = sorted((app["finishedTime"], app["appId"]) for app in timeline.apps)
    assert told == [(app_id, end_ms, end_ms) for end_ms, app_id in listed]
    assert rows(second) == []
    assert first.problems == second.problems == ()
    assert (first.watermark_ms, second.watermark_ms) == (AFTER_MS - LATENESS_MS, AFTER_MS + 20_000)
    assert {row["event_id"] for row in rows(first)} == {
        lifecycle_id("ApplicationEnd", app["appId"]) for app in timeline.apps
    }


def test_an_application_as_it_was_recorded() -> None:
    """Numbers are of the recorded answers, added up by hand."""
    told = ends(collector(Timeline()).poll(AFTER_MS))
    assert {
        "type": "ApplicationEnd", "application_type": "MAPREDUCE", "application_name": "streaming killed",
        "job_id": KILLED.replace("application", "job"), "job_name": "streaming killed", "user": "hadoop",
        "queue": "root.default", "status": "KILLED", "period_ms": 57_534, "wait_ms": 2_173, "n_masters": 1,
        "master_host": "node2", "n_containers": 4, "n_failed_containers": 0, "failed_host": None,
        "n_failed_on_host": None, "clock_id": "timeline:ats", "origin": f"timeline:{KILLED}",
    }.items() <= told[KILLED].items()  # fmt: skip
    assert told[KILLED]["reason"].startswith("Kill job job_1795806762812_0002 received from hadoop")
    assert told[GREEDY]["reason"] is None
    failed = ("n_containers", "n_failed_containers", "failed_host", "n_failed_on_host")
    assert [told[GREEDY][name] for name in failed] == [6, 1, "node1", 1]
    assert [told[KILLED_MASTER][name] for name in failed] == [7, 1, "node2", 1]
    assert told[KILLED_MASTER]["n_masters"] == 2


def test_what_containers_held_agrees_with_a_count_over_the_documents() -> None:
    timeline = Timeline()
    told = ends(collector(timeline).poll(AFTER_MS))
    for app_id, row in told.items():
        found = [
            container
            for path, (_, body) in timeline.documents.items()
            if path.startswith(f"{APPS}/{app_id}/") and path.endswith("/containers")
            for container in body["container"]
        ]
        held = sum(one["allocatedMB"] * (one["finishedTime"] - one["startedTime"]) for one in found)
        cores = sum(one["allocatedVCores"] * (one["finishedTime"] - one["startedTime"]) for one in found)
        assert (row["n_containers"], row["memory_seconds"], row["vcore_seconds"]) == (
            len(found), held // 1000, cores // 1000
        )  # fmt: skip
        bad = [one for one in found if one["containerExitStatus"] not in {0, *SPARED}]
        assert row["n_failed_containers"] == len(bad)


def test_only_what_is_new_is_asked_for() -> None:
    timeline = Timeline()
    yarn = collector(timeline, lookback_ms=0)
    assert rows(yarn.poll(AFTER_MS)) == []
    assert timeline.asked == [f"{APPS}?states=FINISHED,FAILED,KILLED&finishedTimeBegin={AFTER_MS}"]
    timeline.app(GREEDY)["finishedTime"] = AFTER_MS + 5_000
    timeline.asked.clear()
    (row,) = rows(yarn.poll(AFTER_MS + 30_000))
    assert (row["application_id"], row["t_lo_ms"]) == (GREEDY, AFTER_MS + 5_000)
    attempt = GREEDY.replace("application", "appattempt") + "_000001"
    assert timeline.asked[1:] == [
        f"{APPS}/{GREEDY}/appattempts",
        f"{APPS}/{GREEDY}/appattempts/{attempt}/containers",
    ]


def test_the_ends_of_containers_are_waited_for_and_hold_the_watermark() -> None:
    """The ResourceManager ends an application first, and its containers seconds later."""
    timeline = Timeline()
    end_ms, container = timeline.app(GREEDY)["finishedTime"], timeline.containers(GREEDY)[0]
    whole = dict(container)
    container |= {"containerState": "RUNNING", "finishedTime": 0, "containerExitStatus": -1000}
    timeline.documents[APPS][1]["app"] = [timeline.app(GREEDY)]
    yarn = collector(timeline)
    first = yarn.poll(end_ms + 5_000)
    assert rows(first) == []
    assert first.watermark_ms == end_ms - LATENESS_MS
    container |= whole
    second = yarn.poll(end_ms + 20_000)
    assert (
        ends(second)[GREEDY]["memory_seconds"] == ends(collector(Timeline()).poll(AFTER_MS))[GREEDY]["memory_seconds"]
    )
    assert second.watermark_ms == end_ms + 20_000 - LATENESS_MS


def test_a_container_whose_end_is_never_published_is_counted_and_not_measured() -> None:
    timeline = Timeline()
    held_ms = (container := timeline.containers(GREEDY)[0])["finishedTime"] - container["startedTime"]
    whole = ends(collector(timeline).poll(AFTER_MS))[GREEDY]
    container |= {"containerState": "RUNNING", "finishedTime": 0, "containerExitStatus": -1000}
    row = ends(collector(timeline).poll(AFTER_MS))[GREEDY]
    assert row["n_containers"] == 6
    assert abs(whole["memory_seconds"] - row["memory_seconds"] - container["allocatedMB"] * held_ms / 1000) < 1


def test_an_end_that_is_published_late_is_told() -> None:
    timeline = Timeline()
    late = timeline.app(GREEDY)
    timeline.apps.remove(late)
    yarn = collector(timeline)
    assert GREEDY not in ends(yarn.poll(AFTER_MS))
    timeline.apps.append(late)
    late["finishedTime"] = AFTER_MS - OVERLAP_MS + 60_000
    assert list(ends(yarn.poll(AFTER_MS + 30_000))) == [GREEDY]


def test_a_restart_neither_loses_nor_repeats() -> None:
    timeline = Timeline()
    late = timeline.app(GREEDY)
    timeline.apps.remove(late)
    yarn = collector(timeline)
    before = yarn.poll(LAST_END_MS + 60_000)
    timeline.apps.append(late)
    late["finishedTime"] = LAST_END_MS + 70_000
    after = restarted(timeline, yarn).poll(LAST_END_MS + 200_000)
    assert list(ends(after)) == [GREEDY]
    assert len(ends(before)) == 5
    assert after.watermark_ms >= before.watermark_ms


def test_memory_of_what_was_told_is_bounded() -> None:
    timeline = Timeline()
    yarn = collector(timeline)
    yarn.poll(AFTER_MS)
    assert len(yarn.checkpoint()["told"]) == 6
    yarn.poll(LAST_END_MS + OVERLAP_MS + 60_000)
    yarn.poll(LAST_END_MS + OVERLAP_MS + 120_000)
    assert yarn.checkpoint()["told"] == {}


def test_a_limit_on_requests_loses_nothing_and_holds_the_watermark() -> None:
    timeline = Timeline()
    whole = ends(collector(timeline).poll(AFTER_MS))
    yarn = collector(timeline, max_requests_per_poll=4)
    polls = [yarn.poll(AFTER_MS + 30_000 * number) for number in range(8)]
    found = ends(*polls)
    assert len(rows(*polls)) == 6
    assert {app_id: row["n_containers"] for app_id, row in found.items()} == {
        app_id: row["n_containers"] for app_id, row in whole.items()
    }
    second_ms = sorted(app["finishedTime"] for app in timeline.apps)[2]
    assert polls[0].watermark_ms == second_ms - LATENESS_MS
    assert polls[-1].watermark_ms == AFTER_MS + 30_000 * 7 - LATENESS_MS
    assert all(a.watermark_ms <= b.watermark_ms for a, b in pairwise(polls))


def test_without_containers_there_is_one_request_a_poll() -> None:
    timeline = Timeline()
    told = ends(collector(timeline, containers=False).poll(AFTER_MS))
    assert len(timeline.asked) == 1
    assert len(told) == 6
    assert {row["n_containers"] for row in told.values()} == {None}


def test_an_application_without_a_master_has_no_containers() -> None:
    """The number of its attempt is what a real server writes of one."""
    timeline = Timeline()
    timeline.app(GREEDY).update(
        currentAppAttemptId="appattempt_1795806762812_0003_-000001", appState="KILLED", host="N/A", launchTime=0,
        finalAppStatus="KILLED", diagnosticsInfo="Application killed by user.",
    )  # fmt: skip
    row = ends(collector(timeline).poll(AFTER_MS))[GREEDY]
    assert {
        "status": "KILLED", "n_masters": 0, "n_containers": 0, "n_failed_containers": 0, "memory_seconds": None,
        "master_host": None, "wait_ms": None, "reason": "Application killed by user.",
    }.items() <= row.items()  # fmt: skip
    assert not any(GREEDY in path for path in timeline.asked)


@pytest.mark.parametrize(
    ("state", "final", "status"),
    [("FINISHED", "FAILED", "FAILED"), ("FAILED", "FAILED", "FAILED"), ("FINISHED", "UNDEFINED", None),
     ("KILLED", "UNDEFINED", "KILLED")],
)  # fmt: skip
def test_how_it_ended(state: str, final: str, status: str | None) -> None:
    timeline = Timeline()
    timeline.app(GREEDY).update(appState=state, finalAppStatus=final, type="SPARK")
    row = ends(collector(timeline).poll(AFTER_MS))[GREEDY]
    assert (row["status"], row["application_type"], row["job_id"], row["job_name"]) == (status, "SPARK", None, None)


def test_hosts_are_named_as_job_history_names_them() -> None:
    told = ends(collector(Timeline(), hosts={"node1": "n1.example", "node2": "n2.example"}).poll(AFTER_MS))
    assert (told[GREEDY]["failed_host"], told[KILLED]["master_host"]) == ("n1.example", "n2.example")


def test_a_server_that_is_down_is_no_source() -> None:
    timeline = Timeline()
    timeline.failures[f"{APPS}?states=FINISHED,FAILED,KILLED&finishedTimeBegin={AFTER_MS}"] = down()
    with pytest.raises(SourceUnavailableError, match="connection refused"):
        collector(timeline, lookback_ms=0).poll(AFTER_MS)


@pytest.mark.parametrize(
    ("answer", "said"),
    [((500, {}), "status 500"), ((200, b"<html>login"), "expected JSON"), ((200, {"app": "x"}), "expected a list")],
)
def test_a_list_that_is_none_is_told_with_its_place(answer: tuple[int, Any], said: str) -> None:
    timeline = Timeline()
    timeline.documents[APPS] = answer
    with pytest.raises(SourceUnavailableError, match=said) as raised:
        collector(timeline).poll(AFTER_MS)
    assert f"{URL}{APPS}" in str(raised.value)


def test_containers_that_may_not_be_seen_cost_only_themselves() -> None:
    """As of applications whose ACL leaves them to their owner."""
    timeline = Timeline()
    timeline.documents[f"{APPS}/{GREEDY}/appattempts"] = (403, {"exception": "ForbiddenException"})
    yarn = collector(timeline)
    polls = [yarn.poll(AFTER_MS + 30_000 * number) for number in range(3)]
    assert [GREEDY in ends(polled) for polled in polls] == [False, False, True]
    assert len(rows(*polls)) == 6
    assert ends(polls[2])[GREEDY]["n_containers"] is None
    (problem,) = [problem for polled in polls for problem in polled.problems]
    assert (problem.kind, problem.place) == ("http_403", URL)
    assert GREEDY in problem.message
    assert polls[0].watermark_ms == timeline.app(GREEDY)["finishedTime"] - LATENESS_MS


def test_foreign_ids_and_ends_without_a_time_are_counted_and_told() -> None:
    timeline = Timeline()
    timeline.app(KILLED)["finishedTime"] = 0
    timeline.app(GREEDY)["appId"] = "job_7"
    timeline.containers(KILLED_MASTER)[0]["containerId"] = "../../x"
    polled = collector(timeline).poll(AFTER_MS)
    assert len(rows(polled)) == 4
    assert ends(polled)[KILLED_MASTER]["n_containers"] == 6
    messages = sorted(problem.message for problem in polled.problems)
    assert [message.partition(",")[0] for message in messages] == [
        "1 application(s) without an id application_<n>_<n>",
        "1 container(s) without an id of one",
    ]


def test_a_clock_that_was_ahead_hides_nothing() -> None:
    timeline = Timeline()
    yarn = collector(timeline, lookback_ms=0)
    yarn.poll(AFTER_MS + 86_400_000)
    timeline.app(GREEDY)["finishedTime"] = FIRST_END_MS + 1
    polled = yarn.poll(FIRST_END_MS)
    assert polled.watermark_ms <= FIRST_END_MS


def test_foreign_positions_and_options_that_cannot_work_are_refused() -> None:
    yarn = collector(Timeline())
    yarn.poll(AFTER_MS)
    good = yarn.checkpoint()
    for wrong in (
        {},
        {**good, "version": 7},
        {**good, "told": [1]},
        {**good, "told": {"x": 1}},
        {**good, "since_ms": "x"},
    ):
        with pytest.raises(PositionError):
            collector(Timeline()).restore(wrong)
    for options in ({"lateness_ms": -1}, {"poll_timeout_ms": 0}, {"settle_ms": -1}):
        with pytest.raises(OptionError, match=next(iter(options))):
            collector(Timeline(), **options)
