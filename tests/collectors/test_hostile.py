"""Whatever a file or server says, a collector reads it, reports problems and goes on."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collectors.base import ProblemLog, SourceUnavailableError
from collectors.history.jhist import JhistParser
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.printable import printable
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from tests.collectors import histories as h
from tests.collectors import reducer_logs as logs
from tests.collectors import rest_server as rest
from tests.collectors.positions import saved
from tests.collectors.rest import timeline_server

ATTEMPTS = st.sampled_from(
    ["attempt_1700000000000_0007_m_000000_0", "attempt_1700000000000_0007_r_000000_0", "attempt_x"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.just(2**70),
    st.just(h.T0),
    st.floats(),
    st.text(max_size=5),
    ATTEMPTS,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["string", "long", "groups", "name", "counts", "value", "x"]), inner, max_size=3
        ),
    ),
    max_leaves=8,
)
FIELDS = st.dictionaries(
    st.sampled_from(
        ["jobid", "attemptId", "startTime", "finishTime", "launchTime", "taskStatus", "status", "hostname", "rackname",
         "counters", "jobName", "userName", "totalMaps", "shuffleFinishTime", "sortFinishTime", "trackerName"]
    ),
    VALUES,
)  # fmt: skip
KINDS = st.sampled_from(
    ["AM_STARTED", "JOB_SUBMITTED", "JOB_INITED", "JOB_FINISHED", "JOB_KILLED", "MAP_ATTEMPT_STARTED",
     "MAP_ATTEMPT_FINISHED", "REDUCE_ATTEMPT_FINISHED", "REDUCE_ATTEMPT_KILLED", "JOB_QUEUE_CHANGED", "TASK_FAILED", 7]
)  # fmt: skip


def read_history(data: bytes) -> tuple[int, list[str]]:
    problems = ProblemLog("job_history")
    parser = JhistParser("/x/job_1700000000000_0007.jhist", problems, 0)
    parser.feed(data)
    parser.close()
    return len(parser.events.take_batch()), [problem.kind for problem in problems.drain()]


@given(st.lists(st.tuples(KINDS, FIELDS), max_size=6))
def test_records_of_any_content(records: list[tuple[Any, dict[str, Any]]]) -> None:
    lines = [json.dumps({"type": kind, "event": {"X": fields}}) for kind, fields in records]
    n_events, _ = read_history(h.history(h.start_records(), lines))
    assert n_events >= 1  # the JobStart before them


@given(st.binary(max_size=200), st.integers(0, 3_000))
def test_histories_with_any_bytes_in_them(junk: bytes, at: int) -> None:
    data = h.whole_history()
    read_history(data[:at] + junk + data[at:])
    read_history(junk)


@given(st.binary(max_size=100), st.integers(0, 4_000), st.integers(0, 400))
def test_logs_with_any_bytes_in_them(junk: bytes, at: int, n_lost: int) -> None:
    data = logs.hadoop2_log().encode()
    with tempfile.TemporaryDirectory() as folder:
        path = logs.write_log(Path(folder), "")
        path.write_bytes(data[:at] + junk + data[at + n_lost :])
        reader = ContainerLogCollector(ContainerLogOptions(Path(folder), abandon_ms=1))
        first = reader.poll(logs.DAY_MS + 60_000)
        reader.restore(saved(reader.checkpoint()))
        second = reader.poll(logs.DAY_MS + 60_002)
    assert second.watermark_ms >= first.watermark_ms


@given(st.sampled_from(sorted(rest.running_job().documents)), VALUES, st.sampled_from(["whole", "inside"]))
def test_rest_documents_of_any_content(path: str, value: Any, where: str) -> None:
    script = rest.running_job()
    if where == "whole":
        script.documents[path] = json.dumps(value).encode()
    else:
        (outer,) = script.documents[path]
        script.documents[path] = {outer: value}
    yarn = YarnRestCollector(YarnRestOptions(), script)
    for now_ms in (rest.NOW_MS, rest.NOW_MS + 5_000):
        try:
            polled = yarn.poll(now_ms)
        except SourceUnavailableError:
            was_refused = True
        else:
            was_refused = False
            assert polled.watermark_ms <= now_ms
            yarn.restore(json.loads(json.dumps(yarn.checkpoint())))
        # Without the lists of applications there is no source; any other document costs itself alone.
        assert not was_refused or path in (rest.OPEN, rest.ENDED)


TIMELINE = timeline_server.Timeline()
APP_FIELDS = sorted(TIMELINE.apps[0])
CONTAINER_FIELDS = sorted(TIMELINE.containers(timeline_server.GREEDY)[0])


@given(
    st.dictionaries(st.sampled_from(APP_FIELDS), VALUES, max_size=3),
    st.dictionaries(st.sampled_from(CONTAINER_FIELDS), VALUES, max_size=3),
)
def test_applications_of_the_timeline_of_any_content(app: dict[str, Any], container: dict[str, Any]) -> None:
    timeline = timeline_server.Timeline()
    timeline.containers(timeline_server.GREEDY)[0].update(container)
    timeline.app(timeline_server.GREEDY).update(app)
    yarn = timeline_server.collector(timeline)
    polls = [yarn.poll(timeline_server.AFTER_MS + 30_000 * number) for number in range(4)]
    told = [name for polled in polls for name in polled.events.strings("type").to_pylist()]
    assert 5 <= len(told) <= 6
    yarn.restore(json.loads(json.dumps(yarn.checkpoint())))


@given(st.dictionaries(st.sampled_from(sorted(rest.attempt(rest.MAP_RUNS))), VALUES, min_size=1))
def test_attempts_of_any_content(changes: dict[str, Any]) -> None:
    script = rest.running_job()
    path = f"{rest.AM}/{rest.JOB}/tasks/{rest.MAP_RUNS}/attempts"
    script.documents[path] = rest.attempts(rest.attempt(rest.MAP_RUNS, **changes))
    polled = YarnRestCollector(YarnRestOptions(), script).poll(rest.NOW_MS)
    assert "JobStart" in polled.events.strings("type").to_pylist()


@given(st.text())
def test_shown_text_can_be_shown(text: str) -> None:
    shown = printable(text, 50)
    assert shown.isprintable()
    assert len(shown) <= 50 * len("\\U0001f600")
