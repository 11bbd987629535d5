"""Gauges that are read when Prometheus asks: watermarks, queues, engine and store.

A scrape waits for nobody: the live path is looked at by the thread that makes the steps, and the store by a thread of
its own, for which a scrape waits a moment only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import engine
from app.clock import Clock
from app.errors import StoreError
from app.live.assembly import Live
from app.live.watermarks import NEVER_MS
from app.shedding_losses import overload_figures
from app.store.status import OverloadFigures, SheddingFigures
from engine.events import FOREVER_MS

log = structlog.get_logger(__name__)

STORE_WAIT_S = 1.0

_Number = TypeVar("_Number", int, float)


class StoreCounts(Protocol):
    """What the figures need of app.store.Store; all raise StoreError."""

    def n_open_alerts(self) -> dict[tuple[str, bool, str], int]:
        """Open alerts by (state, whether it is silenced, severity)."""
        ...

    def n_notifications(self) -> dict[tuple[str, str], int]:
        """Notifications by (receiver, status)."""
        ...

    def group_figures(self) -> dict[str, tuple[int, int]]:
        """Groups of alerts by receiver: how many, and since when the oldest waits of which nothing was told."""
        ...

    def receivers_down(self) -> dict[str, int]:
        """Receivers that take no messages, and since when (ms)."""
        ...


@dataclass(frozen=True)
class QueryFigures:
    """One query since its engine was made."""

    n_events: int
    n_kept: int
    n_rejected: int
    n_unfinished: int
    seconds: float
    n_limited: int = 0


@dataclass(frozen=True)
class PathFigures:
    """The live path after a step."""

    looked_ms: int
    combined_ms: int
    sources: Mapping[str, tuple[int, bool]]
    """(watermark, whether it is left out), by source."""
    n_waiting: int
    n_recent: int
    queries: Mapping[str, QueryFigures]
    overload: OverloadFigures | None = None
    """None: no bound is set."""

    @classmethod
    def of(cls, live: Live, now_ms: int) -> PathFigures:
        """Look at a path that is not at work."""
        pipeline = live.pipeline
        return cls(
            looked_ms=now_ms,
            combined_ms=pipeline.order.watermarks.combined_ms,
            sources=pipeline.order.watermarks.by_source(),
            n_waiting=pipeline.order.n_waiting,
            n_recent=len(pipeline.recent),
            queries=_queries(pipeline.matcher),
            overload=overload_figures(pipeline.matcher),
        )


def _queries(matcher: object) -> dict[str, QueryFigures]:
    if not isinstance(matcher, engine.Engine):
        return {}
    return {
        name: QueryFigures(
            counted.n_events,
            counted.n_kept,
            counted.n_rejected,
            counted.n_unfinished,
            counted.seconds,
            counted.n_limited,
        )
        for name, counted in matcher.statistics.items()
    }


@dataclass(frozen=True)
class StoredFigures:
    """What the store holds."""

    open_alerts: Mapping[tuple[str, bool, str], int]
    notifications: Mapping[tuple[str, str], int]
    receivers_down: Mapping[str, int]
    groups: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By receiver: how many, and since when the oldest waits of which nothing was told; 0: there is none."""

    def n_pending(self, receiver: str) -> int:
        """Messages that a receiver has still to be told."""
        return self.notifications.get((receiver, "pending"), 0)


class StoreReader:
    """Reads the counts in a thread of its own, at most one at a time: a store that hangs holds up that thread alone."""

    def __init__(self, store: StoreCounts, wait_s: float = STORE_WAIT_S) -> None:
        self._store = store
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._under_way: _Reading | None = None

    def read(self) -> StoredFigures | None:
        """The counts now; None when the store does not answer within the time, or refuses."""
        with self._lock:
            reading = self._under_way
            if reading is None or reading.done.is_set():
                reading = self._under_way = _Reading()
                threading.Thread(target=reading.run, args=(self._store,), name="metrics-store", daemon=True).start()
        return reading.found if reading.done.wait(self._wait_s) else None


class _Reading:
    def __init__(self) -> None:
        self.done = threading.Event()
        self.found: StoredFigures | None = None

    def run(self, store: StoreCounts) -> None:
        try:
            self.found = StoredFigures(
                store.n_open_alerts(), store.n_notifications(), store.receivers_down(), store.group_figures()
            )
        except StoreError as error:
            log.warning("figures of the store are left out", reason=str(error))
        except Exception:  # a boundary: a scrape tells of everything else whatever is wrong with the store
            log.exception("figures of the store are left out")
        finally:
            self.done.set()


class Rising:
    """What was dropped since the process started. An engine that goes on from a checkpoint, after a failed step or a
    reload, counts from what was dropped up to there; a counter that falls would be taken for one from zero."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], float] = {}
        self._lead: dict[tuple[str, str], float] = {}
        """How far what was told is ahead of what engines count."""

    def of(self, figures: OverloadFigures) -> OverloadFigures:
        """The figures with counters that never fall."""
        queries = {
            name: SheddingFigures(
                n_partial_matches=self._risen(name, "partial", lost.get("n_partial_matches", 0)),
                expected_matches=self._risen(name, "expected", lost.get("expected_matches", 0.0)),
                n_unvalued=self._risen(name, "unvalued", lost.get("n_unvalued", 0)),
                n_events=self._risen(name, "events", lost.get("n_events", 0)),
            )
            for name, lost in self._with_those_gone(figures["queries"]).items()
        }
        risen: OverloadFigures = {**figures, "queries": queries}
        risen["shedding_seconds"] = self._risen("", "seconds", figures["shedding_seconds"])
        if dropped := figures.get("dropped_events"):
            risen["dropped_events"] = {name: self._risen(name, "type", n) for name, n in dropped.items()}
        return risen

    def _with_those_gone(self, queries: Mapping[str, SheddingFigures]) -> dict[str, SheddingFigures]:
        """A checkpoint of before may have nothing dropped of a query."""
        nothing = SheddingFigures(n_partial_matches=0, expected_matches=0.0, n_unvalued=0, n_events=0)
        known = {name for name, what in self._last if what == "partial"}
        return {name: queries.get(name, nothing) for name in sorted({*queries, *known})}

    def _risen(self, name: str, what: str, value: _Number) -> _Number:
        last = self._last.get((name, what), 0)
        if value < last:
            self._lead[name, what] = self._lead.get((name, what), 0) + last - value
        self._last[name, what] = value
        return type(value)(value + self._lead.get((name, what), 0))


class LiveFigures(Collector):
    """The gauges of one process."""

    def __init__(
        self, live: Callable[[], Live], store: StoreCounts, clock: Clock, *, store_wait_s: float = STORE_WAIT_S
    ) -> None:
        self._live = live
        self._clock = clock
        self._stored = StoreReader(store, store_wait_s)
        self._path: PathFigures | None = None
        self._dropped = Rising()

    def look(self) -> Live:
        """Look at the live path, in the thread that makes the steps or before the first one; returns it."""
        live = self._live()
        path = PathFigures.of(live, self._clock.now_ms())
        self._path = path if path.overload is None else replace(path, overload=self._dropped.of(path.overload))
        return live

    def describe(self) -> list[Metric]:
        """Nothing: to be registered must not read the store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All gauges; those of the store only when it answers."""
        path = self._path
        if path is None:
            return
        stored, pipeline = self._stored.read(), self._live().pipeline
        yield from watermark_metrics(path, self._clock.now_ms())
        yield from query_metrics(path)
        if path.overload is not None:
            yield from overload_metrics(path.overload, path.queries)
        yield queue_metric(len(pipeline.intake), path, stored)
        yield from store_metrics(pipeline.alerting.receivers, stored)


def watermark_metrics(path: PathFigures, now_ms: int) -> Iterator[Metric]:
    """How far each source, and all together, are behind the clock; a source never heard of has no lag yet."""
    lag = GaugeMetricFamily(
        "clustercep_watermark_lag_seconds", "How far a source's watermark is behind the clock.", labels=["source"]
    )
    out = GaugeMetricFamily(
        "clustercep_source_left_out",
        "1: silent, or far behind: the others go on without it.",
        labels=["source"],
    )
    for source, (watermark_ms, left_out) in path.sources.items():
        out.add_metric([source], int(left_out))
        if watermark_ms != NEVER_MS:
            lag.add_metric([source], lag_seconds(watermark_ms, now_ms))
    yield lag
    yield out
    combined = GaugeMetricFamily(
        "clustercep_combined_watermark_lag_seconds", "How far matching is behind the clock: what alerts wait for."
    )
    if path.combined_ms != NEVER_MS:
        combined.add_metric([], lag_seconds(path.combined_ms, now_ms))
    yield combined
    yield GaugeMetricFamily(
        "clustercep_last_step_timestamp_seconds", "When the last step was stored.", value=path.looked_ms / 1000
    )


def lag_seconds(watermark_ms: int, now_ms: int) -> float:
    """0 for a source that has told everything."""
    return 0.0 if watermark_ms >= FOREVER_MS else (now_ms - watermark_ms) / 1000


def query_metrics(path: PathFigures) -> Iterator[Metric]:
    """What each query costs and keeps."""
    seconds = CounterMetricFamily("clustercep_query_seconds", "Engine time of a query.", labels=["query"])
    events = CounterMetricFamily("clustercep_query_events", "Events that a query read.", labels=["query"])
    rejected = CounterMetricFamily(
        "clustercep_query_rejected_events", "Events that a query's strategy cannot evaluate.", labels=["query"]
    )
    limited = CounterMetricFamily(
        "clustercep_query_limited_windows", "Windows in which LIMIT left rows out.", labels=["query"]
    )
    stopped = CounterMetricFamily(
        "clustercep_query_stopped_searches",
        "Searches that the work budget stopped: matches, and alerts, may be missing.",
        labels=["query"],
    )
    kept = GaugeMetricFamily("clustercep_query_events_kept", "Events (or runs) that a query keeps.", labels=["query"])
    for query, figures in path.queries.items():
        seconds.add_metric([query], figures.seconds)
        events.add_metric([query], figures.n_events)
        rejected.add_metric([query], figures.n_rejected)
        limited.add_metric([query], figures.n_limited)
        stopped.add_metric([query], figures.n_unfinished)
        kept.add_metric([query], figures.n_kept)
    yield from (seconds, events, rejected, limited, stopped, kept)


def overload_metrics(figures: OverloadFigures, queries: Iterable[str]) -> Iterator[Metric]:
    """How engine.latency_bound is held, and what was dropped for it."""
    yield GaugeMetricFamily(
        "clustercep_latency_bound_seconds", "engine.latency_bound.", value=figures["bound_ms"] / 1000
    )
    yield GaugeMetricFamily(
        "clustercep_latency_seconds",
        "From when the watermark released an event to when it was evaluated, of the last ones.",
        value=figures["latency_ms"] / 1000,
    )
    yield GaugeMetricFamily(
        "clustercep_latency_achievable_seconds",
        "The bound that could be met with everything dropped that can be; 0: the one that is set.",
        value=figures.get("achievable_ms", 0) / 1000,
    )
    yield GaugeMetricFamily(
        "clustercep_shedding", "1: partial matches are dropped to hold the bound.", value=int(figures["is_shedding"])
    )
    yield CounterMetricFamily(
        "clustercep_shedding_seconds", "Time that dropping took.", value=figures["shedding_seconds"]
    )
    dropped = CounterMetricFamily(
        "clustercep_query_dropped_partial_matches", "Partial matches dropped to hold the bound.", labels=["query"]
    )
    events = CounterMetricFamily(
        "clustercep_query_dropped_kept_events",
        "Events kept for matches that are postponed, dropped to hold the bound.",
        labels=["query"],
    )
    missing = CounterMetricFamily(
        "clustercep_query_expected_missing_matches",
        "Matches that the dropped partial matches were expected to become.",
        labels=["query"],
    )
    exempt = GaugeMetricFamily(
        "clustercep_query_exempt_from_shedding", "1: nothing of what it keeps can be dropped.", labels=["query"]
    )
    for query in queries:
        lost = figures["queries"].get(query, {})
        dropped.add_metric([query], lost.get("n_partial_matches", 0))
        events.add_metric([query], lost.get("n_events", 0))
        missing.add_metric([query], lost.get("expected_matches", 0.0))
        exempt.add_metric([query], int(query in figures["exempt"]))
    of_type = CounterMetricFamily(
        "clustercep_dropped_events", "Events dropped before any query had them.", labels=["type"]
    )
    for event_type, n in sorted(figures.get("dropped_events", {}).items()):
        of_type.add_metric([event_type], n)
    yield from (dropped, events, missing, exempt, of_type)


def queue_metric(n_intake: int, path: PathFigures, stored: StoredFigures | None) -> Metric:
    """Queues between the parts."""
    queues = GaugeMetricFamily(
        "clustercep_queue_length",
        "intake: polls that wait for a step; waiting: events that wait for the watermark; recent: events that a match "
        "may still bind; outbox: messages not delivered yet.",
        labels=["queue"],
    )
    queues.add_metric(["intake"], n_intake)
    queues.add_metric(["waiting"], path.n_waiting)
    queues.add_metric(["recent"], path.n_recent)
    if stored is not None:
        n_pending = sum(n for (_, status), n in stored.notifications.items() if status == "pending")
        queues.add_metric(["outbox"], n_pending)
    return queues


def store_metrics(configured: Iterable[str], stored: StoredFigures | None) -> Iterator[Metric]:
    """Open alerts and messages that wait."""
    yield GaugeMetricFamily("clustercep_store_up", "1: the store answered this scrape.", value=int(stored is not None))
    if stored is None:
        return
    alerts = GaugeMetricFamily(
        "clustercep_alerts_open", "Alerts that are not over.", labels=["state", "silenced", "severity"]
    )
    for (state, silenced, severity), n in sorted(stored.open_alerts.items()):
        alerts.add_metric([state, str(silenced).lower(), severity], n)
    yield alerts
    receivers = sorted({*configured, *(name for name, _ in stored.notifications)})
    pending = GaugeMetricFamily(
        "clustercep_notifications_pending", "Messages that a receiver has still to be told.", labels=["receiver"]
    )
    given_up = GaugeMetricFamily(
        "clustercep_notifications_given_up", "Messages that the store keeps as failed.", labels=["receiver"]
    )
    down = GaugeMetricFamily(
        "clustercep_receiver_down_since_timestamp_seconds",
        "Since when a receiver takes no messages; 0: it takes them.",
        labels=["receiver"],
    )
    groups = GaugeMetricFamily(
        "clustercep_alert_groups", "Groups of alerts that are told together.", labels=["receiver"]
    )
    untold = GaugeMetricFamily(
        "clustercep_alert_groups_oldest_untold_timestamp_seconds",
        "Since when the oldest group waits of which nothing was told yet; 0: there is none.",
        labels=["receiver"],
    )
    for receiver in receivers:
        n_groups, oldest_ms = stored.groups.get(receiver, (0, 0))
        groups.add_metric([receiver], n_groups)
        untold.add_metric([receiver], oldest_ms / 1000)
        down.add_metric([receiver], stored.receivers_down.get(receiver, 0) / 1000)
        pending.add_metric([receiver], stored.n_pending(receiver))
        given_up.add_metric([receiver], stored.notifications.get((receiver, "failed"), 0))
    yield from (pending, given_up, down, groups, untold)
