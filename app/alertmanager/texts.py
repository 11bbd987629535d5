"""What the API says of an alert that lies in the alert alone, as JSON: kept while the alert stays as it is.

A filter that thousands fulfil is answered with megabytes, of which most is the same at each request.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from app.alerting.links import Links, runbook_of
from app.alerting.payload import annotations_of, began_ms
from app.alerting.snapshots import snapshot_of
from app.alerting.text import iso
from app.alertmanager.active import ActiveAlert
from app.alertmanager.answers import encoded
from app.store.active import AlertVersion
from app.store.api import Store
from app.store.models import AlertRow

MAX_KEPT_BYTES = 64 * 2**20
"""Of texts; who asks for more than that is answered as slowly as the first one."""


class AlertText(NamedTuple):
    """The parts of a JSON object, in order; what depends on the request stands behind each but the last."""

    to_ends_at: bytes
    to_receivers: bytes
    to_status: bytes
    rest: bytes

    def with_all(self, ends_at: bytes, receivers: bytes, status: bytes) -> bytes:
        """The whole object; each as JSON."""
        return b"".join((self.to_ends_at, ends_at, self.to_receivers, receivers, self.to_status, status, self.rest))


@dataclass(slots=True)
class _Kept:
    """A text of the alert as it was at a mark of the store."""

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
        self._links: Links | None = None

    def of(self, alerts: Sequence[ActiveAlert], links: Links) -> list[AlertText | None]:
        """As the alerts are now; None of one that is over, and was deleted, by now. Raises StoreError."""
        mark = self._store.change_mark()
        with self._lock:
            if links != self._links:
                self._kept.clear()
                self._n_bytes, self._links = 0, links
            texts = {alert.id: self._known(alert.id, mark) for alert in alerts}
        unsure = [alert for alert in alerts if texts[alert.id] is None]
        if unsure:
            versions = self._store.alert_versions([alert.id for alert in unsure])
            with self._lock:
                texts |= {alert_id: self._unchanged(version, mark) for alert_id, version in versions.items()}
            texts |= self._made(
                [alert for alert in unsure if alert.id in versions and texts[alert.id] is None], links, mark
            )
        return [texts[alert.id] for alert in alerts]

    def _made(self, alerts: Sequence[ActiveAlert], links: Links, mark: int | None) -> dict[str, AlertText]:
        rows = self._store.whole_alerts([alert.id for alert in alerts]) if alerts else {}
        made = [
            _Kept(AlertVersion.of(rows[alert.id]), _text_of(alert, rows[alert.id], links), mark)
            for alert in alerts
            if alert.id in rows
        ]
        with self._lock:
            if links == self._links:
                for kept in made:
                    self._keep(kept)
        return {kept.version.id: kept.text for kept in made}

    def _known(self, alert_id: str, mark: int | None) -> AlertText | None:
        """Of an alert in a store that nobody has changed since."""
        kept = self._kept.get(alert_id)
        if kept is None or mark is None or kept.mark != mark:
            return None
        self._kept.move_to_end(alert_id)
        return kept.text

    def _unchanged(self, version: AlertVersion, mark: int | None) -> AlertText | None:
        """Of an alert that nobody has changed since."""
        kept = self._kept.get(version.id)
        if kept is None or kept.version != version:
            return None
        kept.mark = mark
        self._kept.move_to_end(version.id)
        return kept.text

    def _keep(self, kept: _Kept) -> None:
        before = self._kept.pop(kept.version.id, None)
        self._kept[kept.version.id] = kept
        self._n_bytes += _size(kept.text) - (0 if before is None else _size(before.text))
        while self._n_bytes > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._n_bytes -= _size(oldest.text)


def _size(text: AlertText) -> int:
    return sum(map(len, text))


def _text_of(alert: ActiveAlert, row: AlertRow, links: Links) -> AlertText:
    snapshot = snapshot_of(row)
    annotations = {
        **annotations_of(snapshot),
        "runbook": runbook_of(snapshot),
        **links.annotations(snapshot),
        **_people(row),
    }
    annotations = {name: value for name, value in sorted(annotations.items()) if value}
    last = {"updatedAt": iso(row.updated_ms), "generatorURL": links.alert(snapshot), "labels": dict(alert.labels)}
    return AlertText(
        _without_end({"annotations": annotations}) + b',"endsAt":',
        b"," + _without_ends({"fingerprint": alert.fingerprint}) + b',"receivers":',
        b"," + _without_ends({"startsAt": iso(began_ms(snapshot))}) + b',"status":',
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
