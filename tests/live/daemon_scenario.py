"""One run: a cluster whose daemons are hit by one fault after the other, then jobs that are; clustercep beside it."""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from app.config import load_settings
from app.live.assembly import open_configured_store
from app.replay.demo import seen_alerts
from app.replay.ground_truth import Verdict, finds
from app.replay.recording import Fault
from app.store.api import MAX_ROWS, AlertFilter, Store
from app.store.models import AlertRow, LateEventRow, ProblemRow, SourceStatusRow
from deploy.minicluster import settings as cluster_settings
from deploy.minicluster.daemons import watching
from deploy.minicluster.daemons.cluster import SETTINGS, DaemonCluster
from deploy.minicluster.daemons.faults import ROUNDS, DaemonFault
from deploy.minicluster.workload.faults import Truth, now_ms
from deploy.minicluster.workload.workload import Outcome, Workload
from tests.live import scenario
from tests.live.process import ROOT, Clustercep, run_to_end
from tests.live.scenario import NewAlerts, Say, jobs_running, verdict_of

QUIET_S = 10.0
"""Some polls of a cluster that nothing is wrong with."""
TOLD_WITHIN_S = 90.0
WORKLOAD_WITHIN_S = 780.0
SETTLE_WITHIN_S = 60.0


@dataclass
class DaemonsObserved:
    """What the run showed."""

    outcome: Outcome = field(default_factory=Outcome)
    truths: list[Truth] = field(default_factory=list)
    n_alerts_before: int = 0
    """When no fault had been injected yet."""
    alerts: list[AlertRow] = field(default_factory=list)
    problems: list[ProblemRow] = field(default_factory=list)
    late_events: list[LateEventRow] = field(default_factory=list)
    sources: list[SourceStatusRow] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    last_metrics: str = ""
    exit_status: int | None = None
    log: str = ""


def run(say: Say) -> DaemonsObserved:
    """Everything; raises AssertionError or MiniClusterError when it cannot be done. Leaves no process behind."""
    settings = cluster_settings.load(SETTINGS)
    settings = dataclasses.replace(settings, library_dir=ROOT / settings.library_dir)
    scenario.compile_queries(say)
    say("starting the cluster")
    with DaemonCluster(settings) as cluster:
        say("the cluster is healthy")
        clustercep = configured(cluster)
        try:
            return _Scenario(cluster, clustercep, say).play()
        finally:
            clustercep.end()


def configured(cluster: DaemonCluster) -> Clustercep:
    """The configuration for this cluster, at a free port."""
    port = scenario.free_port()
    path = cluster.settings.work_dir / "live.yaml"
    scenario.write_config(path, watching.render(cluster.settings, cluster.ports) | {"web": {"port": port}})
    return Clustercep(path, cluster.settings.work_dir / "logs" / "clustercep.err", port)


class _Scenario:
    def __init__(self, cluster: DaemonCluster, clustercep: Clustercep, say: Say) -> None:
        self._cluster = cluster
        self._clustercep = clustercep
        self._say = say
        self._alerts = NewAlerts(say)
        self.observed = DaemonsObserved()

    def play(self) -> DaemonsObserved:
        observed, log = self.observed, self._clustercep.log.with_name("check.err")
        self._say(run_to_end(["check", "--config", str(self._clustercep.config)], log, scenario.READY_WITHIN_S))
        self._clustercep.start()
        self._say(f"clustercep is ready after {self._clustercep.wait_until_ready(scenario.READY_WITHIN_S):.1f} s")
        with open_configured_store(load_settings(self._clustercep.config, {})) as store:
            self._look_for(store, QUIET_S)
            observed.n_alerts_before = store.n_alerts()
            for faults in ROUNDS:
                self._inject(store, faults)
            workload = Workload(self._cluster, self._say)
            with jobs_running(workload) as running:
                deadline_s = time.monotonic() + WORKLOAD_WITHIN_S
                while running():
                    assert time.monotonic() < deadline_s, f"the jobs have not ended in {WORKLOAD_WITHIN_S:.0f} s"
                    self._look(store)
            observed.outcome = workload.outcome
            observed.truths += workload.outcome.truths
            self._settle(store)
            observed.last_metrics = self._clustercep.ask("/metrics").text
            self._clustercep.send(signal.SIGTERM)
            observed.exit_status = self._clustercep.wait(scenario.STOP_WITHIN_S)
            self._read(store)
        observed.log = self._clustercep.log.read_text(encoding="utf-8")
        return observed

    def _inject(self, store: Store, faults: Sequence[DaemonFault]) -> None:
        from_ms = now_ms()
        hit: list[tuple[DaemonFault, str | None]] = []
        with ExitStack() as injected:
            for fault in faults:
                self._say(f"{fault.name} on {fault.host}: {fault.note}")
                host = self._cluster.host(fault.host)
                hit.append((fault, injected.enter_context(fault.injected(self._cluster, host))))
            self._until_told(store, hit, from_ms, afterwards=False)
        self._until_told(store, hit, from_ms, afterwards=True)
        self._cluster.wait_until_whole()
        to_ms = now_ms()
        for fault, application in hit:
            self.observed.truths += fault.truths(from_ms, to_ms, application)
        self._say(f"{', '.join(fault.name for fault in faults)}: over")

    def _until_told(
        self, store: Store, hit: Sequence[tuple[DaemonFault, str | None]], from_ms: int, *, afterwards: bool
    ) -> None:
        """Or until time is up: what was missed is seen at the end. `hit`: faults with applications that they hit."""
        deadline_s = time.monotonic() + TOLD_WITHIN_S
        while time.monotonic() < deadline_s:
            truths = [
                truth
                for fault, application in hit
                for truth in fault.truths(from_ms, now_ms(), application)
                if afterwards or truth.query not in fault.afterwards
            ]
            if _all_found(store, truths):
                return
            self._look(store)

    def _look_for(self, store: Store, seconds: float) -> None:
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s:
            self._look(store)

    def _look(self, store: Store) -> None:
        self._alerts.tell(store)
        assert self._clustercep.is_running(), f"clustercep has ended; see {self._clustercep.log}"
        time.sleep(0.5)

    def _settle(self, store: Store) -> None:
        """Wait for alerts on what happened last."""
        self._say("the workload has ended; waiting for what is still on its way")
        deadline_s = time.monotonic() + SETTLE_WITHIN_S
        while time.monotonic() < deadline_s and not _all_found(store, self.observed.truths):
            self._look(store)
        self._look_for(store, QUIET_S)

    def _read(self, store: Store) -> None:
        observed = self.observed
        observed.alerts = store.alerts(AlertFilter(limit=MAX_ROWS))
        observed.problems = store.problems(MAX_ROWS)
        observed.late_events = store.late_events(MAX_ROWS)
        observed.sources = store.source_status()
        observed.verdict = verdict_of(store, observed.truths, observed.outcome.jobs)


def _all_found(store: Store, truths: Iterable[Truth]) -> bool:
    alerts = seen_alerts(store)
    faults = [Fault.model_validate(truth.as_dict()) for truth in truths]
    return all(any(finds(alert, fault) for alert in alerts) for fault in faults)
