"""A master that is slow costs its own answers: the others are asked beside it, and what is missed comes later."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from typing import Any

import pytest

from collectors.base import Collected, SourceUnavailableError
from collectors.network import deadlines
from collectors.network.http import Answer, HttpOptions
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from tests.collectors import rest_server as rest
from tests.collectors.rest_server import AM, APP, ENDED, NOW_MS, OPEN, Script
from tests.slow_servers import GUARD_S, drip, ends, requested_path, serving

SLOW = [f"application_1700000000000_{number:04}" for number in range(1, 7)]


def master(application: str) -> str:
    return f"/proxy/{application}/ws/v1/mapreduce/jobs"


def told(*polls: Collected) -> Counter[str]:
    """Ids of the events that come once in the life of a job."""
    rows = [row for polled in polls for row in polled.events.rows()]
    return Counter(row["event_id"] for row in rows if row["type"] != "TaskSample")


def cluster(*slow: str) -> Script:
    """The slow ones are listed first."""
    script = rest.running_job()
    script.documents[OPEN] = rest.apps(*[rest.app(id=application) for application in slow], rest.app())
    return script


class Clock:
    """The monotonic clock, as the test moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now_s)


class TimedScript(Script):
    """Answers take time; what takes longer than it may is cut short."""

    def __init__(self, script: Script, clock: Clock, seconds: dict[str, float]) -> None:
        """`seconds` by the beginning of the path."""
        super().__init__(script.documents)
        self._clock = clock
        self._seconds = seconds

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        seconds = next((s for start, s in self._seconds.items() if path.startswith(start)), 0.0)
        left_s = deadlines.remaining_s()
        self._clock.now_s += min(seconds, left_s)
        if seconds >= left_s:
            self.asked.append(path)
            raise SourceUnavailableError("the answer took too long")
        return super().get(base_url, path, now_ms)


EVENTS = told(YarnRestCollector(YarnRestOptions(), rest.running_job()).poll(NOW_MS))


@pytest.mark.parametrize("is_proven", [False, True])
def test_others_are_asked_while_a_master_is_silent(is_proven: bool) -> None:
    was_asked = threading.Event()

    class Waiting(Script):
        def get(self, base_url: str, path: str, now_ms: int) -> Answer:
            if path.startswith(AM):
                was_asked.set()
            elif path.startswith("/proxy"):
                assert threading.current_thread().daemon, "the end of the process would wait for it"
                assert was_asked.wait(GUARD_S), "the others are not asked meanwhile"
                raise rest.down()
            return super().get(base_url, path, now_ms)

    slow = SLOW if is_proven else SLOW[:1]
    script = Waiting(cluster(*slow).documents)
    yarn = YarnRestCollector(YarnRestOptions(), script)
    polls = []
    if is_proven:  # so that however many are silent, they have no thread that it waits for
        listed, script.documents[OPEN] = script.documents[OPEN], rest.apps(rest.app())
        polls.append(yarn.poll(NOW_MS))
        script.documents[OPEN] = listed
        was_asked.clear()
    polls += [yarn.poll(NOW_MS + 5_000), yarn.poll(NOW_MS + 10_000)]
    assert told(*polls) == EVENTS
    assert [p.place.rpartition("/proxy")[2].split("/")[1] for p in polls[-1].problems] == slow
    assert {p.kind for p in polls[-1].problems} == {"unavailable"}


def test_a_share_that_is_spent_is_told_and_the_rest_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    script = TimedScript(rest.running_job(), Clock(monkeypatch), {AM: 10.0})
    options = YarnRestOptions(master_timeout_ms=45_000, poll_timeout_ms=60_000)
    yarn = YarnRestCollector(options, script)
    polls = []
    for number in range(4):
        polls.append(yarn.poll(NOW_MS + 5_000 * number))
        restarted = YarnRestCollector(options, script)
        restarted.restore(json.loads(json.dumps(yarn.checkpoint())))
        yarn = restarted
    assert told(*polls) == EVENTS
    assert [[p.kind for p in polled.problems] for polled in polls] == [[], ["slow"], [], []]
    assert "more than 45 s of a poll" in polls[1].problems[0].message


def test_a_master_that_answers_nothing_in_its_share_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    script = TimedScript(cluster(SLOW[0]), Clock(monkeypatch), {master(SLOW[0]): 1e9})
    yarn = YarnRestCollector(YarnRestOptions(), script)
    polls = [yarn.poll(NOW_MS), yarn.poll(NOW_MS + 5_000)]
    assert told(*polls) == EVENTS
    assert [(p.kind, SLOW[0] in p.place) for polled in polls for p in polled.problems] == [("unavailable", True)]


def test_a_poll_ends_and_everybody_gets_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    script = TimedScript(cluster(*SLOW), clock, {master(application): 1e9 for application in SLOW})
    yarn = YarnRestCollector(YarnRestOptions(n_workers=1), script)
    polls = []
    for number in range(4):
        before_s = clock.now_s
        polls.append(yarn.poll(NOW_MS + 5_000 * number))
        assert clock.now_s - before_s <= 60
    assert told(*polls) == EVENTS
    asked = Counter(path for path in script.asked if path in {master(application) for application in SLOW})
    assert set(asked.values()) <= {1, 2}
    assert len(asked) == len(SLOW)


def test_a_master_that_was_not_asked_holds_the_watermark_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    script = TimedScript(cluster(*SLOW), Clock(monkeypatch), {master(application): 1e9 for application in SLOW})
    script.documents[OPEN] = rest.apps(*[rest.app(id=application) for application in SLOW])
    yarn = YarnRestCollector(YarnRestOptions(n_workers=1, poll_timeout_ms=30_000, stall_ms=20_000), script)
    marks = [yarn.poll(NOW_MS + wait_ms).watermark_ms for wait_ms in (0, 5_000, 20_000)]
    assert marks[0] == marks[1] < marks[2] == NOW_MS + 15_000
    assert len({path for path in script.asked if path.startswith("/proxy")}) == 3


@pytest.mark.parametrize(("seconds", "is_had"), [(12.0, True), (25.0, False)])
def test_a_history_server_that_takes_its_time(monkeypatch: pytest.MonkeyPatch, seconds: float, is_had: bool) -> None:
    document = rest.job(state="SUCCEEDED", finishTime=rest.T0 + 55_000)
    history = rest.as_history(rest.running_job()) | {f"{rest.JHS}/{rest.JOB}": {"job": document}}
    history[f"{rest.JHS}/{rest.JOB}/tasks"] = rest.tasks(m0="SUCCEEDED", r0="SUCCEEDED")
    ended = rest.app("FINISHED", finishedTime=NOW_MS)
    script = Script({OPEN: rest.apps(), ENDED: rest.apps(ended), **history})
    slow = TimedScript(script, Clock(monkeypatch), {rest.JHS: seconds})
    yarn = YarnRestCollector(YarnRestOptions(lookback_ms=10_000, history_wait_ms=20_000), slow)
    polls = [yarn.poll(NOW_MS + 5_000 * number) for number in range(6)]
    assert max(told(*polls).values()) == 1
    at_once = YarnRestCollector(YarnRestOptions(lookback_ms=10_000), script).poll(NOW_MS)
    assert (told(*polls) == told(at_once)) is is_had  # each poll gets further, or never does
    assert [p.kind for polled in polls for p in polled.problems] == ([] if is_had else ["no_history"])
    assert yarn.checkpoint()["jobs"] == {}


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nX-Long: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"])
def test_masters_that_drip(start: bytes) -> None:
    script = cluster(*SLOW[:2])
    dripping = drip(start, again=b"x")

    def serve(connection: socket.socket) -> None:
        path = requested_path(connection)
        if path.startswith("/proxy") and APP not in path:
            dripping(connection)
            return
        connection.recv(65_536)
        found = script.get("", path, 0)
        connection.sendall(b"HTTP/1.1 %d Told\r\nConnection: close\r\n\r\n" % found.status + found.body)

    with serving(serve) as url:
        http = HttpOptions(connect_timeout_s=GUARD_S, read_timeout_s=GUARD_S, total_timeout_s=GUARD_S)
        options = YarnRestOptions((url,), url, master_timeout_ms=1_000, poll_timeout_ms=10_000, http=http)
        yarn = YarnRestCollector(options)
        polls: list[Collected] = []
        while len(polls) < 2 or (told(*polls) != EVENTS and len(polls) < 20):
            polls.append(ends(lambda: yarn.poll(NOW_MS + 1_000 * len(polls))))
    assert told(*polls) == EVENTS
    places = {p.place for polled in polls for p in polled.problems}
    assert {f"{url}{master(application)}" for application in SLOW[:2]} <= places


def test_positions_of_before_there_were_turns_are_taken_up() -> None:
    yarn = YarnRestCollector(YarnRestOptions(), rest.running_job())
    first = yarn.poll(NOW_MS)
    position: dict[str, Any] = json.loads(json.dumps(yarn.checkpoint()))
    for job in position["jobs"].values():
        del job["asked_ms"]
    restarted = YarnRestCollector(YarnRestOptions(), rest.running_job())
    restarted.restore(position)
    assert told(first, restarted.poll(NOW_MS + 5_000)) == EVENTS
