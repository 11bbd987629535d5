"""What the API says of an alert that lies in the alert alone, as JSON: kept while the alert stays as it is.

A filter that thousands fulfil is answered with megabytes, of which most is the same at each request.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from app.alerting.links import Links, runbook_of
from app.alerting.payload import annotations_of, began_ms
from app.alerting.snapshots import snapshot_of
from app.alerting.text import iso
from app.alertmanager.active import ActiveAlert
from app.alertmanager.answers import encoded
from app.live.assembly import links_of
from app.settings import Settings
from app.store.active import AlertVersion, version_of
from app.store.api import Store
from app.store.models import AlertRow

MAX_KEPT_BYTES = 64 * 2**20
"""Of texts; who asks for more than that is answered as slowly as the first one."""


Told = Callable[[ActiveAlert], bytes]
"""Alert -> who is told of it, as JSON."""


class AlertText(NamedTuple):
    """The parts of a JSON object, in order; what depends on the request stands behind each but the last."""

    to_ends_at: bytes
    to_status: bytes
    rest: bytes

    def with_all(self, ends_at: bytes, status: bytes) -> bytes:
        """The whole object; each as JSON."""
        return b"".join((self.to_ends_at, ends_at, self.to_status, status, self.rest))


@dataclass(slots=True)
class _Kept:
    """A text of the alert as it was at a mark of the store."""

    id: str
    version: AlertVersion
    text: AlertText
    mark: int | None


class AlertTexts:
    """Of one store; safe for several threads."""

    def __init__(self, store: Store, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        """The one asked for last at the end."""
        self._n_bytes = 0
        self._settings: Settings | None = None

    def of(self, alerts: Sequence[ActiveAlert], settings: Settings, told: Told) -> list[AlertText | None]:
        """As the alerts are now; None of one that is over, and was deleted, by now. Raises StoreError.

        `told`: by these settings.
        """
        mark = self._store.change_mark()
        with self._lock:
            self._go_by(settings)
            found = {alert.id: self._kept.get(alert.id) for alert in alerts}
        unsure = [alert_id for alert_id, kept in found.items() if kept is None or mark is None or kept.mark != mark]
        versions = self._store.alert_versions(unsure) if unsure else {}
        for alert_id in unsure:
            kept = found[alert_id]
            if kept is not None and kept.version == versions.get(alert_id):
                kept.mark = mark
            else:
                found[alert_id] = None
        new = [alert for alert in alerts if found[alert.id] is None and alert.id in versions]
        made = self._made(new, settings, told, mark) if new else {}
        with self._lock:
            if settings is self._settings:
                for kept in made.values():
                    self._keep(kept)
            for alert_id in found:
                if alert_id in self._kept:
                    self._kept.move_to_end(alert_id)
        found |= made
        return [None if kept is None else kept.text for kept in map(found.get, (alert.id for alert in alerts))]

    def _go_by(self, settings: Settings) -> None:
        """What others say is forgotten."""
        if settings is not self._settings:
            if settings != self._settings:
                self._kept.clear()
                self._n_bytes = 0
            self._settings = settings

    def _made(
        self, alerts: Sequence[ActiveAlert], settings: Settings, told: Told, mark: int | None
    ) -> dict[str, _Kept]:
        rows = self._store.whole_alerts([alert.id for alert in alerts])
        links = links_of(settings)
        return {
            alert.id: _Kept(alert.id, version_of(row), _text_of(alert, row, links, told(alert)), mark)
            for alert in alerts
            if (row := rows.get(alert.id)) is not None
        }

    def _keep(self, kept: _Kept) -> None:
        before = self._kept.pop(kept.id, None)
        self._kept[kept.id] = kept
        self._n_bytes += _size(kept.text) - (0 if before is None else _size(before.text))
        while self._n_bytes > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._n_bytes -= _size(oldest.text)


def _size(text: AlertText) -> int:
    return sum(map(len, text))


def _text_of(alert: ActiveAlert, row: AlertRow, links: Links, told: bytes) -> AlertText:
    snapshot = snapshot_of(row)
    annotations = {
        **annotations_of(snapshot),
        "runbook": runbook_of(snapshot),
        **links.annotations(snapshot),
        **_people(row),
    }
    annotations = {name: value for name, value in sorted(annotations.items()) if value}
    last = {"updatedAt": iso(row.updated_ms), "generatorURL": links.alert(snapshot), "labels": dict(alert.labels)}
    to_status = {"startsAt": iso(began_ms(snapshot))}
    return AlertText(
        _without_end({"annotations": annotations}) + b',"endsAt":',
        b","
        + _without_ends({"fingerprint": alert.fingerprint})
        + b',"receivers":'
        + told
        + b","
        + _without_ends(to_status)
        + b',"status":',
        b"," + encoded(last)[1:],
    )


def _without_end(value: dict[str, Any]) -> bytes:
    return encoded(value)[:-1]


def _without_ends(value: dict[str, Any]) -> bytes:
    return encoded(value)[1:-1]


def _people(row: AlertRow) -> dict[str, str]:
    told = {"acknowledged": "yes"} if row.state == "acknowledged" else {}
    return told if row.assigned_to is None else {**told, "assigned_to": row.assigned_to}


__all__ = ["AlertText", "AlertTexts"]
