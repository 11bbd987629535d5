"""Figures about the process itself, for Prometheus: one registry per instance.

Labels are names from the configuration and from tables of this program (sources, event types, queries, receivers);
nothing that the cluster can name (jobs, hosts, users) becomes a label, so that the number of series is bounded.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from itertools import product

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)

from app.alerting.lifecycle import State
from app.alerting.recording.report_rows import HISTORY, LIVE
from app.clock import Clock
from app.live.assembly import Live
from app.live.ordering.order import Statistic
from app.live.pipeline import Step
from app.process.metrics.gauges import LiveFigures
from app.process.metrics.store import StoreCounts

DURATION_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""From a step without anything new to one that takes longer than a poll's interval."""

SUCCESS = "success"
FAILURE = "failure"
OUTCOMES = ("delivered", "retried", "failed")
OUTAGES = ("store", "disk")
"""Failures that steps wait out, as `Runner.n_outages` counts them."""

STEP_FAILURES = (*OUTAGES, "defect")

# A second series beside each counter, which says when this process began: process metrics do.
disable_created_metrics()  # type: ignore[no-untyped-call]  # untyped there


class Metrics:
    """Counters and histograms as things happen; gauges of the live path and the store when they are read."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._figures: LiveFigures | None = None
        self._prepared: tuple[tuple[str, ...], ...] = ()
        self._store_out = False
        self._define_events()
        self._define_alerts()
        self._define_process()

    # ------------------------------------------------------------ what happens

    def polled(self, source: str, seconds: float, succeeded: bool) -> None:
        """A poll ended; `seconds` is how long it took."""
        self._polls.labels(source, SUCCESS if succeeded else FAILURE).inc()
        self._poll_seconds.labels(source).observe(seconds)

    def write_answered(self, status: int) -> None:
        """A request of remote write was answered."""
        self._writes.labels(str(status)).inc()

    def stepped(self, step: Step, seconds: float) -> None:
        """A step was stored. To be called in the thread that makes the steps: it looks at the live path."""
        self._store_out = False
        self._step_seconds.observe(seconds)
        self._released.inc(step.n_events)
        for statistic, n in step.counters.items():
            self._count(statistic, n)
        for (query, state), n in step.outcome.n_changes.items():
            self._alert_changes.labels(query, state).inc(n)
        if self._figures is not None:
            self._prepare(self._figures.look())

    def step_failed(self, reason: str) -> None:
        """A step failed: "store", "disk" or "defect". Failures of store and disk in a row are one outage."""
        self._failed_steps.labels(reason).inc()
        if reason in OUTAGES and not self._store_out:
            self._store_outages.inc()
            self._store_out = True

    def clock_jumped(self) -> None:
        """The machine's clock jumped, or a jump turned out to last."""
        self._clock_jumps.inc()

    def delivered(self, receiver: str, outcome: str, reason: str) -> None:
        """An attempt to tell a receiver ended: "delivered", "retried" (it will be tried again) or "failed" for good."""
        self._notifications.labels(receiver, outcome).inc()
        if reason:
            self._notification_failures.labels(receiver, reason).inc()

    def reloaded(self, succeeded: bool, now_ms: int) -> None:
        """Configuration and queries were read again, with success or refused."""
        self._reloads.labels(SUCCESS if succeeded else FAILURE).inc()
        self._reload_ok.set(succeeded)
        if succeeded:
            self._reload_time.set(now_ms / 1000)

    def watch(self, live: Callable[[], Live], store: StoreCounts, clock: Clock) -> None:
        """Show the live path and the store from now on; `live` gives the current one. At most once."""
        self._figures = LiveFigures(live, store, clock)
        self._prepare(self._figures.look())
        self._reload_ok.set(1)
        self._reload_time.set(clock.now_ms() / 1000)
        self.registry.register(self._figures)

    # -------------------------------------------------------------- definitions

    def _define_events(self) -> None:
        by_type = ("source", "type")
        names = {
            "events": ("clustercep_events", "Events that entered, once each."),
            "duplicates": ("clustercep_duplicate_events", "Further copies of known events."),
            "late": ("clustercep_late_events", "Events after their watermark: stored, not matched."),
            "history": ("clustercep_history_events", "Events of finished jobs that were not followed live."),
        }
        self._by_type = {
            name: Counter(metric, text, by_type, registry=self.registry) for name, (metric, text) in names.items()
        }
        self._rejected = self._counter("clustercep_rejected_events", "Events that could not be taken in.", "source")
        self._unselected = self._counter(
            "clustercep_unselected_samples", "Samples of exporters that the settings do not choose.", "source"
        )
        self._writes = self._counter("clustercep_remote_write_requests", "Requests of remote write.", "status")
        for status in ("204", "400", "401", "413", "503"):
            self._writes.labels(status)
        self._released = self._counter("clustercep_released_events", "Events that the watermark passed.")
        self._polls = self._counter("clustercep_polls", "Polls of sources.", "source", "outcome")
        self._poll_seconds = Histogram(
            "clustercep_poll_duration_seconds",
            "How long polls took.",
            ("source",),
            buckets=DURATION_BUCKETS_S,
            registry=self.registry,
        )

    def _define_alerts(self) -> None:
        self._matches = self._counter("clustercep_matches", "Matches (of counted rows: their count).", "query", "lane")
        self._rows = self._counter("clustercep_match_rows", "Rows that queries returned.", "query", "lane")
        self._by_query = {"matches": self._matches, "rows": self._rows}
        self._alert_changes = self._counter(
            "clustercep_alert_changes", "Changes of alerts to a state, made by this process.", "query", "state"
        )
        self._notifications = self._counter(
            "clustercep_notifications", "Attempts to tell a receiver.", "receiver", "outcome"
        )
        self._notification_failures = self._counter(
            "clustercep_notification_failures", "Attempts that failed.", "receiver", "reason"
        )

    def _define_process(self) -> None:
        self._step_seconds = Histogram(
            "clustercep_step_duration_seconds",
            "How long steps took: matching, checkpoint and store together.",
            buckets=DURATION_BUCKETS_S,
            registry=self.registry,
        )
        self._failed_steps = self._counter("clustercep_failed_steps", "Steps that were undone.", "reason")
        self._store_outages = self._counter(
            "clustercep_store_outages", "Times that the store or its disk refused, once each."
        )
        self._clock_jumps = self._counter(
            "clustercep_clock_jumps", "Jumps of the machine's clock, and those that lasted once more."
        )
        for reason in STEP_FAILURES:
            self._failed_steps.labels(reason)
        self._reloads = self._counter("clustercep_reloads", "Reloads of configuration and queries.", "outcome")
        for outcome in (SUCCESS, FAILURE):
            self._reloads.labels(outcome)
        self._reload_ok = Gauge(
            "clustercep_last_reload_successful",
            "Whether the configuration that was read last is the one in use.",
            registry=self.registry,
        )
        self._reload_time = Gauge(
            "clustercep_last_reload_success_timestamp_seconds",
            "When the configuration in use was read.",
            registry=self.registry,
        )
        build = Info("clustercep_build", "Version of the program.", registry=self.registry)
        build.info({"version": program_version(), "python_version": platform.python_version()})
        ProcessCollector(registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    # ------------------------------------------------------------------ counting

    def _count(self, statistic: Statistic, n: int) -> None:
        """One entry of a step's counters, as it is added to the table of statistics; polls are counted as they end."""
        name, source, event_type = statistic
        if name in self._by_type:
            self._by_type[name].labels(source, event_type).inc(n)
        elif name in self._by_query:
            self._by_query[name].labels(event_type, source).inc(n)  # (statistic, lane, query)
        elif name == "rejected":
            self._rejected.labels(source).inc(n)
        elif name == "unselected":
            self._unselected.labels(source).inc(n)

    def _prepare(self, live: Live) -> None:
        """Series that are known beforehand start at 0: a rate would miss the first increment of one that appears."""
        alerting = live.pipeline.alerting
        names = tuple(live.sources), tuple(alerting.queries), tuple(alerting.receivers)
        if names == self._prepared:
            return
        self._prepared = names
        for source in live.sources:
            self._rejected.labels(source)
            self._unselected.labels(source)
            self._poll_seconds.labels(source)
            for outcome in (SUCCESS, FAILURE):
                self._polls.labels(source, outcome)
        for query, info in alerting.queries.items():
            for counter, lane in product(self._by_query.values(), (LIVE, HISTORY)):
                counter.labels(query, lane)
            for state in () if info.is_report else State:
                self._alert_changes.labels(query, state.value)
        for receiver, outcome in product(alerting.receivers, OUTCOMES):
            self._notifications.labels(receiver, outcome)


def program_version() -> str:
    """As installed; "unknown" when it runs from a folder."""
    try:
        return version("clustercep")
    except PackageNotFoundError:
        return "unknown"
