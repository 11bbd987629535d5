"""`kill -9` of `clustercep run`, again and again, beside one that nobody touches: both tell the same.

Both follow the same growing files. The one is killed at a moment drawn from the seed, or by itself at a drawn statement
of a migration (its store is set back to the version before), of the retention or of a reload, or by its receiver, which
has a message and has not answered it. The next life begins at once.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from alembic import command
from sqlalchemy import create_engine, select

from app.store import open_store
from app.store.migrations.applying import alembic_config
from app.store.models import AlertRow
from tests.torture.campaign import Given, Verdict
from tests.torture.inputs.growing_cluster import GrowingCluster, Inbox, change_query
from tests.torture.processes.followed import PATIENCE_S, Followed, followed, has_told_all, until_stepped
from tests.torture.processes.lives import Lives, is_dead, lives
from tests.torture.receivers.kills import all_kills

N_KILLS = 100
N_PER_S = 2.0
"""Incidents."""

MOMENTS = ("any time", "delivery", "migration", "retention", "reload")
BEFORE = "0009"
"""The store's version before the present one."""

LONGEST_LIFE_S = 3.0
"""Of those that are killed at any time."""

MEANT_S = 30.0
"""Whoever has not died by then of what was meant for it is killed."""


@dataclass
class Killing:
    """The one that is killed."""

    lives: Lives
    cut: Followed
    chosen: random.Random
    died: Counter[str] = field(default_factory=Counter)
    """By what it was at."""
    lifetimes_s: list[float] = field(default_factory=list)

    def life(self, number: int) -> None:
        """One life, to its end."""
        moment = MOMENTS[number % len(MOMENTS)]
        if moment == "migration":
            set_back(self.cut.store_url)
        die = None if moment in ("any time", "delivery") else (moment, self.chosen.randrange(1, 30))
        pid = self.lives.start(self.cut.config, self.cut.folder / "log", die)
        started_s = time.monotonic()
        self.cut.inbox.taken = lambda: os.kill(pid, signal.SIGKILL)
        if moment == "delivery":
            self.cut.inbox.before_answer.set()
        lifetime_s = self.chosen.uniform(0.05, LONGEST_LIFE_S) if moment == "any time" else MEANT_S
        asked_s = 0.5
        while time.monotonic() - started_s < lifetime_s and not is_dead(pid):
            if moment == "reload" and time.monotonic() - started_s > asked_s:
                change_query(self.cut.folder, number + 2)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGHUP)
                asked_s += 1.0
            time.sleep(0.01)
        as_meant = moment == "any time" or is_dead(pid)
        self.cut.inbox.before_answer.clear()
        self.lives.end(pid)
        self.lifetimes_s.append(time.monotonic() - started_s)
        self.died[moment if as_meant else "any time"] += 1


def run(given: Given) -> Verdict:
    """A hundred lives, and before them each kind of receiver whose teller dies."""
    started_s = time.monotonic()
    of_kinds = list(all_kills(given.folder / "kinds"))
    left_s = 60 * given.minutes - (time.monotonic() - started_s)
    verdict = killed(given, N_KILLS, N_PER_S, retention="2 s", most_s=max(left_s - PATIENCE_S, 0.75 * left_s, 60.0))
    kinds = {one.kind for one in of_kinds}
    figures = (
        f"{sum(one.n_killed for one in of_kinds)} deaths while {len(kinds)} kinds of receiver were told, "
        f"{sum(one.n_again for one in of_kinds)} messages came again; {verdict.figures}"
    )
    return Verdict(figures, (*(failure for one in of_kinds for failure in one.failures()), *verdict.failures))


def killed(given: Given, n_kills: int, n_per_s: float, *, retention: str, most_s: float) -> Verdict:
    """So many lives, or as many as the time allows; `retention`: of messages and late events."""
    cluster = GrowingCluster(given.folder / "cluster", given.seed, n_per_s)
    with ExitStack() as opened:
        nursery = opened.enter_context(lives())
        whole, cut = (
            opened.enter_context(followed(given.folder / name, cluster, retention)) for name in ("whole", "cut")
        )
        killing = Killing(nursery, cut, random.Random(given.seed))
        untouched = nursery.start(whole.config, whole.folder / "log")
        until_stepped(whole, untouched)
        until_stepped(cut, pid := nursery.start(cut.config, cut.folder / "log"))
        nursery.end(pid)
        cluster.start()
        started_s = time.monotonic()
        number = 0
        while number < n_kills and time.monotonic() - started_s < most_s:
            killing.life(number)
            number += 1
        cluster.stop()
        last = nursery.start(cut.config, cut.folder / "log")
        ended = [has_told_all(one, cluster.last_ms, pid) for one, pid in ((whole, untouched), (cut, last))]
        for pid in (untouched, last):
            nursery.end(pid)
    failures = [
        f"{one.folder.name} has not told everything within {PATIENCE_S:.0f} s: see {one.folder / 'log'}"
        for one, all_told in zip((whole, cut), ended, strict=True)
        if not all_told
    ]
    failures += compared(whole, cut)
    n_alerts = len(alerts_of(whole))
    if n_alerts == 0:
        failures.append("no alert was raised: nothing was tried")
    keys = Counter(key for key, _, _ in cut.inbox.received)
    died = ", ".join(f"{n} at {moment}" for moment, n in sorted(killing.died.items()))
    return Verdict(
        f"{number} lives killed ({died}), {cluster.n_incidents} incidents, {n_alerts} alerts in a run that was not "
        f"interrupted; lost {len(set(alerts_of(whole)) - set(alerts_of(cut)))}, "
        f"under two keys {n_under_two_keys(cut.inbox)}, {len(keys)} messages, "
        f"{sum(n - 1 for n in keys.values())} repeats under the same key",
        tuple(failures),
    )


def set_back(url: str) -> None:
    """Make the store one of the version before; one that was never migrated to its end stays."""
    database = create_engine(url)
    with database.begin() as connection:
        command.downgrade(alembic_config(connection), BEFORE)
    database.dispose()


def compared(whole: Followed, cut: Followed) -> list[str]:
    """What differs."""
    expected, found = alerts_of(whole), alerts_of(cut)
    failures = [f"lost: alert {alert_id} {expected[alert_id]}" for alert_id in sorted(expected.keys() - found.keys())]
    failures += [f"told without a reason: {found[alert_id]}" for alert_id in sorted(found.keys() - expected.keys())]
    failures += [
        f"alert {alert_id}: expected {expected[alert_id]}, found {found[alert_id]}"
        for alert_id in sorted(expected.keys() & found.keys())
        if expected[alert_id] != found[alert_id]
    ]
    keys = [{key: (state, alert_id) for key, state, alert_id in one.inbox.received} for one in (whole, cut)]
    failures += [f"not told: {keys[0][key]}, key {key}" for key in sorted(keys[0].keys() - keys[1].keys())]
    failures += [f"told in excess: {keys[1][key]}, key {key}" for key in sorted(keys[1].keys() - keys[0].keys())]
    if n := n_under_two_keys(cut.inbox):
        failures.append(f"{n} alerts were told of under two keys")
    failures += [
        f"key {key} stands for several messages"
        for key, n in Counter(key for key, *_ in set(cut.inbox.received)).items()
        if n > 1
    ]
    return failures[:20]


def n_under_two_keys(received: Inbox) -> int:
    """Messages (an alert, a state) that came under several keys: each incident comes and goes once."""
    by_message = Counter((state, alert_id) for _, state, alert_id in set(received.received))
    return sum(n > 1 for n in by_message.values())


def alerts_of(followed: Followed) -> dict[str, tuple[Any, ...]]:
    """By id, what they say."""
    columns = ("query", "key_text", "start_ms", "end_ms", "state", "n_matches", "summary")
    with open_store(followed.store_url, durable=False) as store, store.engine.connect() as connection:
        found = connection.execute(select(AlertRow.id, *(getattr(AlertRow, name) for name in columns)))
        return {alert_id: tuple(values) for alert_id, *values in found}
