"""Alerts beside injected faults."""

from __future__ import annotations

from typing import Any

import pytest

from app.replay.ground_truth import SeenAlert, judge
from app.replay.recording import Fault, RecordedJob

STRAGGLER = Fault(
    fault="mapper_straggler",
    query="mapper-straggler",
    job_id="job_1_0001",
    task_ids=("task_1_0001_m_000002",),
    host="node1",
    from_ms=100,
    to_ms=200,
)
SLOW_HOST = Fault(
    fault="slow_source_host", query="data-pull", job_id="job_1_0002", hosts=("node3",), from_ms=300, to_ms=400
)
FAILED = Fault(
    fault="failing_application", query="application-failed", application_id="application_1_0009", from_ms=500, to_ms=600
)
JOBS = [
    RecordedJob(job_id="job_1_0001", healthy=False),
    RecordedJob(job_id="job_1_0002", healthy=False),
    RecordedJob(job_id="job_1_0003", healthy=True),
]


def alert(
    query: str, onset_ms: int = 150, last_seen_ms: int = 160, hosts: tuple[str, ...] = ("node1",), **names: Any
) -> SeenAlert:
    return SeenAlert(f"{query}-{names}-{hosts}", query, names, onset_ms, last_seen_ms, last_seen_ms, 1.0, "text", hosts)


def where(seen: SeenAlert) -> str:
    """The one place in the verdict where an alert ends up."""
    verdict = judge([seen], [STRAGGLER, SLOW_HOST, FAILED], JOBS)
    places = [
        name
        for name, found in (
            ("found", [a for _, a in verdict.found]),
            ("secondary", [a for _, a in verdict.secondary]),
            ("false_alarms", verdict.false_alarms),
            ("unexplained", verdict.unexplained),
        )
        if seen in found
    ]
    assert len(places) == 1
    return places[0]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (alert("mapper-straggler", task_id="task_1_0001_m_000002"), "found"),
        (alert("mapper-straggler", task_id="task_1_0001_m_000002", job_id="job_1_0001", host="node9"), "found"),
        (alert("mapper-straggler", attempt_id="attempt_1_0001_m_000002_0"), "found"),
        (alert("mapper-straggler", attempt_id="attempt_1_0001_m_000003_0"), "secondary"),
        (alert("mapper-straggler", hosts=("node1", "node2"), task_id="task_1_0001_m_000002"), "found"),
        (alert("mapper-straggler", hosts=("node2", "node1"), task_id="task_1_0001_m_000002"), "secondary"),
        (alert("mapper-straggler", hosts=(), task_id="task_1_0001_m_000002"), "secondary"),
        (alert("mapper-straggler", onset_ms=200, last_seen_ms=300, task_id="task_1_0001_m_000002"), "found"),
        (alert("mapper-straggler", onset_ms=201, last_seen_ms=300, task_id="task_1_0001_m_000002"), "unexplained"),
        (alert("mapper-straggler", task_id="task_1_0001_m_000003"), "secondary"),
        (alert("other", task_id="task_1_0001_m_000002"), "secondary"),
        (alert("other", onset_ms=0, last_seen_ms=99, job_id="job_1_0001"), "unexplained"),
        (alert("mapper-straggler", task_id="task_1_0003_m_000002"), "false_alarms"),
        (alert("other", job_id="job_1_0003"), "false_alarms"),
        (alert("other", hosts=()), "false_alarms"),
        (alert("other", hosts=("node9",)), "false_alarms"),
        (alert("other"), "secondary"),  # about the suspect's host, during the fault
        (alert("data-pull", 350, 360, ("node3", "node1"), job_id="job_1_0002"), "found"),
        (alert("data-pull", 350, 360, ("node1", "node3"), job_id="job_1_0002"), "secondary"),
        (alert("data-pull", 350, 360, ("node3",)), "found"),
        (alert("application-failed", 550, 560, (), application_id="application_1_0009"), "found"),
        (alert("application-failed", 601, 602, (), application_id="application_1_0009"), "false_alarms"),
        (alert("application-failed", 550, 560, (), application_id="application_1_0008"), "false_alarms"),
        (alert("other", 550, 560, (), job_id="job_1_0009", application_id="application_1_0009"), "secondary"),
    ],
)
def test_every_alert_has_one_place(seen: SeenAlert, expected: str) -> None:
    assert where(seen) == expected


def test_what_nobody_found_is_missed() -> None:
    verdict = judge([alert("mapper-straggler", task_id="task_1_0001_m_000002")], [STRAGGLER, SLOW_HOST], JOBS)
    assert [fault.fault for fault in verdict.missed] == ["slow_source_host"]
    assert not verdict.passed


def test_the_first_alert_finds_and_further_ones_are_secondary() -> None:
    first = alert("mapper-straggler", 150, 160, task_id="task_1_0001_m_000002")
    second = alert("mapper-straggler", 190, 195, attempt_id="attempt_1_0001_m_000002_1")
    pull = alert("data-pull", 350, 360, ("node3",), job_id="job_1_0002")
    verdict = judge([second, pull, first], [STRAGGLER, SLOW_HOST], JOBS)
    assert [found for _, found in verdict.found] == [first, pull]
    assert [further for _, further in verdict.secondary] == [second]
    assert verdict.passed


def test_one_alert_may_find_two_faults() -> None:
    again = STRAGGLER.model_copy(update={"fault": "the same, otherwise injected"})
    verdict = judge([alert("mapper-straggler", job_id="job_1_0001")], [STRAGGLER, again], JOBS)
    assert len(verdict.found) == 2
    assert verdict.passed


def test_a_fault_without_hosts_asks_for_none() -> None:
    late = Fault(fault="late_reducers", query="queued", job_id="job_1_0002", from_ms=300, to_ms=400)
    for hosts in ((), ("node7",)):
        assert judge([alert("queued", 350, 360, hosts, job_id="job_1_0002")], [late], JOBS).passed
