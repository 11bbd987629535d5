"""`kill -9` of `clustercep run`, again and again, beside one that nobody touches: both tell the same.

It is done without routes, and again with them; then a life may die in a look at groups, too. When exactly a group is
looked at differs between the two, so what groups say is held against rules (`told_groups`), and both tell each alert.

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
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Any

from alembic import command
from sqlalchemy import create_engine, select

from app.errors import StoreError
from app.store import open_store
from app.store.migrations.applying import alembic_config
from app.store.models import AlertRow
from tests.torture.campaign import Given, Verdict
from tests.torture.inputs.growing_cluster import GrowingCluster, Inbox, change_query
from tests.torture.processes.followed import PATIENCE_S, Followed, followed, has_told_all, until_stepped
from tests.torture.processes.lives import Lives, is_dead, lives
from tests.torture.receivers.kills import all_kills
from tests.torture.receivers.told_groups import Member, keys_of, superseded_messages, wrong_messages

N_KILLS = 100
N_PER_S = 2.0
"""Incidents."""

NAMES = "whole", "cut"
MOMENTS = ("any time", "delivery", "migration", "retention", "reload")
ROUTED_MOMENTS = (*MOMENTS, "dispatch")
BEFORE, ROUTED_BEFORE = "0009", "0017"
"""The store's version that a migration begins with: one that knows of no groups, and one that keeps them."""
KEPT = "2 s"
ROUTED_KEPT = "10 s"
"""How long messages are kept: longer than between two looks at which of them were superseded."""
LOOKS_S = 2.0

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
    routed: bool = False
    superseded: dict[str, frozenset[Member]] = field(default_factory=dict)
    """As superseded_messages: seen in the store before they are deleted."""

    def life(self, number: int) -> None:
        """One life, to its end."""
        moments = ROUTED_MOMENTS if self.routed else MOMENTS
        moment = moments[number % len(moments)]
        if moment == "migration":
            set_back(self.cut.store_url, ROUTED_BEFORE if self.routed else BEFORE)
        die = None if moment in ("any time", "delivery") else (moment, self.chosen.randrange(1, 30))
        pid = self.lives.start(self.cut.config, self.cut.folder / "log", die)
        started_s = time.monotonic()
        self.cut.inbox.taken = lambda: os.kill(pid, signal.SIGKILL)
        if moment == "delivery":
            self.cut.inbox.before_answer.set()
        lifetime_s = self.chosen.uniform(0.05, LONGEST_LIFE_S) if moment == "any time" else MEANT_S
        asked_s, looked_s = 0.5, LOOKS_S
        while time.monotonic() - started_s < lifetime_s and not is_dead(pid):
            if moment == "reload" and time.monotonic() - started_s > asked_s:
                change_query(self.cut.folder, number + 2)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGHUP)
                asked_s += 1.0
            if self.routed and time.monotonic() - started_s > looked_s:
                self.look()
                looked_s = time.monotonic() - started_s + LOOKS_S
            time.sleep(0.01)
        as_meant = moment == "any time" or is_dead(pid)
        self.cut.inbox.before_answer.clear()
        self.lives.end(pid)
        self.lifetimes_s.append(time.monotonic() - started_s)
        self.died[moment if as_meant else "any time"] += 1
        if self.routed:
            self.look()

    def look(self) -> None:
        """Which messages were superseded."""
        with suppress(StoreError), open_store(self.cut.store_url, durable=False, make=False) as store:
            self.superseded |= superseded_messages(store)


def run(given: Given) -> Verdict:
    """A hundred lives without routes and a hundred with them, and before them each kind of receiver whose teller
    dies."""
    started_s = time.monotonic()
    of_kinds = list(all_kills(given.folder / "kinds"))
    left_s = 60 * given.minutes - (time.monotonic() - started_s)
    most_s = max(left_s / 2 - PATIENCE_S, 0.375 * left_s, 60.0)
    lives_of = [
        killed(replace(given, folder=given.folder / name), N_KILLS, N_PER_S, routed=name == "routed", most_s=most_s)
        for name in ("single", "routed")
    ]
    kinds = {one.kind for one in of_kinds}
    figures = (
        f"{sum(one.n_killed for one in of_kinds)} deaths while {len(kinds)} kinds of receiver were told, "
        f"{sum(one.n_again for one in of_kinds)} messages came again; {lives_of[0].figures}; through routes "
        f"{lives_of[1].figures}"
    )
    failures = [failure for one in of_kinds for failure in one.failures()]
    return Verdict(figures, (*failures, *(failure for verdict in lives_of for failure in verdict.failures)))


def killed(given: Given, n_kills: int, n_per_s: float, *, most_s: float, routed: bool = False) -> Verdict:
    """So many lives, or as many as the time allows."""
    cluster = GrowingCluster(given.folder / "cluster", given.seed, n_per_s)
    with ExitStack() as opened:
        nursery = opened.enter_context(lives())
        kept = ROUTED_KEPT if routed else KEPT
        whole, cut = (
            opened.enter_context(followed(given.folder / name, cluster, kept, routed=routed)) for name in NAMES
        )
        killing = Killing(nursery, cut, random.Random(given.seed), routed=routed)
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
        differ = _settled(killing, whole) if routed else compared(whole, cut)
        for pid in (untouched, last):
            nursery.end(pid)
    failures = [
        f"{one.folder.name} has not told everything within {PATIENCE_S:.0f} s: see {one.folder / 'log'}"
        for one, all_told in zip((whole, cut), ended, strict=True)
        if not all_told
    ]
    failures += differ
    n_alerts = len(alerts_of(whole))
    if n_alerts == 0:
        failures.append("no alert was raised: nothing was tried")
    keys = Counter(told.key for told in cut.inbox.messages)
    died = ", ".join(f"{n} at {moment}" for moment, n in sorted(killing.died.items()))
    doubled = 0 if routed else n_under_two_keys(cut.inbox)
    return Verdict(
        f"{number} lives killed ({died}), {cluster.n_incidents} incidents, {n_alerts} alerts in a run that was not "
        f"interrupted; lost {len(set(alerts_of(whole)) - set(alerts_of(cut)))}, "
        f"{'rules of groups broken' if routed else 'under two keys'} {len(differ) if routed else doubled}, "
        f"{len(keys)} messages, {sum(n - 1 for n in keys.values())} repeats under the same key",
        tuple(failures),
    )


def set_back(url: str, version: str) -> None:
    """Make the store one of a version before; one that was never migrated to its end stays."""
    database = create_engine(url)
    with database.begin() as connection:
        command.downgrade(alembic_config(connection), version)
    database.dispose()


def alerts_that_differ(whole: Followed, cut: Followed) -> list[str]:
    """Alerts that are lost, found in excess, or not the same."""
    expected, found = alerts_of(whole), alerts_of(cut)
    failures = [f"lost: alert {alert_id} {expected[alert_id]}" for alert_id in sorted(expected.keys() - found.keys())]
    failures += [f"told without a reason: {found[alert_id]}" for alert_id in sorted(found.keys() - expected.keys())]
    failures += [
        f"alert {alert_id}: expected {expected[alert_id]}, found {found[alert_id]}"
        for alert_id in sorted(expected.keys() & found.keys())
        if expected[alert_id] != found[alert_id]
    ]
    return failures


def compared(whole: Followed, cut: Followed) -> list[str]:
    """What differs."""
    failures = alerts_that_differ(whole, cut)
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


def _settled(killing: Killing, whole: Followed) -> list[str]:
    """What is wrong once nothing is told any more: ends are told with a later look at their groups."""
    started_s, reached = time.monotonic(), -1
    while failures := compared_groups(killing, whole):
        n = len(whole.inbox.messages) + len(killing.cut.inbox.messages)
        if n > reached:
            started_s, reached = time.monotonic(), n
        if time.monotonic() - started_s > PATIENCE_S / 4:
            break
        time.sleep(0.5)
    return failures[:20]


def compared_groups(killing: Killing, whole: Followed) -> list[str]:
    """What differs, and which rules of groups do not hold."""
    killing.look()
    alerts = alerts_of(whole)
    failures = alerts_that_differ(whole, killing.cut)
    of_whole: dict[str, frozenset[Member]] = {}  # whose receiver takes each message at once
    for one, superseded in ((whole, of_whole), (killing.cut, killing.superseded)):
        names = {alert_id: f"{alert[0]} {alert[1]}" for alert_id, alert in alerts_of(one).items()}
        alone = {alert_id for alert_id, alert in alerts.items() if alert[0] == "lost-after"}
        messages = list(one.inbox.messages)
        failures += wrong_messages(one.folder.name, messages, names, superseded, alone.__contains__)
        told, not_heard = keys_of(messages), frozenset(chain.from_iterable(superseded.values()))
        for alert_id, state in product(names, ("firing", "resolved")):
            if (alert_id, state) not in told and (alert_id, state) not in not_heard:
                failures.append(f"{one.folder.name}: not told that {names[alert_id]} is {state}")
    return failures


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
