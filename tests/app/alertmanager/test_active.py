"""Alerts that are not over, after any changes, against reading all of them anew."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any, cast

import pytest

from app.alerting.dispatch.inhibition import InhibitRule
from app.alerting.dispatch.matchers import Matcher
from app.alertmanager.active import Active, ActiveAlerts
from app.store import Store
from app.store.active import Labelled

MATCHERS = [
    [],
    [Matcher("host", "=", "n1")],
    [Matcher("host", "=~", "n[12]")],
    [Matcher("host", "!=", "n1"), Matcher("alertname", "=", "q1")],
    [Matcher("user", "=", "")],
    [Matcher("user", "!~", "u1|u2"), Matcher("host", "=~", ".*")],
    [Matcher("nothing", "=", "")],
]
RULES = [
    InhibitRule((Matcher("alertname", "=", "q0"),), (Matcher("alertname", "=", "q1"),), ("host",)),
    InhibitRule((Matcher("user", "=", "u1"),), (), ()),
    InhibitRule((Matcher("host", "=", "nowhere"),), (), ("host",)),
]


class Kept:
    """A store as far as it is asked."""

    def __init__(self) -> None:
        self.starts: dict[str, int] = {}
        self.rows: dict[str, Labelled] = {}
        self.hidden: dict[str, list[str]] = {}

    def change_mark(self) -> None:
        return None

    def active_alerts(self) -> frozenset[str]:
        return frozenset(f"{alert_id} {start_ms}" for alert_id, start_ms in self.starts.items())

    def labelled(self, alert_ids: Collection[str]) -> list[Labelled]:
        return [self.rows[alert_id] for alert_id in alert_ids if alert_id in self.rows]

    def told_by_incidents(self) -> dict[str, list[str]]:
        return self.hidden


def change(draw: random.Random, kept: Kept) -> None:
    """Some alerts begin, some are over, some turn out to have begun before; of some nobody knows more in time."""
    for _ in range(draw.choice([0, 1, 1, 2, 10])):
        alert_id = f"{draw.randrange(90):02}"
        if alert_id in kept.starts:
            if draw.random() < 0.3:
                kept.starts[alert_id] -= 5
            else:
                del kept.starts[alert_id]
            continue
        kept.starts[alert_id] = draw.randrange(100)
        if alert_id not in kept.rows and draw.random() < 0.95:
            query, host, task = f"q{draw.randrange(2)}", f"n{draw.randrange(4)}", f"t{draw.randrange(9)}"
            user = {"user": f"u{draw.randrange(3)}"} if draw.random() < 0.7 else {}
            labels: Mapping[str, str] = {"alertname": query, "host": host, "task_id": task, **user}
            kept.rows[alert_id] = Labelled(alert_id, query, {"task_id": task}, "warning", labels)
        if alert_id not in kept.rows:  # it was deleted when its labels were to be read
            kept.starts.pop(alert_id)
    kept.hidden = {of: [draw.choice(list(kept.starts))] for of in kept.starts if draw.random() < 0.2}


def seen(found: ActiveAlerts) -> tuple[Any, ...]:
    """All that answers are made of."""
    by = found.inhibited_by(RULES)
    alerts = {of.id: (of.start_ms, of.query, of.key, dict(of.labels), by(of.labels)) for of in found.matching([])}
    return alerts, found.incidents, [sorted(of.id for of in found.matching(matchers)) for matchers in MATCHERS]


@pytest.mark.parametrize("seed", range(40))
def test_after_changes_it_is_as_if_read_anew(seed: int) -> None:
    draw, kept = random.Random(seed), Kept()
    store = cast(Store, kept)
    active = Active(store)
    before: list[tuple[ActiveAlerts, tuple[Any, ...]]] = []
    for _ in range(30):
        change(draw, kept)
        now = active.now()
        anew = Active(store).now()
        assert seen(now) == seen(anew)
        assert {of.id: of.start_ms for of in now.matching([])}.items() <= kept.starts.items()
        for earlier, told in before:  # others read it still
            assert seen(earlier) == told
        before = [*before[-3:], (now, seen(now))]
