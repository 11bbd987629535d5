"""A watchdog that kills the program every minute while it catches up with a day: every life moves the position on.

The backlog stands in a log before the first start: a day in which nodes are lost and come back, each an alert of its
own. The position is what the store has of it: events that were released, alerts.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from app.errors import StoreError
from app.store import open_store
from tests.torture.campaign import Given, Verdict
from tests.torture.inputs.growing_cluster import LOG, GrowingCluster, line
from tests.torture.processes.followed import Followed, followed
from tests.torture.processes.lives import Lives, is_dead, lives

DAY_MS = 86_400_000
N_INCIDENTS = 9_000
"""In the day: more than a minute's work."""
LIFE_S = 60.0


@dataclass(frozen=True, order=True)
class Position:
    """What the store has."""

    n_events: int = 0
    n_alerts: int = 0


@dataclass
class Caught:
    """How far each life came."""

    n_expected: int
    positions: list[Position] = field(default_factory=list)
    """At the end of each life."""
    seconds: float = 0.0
    messages: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def n_stuck(self) -> int:
        """Lives that moved nothing."""
        before = [Position(), *self.positions[:-1]]
        return sum(at <= was for was, at in zip(before, self.positions, strict=True))

    @property
    def is_done(self) -> bool:
        """All alerts are there."""
        return bool(self.positions) and self.positions[-1].n_alerts >= self.n_expected


def write_backlog(log: Path, n_incidents: int, seed: int) -> int:
    """A day that ends now, in order; returns how many alerts it calls for."""
    chosen, now_ms, n_alerts = random.Random(seed), time.time_ns() // 1_000_000, 0
    times_ms = sorted(chosen.sample(range(now_ms - DAY_MS + 60_000, now_ms - 10_000), n_incidents))
    with log.open("w", encoding="utf-8") as file:
        for number, at_ms in enumerate(times_ms):
            was_unhealthy = chosen.random() < 0.5
            n_alerts += 1 + was_unhealthy
            if was_unhealthy:
                file.write(line(at_ms - 1, f"Node n{number}:8041 reported UNHEALTHY with details: disk"))
            file.write(line(at_ms, f"n{number}:8041 Node Transitioned from RUNNING to LOST"))
    return n_alerts


def caught_up(
    folder: Path, seed: int, n_incidents: int, *, life_s: float, most_s: float, at_first_advance: bool = False
) -> Caught:
    """Live and be killed until all alerts are there or the time is over.

    `at_first_advance`: kill each life as soon as it has moved the position, `life_s` is only how long it may take.
    """
    cluster = GrowingCluster(folder / "cluster", seed, 1)
    caught = Caught(write_backlog(cluster.logs / LOG, n_incidents, seed))
    with ExitStack() as opened:
        nursery = opened.enter_context(lives())
        one = opened.enter_context(followed(folder, cluster, "1 day"))
        started_s = time.monotonic()
        while not caught.is_done and time.monotonic() - started_s < most_s:
            before = caught.positions[-1] if caught.positions else Position()
            _life(nursery, one, life_s, before if at_first_advance else None, caught.n_expected)
            caught.positions.append(position(one))
        caught.seconds = time.monotonic() - started_s
        caught.messages = one.inbox.received
    return caught


def _life(nursery: Lives, one: Followed, life_s: float, before: Position | None, n_expected: int) -> None:
    pid = nursery.start(one.config, one.folder / "log")
    started_s = time.monotonic()
    while time.monotonic() - started_s < life_s:
        time.sleep(0.2 if before is not None else 1.0)
        if is_dead(pid):
            raise RuntimeError(f"the process has ended by itself: see {one.folder / 'log'}")
        at = position(one)
        if at.n_alerts >= n_expected or (before is not None and at > before):
            break
    nursery.end(pid)


def position(one: Followed) -> Position:
    """What is in the store now."""
    try:
        with open_store(one.store_url, durable=False, make=False) as store:
            n_events = sum(row.value for row in store.statistics("events"))
            return Position(n_events, store.n_alerts())
    except StoreError:
        return Position()  # before there is one


def judged(caught: Caught) -> list[str]:
    """Which bounds are broken."""
    failures = []
    if caught.n_stuck:
        failures.append(f"{caught.n_stuck} of {len(caught.positions)} lives moved nothing: {caught.positions}")
    if not caught.is_done:
        failures.append(
            f"{caught.positions[-1] if caught.positions else 'no life'} after {caught.seconds:.0f} s, "
            f"expected {caught.n_expected} alerts"
        )
    elif caught.positions[-1].n_alerts > caught.n_expected:
        failures.append(f"{caught.positions[-1].n_alerts} alerts, expected {caught.n_expected}")
    keys = Counter((state, alert_id) for _, state, alert_id in set(caught.messages))
    if doubled := sum(n > 1 for n in keys.values()):
        failures.append(f"{doubled} messages came under two keys")
    return failures


def run(given: Given) -> Verdict:
    """A day of backlog, a kill a minute."""
    most_s = 60 * given.minutes - 30
    n_incidents = min(N_INCIDENTS, round(N_INCIDENTS * given.minutes / 10))
    caught = caught_up(given.folder, given.seed, n_incidents, life_s=LIFE_S, most_s=most_s)
    return Verdict(
        f"{len(caught.positions)} lives of {LIFE_S:g} s, {caught.n_stuck} that moved nothing; "
        f"{caught.positions[-1].n_alerts if caught.positions else 0} of {caught.n_expected} alerts of a day of backlog "
        f"in {caught.seconds:.0f} s",
        tuple(judged(caught)),
    )
