"""Gauges that are read when Prometheus asks: watermarks, queues, engine and store.

A scrape waits for nobody: the live path is looked at by the thread that makes the steps, and the store by a thread of
its own, for which a scrape waits a moment only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.clock import Clock
from app.live.assembly import Live
from app.process.metrics.path import PathFigures, query_metrics, watermark_metrics
from app.process.metrics.shedding import Rising, overload_metrics
from app.process.metrics.store import STORE_WAIT_S, StoreCounts, StoredFigures, StoreReader, store_metrics


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


__all__ = ["LiveFigures", "queue_metric"]
