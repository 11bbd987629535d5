"""One run: the cluster, clustercep beside it, the workload with its faults, and what an operator does meanwhile."""

from __future__ import annotations

import dataclasses
import re
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from app.config import load_settings
from app.live.assembly import open_configured_store
from app.replay.demo import seen_alerts
from app.replay.ground_truth import Verdict, judge
from app.replay.recording import Fault, RecordedJob
from app.store.api import MAX_ROWS, AlertFilter, Store
from app.store.models import (
    AlertRow,
    LateEventRow,
    NotificationRow,
    ProblemRow,
    ProcessStatusRow,
    SourceStatusRow,
    StatisticRow,
)
from deploy.minicluster import settings as cluster_settings
from deploy.minicluster import watch_config
from deploy.minicluster.cluster import Cluster
from deploy.minicluster.workload.faults import Truth
from deploy.minicluster.workload.workload import FinishedJob, Outcome, Workload
from tests.live.process import ROOT, Answer, Clustercep, run_to_end
from tests.live.sink import Deliveries, Delivery, listening

LIVE_CONFIG = ROOT / "deploy" / "minicluster" / "live.yaml"
COMPILED_WITHIN_S = 400.0
READY_WITHIN_S = 180.0
RELOADED_WITHIN_S = 120.0
"""A reload waits for the step under way."""
WORKLOAD_WITHIN_S = 720.0
SETTLE_WITHIN_S = 90.0
STOP_WITHIN_S = 90.0
ASK_EVERY_S = 5.0
ENDPOINTS = ("/-/healthy", "/-/ready", "/metrics")
SWITCHED_OFF = "queued-data"
"""The report that is switched off by a reload in the middle."""

Say = Callable[[str], None]


@dataclass
class Kept:
    """What is in clustercep's store."""

    alerts: list[AlertRow]
    notifications: list[NotificationRow]
    problems: list[ProblemRow]
    late_events: list[LateEventRow]
    statistics: list[StatisticRow]
    sources: list[SourceStatusRow]
    process: ProcessStatusRow | None
    verdict: Verdict

    def n_events(self, event_type: str) -> int:
        """How many events of a type entered, each once."""
        return sum(row.value for row in self.statistics if (row.name, row.type) == ("events", event_type))


@dataclass
class Reload:
    """A reload that was asked for, and what came of it."""

    how: str
    status: int
    text: str
    metrics: str


@dataclass
class Observed:
    """What the run showed."""

    outcome: Outcome = field(default_factory=Outcome)
    finished_ms: dict[str, int] = field(default_factory=dict)
    """When each job ended, as the JobHistoryServer says."""
    answers: list[Answer] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    reloads: list[Reload] = field(default_factory=list)
    n_alerts_at_kill: int = 0
    killed_status: int | None = None
    ready_again_s: float = 0.0
    last_metrics: str = ""
    exit_status: int | None = None
    stopped_in_s: float = 0.0
    log: str = ""
    n_attempts: Counter[str] = field(default_factory=Counter)
    """How many attempts of each type (MAP, REDUCE) have run, as the JobHistoryServer says."""
    killed_containers: set[str] = field(default_factory=set)
    """Whose NodeManager says in its log that it is killed."""
    kept: Kept | None = None

    def ended_ms(self, job_id: str | None) -> int:
        """When the job of an alert ended."""
        return self.finished_ms[job_id or ""]


def run(say: Say) -> Observed:
    """Everything; raises AssertionError or MiniClusterError when it cannot be done. Leaves no process behind."""
    settings = cluster_settings.load(LIVE_CONFIG)
    settings = dataclasses.replace(settings, library_dir=ROOT / settings.library_dir)
    compile_queries(say)
    say("starting the cluster")
    with listening() as deliveries, Cluster(settings) as cluster:
        say("the cluster is healthy")
        clustercep = configured(cluster, deliveries)
        try:
            return Scenario(cluster, clustercep, deliveries, say).play()
        finally:
            clustercep.end()


def compile_queries(say: Say) -> None:
    """Where that was not done yet: an operator would wait for that, the faults do not."""
    with tempfile.TemporaryDirectory() as logs:
        log = Path(logs) / "test.log"
        say(run_to_end(["test", str(watch_config.QUERIES)], log, COMPILED_WITHIN_S).splitlines()[-1])


def configured(cluster: Cluster, deliveries: Deliveries) -> Clustercep:
    """The configuration that the cluster comes with, with a webhook and a free port."""
    port = free_port()
    content = watch_config.render(cluster.settings, cluster.ports)
    content["web"] = {"port": port}
    content["alerting"] = {"receivers": {"sink": {"url": deliveries.url}}}
    path = cluster.settings.work_dir / "live.yaml"
    write_config(path, content)
    return Clustercep(path, cluster.settings.work_dir / "logs" / "clustercep.err", port)


def write_config(path: Path, content: dict[str, Any]) -> None:
    """Replace the configuration in one go."""
    part = path.with_suffix(".part")
    part.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    part.rename(path)


def free_port() -> int:
    """A port of loopback that nobody has just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def n_events(store: Store, event_type: str) -> int:
    """How many events of a type have entered."""
    return sum(row.value for row in store.statistics("events") if row.type == event_type)


def killed_containers(logs: Path) -> set[str]:
    """Containers that NodeManagers have killed."""
    return {
        found[1]
        for path in logs.glob("nodemanager-*.log")
        for found in re.finditer(r"Container (\S+) transitioned from \w+ to KILLING", path.read_text(encoding="utf-8"))
    }


@contextmanager
def jobs_running(workload: Workload) -> Iterator[Callable[[], bool]]:
    """Run it beside the block, which is given whether it still runs; at the block's end it is ended."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            workload.run()
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield thread.is_alive
    finally:
        workload.stop()
        thread.join(60)
    if failures:
        raise failures[0]


class NewAlerts:
    """Says each alert once."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._seen: set[str] = set()

    def tell(self, store: Store) -> None:
        """Those that were not told before."""
        for alert in store.alerts(AlertFilter(limit=MAX_ROWS)):
            if alert.id not in self._seen:
                self._seen.add(alert.id)
                self._say(f"alert {alert.query} [{alert.lane}]: {alert.summary}")


def verdict_of(store: Store, truths: Iterable[Truth], jobs: Iterable[FinishedJob]) -> Verdict:
    """The alerts of a store beside what was injected."""
    faults = [Fault.model_validate(truth.as_dict()) for truth in truths]
    recorded = [RecordedJob.model_validate(job.as_dict()) for job in jobs]
    # An incident stands for alerts that are judged by themselves.
    incidents = {alert.id for alert in store.alerts(AlertFilter(limit=MAX_ROWS)) if alert.is_incident}
    return judge([alert for alert in seen_alerts(store) if alert.id not in incidents], faults, recorded)


class Scenario:
    """The steps of one run."""

    def __init__(self, cluster: Cluster, clustercep: Clustercep, deliveries: Deliveries, say: Say) -> None:
        self._cluster = cluster
        self._clustercep = clustercep
        self._deliveries = deliveries
        self._say = say
        self._workload = Workload(cluster, say)
        self._alerts = NewAlerts(say)
        self._asked_s = 0.0
        self.observed = Observed()

    def play(self) -> Observed:
        """From the start of clustercep to its end."""
        log = self._clustercep.log.with_name("check.err")
        self._say(run_to_end(["check", "--config", str(self._clustercep.config)], log, READY_WITHIN_S))
        self._clustercep.start()
        self._say(f"clustercep is ready after {self._clustercep.wait_until_ready(READY_WITHIN_S):.1f} s")
        with open_configured_store(load_settings(self._clustercep.config, {})) as store:
            with jobs_running(self._workload) as running:
                self._go_on_until(store, lambda: n_events(store, "MapEnd") > 0, running, "a map has ended")
                self._reload()
                self._go_on_until(store, lambda: bool(self._deliveries.received), running, "the webhook was called")
                self._kill_and_restart(store)
                self._go_on_until(store, lambda: not running(), running, "all jobs have ended")
            self.observed.outcome = self._workload.outcome
            self._settle(store)
            self._stop()
            self.observed.kept = self._read(store)
        self.observed.killed_containers = killed_containers(self._cluster.settings.work_dir / "logs")
        self.observed.log = self._clustercep.log.read_text(encoding="utf-8")
        self.observed.deliveries = list(self._deliveries.received)
        return self.observed

    def _go_on_until(self, store: Store, condition: Callable[[], bool], running: Callable[[], bool], what: str) -> None:
        """Look at alerts and endpoints until the condition holds; it must while the workload runs."""
        deadline_s = time.monotonic() + WORKLOAD_WITHIN_S
        while not condition():
            self._look(store)
            assert running() or condition(), f"the workload ended before {what}"
            assert time.monotonic() < deadline_s, f"not in {WORKLOAD_WITHIN_S:.0f} s: {what}"
            assert self._clustercep.is_running(), f"clustercep ended before {what}; see {self._clustercep.log}"
            time.sleep(1)

    def _look(self, store: Store) -> None:
        """Tell about alerts that are new, and ask the endpoints now and then."""
        self._alerts.tell(store)
        if time.monotonic() >= self._asked_s + ASK_EVERY_S:
            self._asked_s = time.monotonic()
            self.observed.answers += [self._clustercep.ask(path) for path in ENDPOINTS]

    def _reload(self) -> None:
        """First a configuration that is wrong, then one with a query less."""
        path = self._clustercep.config
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        write_config(path, {**content, "queries": {**content["queries"], "disabled": ["no-such-query"]}})
        refused = self._clustercep.ask("/-/reload", "POST", timeout_s=60)
        self._note_reload("POST, wrong", refused)
        write_config(path, {**content, "queries": {**content["queries"], "disabled": [SWITCHED_OFF]}})
        self._clustercep.send(signal.SIGHUP)
        wanted = 'clustercep_reloads_total{outcome="success"} 1.0'
        deadline_s = time.monotonic() + RELOADED_WITHIN_S
        while wanted not in (answer := self._clustercep.ask("/metrics")).text and time.monotonic() < deadline_s:
            time.sleep(0.5)
        self._note_reload("SIGHUP, right", answer)

    def _note_reload(self, how: str, answer: Answer) -> None:
        metrics = self._clustercep.ask("/metrics").text
        self.observed.reloads.append(Reload(how, answer.status, answer.text, metrics))
        first_line = "" if how.startswith("SIGHUP") else answer.text.strip().splitlines()[0]
        self._say(f"reload ({how}): {answer.status} {first_line}")

    def _kill_and_restart(self, store: Store) -> None:
        self.observed.n_alerts_at_kill = store.n_alerts()
        self._clustercep.send(signal.SIGKILL)
        self.observed.killed_status = self._clustercep.wait(STOP_WITHIN_S)
        self._clustercep.start()
        self.observed.ready_again_s = self._clustercep.wait_until_ready(READY_WITHIN_S)
        self._say(f"killed by SIGKILL and started again: ready after {self.observed.ready_again_s:.1f} s")

    def _settle(self, store: Store) -> None:
        """Wait for alerts on what happened last, and for their delivery."""
        for job in self.observed.outcome.jobs:
            answer = self._workload.api.finished_job(job.job_id)
            self.observed.finished_ms[job.job_id] = int(answer["finishTime"])
            attempts = self._workload.api.finished_attempts(job.job_id)
            self.observed.n_attempts.update(str(attempt["type"]) for attempt in attempts if attempt["startTime"])
        self._say("the workload has ended; waiting for what is still on its way")
        deadline_s = time.monotonic() + SETTLE_WITHIN_S
        while time.monotonic() < deadline_s:
            self._look(store)
            pending = store.n_notifications_by_status().get("pending", 0)
            if not self._verdict(store).missed and not pending and self._all_jobs_ended(store):
                break
            time.sleep(1)
        self.observed.last_metrics = self._clustercep.ask("/metrics").text

    def _all_jobs_ended(self, store: Store) -> bool:
        return n_events(store, "JobEnd") >= len(self.observed.outcome.jobs)

    def _stop(self) -> None:
        started_s = time.monotonic()
        self._clustercep.send(signal.SIGTERM)
        self.observed.exit_status = self._clustercep.wait(STOP_WITHIN_S)
        self.observed.stopped_in_s = time.monotonic() - started_s
        self._say(f"SIGTERM: status {self.observed.exit_status} after {self.observed.stopped_in_s:.1f} s")

    def _verdict(self, store: Store) -> Verdict:
        return verdict_of(store, self.observed.outcome.truths, self.observed.outcome.jobs)

    def _read(self, store: Store) -> Kept:
        return Kept(
            alerts=store.alerts(AlertFilter(limit=MAX_ROWS)),
            notifications=store.notifications(),
            problems=store.problems(MAX_ROWS),
            late_events=store.late_events(MAX_ROWS),
            statistics=store.statistics(),
            sources=store.source_status(),
            process=store.process_status(),
            verdict=self._verdict(store),
        )
