"""What the demo's alerts tell, against the recording's ground truth and a second reading of its files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.config import load_settings
from app.durations import format_duration, format_size
from app.replay.demo import DemoResult
from app.replay.recording import Fault, read_manifest
from app.store import open_store
from app.store.api import AlertFilter
from app.store.models import AlertRow
from tests.app.second_reading import STEP_MS, Called, SecondReading

ROOT = Path(__file__).parents[3]

TITLES = {
    "mapper-straggler-running": (
        "mapper {subject} on {host} runs for {elapsed_ms:d}; {n_finished} finished ones took {avg_finished_ms:d} on "
        "average"
    ),
    "reducer-straggler-running": (
        "reducer {subject} on {host} runs for {elapsed_ms:d}; {n_finished} finished ones took {avg_finished_ms:d} on "
        "average"
    ),
    "data-pull-straggler": "slow fetch from {host}: {period_ms:d} for {bytes:s} to reducer {subject} on ",
    "daemon-paused": "NodeManager on {host} stood still for {pause_ms:d}",
    "queued-data-high": "{queued_bytes.last:s} of map output wait for reducers, {queued_bytes:s} at worst",
    "load-imbalance-task": "while reducer {subject} runs: {host} is furthest from the mean (cpu_user {value_1:p})",
    "imbalance-window-task": (
        "since reducer {subject} runs: {host} is furthest from the mean (cpu_user {value_1:p}), standard deviation "
        "{std_now:p} at worst, {std_now.last:p} at last"
    ),
}
"""What a title must tell of what was called for; d: a duration, s: a size, p: percent."""

TOLERANCE_MS = 2
"""Histories and logs round a clock's time each in its own way."""


@pytest.fixture(scope="module")
def recording(demo: DemoResult) -> Path:
    return demo.store_directory.parent / "recording" / "recording"


@pytest.fixture(scope="module")
def alerts(demo: DemoResult) -> Iterator[list[AlertRow]]:
    with open_store(f"sqlite:///{demo.store_directory / 'clustercep.db'}") as store:
        told = store.alerts(AlertFilter(limit=1_000))
        yield [alert for alert in told if alert.merged_into is None and not alert.is_incident]


@pytest.fixture(scope="module")
def called(recording: Path) -> list[Called]:
    settings = load_settings(ROOT / "config.yaml", {})
    threshold = settings.demo.parameters["queued-data-high"]["max_queued_bytes"]
    assert isinstance(threshold, int)
    return SecondReading(recording).called(threshold)


def subject(alert: AlertRow) -> str:
    values = alert.values
    return str(values.get("attempt_id") or values.get("job_id") or values["host"])


def written(template: str, one: Called) -> str:
    told: dict[str, Any] = {"{subject}": one.subject, "{host}": one.hosts[0] if one.hosts else ""}
    for name, value in one.numbers.items():
        told |= {
            f"{{{name}}}": value, f"{{{name}:p}}": f"{value:.4g} %",
            f"{{{name}:d}}": format_duration(value), f"{{{name}:s}}": format_size(value),
        }  # fmt: skip
    for placeholder, text in told.items():
        template = template.replace(placeholder, str(text))
    assert "{" not in template
    return template


def test_the_alerts_are_those_that_the_files_call_for(alerts: list[AlertRow], called: list[Called]) -> None:
    found = sorted((alert.query, subject(alert)) for alert in alerts)
    assert found == sorted((one.query, one.subject) for one in called)
    assert len(found) == 11


def test_host_number_and_times_of_every_alert(alerts: list[AlertRow], called: list[Called]) -> None:
    by_subject = {(alert.query, subject(alert)): alert for alert in alerts}
    for one in called:
        alert = by_subject[one.query, one.subject]
        where = f"{one.query} of {one.subject}"
        suspects = tuple(named.host for named in alert.hosts if named.role == "suspect")
        assert suspects == one.hosts, where
        assert written(TITLES[one.query], one) in alert.summary, where
        shown = {name: value for name, value in one.numbers.items() if "." not in name}
        assert {name: alert.values[name] for name in shown} == pytest.approx(shown, rel=1e-9), where
        earliest_ms, latest_ms = one.onset_ms
        assert earliest_ms - TOLERANCE_MS <= alert.onset_ms <= latest_ms + TOLERANCE_MS, where
        assert abs(alert.last_seen_ms - one.last_ms) <= TOLERANCE_MS, where
        assert alert.start_ms <= alert.onset_ms <= alert.raised_ms, where


def test_no_title_has_raw_milliseconds_or_bytes(alerts: list[AlertRow]) -> None:
    for alert in alerts:
        assert " ms" not in alert.summary.replace(f"{alert.values.get('avg_before_ms', 0):.0f} ms", ""), alert.summary
        assert "bytes" not in alert.summary, alert.summary
        assert "unknown" not in alert.summary, alert.summary


def test_the_first_alert_of_each_fault_names_its_suspect(recording: Path, alerts: list[AlertRow]) -> None:
    """In its title and as its first host; a fault without a host has its job."""
    faults = read_manifest(recording / "manifest.yaml").ground_truth
    assert len({fault.fault for fault in faults}) == 5
    for fault in faults:
        first = min(of_fault(fault, alerts), key=lambda alert: (alert.raised_ms, alert.id))
        hosts = [named.host for named in first.hosts]
        if fault.all_hosts:
            assert hosts[0] in fault.all_hosts, fault.fault
            assert any(f" {host}" in first.summary for host in fault.all_hosts), first.summary
        else:
            assert hosts == []
            assert fault.job_id is not None
            assert fault.job_id in first.summary


def of_fault(fault: Fault, alerts: list[AlertRow]) -> list[AlertRow]:
    return [alert for alert in alerts if alert.query == fault.query and alert.values.get("job_id") == fault.job_id]


@pytest.mark.parametrize("query", ["load-imbalance-task", "imbalance-window-task"])
def test_load_imbalance_is_told_while_it_lasts(recording: Path, alerts: list[AlertRow], query: str) -> None:
    """Not only when the reducers have ended."""
    (fault,) = [f for f in read_manifest(recording / "manifest.yaml").ground_truth if f.query == query]
    found = of_fault(fault, alerts)
    assert found
    for alert in found:
        # The first unbalanced step may have begun before it.
        assert fault.from_ms - STEP_MS <= alert.onset_ms <= alert.raised_ms <= fault.to_ms
