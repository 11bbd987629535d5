"""What the store holds, read by a thread for which a scrape waits a moment only."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric

from app.errors import StoreError

log = structlog.get_logger(__name__)

STORE_WAIT_S = 1.0


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


__all__ = ["STORE_WAIT_S", "StoreCounts", "StoreReader", "StoredFigures", "store_metrics"]
