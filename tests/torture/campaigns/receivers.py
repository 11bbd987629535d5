"""Receivers that are down, that want less at a time, and the highest rate: nothing is given up, nobody waits.

Outages and limits are on an injected clock, second by second: alerts begin and end all the time, the real outbox and
courier tell a receiver that is down for a minute, five and sixty, or answers 429 with Retry-After. The highest rate is
on the wall clock: `clustercep run` and five alerts a second. Each of these is told alert by alert, and through routes.
Before the highest rate each kind of receiver meets each harm (`receivers.kinds`).
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import select

from app.alerting.delivery import Courier, Endpoint, TemporaryDeliveryError, endpoint_of
from app.alerting.dispatch.dispatcher import Dispatcher
from app.alerting.dispatch.routes import Routing
from app.alerting.dispatch.telling import Telling
from app.alerting.receivers.service import Message
from app.alerting.recording.recorder import Recorder
from app.clock import SetClock
from app.settings import Alerting, Receiver
from app.store import Store, open_store
from app.store.models import AlertRow
from tests.app.alerting_fixtures import FakeMatch, kept, options, receiver
from tests.torture.campaign import Given, Verdict
from tests.torture.inputs.growing_cluster import GrowingCluster
from tests.torture.processes.followed import followed, has_told_all, until_stepped
from tests.torture.processes.lives import lives
from tests.torture.receivers.kinds import HARMS, KINDS, all_kinds
from tests.torture.receivers.told_groups import Told, superseded_messages, wrong_messages

T0_MS = 1_700_000_000_000
BEFORE_S, LASTS_S = 60, 45
"""Before a receiver goes down; and how long an alert fires, longest."""
MAX_RETRY_S = 300
"""`max_retry` as it is unless it is set: what waits is tried again so soon after a receiver is back."""

N_PER_S = 3.2
"""Incidents, of which nearly every other one is two alerts."""
MOST_LAG_S = 5.0
MAX_MESSAGES = 1_000_000
"""More than there are."""
OUTAGES: tuple[tuple[str, dict[str, int], float], ...] = (
    ("down 1 min", {"down_s": 60}, 0.5),
    ("down 5 min", {"down_s": 300}, 0.5),
    ("down 60 min", {"down_s": 3_600}, 0.15),
    ("429, one in 3 s", {"pause_s": 3}, 0.3),
)
"""What it is called, what is done to the receiver, and alerts per second."""
THROUGH_ROUTES = " through routes"
N_HOSTS = 5
ROUTE: dict[str, Any] = {
    "receiver": "ops",
    "group_by": ["host"],
    "group_wait": "2s",
    "group_interval": "10s",
    "repeat_interval": "4h",
    "escalate_to": "on-call",
    "escalate_after": "5s",
    "routes": [{"matchers": ['host="n0"'], "group_by": ["..."]}],
}
"""Alerts of one host are told together, but for one host, each of whose alerts is alone. Most
alerts fire for longer than `escalate_after`: the second receiver is told of them."""


@dataclass
class ToldSo:
    """A receiver on the injected clock: what it knows, and when it takes messages."""

    clock: SetClock
    down: tuple[int, int] = (0, 0)
    """Milliseconds, from and before."""
    least_pause_ms: int = 0
    """Between two messages, else it answers 429."""
    n_attempts: int = 0
    n_refused: int = 0
    keys: Counter[str] = field(default_factory=Counter)
    believes: dict[str, str] = field(default_factory=dict)
    """Of the alert with these labels: the state that it was told last."""
    heard_ms: dict[str, int] = field(default_factory=dict)
    """When it was told of it first."""
    messages: list[Told] = field(default_factory=list)
    took_ms: dict[str, int] = field(default_factory=dict)
    last_ms: int = 0

    def post(self, endpoint: Endpoint, message: Message, idempotency_key: str) -> None:
        """Take it or not."""
        now_ms = self.clock.now_ms()
        self.n_attempts += 1
        if self.down[0] <= now_ms < self.down[1]:
            raise TemporaryDeliveryError("ConnectionError", "connection")
        if now_ms - self.last_ms < self.least_pause_ms:
            self.n_refused += 1
            raise TemporaryDeliveryError("answered 429", "refused_4xx", str(-(-self.least_pause_ms // 1000)))
        self.last_ms = now_ms
        payload = json.loads(message.body)
        self.keys[idempotency_key] += 1
        self.messages.append(Told.of(idempotency_key, payload))
        for alert in payload["alerts"]:
            self.believes[alert["fingerprint"]] = alert["status"]
            self.heard_ms.setdefault(alert["fingerprint"], now_ms)
        self.took_ms[idempotency_key] = now_ms


@dataclass(frozen=True)
class Seen:
    """What came of one receiver."""

    name: str
    n_alerts: int
    n_attempts: int
    n_given_up: int
    n_waiting: int
    n_repeats: int
    n_wrong: int
    """Alerts that are over, of which the receiver believes that they fire."""
    p95_s: float
    """Of the lags of messages that were written while the receiver took them."""
    drained_s: float
    """From when the receiver was back until it had everything."""
    broken: tuple[str, ...] = ()
    """Rules of groups that do not hold."""
    n_messages: int = 0
    """Which it took."""
    n_escalated: int = 0
    """Alerts that the second receiver was told of, which is well all the time."""


@dataclass
class Tried:
    """A store, who tells, and the clock of both; `routed`: through ROUTE."""

    store: Store
    clock: SetClock
    there: ToldSo
    chosen: random.Random
    routed: bool
    on_call: ToldSo = field(init=False)
    n_alerts: int = 0

    def __post_init__(self) -> None:
        self.on_call = ToldSo(self.clock)
        names = {"ops": self.there, **({"on-call": self.on_call} if self.routed else {})}
        self.known: dict[str, Receiver] = dict.fromkeys(names, receiver())
        self.couriers = [
            Courier(
                self.store, endpoint_of(name, self.known[name], ""), self.clock, post=of.post, draw=self.chosen.random
            )
            for name, of in names.items()
        ]
        route = {"route": ROUTE} if self.routed else {}
        settings = {"receivers": {name: {"url": "http://127.0.0.1:9/hook"} for name in names}, **route}
        self.routing = Routing.of(Alerting.model_validate(settings))
        self.dispatcher = Dispatcher(self.store, Telling(self.routing, self.known), self.clock)

    def begin(self) -> FakeMatch:
        """An alert, which has fired for a while."""
        self.n_alerts += 1
        began_ms = self.clock.now_ms() - self.chosen.randrange(1000 * LASTS_S // 2)
        key = (("host", f"n{self.n_alerts % N_HOSTS}"), ("task_id", f"t{self.n_alerts}"))
        return FakeMatch(began_ms, began_ms + 1, key=key)

    def step(self, matches: list[FakeMatch], watermark_ms: int) -> None:
        """One of the pipeline."""
        of = replace(options(**self.known), routing=self.routing)
        with self.store.transaction() as writer:
            Recorder(of, writer, kept, self.clock.now_ms()).live(matches, watermark_ms)

    def tell(self) -> None:
        """What groups and couriers do by now."""
        self.dispatcher.dispatch_due()
        for courier in self.couriers:
            courier.deliver_pending()

    def is_over(self) -> bool:
        """Whether nothing is left to be told."""
        return self.dispatcher.wait_ms() is None and all(courier.wait_ms() is None for courier in self.couriers)

    def broken(self) -> Iterator[str]:
        """Rules of groups that do not hold."""
        with self.store.engine.connect() as connection:
            names = dict(connection.execute(select(AlertRow.id, AlertRow.key_text)).all())
        alone = {alert_id for alert_id, text in names.items() if json.loads(text)["host"] == "n0"}
        superseded = superseded_messages(self.store)
        for name, of in (("ops", self.there), ("on-call", self.on_call)):
            yield from wrong_messages(name, of.messages, names, superseded, alone.__contains__)


def tried(
    name: str, folder: Path, seed: int, *, down_s: int = 0, pause_s: int = 0, alerts_per_s: float, routed: bool = False
) -> Seen:
    """Down for so long, or in want of so long a pause."""
    chosen, clock = random.Random(seed), SetClock(T0_MS)
    back_s = BEFORE_S + down_s
    there = ToldSo(clock, (T0_MS + 1000 * BEFORE_S, T0_MS + 1000 * back_s), 1000 * pause_s)
    folder.mkdir(parents=True)
    with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store:
        of = Tried(store, clock, there, chosen, routed)
        written_s, drained_s = back_s + LASTS_S + 60, 0
        for second in range(written_s + 4 * MAX_RETRY_S + (600 if pause_s else 0)):
            clock.advance_to(T0_MS + 1000 * second)
            begins = second < written_s - LASTS_S and chosen.random() < alerts_per_s
            matches = [of.begin()] if begins else []
            if second <= written_s:
                # Alerts are over when the watermark is past them, which lags behind so that they fire meanwhile.
                of.step(matches, clock.now_ms() - 500 * LASTS_S + (1000 * LASTS_S if second == written_s else 0))
            of.tell()
            if second >= written_s and of.is_over():
                drained_s = second - back_s
                break
        messages = store.notifications(limit=MAX_MESSAGES)
        meanwhile = [
            (there.took_ms[n.idempotency_key] - n.created_ms) / 1000
            for n in messages
            if n.idempotency_key in there.took_ms and not there.down[0] <= n.created_ms < there.down[1]
        ]
        return Seen(
            name, of.n_alerts, there.n_attempts,
            sum(n.status == "failed" for n in messages), sum(n.status == "pending" for n in messages),
            sum(n - 1 for n in there.keys.values()),
            sum(state != "resolved" for state in there.believes.values()) + of.n_alerts - len(there.believes),
            p95(meanwhile), drained_s, tuple(of.broken()) if routed else (), len(there.keys), len(of.on_call.believes),
        )  # fmt: skip


def p95(lags_s: list[float]) -> float:
    """Of a list that is not empty: the least value that 95 % do not exceed."""
    return sorted(lags_s)[-(-95 * len(lags_s) // 100) - 1]


def judged(seen: Seen) -> list[str]:
    """Which bounds are broken."""
    failures = []
    for what, n in (("given up", seen.n_given_up), ("repeated though they were taken", seen.n_repeats)):
        if n:
            failures.append(f"{seen.name}: {n} messages {what}")
    if seen.n_waiting:
        failures.append(f"{seen.name}: {seen.n_waiting} messages still wait {seen.drained_s} s after it was back")
    if seen.n_wrong:
        failures.append(f"{seen.name}: of {seen.n_wrong} alerts it does not know that they are over")
    failures += [f"{seen.name}: {rule}" for rule in seen.broken]
    if seen.name.startswith("down") and seen.p95_s > MOST_LAG_S:
        failures.append(f"{seen.name}: p95 of what was written beside the outage {seen.p95_s:g} s")
    return failures


def run(given: Given) -> Verdict:
    """Outages and limits, then the highest rate for what is left of the time; alert by alert and through routes."""
    started_s = time.monotonic()
    seen = [
        tried(f"{name}{how}", given.folder / f"{name}{how}", given.seed, **harm, alerts_per_s=rate, routed=bool(how))
        for how in ("", THROUGH_ROUTES)
        for name, harm, rate in OUTAGES
    ]
    failures = [failure for one in seen for failure in judged(one)]
    kinds = list(all_kinds(given.folder / "kinds"))
    failures += [failure for one in kinds for failure in one.failures()]
    left_s = 60 * given.minutes - (time.monotonic() - started_s) - 60
    rates = []
    for how in ("", THROUGH_ROUTES):
        folder = given.folder / f"rate{how}"
        rate, lags_s, missing = highest_rate(folder, given.seed, max(45.0, left_s / 2), routed=bool(how))
        if missing:
            failures.append(f"at {rate:.1f} alerts a second{how} {missing}")
        if p95(lags_s) > MOST_LAG_S:
            lag = f"p95 of the lag is {p95(lags_s):.1f} s, bound {MOST_LAG_S:g} s"
            failures.append(f"at {rate:.1f} alerts a second{how} {lag}")
        rates.append(
            f"{rate:.1f} alerts a second for {len(lags_s)} messages on the wall clock{how}: lag p50 "
            f"{sorted(lags_s)[len(lags_s) // 2]:.2f} s, p95 {p95(lags_s):.2f} s (bound {MOST_LAG_S:g} s)"
        )
    outages = "; ".join(
        f"{one.name}: {one.n_alerts} alerts, {one.n_attempts} attempts, {one.n_messages} messages taken, "
        f"{one.n_given_up} given up, p95 beside it {one.p95_s:g} s, all told {one.drained_s:g} s after it was back"
        + (f", {one.n_escalated} escalated" if one.n_escalated else "")
        for one in seen
    )
    told, given_up, followed = (
        sum(getattr(kind, name) for kind in kinds) for name in ("n_taken", "n_given_up", "n_followed")
    )
    of_kinds = (
        f"{len(KINDS)} kinds of receiver with {len(HARMS)} harms each, alert by alert and in groups: {told} messages "
        f"told when they were well, {given_up} given up for a redirect, {followed} redirects followed"
    )
    return Verdict("; ".join((outages, of_kinds, *rates)), tuple(failures))


def highest_rate(folder: Path, seed: int, seconds: float, *, routed: bool = False) -> tuple[float, list[float], str]:
    """Alerts a second, the lags of their messages from writing to answer, and what is missing."""
    cluster = GrowingCluster(folder / "cluster", seed, N_PER_S)
    with ExitStack() as opened:
        nursery = opened.enter_context(lives())
        one = opened.enter_context(followed(folder, cluster, "1 day", routed=routed))
        pid = nursery.start(one.config, folder / "log")
        opened.callback(nursery.end, pid)
        until_stepped(one, pid)
        started_s = time.monotonic()
        cluster.start()
        while (lasts_s := time.monotonic() - started_s) < seconds:
            time.sleep(1)
        cluster.stop()
        missing = "" if has_told_all(one, cluster.last_ms, pid) else "not everything was told: see its log"
        with open_store(one.store_url, durable=False) as store:
            messages, n_alerts = store.notifications(limit=MAX_MESSAGES), store.n_alerts()
    lags_s = [(n.finished_ms - n.created_ms) / 1000 for n in messages if n.finished_ms is not None]
    given_up = sum(n.status == "failed" for n in messages)
    return n_alerts / lasts_s, lags_s, missing or (f"{given_up} messages were given up" if given_up else "")
