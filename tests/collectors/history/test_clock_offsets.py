"""Clocks that are off: what histories prove of them, against offsets that were put in by hand."""

from __future__ import annotations

import gzip
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.base import ProblemLog
from collectors.history.clock_offsets import TOLERANCE_MS, ClockOffset, ClockOffsets, skew_message
from collectors.history.hadoop1_history import Hadoop1Parser
from tests.collectors import histories as h
from tests.collectors.history.test_jhist import parse as parse_jhist
from tests.conftest import SHARED

JOB = "job_201001020304_0007"
T0 = 1_262_401_440_000


def history(offset_ms: int, n_maps: int = 3) -> bytes:
    """A job whose host's clock is ahead of the JobTracker's by so much; heartbeats take a second."""
    lines = [
        'Meta VERSION="1" .',
        f'Job JOBID="{JOB}" LAUNCH_TIME="{T0}" TOTAL_MAPS="{n_maps}" TOTAL_REDUCES="0" JOB_STATUS="PREP" .',
    ]
    for number in range(n_maps):
        task = f"task_201001020304_0007_m_{number:06}"
        attempt = f"attempt_201001020304_0007_m_{number:06}_0"
        of = f'MapAttempt TASK_TYPE="MAP" TASKID="{task}" TASK_ATTEMPT_ID="{attempt}"'
        start, end = T0 + 10_000 * number + 1_000, T0 + 10_000 * number + 8_000
        lines += [
            f'Task TASKID="{task}" TASK_TYPE="MAP" START_TIME="{start - 1_000}" SPLITS="" .',
            f'{of} START_TIME="{start + offset_ms}" TRACKER_NAME="tracker_n1:localhost/127\\.0\\.0\\.1:1" .',
            f'{of} TASK_STATUS="SUCCESS" FINISH_TIME="{end + offset_ms}" HOSTNAME="/r/n1" COUNTERS="" .',
            f'Task TASKID="{task}" TASK_TYPE="MAP" TASK_STATUS="SUCCESS" FINISH_TIME="{end + 1_000}" COUNTERS="" .',
        ]
    lines.append(f'Job JOBID="{JOB}" FINISH_TIME="{T0 + 10_000 * n_maps}" JOB_STATUS="SUCCESS" .')
    return "\n".join(lines).encode() + b"\n"


def told(data: bytes) -> list[str]:
    problems = ProblemLog("job_history")
    parser = Hadoop1Parser("h", problems, 0)
    parser.feed(data)
    parser.close()
    return [problem.message for problem in problems.drain() if problem.kind == "clock_skew"]


@pytest.mark.parametrize("offset_ms", [-16 * 60_000, -8 * 60_000, 8 * 60_000])
def test_a_host_whose_clock_is_off_is_told_with_the_size(offset_ms: int) -> None:
    (message,) = told(history(offset_ms))
    where = "ahead of" if offset_ms > 0 else "behind"
    low, high = (
        f"{abs(offset_ms + by) // 60_000} min {abs(offset_ms + by) % 60_000 // 1000} s" for by in (-1000, 1000)
    )
    nearest, furthest = (low, high) if offset_ms > 0 else (high, low)
    assert f"the clock host:n1 is {nearest} to {furthest} {where} the JobTracker" in message
    assert f'sources.clock_skew.offsets: {{"host:n1": {offset_ms} ms}}' in message


def test_clocks_that_agree_are_not_spoken_of() -> None:
    assert told(history(0)) == told(history(TOLERANCE_MS)) == told(history(-TOLERANCE_MS)) == []


def test_an_attempt_that_ends_after_its_task_was_done_by_another_proves_nothing() -> None:
    data = history(0, n_maps=1).decode()
    late = (
        'MapAttempt TASK_TYPE="MAP" TASKID="task_201001020304_0007_m_000000" '
        'TASK_ATTEMPT_ID="attempt_201001020304_0007_m_000000_1" '
    )
    more = (
        f'{late}START_TIME="{T0 + 2_000}" TRACKER_NAME="tracker_n2:localhost/127\\.0\\.0\\.1:1" .\n'
        f'{late}TASK_STATUS="KILLED" FINISH_TIME="{T0 + 60_000}" HOSTNAME="/r/n2" .\n'
    )
    at = data.index("Job JOBID", 100)
    assert told((data[:at] + more + data[at:]).encode()) == []


@given(
    st.integers(-3_600_000, 3_600_000),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), min_size=1, max_size=20),
)
def test_the_bounds_hold_the_offset(offset_ms: int, delays: list[tuple[int, int]]) -> None:
    """Whatever the heartbeats take, the true offset is possible, and what is proven is no more than it."""
    clocks = ClockOffsets()
    for before_ms, after_ms in delays:
        clocks.not_before("c", 1_000_000 + before_ms + offset_ms, 1_000_000)
        clocks.not_after("c", 2_000_000 - after_ms + offset_ms, 2_000_000)
    for clock, offset in clocks.off():
        assert clock == "c"
        assert offset.is_steady
        assert offset.least_ms is not None
        assert offset.most_ms is not None
        assert offset.least_ms <= offset_ms <= offset.most_ms
        assert offset.least_ms <= offset.best_ms <= offset.most_ms
        assert TOLERANCE_MS < abs(offset.proven_ms) <= abs(offset_ms)
    narrowest = min(before for before, _ in delays)
    if offset_ms < -TOLERANCE_MS - narrowest:
        assert list(clocks.off())


def test_a_clock_that_was_set_meanwhile_has_no_single_offset() -> None:
    clocks = ClockOffsets()
    clocks.not_before("c", 1_000, 61_000)  # a minute behind at least
    clocks.not_after("c", 900_000, 300_000)  # ten minutes ahead at least
    ((_, offset),) = clocks.off()
    assert not offset.is_steady
    assert offset.proven_ms == 600_000
    assert "set against each other" in skew_message("c", offset, "the JobTracker")
    assert "at least 1 min 1 s behind" in skew_message("c", ClockOffset(None, -61_000, 1), "the JobTracker")


def test_a_master_that_starts_before_its_job_was_submitted() -> None:
    data = h.whole_history()
    (submitted,) = re.findall(rb'"submitTime":(\d+)', data)
    (started,) = re.findall(rb'AMStarted":\{.*?"startTime":(\d+)', data)
    assert int(submitted) <= int(started)
    late = str(int(started) + 8 * 60_000).encode()
    _, _, problems = parse_jhist(data.replace(b'"submitTime":' + submitted, b'"submitTime":' + late))
    (message,) = [problem.message for problem in problems if problem.kind == "clock_skew"]
    assert "at least 8 min 0 s behind the ResourceManager" in message


@pytest.mark.external
def test_hosts_of_a_real_cluster() -> None:
    """What the records say, read by regular expressions alone: attempts that end before their task was handed out."""
    data = gzip.decompress((SHARED / "data" / "jobhistory1" / "v20-single-input-log.gz").read_bytes())
    handed_out = dict(re.findall(rb'^Task TASKID="(\w+)" TASK_TYPE="\w+" START_TIME="(\d+)"', data, re.MULTILINE))
    ended = re.findall(
        rb'^MapAttempt TASK_TYPE="MAP" TASKID="(\w+)" .*FINISH_TIME="(\d+)" HOSTNAME="/[^"]*/([^"/]+)"',
        data, re.MULTILINE,
    )  # fmt: skip
    before = {host.replace(b"\\", b"").decode() for task, end, host in ended if int(end) < int(handed_out[task])}
    found = {message.split("host:")[1].split(" ")[0] for message in told(data)}
    assert before
    assert before <= found
