"""Jobs as REST tells them, poll by poll, and what happens when it does not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from collectors.base import Collected, OptionError, PositionError, SourceUnavailableError
from collectors.history.jhist import JhistParser
from collectors.identity import lifecycle_id
from collectors.network.http import Answer
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from tests.collectors import rest_server as rest
from tests.collectors.rest_server import AM, ENDED, JHS, JOB, MAP_DONE, MAP_RUNS, NOW_MS, OPEN, REDUCE, T0, Script

LATENESS_MS = 5_000
TASKS = f"{AM}/{JOB}/tasks"


def collector(script: Script, **options: Any) -> YarnRestCollector:
    return YarnRestCollector(YarnRestOptions(**options), script)


def rows(*polls: Collected) -> list[dict[str, Any]]:
    return [row for polled in polls for row in polled.events.rows()]


def told(*polls: Collected) -> list[tuple[str, int]]:
    return sorted((row["type"], row["t_lo_ms"] - T0) for row in rows(*polls))


def one(found: list[dict[str, Any]], event_type: str) -> dict[str, Any]:
    (row,) = [row for row in found if row["type"] == event_type]
    return row


def plain_run() -> Script:
    """One map runs; nothing has ended."""
    return Script(
        {
            OPEN: rest.apps(rest.app()),
            ENDED: rest.apps(),
            AM: {"jobs": {"job": [rest.job()]}},
            TASKS: rest.tasks(m1="RUNNING", r0="SCHEDULED"),
            f"{TASKS}/{MAP_RUNS}/attempts": rest.attempts(rest.attempt(MAP_RUNS)),
        }
    )


def end_in_history(script: Script, **job: Any) -> None:
    """The application has ended and the history server knows its job; the map ended at T0 + 70 s."""
    done = rest.attempt(MAP_RUNS, state="SUCCEEDED", finishTime=T0 + 70_000)
    base = f"{JHS}/{JOB}/tasks"
    script.documents |= {
        OPEN: rest.apps(),
        ENDED: rest.apps(rest.app("FINISHED", finalStatus="SUCCEEDED", finishedTime=T0 + 90_000)),
        f"{JHS}/{JOB}": {"job": rest.job(state="SUCCEEDED", finishTime=T0 + 80_000, queue="etl", **job)},
        base: rest.tasks(m1="SUCCEEDED"),
        f"{base}/{MAP_RUNS}/attempts": rest.attempts(done),
        f"{base}/{MAP_RUNS}/attempts/{done['id']}/counters": rest.counters(done["id"], MAP_INPUT_RECORDS=3),
    }
    for path in [path for path in script.documents if path.startswith(AM)]:
        del script.documents[path]


def test_running_job() -> None:
    polled = collector(rest.running_job()).poll(NOW_MS)
    assert told(polled) == [
        ("DataIO", 30_000), ("JobEnd", 55_000), ("JobStart", 0), ("MapEnd", 30_000), ("MapStart", 10_000),
        ("MapStart", 10_000), ("Mapper", 30_000), ("Reducer", 50_000), ("ReducerEnd", 50_000), ("ReducerStart", 10_000),
        ("TaskSample", 60_000),
    ]  # fmt: skip
    assert polled.problems == ()
    assert polled.watermark_ms == NOW_MS - LATENESS_MS
    assert all(row["t_lo_ms"] == row["t_hi_ms"] for row in rows(polled))


def test_sample_of_a_running_attempt() -> None:
    sample = one(rows(collector(rest.running_job()).poll(NOW_MS)), "TaskSample")
    assert {
        "job_id": JOB, "task_id": MAP_RUNS, "attempt_id": f"attempt{MAP_RUNS[4:]}_0", "host": "node2",
        "task_type": "MAP", "elapsed_ms": 50_000, "progress": 0.25,
    }.items() <= sample.items()  # fmt: skip


def test_ids_and_values_are_those_of_job_history() -> None:
    from collectors.base import ProblemLog
    from tests.collectors import histories as h

    parser = JhistParser("job_1700000000000_0007.jhist", ProblemLog("x"), 0)
    times = {"finishTime": T0 + 30_000}
    parser.feed(h.history(h.start_records(n_maps=2), h.map_records(**times)))
    history = {row["type"]: row for row in parser.events.take_batch().rows()}
    live = {row["type"]: row for row in rows(collector(rest.running_job()).poll(NOW_MS)) if "m_000001" not in str(row)}
    for event_type in ("JobStart", "MapStart", "MapEnd", "Mapper", "DataIO"):
        assert live[event_type]["event_id"] == history[event_type]["event_id"]
    counted = ("n_input_records", "output_bytes", "materialized_bytes", "cpu_ms", "size_bytes", "status")
    for event_type in ("Mapper", "DataIO"):
        for name in counted:
            assert live[event_type].get(name) == history[event_type].get(name)


def test_reducer_phases() -> None:
    reducer = one(rows(collector(rest.running_job()).poll(NOW_MS)), "Reducer")
    assert (reducer["shuffle_ms"], reducer["sort_ms"], reducer["reduce_ms"]) == (30_000, 1_000, 9_000)


def test_nothing_is_told_twice_and_only_what_runs_is_asked_for() -> None:
    script = rest.running_job()
    yarn = collector(script)
    yarn.poll(NOW_MS)
    script.asked.clear()
    again = yarn.poll(NOW_MS + 5_000)
    assert told(again) == [("TaskSample", 65_000)]
    assert script.asked == [OPEN, ENDED, AM, TASKS, f"{TASKS}/{MAP_RUNS}/attempts"]


def test_a_job_from_start_to_history() -> None:
    script = plain_run()
    yarn = collector(script)
    polls = [yarn.poll(NOW_MS)]
    end_in_history(script)
    polls += [yarn.poll(NOW_MS + 40_000), yarn.poll(NOW_MS + 45_000)]
    assert told(*polls) == [
        ("JobEnd", 80_000), ("JobStart", 0), ("MapEnd", 70_000), ("MapStart", 10_000), ("Mapper", 70_000),
        ("TaskSample", 60_000),
    ]  # fmt: skip
    end = one(rows(*polls), "JobEnd")
    assert (end["status"], end["period_ms"], end["queue"]) == ("SUCCEEDED", 80_000, "etl")
    assert end["event_id"] == lifecycle_id("JobEnd", JOB)
    assert polls[-1].watermark_ms == NOW_MS + 40_000


def test_the_watermark_waits_for_an_ended_job_until_it_is_told() -> None:
    script = plain_run()
    yarn = collector(script)
    yarn.poll(NOW_MS)
    end_in_history(script)
    held = {path: script.documents.pop(path) for path in list(script.documents) if path.startswith(JHS)}
    waiting = yarn.poll(NOW_MS + 40_000)
    assert waiting.watermark_ms == NOW_MS - LATENESS_MS
    assert (waiting.problems, len(waiting.events)) == ((), 0)
    script.documents |= held
    polled = yarn.poll(NOW_MS + 50_000)
    assert ("MapEnd", 70_000) in told(polled)
    assert polled.watermark_ms == NOW_MS + 50_000 - LATENESS_MS


def test_a_history_that_never_comes_is_left_out_and_the_end_is_an_interval() -> None:
    script = plain_run()
    yarn = collector(script, history_wait_ms=30_000)
    yarn.poll(NOW_MS)
    script.documents = {OPEN: rest.apps(), ENDED: rest.apps(rest.app("KILLED", finishedTime=NOW_MS + 4_000))}
    polls = [yarn.poll(NOW_MS + wait_ms) for wait_ms in (10_000, 39_999, 40_000, 45_000)]
    end = one(rows(*polls), "JobEnd")
    assert (end["t_lo_ms"], end["t_hi_ms"]) == (NOW_MS, NOW_MS + 4_000)
    assert end["status"] == "KILLED"
    assert "period_ms" not in end
    assert [[p.kind for p in polled.problems] for polled in polls] == [[], [], ["no_history"], []]
    assert [polled.watermark_ms for polled in polls[-2:]] == [NOW_MS + 35_000, NOW_MS + 40_000]


def test_a_job_that_vanished_ended_between_two_polls() -> None:
    script = plain_run()
    yarn = collector(script, history_wait_ms=0)
    yarn.poll(NOW_MS)
    script.documents = {OPEN: rest.apps(), ENDED: rest.apps()}
    end = one(rows(yarn.poll(NOW_MS + 10_000)), "JobEnd")
    assert (end["t_lo_ms"], end["t_hi_ms"], end.get("status")) == (NOW_MS, NOW_MS + 10_000, None)


def test_a_job_between_two_polls_is_told_from_history() -> None:
    script = Script({OPEN: rest.apps(), ENDED: rest.apps()})
    yarn = collector(script)
    yarn.poll(NOW_MS)
    end_in_history(script, startTime=NOW_MS + 1_000)
    script.documents[ENDED] = rest.apps(rest.app("FINISHED", finishedTime=NOW_MS + 30_000))
    polled = yarn.poll(NOW_MS + 40_000)
    assert {row["type"] for row in rows(polled)} == {"JobStart", "MapStart", "MapEnd", "Mapper", "JobEnd"}


def test_jobs_that_ended_before_are_left_to_job_history() -> None:
    script = plain_run()
    end_in_history(script)
    assert len(collector(script).poll(T0 + 200_000).events) == 0
    assert len(collector(script, lookback_ms=150_000).poll(T0 + 200_000).events) == 5


def test_a_master_that_starts_again_is_not_an_end() -> None:
    script = plain_run()
    yarn = collector(script)
    yarn.poll(NOW_MS)
    script.documents[OPEN] = rest.apps(rest.app("ACCEPTED"))
    del script.documents[AM]
    polled = yarn.poll(NOW_MS + 5_000)
    assert (told(polled), polled.problems) == ([("AppWaiting", 65_000)], ())
    assert rows(polled)[0]["wait_ms"] == 0  # not since it was started: it has run meanwhile
    assert rows(yarn.poll(NOW_MS + 9_000))[0]["wait_ms"] == 4_000
    script.documents |= plain_run().documents
    assert told(yarn.poll(NOW_MS + 10_000)) == [("TaskSample", 70_000)]


def test_an_unreachable_master_is_reported_once_and_holds_the_watermark_for_a_while() -> None:
    script = plain_run()
    yarn = collector(script, stall_ms=20_000)
    yarn.poll(NOW_MS)
    script.documents[AM] = rest.down()
    polls = [yarn.poll(NOW_MS + wait_ms) for wait_ms in (5_000, 10_000, 15_000, 25_000)]
    assert [[p.kind for p in polled.problems] for polled in polls] == [[], ["unavailable"], [], []]  # silent since 5 s
    assert [polled.watermark_ms - NOW_MS for polled in polls] == [-5_000, -5_000, -5_000, 20_000]


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (b"<html>login</html>", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b"[1]", "bad_document"),
        (b'{"jobs": 5}', "bad_document"),
        (b'{"jobs": {"job": "x"}}', "bad_document"),
        (b"{}", "bad_document"),
        (b"[" * 100_000, "not_json"),
        ((404, b"gone"), "http_404"),
        ((500, b"boom"), "http_500"),
        ((302, b""), "redirected"),
    ],
)
def test_documents_that_are_none(document: Any, kind: str) -> None:
    script = plain_run()
    yarn = collector(script)
    yarn.poll(NOW_MS)
    script.documents[AM] = document
    polls = [yarn.poll(NOW_MS + 5_000 * i) for i in range(1, 4)]
    assert [p.kind for polled in polls for p in polled.problems] == [kind]
    script.documents[AM] = plain_run().documents[AM]
    assert told(yarn.poll(NOW_MS + 20_000)) == [("TaskSample", 80_000)]


@pytest.mark.parametrize("document", [rest.down(), b"<html>login</html>", (307, b"standby"), (401, b"")])
def test_without_a_resource_manager_there_is_no_source(document: Any) -> None:
    with pytest.raises(SourceUnavailableError, match="no ResourceManager answers"):
        collector(Script({OPEN: document, ENDED: document})).poll(NOW_MS)


def test_the_active_one_of_two_resource_managers_serves() -> None:
    class Pair(Script):
        def get(self, base_url: str, path: str, now_ms: int) -> Answer:
            if base_url == "http://rm1:1":
                return Answer(base_url + path, 200, "text/plain", b"This is standby RM", now_ms)
            return super().get(base_url, path, now_ms)

    pair = Pair(plain_run().documents)
    yarn = collector(pair, resource_manager_urls=("http://rm1:1", "http://rm2:1"))
    assert len(yarn.poll(NOW_MS).events) == 3


def test_history_server_that_is_down_is_asked_once_per_poll_and_reported_once() -> None:
    script = plain_run()
    yarn = collector(script)
    yarn.poll(NOW_MS)
    end_in_history(script)
    script.documents[f"{JHS}/{JOB}"] = rest.down()
    polls = [yarn.poll(NOW_MS + 5_000 * i) for i in range(1, 4)]
    assert [p.kind for polled in polls for p in polled.problems] == ["unavailable"]


def test_counters_that_cannot_be_had_do_not_stop_the_job() -> None:
    script = rest.running_job()
    path = f"{TASKS}/{MAP_DONE}/attempts/attempt{MAP_DONE[4:]}_0/counters"
    held = script.documents.pop(path)
    yarn = collector(script)
    first = yarn.poll(NOW_MS)
    assert first.watermark_ms < NOW_MS - LATENESS_MS  # its Mapper is still to come
    polls = [yarn.poll(NOW_MS + 5_000 * i) for i in (1, 2)]
    mapper = one(rows(*polls), "Mapper")
    assert "cpu_ms" not in mapper
    assert [p.kind for polled in polls for p in polled.problems] == ["missing_counter"]
    script.documents[path] = held
    assert "Mapper" not in {row["type"] for row in rows(yarn.poll(NOW_MS + 20_000))}


def test_a_map_whose_output_was_lost_runs_again() -> None:
    script = rest.running_job()
    yarn = collector(script)
    yarn.poll(NOW_MS)
    path = f"{TASKS}/{MAP_DONE}/attempts"
    lost = script.documents[path]["taskAttempts"]["taskAttempt"][0] | {"state": "KILLED"}
    second = rest.attempt(MAP_DONE, 1, startTime=T0 + 62_000)
    script.documents |= {TASKS: rest.tasks(m0="RUNNING"), path: rest.attempts(lost, second)}
    assert told(yarn.poll(NOW_MS + 5_000)) == [("MapStart", 62_000), ("TaskSample", 65_000)]


def test_restart_neither_loses_nor_repeats() -> None:
    script = rest.running_job()
    first = collector(script)
    first.poll(NOW_MS)
    second = collector(script)
    second.restore(json.loads(json.dumps(first.checkpoint())))
    assert told(second.poll(NOW_MS + 5_000)) == [("TaskSample", 65_000)]
    with pytest.raises(PositionError):
        second.restore({"version": 1, "jobs": {"x": {}}})


def test_a_limit_on_requests_loses_nothing() -> None:
    script = rest.running_job()
    expected = [e for e in told(collector(rest.running_job()).poll(NOW_MS)) if e[0] != "TaskSample"]
    yarn = collector(script, max_requests_per_poll=4)
    polls = [yarn.poll(NOW_MS + 1_000 * i) for i in range(8)]
    assert [e for e in told(*polls) if e[0] != "TaskSample"] == expected


def test_map_only_job_and_other_applications() -> None:
    script = rest.running_job()
    script.documents[AM] = {"jobs": {"job": [rest.job(reducesTotal=0), rest.job(id="job_1_1"), {"id": 5}]}}
    spark = rest.app(id="application_1700000000000_0008", applicationType="SPARK")
    script.documents[OPEN] = rest.apps(rest.app(), spark, {"id": "../../etc"})
    polled = collector(script).poll(NOW_MS)
    assert "DataIO" not in {row["type"] for row in rows(polled)}
    assert not any("0008" in path or "etc" in path for path in script.asked)


def test_counters_of_running_attempts_on_demand() -> None:
    script = plain_run()
    path = f"{TASKS}/{MAP_RUNS}/attempts/attempt{MAP_RUNS[4:]}_0/counters"
    script.documents[path] = rest.counters("x", CPU_MILLISECONDS=4_200)
    assert one(rows(collector(script, sample_counters=True).poll(NOW_MS)), "TaskSample")["cpu_ms"] == 4_200
    del script.documents[path]
    polled = collector(script, sample_counters=True).poll(NOW_MS)
    assert "cpu_ms" not in one(rows(polled), "TaskSample")
    assert [p.kind for p in polled.problems] == ["missing_counter"]


def test_an_attempt_that_ended_without_a_time_has_no_end() -> None:
    script = plain_run()
    script.documents[f"{TASKS}/{MAP_RUNS}/attempts"] = rest.attempts(rest.attempt(MAP_RUNS, state="KILLED"))
    yarn = collector(script)
    polls = [yarn.poll(NOW_MS + 5_000 * at) for at in range(5)]
    assert told(*polls) == [("JobStart", 0), ("MapStart", 10_000)]
    assert [[p.kind for p in polled.problems] for polled in polls] == [[], [], ["missing_time"], [], []]


def test_the_time_of_an_attempt_that_is_being_killed_is_waited_for() -> None:
    script = plain_run()
    path = f"{TASKS}/{MAP_RUNS}/attempts"
    yarn = collector(script)
    script.documents[path] = rest.attempts(rest.attempt(MAP_RUNS, state="KILLED"))
    polls = [yarn.poll(NOW_MS)]
    script.documents[path] = rest.attempts(rest.attempt(MAP_RUNS, state="KILLED", finishTime=NOW_MS))
    polls.append(yarn.poll(NOW_MS + 5_000))
    assert told(*polls) == [("JobStart", 0), ("MapEnd", 60_000), ("MapStart", 10_000)]
    assert [p.kind for polled in polls for p in polled.problems] == []


def test_an_attempt_that_was_killed_before_it_ran_is_no_problem() -> None:
    script = plain_run()
    waited = rest.attempt(MAP_RUNS, state="KILLED", startTime=0, nodeHttpAddress="N/A")
    script.documents[f"{TASKS}/{MAP_RUNS}/attempts"] = rest.attempts(waited)
    polled = collector(script).poll(NOW_MS)
    assert (told(polled), polled.problems) == ([("JobStart", 0)], ())


def test_a_clock_that_is_ahead_gives_no_negative_samples() -> None:
    script = plain_run()
    script.documents[f"{TASKS}/{MAP_RUNS}/attempts"] = rest.attempts(rest.attempt(MAP_RUNS, startTime=NOW_MS + 9_000))
    assert "TaskSample" not in {row["type"] for row in rows(collector(script).poll(NOW_MS))}


def test_options_are_checked() -> None:
    for url in ("ftp://x", "http://", "http://u:secret@h:1", "127.0.0.1:80", "http://h:x"):
        with pytest.raises(OptionError) as caught:
            YarnRestOptions(history_url=url)
        assert "secret" not in str(caught.value)
    assert REDUCE  # the fixture's third task


def test_counters_of_before_the_end_are_not_taken() -> None:
    class Aged(Script):
        counted_ms = 0

        def get(self, base_url: str, path: str, now_ms: int) -> Answer:
            answer = super().get(base_url, path, now_ms)
            return replace(answer, t_ms=self.counted_ms) if path.endswith("counters") else answer

    script = Aged(rest.running_job().documents)
    yarn = collector(script)
    script.counted_ms = T0 + 28_000  # the map ended at T0 + 30 s
    assert "Mapper" not in {row["type"] for row in rows(yarn.poll(NOW_MS))}
    script.counted_ms = T0 + 29_500  # ages are in whole seconds
    assert one(rows(yarn.poll(NOW_MS + 5_000)), "Mapper")["cpu_ms"] == 950


def test_a_list_without_the_attempt_that_succeeded_closes_nothing() -> None:
    script = rest.running_job()
    second = f"attempt{MAP_DONE[4:]}_1"
    task = {"id": MAP_DONE, "state": "SUCCEEDED", "successfulAttempt": second}
    script.documents[TASKS] = {"tasks": {"task": [task]}}
    yarn = collector(script)
    yarn.poll(NOW_MS)
    path = f"{TASKS}/{MAP_DONE}/attempts"
    first = script.documents[path]["taskAttempts"]["taskAttempt"][0] | {"state": "FAILED"}
    succeeded = rest.attempt(MAP_DONE, 1, state="SUCCEEDED", finishTime=T0 + 63_000)
    script.documents[path] = rest.attempts(first, succeeded)
    script.documents[f"{path}/{second}/counters"] = rest.counters(second, MAP_INPUT_RECORDS=1)
    assert told(yarn.poll(NOW_MS + 5_000)) == [("MapEnd", 63_000), ("MapStart", 10_000), ("Mapper", 63_000)]
    script.asked.clear()
    yarn.poll(NOW_MS + 10_000)
    assert path not in script.asked


def test_a_master_that_says_running_after_the_finish_holds_the_watermark() -> None:
    script = plain_run()
    yarn = collector(script)
    yarn.poll(NOW_MS)
    script.documents[AM] = {"jobs": {"job": [rest.job(finishTime=NOW_MS + 1_000)]}}
    polled = yarn.poll(NOW_MS + 20_000)
    assert "JobEnd" not in {row["type"] for row in rows(polled)}
    assert polled.watermark_ms == NOW_MS + 1_000 - LATENESS_MS
    script.documents[AM] = {"jobs": {"job": [rest.job(finishTime=NOW_MS + 1_000, state="SUCCEEDED")]}}
    assert one(rows(yarn.poll(NOW_MS + 25_000)), "JobEnd")["t_lo_ms"] == NOW_MS + 1_000


WAITING = (
    "[Fri Nov 20 12:36:14 +0000 2026] Application is added to the scheduler and is not yet activated. Queue's AM "
    "resource limit exceeded.  Details : AM Partition = <DEFAULT_PARTITION>; AM Resource Request = <memory:2048, "
    "vCores:1>; "
)


def test_an_application_that_waits_is_told_at_each_poll() -> None:
    waiting = rest.app("ACCEPTED", diagnostics=WAITING)
    other = rest.app("ACCEPTED", id="application_1700000000000_0008", diagnostics="", name="sort")
    script = rest.Script({OPEN: rest.apps(waiting, other), ENDED: rest.apps()})
    yarn = collector(script)
    polled = yarn.poll(NOW_MS)
    assert (told(polled), polled.problems) == ([("AppWaiting", 60_000), ("AppWaiting", 60_000)], ())
    one, two = (
        {name: row.get(name) for name in ("job_id", "job_name", "user", "queue", "wait_ms", "reason")}
        for row in rows(polled)
    )
    assert one == {
        "job_id": JOB, "job_name": "word count", "user": "ann", "queue": "etl", "wait_ms": 63_000,
        "reason": "Application is added to the scheduler and is not yet activated. Queue's AM resource limit exceeded.",
    }  # fmt: skip
    assert (two["job_name"], two["reason"]) == ("sort", None)
    assert rows(polled)[0]["raw"] == WAITING
    restarted = collector(script)
    restarted.restore(json.loads(json.dumps(yarn.checkpoint())))
    later = rows(restarted.poll(NOW_MS + 5_000))
    assert [row["wait_ms"] for row in later] == [68_000, 68_000]
    assert len({row["event_id"] for row in [*rows(polled), *later]}) == 4
    script.documents |= plain_run().documents
    assert "AppWaiting" not in {event_type for event_type, _ in told(restarted.poll(NOW_MS + 10_000))}


def test_a_wait_is_never_negative_and_never_made_up() -> None:
    ahead = rest.app("ACCEPTED", startedTime=NOW_MS + 1)
    script = rest.Script({OPEN: rest.apps(ahead), ENDED: rest.apps()})
    assert told(collector(script).poll(NOW_MS)) == []
    script.documents[OPEN] = rest.apps(rest.app("ACCEPTED", startedTime=0))  # not known: since it was seen
    yarn = collector(script)
    assert [rows(yarn.poll(NOW_MS + late))[0]["wait_ms"] for late in (0, 5_000)] == [0, 5_000]


SPARK = "application_1700000000000_0009"


def spark(state: str, **changes: Any) -> dict[str, Any]:
    return rest.app(state, id=SPARK, applicationType="SPARK", name="etl", **changes)


def waits(polled: Collected) -> list[tuple[str, int, int | None, int | None]]:
    return [
        (row["state"], row["wait_ms"], row.get("n_containers"), row.get("n_pending"))
        for row in rows(polled)
        if row["type"] == "AppWaiting"
    ]


def test_applications_of_every_type_wait_and_only_those_of_mapreduce_have_jobs() -> None:
    script = rest.Script({OPEN: rest.apps(spark("ACCEPTED", **rest.held(0, ("*", 1)))), ENDED: rest.apps()})
    row = one(rows(collector(script).poll(NOW_MS)), "AppWaiting")
    assert {name: row.get(name) for name in row if name not in ("raw", "clock_id", "source_rank", "source_seq")} == {
        "event_id": row["event_id"], "type": "AppWaiting", "t_lo_ms": NOW_MS, "t_hi_ms": NOW_MS,
        "origin": f"rest:{SPARK}", "application_id": SPARK, "application_type": "SPARK", "application_name": "etl",
        "user": "ann", "queue": "etl", "state": "ACCEPTED", "wait_ms": 63_000, "n_containers": 0,
        "allocated_bytes": 0, "allocated_vcores": 0, "n_pending": 1, "pending_bytes": 2**30, "pending_vcores": 1,
    }  # fmt: skip
    assert script.asked == [OPEN, ENDED]  # however many types there are
    script.documents[OPEN] = rest.apps(rest.app("ACCEPTED", applicationType=None))
    row = one(rows(collector(script).poll(NOW_MS)), "AppWaiting")  # who tells no types runs MapReduce
    assert (row["job_id"], row["job_name"], row.get("application_type")) == (JOB, "word count", None)


def test_a_running_application_waits_while_it_asks_and_is_given_nothing() -> None:
    script = rest.Script({ENDED: rest.apps()})
    yarn = collector(script)

    def poll(late_ms: int, **held: Any) -> list[tuple[str, int, int | None, int | None]]:
        script.documents[OPEN] = rest.apps(spark("RUNNING", **held))
        return waits(yarn.poll(NOW_MS + late_ms))

    assert poll(0, **rest.held(1)) == []  # it asks for nothing
    assert poll(5_000, **rest.held(1, ("*", 4), ("/rack", 9))) == [("RUNNING", 0, 1, 4)]
    assert poll(10_000, **rest.held(1, ("*", 4))) == [("RUNNING", 5_000, 1, 4)]
    assert poll(15_000, **rest.held(1, ("*", 6))) == [("RUNNING", 10_000, 1, 6)]  # it asks for more
    assert poll(20_000, **rest.held(2, ("*", 6))) == [("RUNNING", 0, 2, 6)]  # it was given one
    assert poll(25_000, **rest.held(1, ("*", 6))) == [("RUNNING", 5_000, 1, 6)]  # one ended, or was taken
    assert poll(30_000, **rest.held(1, ("*", 5))) == [("RUNNING", 0, 1, 5)]  # given one in the place of another
    assert poll(35_000, **rest.held(1, ("/rack", 5), pending_mb=0)) == []  # what is left of fulfilled requests
    assert poll(40_000, **rest.held(1, ("*", 5))) == [("RUNNING", 0, 1, 5)]
    restarted = collector(script)
    restarted.restore(json.loads(json.dumps(yarn.checkpoint())))
    assert waits(restarted.poll(NOW_MS + 45_000)) == [("RUNNING", 5_000, 1, 5)]


def test_a_spark_application_that_has_run_waits_for_another_master_since_it_was_seen_so() -> None:
    script = rest.Script({ENDED: rest.apps(), OPEN: rest.apps(spark("RUNNING"))})
    yarn = collector(script)
    assert told(yarn.poll(NOW_MS)) == []
    script.documents[OPEN] = rest.apps(spark("ACCEPTED"))
    restarted = collector(script)
    restarted.restore(json.loads(json.dumps(yarn.checkpoint())))
    assert waits(restarted.poll(NOW_MS + 5_000)) == [("ACCEPTED", 0, None, None)]
    assert waits(restarted.poll(NOW_MS + 9_000)) == [("ACCEPTED", 4_000, None, None)]


@pytest.mark.parametrize(
    ("told_of_it", "n_pending", "pending_bytes"),
    [
        ({}, None, None),
        ({"runningContainers": -1, "allocatedMB": -1, "allocatedVCores": -1}, None, None),
        ({"resourceRequests": {"resourceName": "*", "numContainers": 3, "capability": {"memory": 2}}}, 3, 6 * 2**20),
        ({"resourceRequests": [{"resourceName": "*", "numContainers": 3}]}, 3, None),
        ({"resourceRequests": [{"resourceName": "*", "numContainers": "3"}]}, None, None),
        ({"resourceRequests": [{"resourceName": "*", "numContainers": 2**53}] * 2}, None, None),
        ({"resourceRequests": [5, None, {"resourceName": ["*"]}]}, None, None),
        ({"resourceRequests": "*", "resourceInfo": [1]}, None, None),
        ({"resourceInfo": {"resourceUsagesByPartition": {"pending": {"memory": 7, "vCores": 1}}}}, None, 7 * 2**20),
        ({"resourceInfo": {"resourceUsagesByPartition": [{"pending": {"memory": 2**52}}]}}, None, None),
        ({"resourceInfo": {"resourceUsagesByPartition": [{"pending": 5}, 6]}}, None, None),
        ({"resourceInfo": {"resourceUsagesByPartition": [{"pending": {"memory": 0, "vCores": 0}}]}}, 0, 0),
    ],
)
def test_containers_that_are_not_told_are_not_made_up(
    told_of_it: dict[str, Any], n_pending: int | None, pending_bytes: int | None
) -> None:
    script = rest.Script({OPEN: rest.apps(spark("ACCEPTED", **told_of_it)), ENDED: rest.apps()})
    row = one(rows(collector(script).poll(NOW_MS)), "AppWaiting")
    assert (row.get("n_pending"), row.get("pending_bytes")) == (n_pending, pending_bytes)
    assert row.get("n_containers") is None


def test_positions_of_before_other_applications_waited_are_taken_up() -> None:
    other = "application_1700000000000_0008"
    script = rest.Script({OPEN: rest.apps(rest.app("ACCEPTED"), rest.app("ACCEPTED", id=other)), ENDED: rest.apps()})
    yarn = collector(plain_run())
    yarn.poll(NOW_MS)
    position = yarn.checkpoint() | {"waiting": {"job_1700000000000_0008": NOW_MS - 7_000}}
    restarted = collector(script)
    restarted.restore(json.loads(json.dumps(position)))
    waited = {row["application_id"]: row["wait_ms"] for row in rows(restarted.poll(NOW_MS + 5_000))}
    assert waited == {rest.APP: 0, other: 12_000}  # the first one has run: it waits for another master
    for damaged in ({"job_1_1": "x"}, {SPARK: 5}, {SPARK: {"state": 5, "has_run": True, "since_ms": 0}}, 5):
        with pytest.raises(PositionError):
            restarted.restore(position | {"waiting": damaged})


def test_positions_of_before_there_were_waits_are_taken_up() -> None:
    yarn = collector(plain_run())
    yarn.poll(NOW_MS)
    position = yarn.checkpoint()
    del position["waiting"]
    restarted = collector(plain_run())
    restarted.restore(position)
    assert told(restarted.poll(NOW_MS + 5_000)) == [("TaskSample", 65_000)]


# ---- nothing in silence ----------------------------------------------------------------------------------------


def problems_of(*polls: Collected) -> list[tuple[str, str]]:
    return [(problem.kind, problem.message) for polled in polls for problem in polled.problems]


@pytest.mark.parametrize("listed", ["job_1700000000000_0099", "job_local_1", None])
def test_a_master_that_lists_only_foreign_jobs_is_told(listed: str | None) -> None:
    script = plain_run()
    script.documents[AM] = {"jobs": {"job": [rest.job(id=listed), rest.job(id="x")]}}
    yarn = collector(script)
    polls = [yarn.poll(NOW_MS + 5_000 * i) for i in range(4)]
    ((kind, message),) = problems_of(*polls)
    assert kind == "foreign_job"
    assert f"2 job(s), the first {listed if listed == 'job_1700000000000_0099' else repr(listed)}" in message
    assert JOB in message


def test_a_master_that_has_no_job_yet_is_no_problem() -> None:
    script = plain_run()
    script.documents[AM] = {"jobs": None}
    yarn = collector(script)
    assert problems_of(*(yarn.poll(NOW_MS + 5_000 * i) for i in range(4))) == []


def test_attempts_and_tasks_with_foreign_ids_are_left_out_and_told() -> None:
    script = plain_run()
    foreign = rest.attempt(MAP_RUNS.replace("_0007_", "_0099_"))
    script.documents[f"{TASKS}/{MAP_RUNS}/attempts"] = rest.attempts(
        foreign, rest.attempt(MAP_RUNS), rest.attempt(MAP_RUNS) | {"id": 7}
    )
    script.documents[TASKS]["tasks"]["task"].append({"id": "tip_1", "state": "RUNNING"})
    polled = collector(script).poll(NOW_MS)
    assert {row["job_id"] for row in rows(polled)} == {JOB}
    assert problems_of(polled) == [
        ("foreign_id", "1 task(s) without an id of a task, the first 'tip_1'; left out"),
        ("foreign_id", f"2 attempt(s) that are none of {MAP_RUNS}, the first {foreign['id']}; left out"),
    ]


def test_applications_without_a_state_or_an_id_are_counted_and_told() -> None:
    script = plain_run()
    other = rest.app(id="application_1700000000000_0008")
    del other["state"]
    script.documents[OPEN]["apps"]["app"] += [other, {"id": "app_1", "state": "RUNNING"}]
    yarn = collector(script)
    polls = [yarn.poll(NOW_MS + 5_000 * i) for i in range(2)]
    assert problems_of(*polls) == [
        ("foreign_id", "1 application(s) without an id application_<n>_<n>, the first 'app_1'; left out"),
        ("no_state", f"1 application(s) without a state, the first {other['id']}; left out until it is told"),
    ]
    assert {row.get("job_id") for row in rows(*polls)} == {JOB}


def test_a_404_names_the_place_that_answered_it() -> None:
    class Redirecting(Script):
        def get(self, base_url: str, path: str, now_ms: int) -> Answer:
            if path == AM:  # the proxy has sent it on to the master, which does not know the path
                return Answer("http://node1:8042/ws/v1/mapreduce/jobs", 404, "text/html", b"no", now_ms)
            return super().get(base_url, path, now_ms)

    yarn = collector(Redirecting(plain_run().documents))
    (problem,) = [problem for i in range(3) for problem in yarn.poll(NOW_MS + 5_000 * i).problems]
    assert (problem.kind, problem.place) == ("http_404", "http://node1:8042/ws/v1/mapreduce/jobs")
    assert "http://node1:8042/ws/v1/mapreduce/jobs answers status 404" in problem.message


@pytest.mark.parametrize(
    ("status", "location", "body"),
    [
        (200, "", b"This is standby RM. The redirect url is: http://rm9:8088/ws/v1/cluster/apps\n"),
        (307, "http://rm9:8088/ws/v1/cluster/apps", b"This is standby RM\n"),
    ],
)
def test_a_standby_is_named_as_one_with_the_active_it_names(status: int, location: str, body: bytes) -> None:
    class Standby(Script):
        def get(self, base_url: str, path: str, now_ms: int) -> Answer:
            return Answer(base_url + path, status, "text/plain", body, now_ms, location)

    yarn = collector(Standby({}), resource_manager_urls=("http://rm1:1",))
    with pytest.raises(SourceUnavailableError, match=r"http://rm1:1\S* is a standby .* http://rm9:8088/ws"):
        yarn.poll(NOW_MS)
