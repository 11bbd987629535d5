"""clustercep beside a running cluster: what is found and told, when, and what restarts and reloads leave of it."""

from __future__ import annotations

import signal
from collections import Counter, defaultdict

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.replay.recording import Fault
from app.store.models import AlertRow
from deploy.minicluster.recording.verification import FAULTS
from tests.live.scenario import ENDPOINTS, SWITCHED_OFF, Kept, Observed

BEFORE_THE_JOB_ENDS = {
    "mapper-straggler-running",
    "reducer-straggler-running",
    "queued-data-high",
    "data-pull-straggler",
    "load-imbalance-task",
}
"""Queries on what still runs. The other one needs the end of a reducer, and of its job little is left then."""

SOURCES = {"yarn_rest", "job_history", "container_log", "daemon_log", "ganglia_rrd"}


@pytest.fixture(scope="module")
def kept(observed: Observed) -> Kept:
    assert observed.kept is not None
    return observed.kept


@pytest.fixture(scope="module")
def found(kept: Kept) -> list[tuple[Fault, AlertRow]]:
    alerts = {alert.id: alert for alert in kept.alerts}
    return [(fault, alerts[alert.id]) for fault, alert in kept.verdict.found]


def samples(text: str, family: str, label: str) -> dict[str, float]:
    """Values of a metric by one of its labels, added up over the others."""
    values: defaultdict[str, float] = defaultdict(float)
    for metric in text_string_to_metric_families(text):
        if metric.name == family:
            for sample in metric.samples:
                values[sample.labels.get(label, "")] += sample.value
    return dict(values)


def test_the_workload_did_what_it_should(observed: Observed) -> None:
    assert observed.outcome.problems == []
    assert {truth.fault for truth in observed.outcome.truths} == set(FAULTS)


def test_every_fault_is_found_by_the_query_meant_for_it(kept: Kept) -> None:
    assert kept.verdict.missed == []
    assert {fault.fault for fault, _ in kept.verdict.found} == set(FAULTS)


def test_healthy_jobs_raise_no_alarm(kept: Kept) -> None:
    assert kept.verdict.false_alarms == []


def test_faults_are_found_in_the_live_stream(found: list[tuple[Fault, AlertRow]]) -> None:
    assert {alert.lane for _, alert in found} == {"live"}


def test_what_still_runs_is_found_before_its_job_ends(observed: Observed, found: list[tuple[Fault, AlertRow]]) -> None:
    late = {
        fault.query: alert.created_ms - observed.ended_ms(fault.job_id)
        for fault, alert in found
        if fault.query in BEFORE_THE_JOB_ENDS and alert.created_ms >= observed.ended_ms(fault.job_id)
    }
    assert late == {}
    assert {fault.query for fault, _ in found} >= BEFORE_THE_JOB_ENDS


def test_the_webhook_is_told_of_every_alert_or_of_its_incident(observed: Observed, kept: Kept) -> None:
    told = {delivery.alert_id for delivery in observed.deliveries if delivery.status == "firing"}
    alerts = {alert.id: alert for alert in kept.alerts}

    def is_told(alert: AlertRow) -> bool:
        return alert.id in told or (alert.incident_id is not None and is_told(alerts[alert.incident_id]))

    assert [alert.summary for alert in kept.alerts if not is_told(alert)] == []
    assert Counter(row.status for row in kept.notifications) == {"delivered": len(kept.notifications)}


def test_a_message_has_one_key_however_often_it_comes(observed: Observed, kept: Kept) -> None:
    keys: dict[tuple[str, str], set[str]] = {}
    for delivery in observed.deliveries:
        keys.setdefault((delivery.alert_id, delivery.status), set()).add(delivery.key)
    assert {message: len(found) for message, found in keys.items() if len(found) > 1} == {}
    assert {delivery.key for delivery in observed.deliveries} == {row.idempotency_key for row in kept.notifications}


def test_no_alert_is_there_twice(kept: Kept) -> None:
    keys = Counter((alert.query, alert.key_text) for alert in kept.alerts if alert.merged_into is None)
    assert {key: n for key, n in keys.items() if n > 1} == {}


def test_killed_in_the_middle_it_goes_on_where_it_stood(observed: Observed, kept: Kept) -> None:
    assert observed.killed_status == 128 + signal.SIGKILL
    assert 0 < observed.n_alerts_at_kill < len(kept.alerts)


def test_every_job_and_attempt_is_counted_once(observed: Observed, kept: Kept) -> None:
    n_jobs = len(observed.outcome.jobs)
    n_maps, n_reducers = observed.n_attempts["MAP"], observed.n_attempts["REDUCE"]
    expected = {
        "JobStart": n_jobs, "JobEnd": n_jobs,
        "MapStart": n_maps, "MapEnd": n_maps, "Mapper": n_maps,
        "ReducerStart": n_reducers, "ReducerEnd": n_reducers, "Reducer": n_reducers,
    }  # fmt: skip
    assert {name: kept.n_events(name) for name in expected} == expected


def test_every_container_that_was_killed_is_told(observed: Observed, kept: Kept) -> None:
    assert observed.killed_containers
    assert kept.n_events("ContainerKilled") == len(observed.killed_containers)


def test_nothing_came_too_late(kept: Kept) -> None:
    assert [(row.source, row.type) for row in kept.late_events] == []


def test_a_wrong_configuration_changes_nothing_and_a_right_one_is_taken_over(observed: Observed) -> None:
    refused, accepted = observed.reloads
    assert refused.status == 400
    assert "no-such-query" in refused.text
    assert samples(refused.metrics, "clustercep_reloads", "outcome") == {"success": 0.0, "failure": 1.0}
    assert samples(refused.metrics, "clustercep_last_reload_successful", "") == {"": 0.0}
    assert samples(accepted.metrics, "clustercep_reloads", "outcome") == {"success": 1.0, "failure": 1.0}
    assert samples(accepted.metrics, "clustercep_last_reload_successful", "") == {"": 1.0}


def test_the_query_that_was_switched_off_is_off_after_the_restart_too(observed: Observed) -> None:
    queries = samples(observed.last_metrics, "clustercep_matches", "query")
    assert "queued-data-high" in queries
    assert SWITCHED_OFF not in queries


def test_the_endpoints_answer_all_the_time(observed: Observed) -> None:
    assert {answer.path for answer in observed.answers} == set(ENDPOINTS)
    assert [(answer.path, answer.status, answer.text) for answer in observed.answers if answer.status != 200] == []


def test_the_metrics_count_events_of_every_source(observed: Observed) -> None:
    by_source: Counter[str] = Counter()
    for answer in observed.answers:
        if answer.path == "/metrics":
            for family in ("clustercep_events", "clustercep_duplicate_events"):
                for source, n in samples(answer.text, family, "source").items():
                    by_source[source] = max(by_source[source], int(n))
    assert {source for source, n in by_source.items() if n > 0} == SOURCES
    polls = samples(observed.last_metrics, "clustercep_polls", "source")
    assert {source for source, n in polls.items() if n > 0} == SOURCES


def test_every_source_works_to_the_end(kept: Kept) -> None:
    assert {row.name for row in kept.sources} == SOURCES
    assert {row.name: row.last_error for row in kept.sources if row.last_error or row.left_out} == {}


def test_the_store_lists_no_problem(kept: Kept) -> None:
    assert [(row.source, row.kind, row.place, row.message) for row in kept.problems] == []


def test_it_stops_when_told(observed: Observed) -> None:
    assert observed.exit_status == 0
    assert "Traceback" not in observed.log
