"""Alerts, a clock and a routing tree over a store, as tests of the dispatcher need them."""

from __future__ import annotations

from typing import Any

import yaml

from app.alerting.catalog import QueryInfo
from app.alerting.dispatch.dispatcher import Dispatcher
from app.alerting.dispatch.notice import GroupNotice
from app.alerting.dispatch.routes import Routing
from app.alerting.dispatch.telling import Telling
from app.alerting.operations import acknowledge
from app.alerting.people import Person
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.clock import SetClock
from app.settings import Alerting, Severity
from app.store import Store
from app.store.models import NotificationRow
from tests.app.alerting_fixtures import FakeMatch, kept

GAP_MS = 10_000
START_MS = 1_000_000_000_000
"""Of the clock: a Sunday, 2001-09-09T01:46:40Z."""

MINUTE_MS = 60_000

TREE = """
receivers:
  ops: {url: "http://127.0.0.1:9/ops"}
  db: {url: "http://127.0.0.1:9/db"}
route:
  receiver: ops
  group_by: [alertname]
  group_wait: 30s
  group_interval: 5m
  repeat_interval: 4h
"""

QUERIES = {
    "slow": Severity.WARNING,
    "node-lost": Severity.CRITICAL,
    "chatty": Severity.INFO,
}

Told = tuple[str, str, dict[str, str]]
"""Receiver, reason, and what stands beside each task."""


class World:
    """A store with its dispatcher."""

    def __init__(self, store: Store, tree: str = TREE) -> None:
        self.store = store
        self.clock = SetClock(START_MS)
        self.tree = tree
        self._alerting = self.read(tree)
        self.dispatcher = self.new_dispatcher()
        self.takes = True
        """Whether receivers take what they are told."""
        self._n_seen = 0

    def read(self, tree: str) -> Alerting:
        return Alerting.model_validate(yaml.safe_load(tree))

    def configure(self, tree: str) -> None:
        """As a reload does."""
        self._alerting = self.read(tree)
        self.restart()

    def restart(self) -> None:
        """A new process on the same store."""
        self.dispatcher = self.new_dispatcher()

    def new_dispatcher(self) -> Dispatcher:
        telling = Telling(Routing.of(self._alerting), self._alerting.receivers)
        return Dispatcher(self.store, telling, self.clock)

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def step(self, *matches: FakeMatch, watermark_ms: int | None = None) -> None:
        """One step of the pipeline."""
        queries = {
            name: QueryInfo(name, name, severity, "{task_id} is it", GAP_MS) for name, severity in QUERIES.items()
        }
        options = AlertingOptions(
            queries, self._alerting.receivers, max_age_ms=86_400_000, routing=Routing.of(self._alerting)
        )
        with self.store.transaction() as writer:
            recorder = Recorder(options, writer, kept, self.now_ms)
            recorder.live(matches, self.now_ms - GAP_MS if watermark_ms is None else watermark_ms)

    def fire(self, *tasks: str, query: str = "slow", **values: Any) -> None:
        """Alerts about these tasks begin, or go on."""
        self.step(
            *(
                FakeMatch(
                    self.now_ms - 1,
                    self.now_ms,
                    query=query,
                    key=(("task_id", task),),
                    values={"task_id": task, **values},
                )
                for task in tasks
            )
        )

    def end(self) -> None:
        """All alerts are over."""
        self.step(watermark_ms=self.now_ms + GAP_MS + 1)

    def acknowledge(self, task: str, query: str | None = None) -> None:
        firing = [a for a in self.store.alerts() if a.key["task_id"] == task and a.state == "firing"]
        (alert,) = [a for a in firing if query is None or a.query == query]
        acknowledge(self.store, alert.id, Person("ann"), "", self.now_ms)

    def wait(self, ms: int) -> list[Told]:
        """Time passes; returns what is told meanwhile."""
        until_ms = self.now_ms + ms
        told: list[Told] = []
        while True:
            self.dispatcher.dispatch_due()
            told += self.new_messages()
            wait_ms = self.dispatcher.wait_ms()
            if wait_ms is None or self.now_ms + wait_ms > until_ms:
                break
            self.clock.advance_to(self.now_ms + wait_ms)
        self.clock.advance_to(until_ms)
        return told

    def skip_messages(self) -> None:
        """What was told so far is not looked at."""
        self._n_seen = len(self.store.notifications())

    def new_messages(self) -> list[Told]:
        """Since the last time."""
        rows = self.store.notifications()
        new, self._n_seen = rows[self._n_seen :], len(rows)
        if self.takes:
            deliver(self.store)
        return [content(row) for row in new]


def content(row: NotificationRow) -> Told:
    notice = GroupNotice.from_json(row.payload)
    return row.receiver, notice.reason, {str(alert.key["task_id"]): alert.state for alert in notice.alerts}


def deliver(store: Store) -> None:
    """All that is pending is delivered."""
    for row in store.notifications("pending"):
        with store.transaction() as writer:
            writer.outbox.record_attempt(
                row.idempotency_key, row.receiver, status="delivered", error=None, next_attempt_ms=0, now_ms=1
            )
