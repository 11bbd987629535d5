"""An alert that fires is put into the groups that its labels lead to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.alerting.dispatch.routes import Routing
from app.alerting.payload import fingerprint
from app.settings import Severity

if TYPE_CHECKING:
    from app.store.models import AlertRow
    from app.store.writing.writer import Writer


def enter(
    writer: Writer,
    routing: Routing,
    alert: AlertRow,
    now_ms: int,
    max_age_ms: int,
    leave_out: Callable[[str], bool] = lambda _receiver: False,
) -> list[str]:
    """Put an alert into its groups; returns what is said of each receiver, for the log.

    `leave_out`: of a receiver's name, whether it knows of the alert otherwise.
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
            writer.groups.enter(target, target.route.identity, name, alert, by_labels, flush_ms, now_ms)
            said.append(f"{name} is told with the group {target.key}")
    return said


__all__ = ["enter"]
