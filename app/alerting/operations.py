"""What a person does to alerts: acknowledge, silence, end a silence. The command line and the dashboard do it alike.

Each is one transaction of its own; a step that runs at the same time comes before or after it, never between.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.alerting.evidence import KnownEvent
from app.alerting.lifecycle import TransitionError
from app.alerting.recorder import AlertingOptions, Recorder
from app.durations import format_duration
from app.errors import AppError, NotFoundError
from app.store.api import Store
from app.store.models import AlertRow
from app.store.storable import storable_text
from app.store.writing.writer import Writer
from collectors.time_units import DAY_MS

MAX_NOTE_CHARS = 1_000
MAX_ACTOR_CHARS = 200
MAX_SILENCE_MS = 366 * DAY_MS
"""Longer is a mistake, or means that the query should be disabled."""


def acknowledge(store: Store, alert_id: str, actor: str, note: str, now_ms: int) -> None:
    """Somebody looks after an alert (its id, or a beginning of it).

    Raises NotFoundError, AppError when the alert does not fire, StoreError.
    """
    found = store.alert(alert_id).alert.id
    with store.transaction() as writer:
        try:
            _recorder(writer, now_ms).acknowledge(_again(writer, found), _actor(actor), _note(note))
        except TransitionError as error:
            raise AppError(f"{found}: {error}") from None


def silence(
    store: Store, alert_id: str, duration_ms: int, actor: str, note: str, now_ms: int, every_key: bool = False
) -> int:
    """No messages for an alert's query and key for some time (with `every_key`: for its query whatever the key).

    New alerts of theirs fire silenced. Returns how many open alerts that silenced. Raises NotFoundError, AppError for
    a duration that is no time or longer than MAX_SILENCE_MS, StoreError.
    """
    if not 0 < duration_ms <= MAX_SILENCE_MS:
        longest = format_duration(MAX_SILENCE_MS)
        raise AppError(f"silence for {format_duration(duration_ms)}: expected more than nothing, at most {longest}")
    found = store.alert(alert_id).alert.id
    with store.transaction() as writer:
        alert = _again(writer, found)
        key_text = None if every_key else alert.key_text
        until_ms = now_ms + duration_ms
        return _recorder(writer, now_ms).silence(alert.query, key_text, until_ms, _actor(actor), _note(note))


def end_silence(store: Store, silence_id: int, actor: str, now_ms: int) -> int:
    """A silence is over before its time; with the next step its alerts are silenced no longer, unless by another one.

    Who was not told before is then told of those that still fire. Returns how many open alerts that concerns. Raises
    NotFoundError when no silence of this number holds, StoreError.
    """
    with store.transaction() as writer:
        silence_row = writer.silences.end(silence_id, _actor(actor), now_ms)
        if silence_row is None:
            raise NotFoundError(f"no silence {silence_id} holds; 'clustercep alerts silences' lists those that do")
        writer.session.flush()
        covered = [
            alert
            for alert in writer.alerts.silenced()
            if alert.open and alert.query == silence_row.query and silence_row.key_text in (None, alert.key_text)
        ]
        return sum(writer.silences.covering(alert.query, alert.key_text, now_ms) is None for alert in covered)


def _again(writer: Writer, alert_id: str) -> AlertRow:
    """The alert as it is now that nobody else writes; retention may have taken it."""
    alert = writer.alerts.get(alert_id)
    if alert is None:
        raise NotFoundError(f"the alert {alert_id} is no longer kept")
    return alert


def _recorder(writer: Writer, now_ms: int) -> Recorder:
    return Recorder(AlertingOptions({}, {}), writer, _no_evidence, now_ms)


def _no_evidence(_event_ids: Sequence[str]) -> dict[str, KnownEvent]:
    """People find no new matches."""
    return {}


def _note(note: str) -> str:
    return storable_text(note, MAX_NOTE_CHARS)


def _actor(actor: str) -> str:
    return storable_text(actor, MAX_ACTOR_CHARS) or "unknown"
