"""An alert that fires is put into the groups that its labels lead to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from app.alerting.dispatch.routes import Route, Routing
from app.alerting.payload import fingerprint
from app.settings import Severity

if TYPE_CHECKING:
    from app.store.models import AlertRow
    from app.store.writing.groups import Target
    from app.store.writing.writer import Writer


def hears_of(routing: Routing, labels: Mapping[str, str], severity: str, now_ms: int) -> frozenset[str]:
    """The receivers that are told of an alert with these labels now: no route that leads to them is muted."""
    found = set()
    for route in routing.matched(labels):
        receiver = routing.receivers[route.receiver]
        is_severe = Severity(severity).rank >= receiver.min_severity.rank
        if receiver.enabled and is_severe and route.muted(now_ms) is None:
            found.add(route.receiver)
    return frozenset(found)


def enter(
    writer: Writer,
    routing: Routing,
    alert: AlertRow,
    now_ms: int,
    max_age_ms: int,
    leave_out: Callable[[str], bool] = lambda _receiver: False,
    goes_on: Callable[[Route], Target | None] = lambda _route: None,
) -> list[str]:
    """Put an alert into its groups; returns what is said of each receiver, for the log.

    `leave_out`: of a receiver's name, whether it knows of the alert otherwise. `goes_on`: by the route that
    tells of an incident, the group in whose thread it is told, since that has told of an alert behind it; None: in that
    of its own labels.
    """
    said: list[str] = []
    by_labels = fingerprint(alert.labels)
    for target in routing.targets(alert.labels):
        name = target.route.receiver
        receiver = routing.receivers[name]
        if not receiver.enabled:
            said.append(f"{name} is not told: the receiver is disabled")
        elif Severity(alert.severity).rank < receiver.min_severity.rank:
            said.append(f"{name} is not told: {alert.severity} is below {receiver.min_severity}")
        elif alert.end_ms < now_ms - max_age_ms:
            said.append(f"{name} is not told: it is too old to be news")
        elif not leave_out(name):
            flush_ms = now_ms + target.route.timing.group_wait_ms
            group = goes_on(target.route) or target
            writer.groups.enter(group, target.route.identity, name, alert.id, by_labels, flush_ms, now_ms)
            said.append(f"{name} is told with the group {group.key}")
    return said


__all__ = ["enter", "hears_of"]
