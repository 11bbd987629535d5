"""clustercep beside a cluster whose daemons, containers, masters and queues are hit by faults, one after the other."""

from __future__ import annotations

import re
import time

import pytest

from app.replay.recording import Fault
from app.store.models import AlertRow, ProblemRow
from deploy.minicluster.daemons import job_faults
from deploy.minicluster.daemons.faults import FAULTS
from deploy.minicluster.hadoop.hadoop_api import application_of
from tests.live import daemon_scenario, report
from tests.live.conftest import SUMMARY
from tests.live.daemon_scenario import DaemonsObserved

SOURCES = {"yarn_rest", "yarn_timeline", "container_log", "daemon_log", "hdfs_audit", "jmx"}
STOPPED = ("unavailable", "slow", "not_asked")
"""Problems of jmx with a daemon that is stopped or killed."""
OF_JOBS = {
    "container-memory": ("job_id", "host", "container_id"),
    "application-failed": ("application_id", "application_type", "user", "queue", "reason"),
    "master-failed": ("job_id", "application_id", "user", "queue"),
    "containers-pending": ("job_id", "application_id", "user", "queue"),
    "job-waits": ("job_id", "application_id", "user", "queue"),
    "fetch-failures-host": ("job_id", "source_host"),
    "localisation-slow": ("job_id", "host", "container_id"),
    "host-blacklisted": ("job_id", "blacklisted_host"),
    "queue-starved": ("queue", "host"),
    "hdfs-user-busy": ("user", "operation", "client"),
}
"""Query -> what its alert names, with a value."""


@pytest.fixture(scope="module")
def observed(request: pytest.FixtureRequest) -> DaemonsObserved:
    started_s = time.monotonic()

    def say(message: str) -> None:
        print(f"{time.monotonic() - started_s:7.1f} s  {message}", flush=True)

    seen = daemon_scenario.run(say)
    request.config.stash[SUMMARY] = list(report.daemon_lines(seen))
    return seen


@pytest.fixture(scope="module")
def found(observed: DaemonsObserved) -> list[tuple[Fault, AlertRow]]:
    alerts = {alert.id: alert for alert in observed.alerts}
    return [(fault, alerts[alert.id]) for fault, alert in observed.verdict.found]


def test_every_fault_was_injected(observed: DaemonsObserved) -> None:
    assert observed.outcome.problems == []
    expected = {fault.name for fault in FAULTS} | job_faults.INJECTIONS.keys()
    assert {truth.fault for truth in observed.truths} == expected


def test_every_fault_is_found_by_each_query_meant_for_it(observed: DaemonsObserved) -> None:
    assert [(fault.fault, fault.query) for fault in observed.verdict.missed] == []
    assert len(observed.verdict.found) == len(observed.truths)


def test_nothing_is_told_of_what_is_healthy(observed: DaemonsObserved) -> None:
    assert observed.n_alerts_before == 0
    assert [alert.summary for alert in observed.verdict.false_alarms] == []
    assert [alert.summary for alert in observed.verdict.unexplained] == []
    assert any(job.healthy for job in observed.outcome.jobs)


def test_faults_are_found_in_the_live_stream(found: list[tuple[Fault, AlertRow]]) -> None:
    assert {alert.lane for _, alert in found} == {"live"}


def test_the_summary_names_the_host_or_the_job(found: list[tuple[Fault, AlertRow]]) -> None:
    for fault, alert in found:
        named = alert.values | alert.key
        for attribute in OF_JOBS.get(fault.query, ()):
            assert named.get(attribute), f"{fault.query}: no {attribute} in {named}"
        assert (fault.host or named.get("application_id") or named["job_id"]) in alert.summary


def test_every_source_works_to_the_end(observed: DaemonsObserved) -> None:
    assert {row.name for row in observed.sources} == SOURCES
    assert {row.name: row.last_error for row in observed.sources if row.last_error} == {}


def is_of_a_fault(row: ProblemRow, killed_master: str) -> bool:
    """A daemon that is down, the folders that are files for a while, the master that is killed while it is asked."""
    if row.source == "container_log":
        return row.kind == "unreadable" and re.search(r"/local2?/\w+$", row.place) is not None
    if row.source == "yarn_rest":
        return row.kind == "redirected" and f"/proxy/{killed_master}/" in row.place
    return row.source == "jmx" and row.kind in STOPPED


def test_the_store_lists_no_problem_but_of_what_was_injected(observed: DaemonsObserved) -> None:
    (killed,) = (truth.job_id for truth in observed.truths if truth.fault == "master_killed")
    others = [row for row in observed.problems if not is_of_a_fault(row, application_of(killed))]
    assert [(row.source, row.kind, row.place, row.message) for row in others] == []


def test_nothing_came_too_late(observed: DaemonsObserved) -> None:
    assert [(row.source, row.type) for row in observed.late_events] == []


def test_it_stops_when_told(observed: DaemonsObserved) -> None:
    assert observed.exit_status == 0
    assert "Traceback" not in observed.log
