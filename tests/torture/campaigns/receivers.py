"""Receivers that are down, that want less at a time, and the highest rate: nothing is given up, nobody waits.

Outages and limits are on an injected clock, second by second: alerts begin and end all the time, the real outbox and
courier tell a receiver that is down for a minute, five and sixty, or answers 429 with Retry-After. The highest rate is
on the wall clock: `clustercep run` and five alerts a second. Before it each kind of receiver meets each harm
(`receivers.kinds`).
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from app.alerting.delivery import Courier, Endpoint, TemporaryDeliveryError, endpoint_of
from app.alerting.receivers.service import Message
from app.alerting.recording.recorder import Recorder
from app.clock import SetClock
from app.settings import Receiver
from app.store import open_store
from tests.app.alerting_fixtures import FakeMatch, kept, options, receiver
from tests.torture.campaign import Given, Verdict
from tests.torture.inputs.growing_cluster import GrowingCluster
from tests.torture.processes.followed import followed, has_told_all, until_stepped
from tests.torture.processes.lives import lives
from tests.torture.receivers.kinds import HARMS, KINDS, all_kinds

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
        (alert,) = json.loads(message.body)["alerts"]
        self.keys[idempotency_key] += 1
        self.believes[alert["fingerprint"]] = alert["status"]
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


def tried(name: str, folder: Path, seed: int, *, down_s: int = 0, pause_s: int = 0, alerts_per_s: float) -> Seen:
    """Down for so long, or in want of so long a pause."""
    chosen, clock = random.Random(seed), SetClock(T0_MS)
    back_s = BEFORE_S + down_s
    there = ToldSo(clock, (T0_MS + 1000 * BEFORE_S, T0_MS + 1000 * back_s), 1000 * pause_s)
    folder.mkdir(parents=True)
    known: dict[str, Receiver] = {"ops": receiver()}
    with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store:
        courier = Courier(store, endpoint_of("ops", known["ops"], ""), clock, post=there.post, draw=chosen.random)
        n_alerts, written_s, drained_s = 0, back_s + LASTS_S + 60, 0
        for second in range(written_s + 4 * MAX_RETRY_S + (600 if pause_s else 0)):
            clock.advance_to(T0_MS + 1000 * second)
            matches = []
            if second < written_s - LASTS_S and chosen.random() < alerts_per_s:
                n_alerts += 1
                now_ms = clock.now_ms() - chosen.randrange(1000 * LASTS_S // 2)
                matches = [FakeMatch(now_ms, now_ms + 1, key=(("task_id", f"t{n_alerts}"),))]
            if second <= written_s:
                with store.transaction() as writer:
                    # Alerts are over when the watermark is past them, which lags behind so that they fire meanwhile.
                    watermark_ms = clock.now_ms() - 500 * LASTS_S + (1000 * LASTS_S if second == written_s else 0)
                    Recorder(options(**known), writer, kept, clock.now_ms()).live(matches, watermark_ms)
            courier.deliver_pending()
            if second >= written_s and courier.wait_ms() is None:
                drained_s = second - back_s
                break
        messages = store.notifications(limit=MAX_MESSAGES)
        meanwhile = [
            (there.took_ms[n.idempotency_key] - n.created_ms) / 1000
            for n in messages
            if n.idempotency_key in there.took_ms and not there.down[0] <= n.created_ms < there.down[1]
        ]
        return Seen(
            name, n_alerts, there.n_attempts,
            sum(n.status == "failed" for n in messages), sum(n.status == "pending" for n in messages),
            sum(n - 1 for n in there.keys.values()),
            sum(state != "resolved" for state in there.believes.values()) + n_alerts - len(there.believes),
            p95(meanwhile), drained_s,
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
    if seen.name.startswith("down") and seen.p95_s > MOST_LAG_S:
        failures.append(f"{seen.name}: p95 of what was written beside the outage {seen.p95_s:g} s")
    return failures


def run(given: Given) -> Verdict:
    """Outages and limits, then the highest rate for what is left of the time."""
    started_s = time.monotonic()
    seen = [
        tried(f"down {minutes} min", given.folder / f"{minutes}", given.seed, down_s=60 * minutes, alerts_per_s=rate)
        for minutes, rate in ((1, 0.5), (5, 0.5), (60, 0.15))
    ]
    seen.append(tried("429, one in 3 s", given.folder / "429", given.seed, pause_s=3, alerts_per_s=0.3))
    failures = [failure for one in seen for failure in judged(one)]
    kinds = list(all_kinds(given.folder / "kinds"))
    failures += [failure for one in kinds for failure in one.failures()]
    left_s = 60 * given.minutes - (time.monotonic() - started_s) - 60
    rate, lags_s, missing = highest_rate(given.folder / "rate", given.seed, max(45.0, left_s))
    if missing:
        failures.append(f"at {rate:.1f} alerts a second {missing}")
    if p95(lags_s) > MOST_LAG_S:
        failures.append(f"at {rate:.1f} alerts a second p95 of the lag is {p95(lags_s):.1f} s, bound {MOST_LAG_S:g} s")
    outages = "; ".join(
        f"{one.name}: {one.n_alerts} alerts, {one.n_attempts} attempts, {one.n_given_up} given up, "
        f"p95 beside it {one.p95_s:g} s, all told {one.drained_s:g} s after it was back"
        for one in seen
    )
    told, given_up, followed = (
        sum(getattr(kind, name) for kind in kinds) for name in ("n_taken", "n_given_up", "n_followed")
    )
    of_kinds = (
        f"{len(KINDS)} kinds of receiver with {len(HARMS)} harms each: {told} messages told when they were well, "
        f"{given_up} given up for a redirect, {followed} redirects followed"
    )
    return Verdict(
        f"{outages}; {of_kinds}; {rate:.1f} alerts a second for {len(lags_s)} messages on the wall clock: lag p50 "
        f"{sorted(lags_s)[len(lags_s) // 2]:.2f} s, p95 {p95(lags_s):.2f} s (bound {MOST_LAG_S:g} s)",
        tuple(failures),
    )


def highest_rate(folder: Path, seed: int, seconds: float) -> tuple[float, list[float], str]:
    """Alerts a second, the lags of their messages from writing to answer, and what is missing."""
    cluster = GrowingCluster(folder / "cluster", seed, N_PER_S)
    with ExitStack() as opened:
        nursery = opened.enter_context(lives())
        one = opened.enter_context(followed(folder, cluster, "1 day"))
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
