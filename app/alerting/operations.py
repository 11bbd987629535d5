"""What a person does to alerts: acknowledge, silence, end a silence. The command line, the dashboard and the API do it
alike, and whether the person may is asked here.

Each is one transaction of its own, a silence of many alerts several; a step that runs at the same time comes before or
after it, never between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from app.alerting.dispatch.matchers import Matchers, all_match
from app.alerting.lifecycle import State, TransitionError
from app.alerting.people import Person, Role
from app.alerting.recording.between_steps import covered_by
from app.alerting.recording.evidence import KnownEvent
from app.alerting.recording.labels import OF_EVERY_QUERY
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.outcome import NewSilence
from app.alerting.recording.recorder import Recorder
from app.alerting.silencing import (
    MAX_SILENCE_MS,
    MAX_SILENCES,
    Holding,
    Silencing,
    labels_of_row,
    matchers_of_alert,
    matchers_of_row,
    silence_text,
    silencing,
)
from app.alerting.text import iso, plain
from app.durations import format_duration
from app.errors import AppError, NotFoundError
from app.store.api import MAX_ROWS, AlertFilter, Store
from app.store.models import AlertRow, SilenceRow
from app.store.outbox import GivenUp, SentAgain
from app.store.states import OPEN_STATES
from app.store.storable import storable_text
from app.store.writing.writer import Writer
from collectors.time_units import DAY_MS

MAX_NOTE_CHARS = 1_000
MAX_ACTOR_CHARS = 200
MOST_COVERED = 100
"""Alerts that one transaction silences: steps wait for it."""
MOST_SENT_AGAIN = 1_000
"""Alerts in whose history one transaction writes that they are sent again; a message tells of at most twice as many."""
MAX_ACKNOWLEDGED_MS = 31 * DAY_MS
MAX_OPERATOR_SILENCE_MS = 7 * DAY_MS
"""Longer ones, recurring ones among them, are an admin's: they are how a failing cluster stays hidden."""


def acknowledge(store: Store, alert_id: str, by: Person, note: str, now_ms: int, *, for_ms: int | None = None) -> None:
    """Somebody looks after an alert (its id, or a beginning of it), until it is over, or `for_ms`: then it fires again.

    Raises NotFoundError, AppError when the alert does not fire or the time is none, ForbiddenError, StoreError.
    """
    by.need(Role.OPERATOR, "acknowledge alerts")
    if for_ms is not None and not 0 < for_ms <= MAX_ACKNOWLEDGED_MS:
        longest = format_duration(MAX_ACKNOWLEDGED_MS)
        raise AppError(f"acknowledged for {for_ms} ms; expected more than nothing, at most {longest}")
    until_ms = None if for_ms is None else now_ms + for_ms
    with _one(store, alert_id, now_ms) as (recorder, alert):
        recorder.acknowledge(alert, _actor(by), _note(note), until_ms)


def unacknowledge(store: Store, alert_id: str, by: Person, note: str, now_ms: int) -> None:
    """Nobody looks after an alert any more: it fires. Raises as `acknowledge` does, AppError when nobody did."""
    by.need(Role.OPERATOR, "undo acknowledgements")
    with _one(store, alert_id, now_ms) as (recorder, alert):
        recorder.unacknowledge(alert, _actor(by), _note(note))


def close(store: Store, alert_id: str, by: Person, note: str, now_ms: int) -> None:
    """An alert is over, whatever its query says; with a further match it fires again.

    Raises as `acknowledge` does, AppError when it is over.
    """
    by.need(Role.OPERATOR, "close alerts")
    with _one(store, alert_id, now_ms) as (recorder, alert):
        recorder.close_by_hand(alert, _actor(by), _note(note))


def assign(store: Store, alert_id: str, to: str | None, by: Person, note: str, now_ms: int) -> None:
    """An alert is somebody's to look after, None: nobody's in particular. Raises as `acknowledge` does."""
    by.need(Role.OPERATOR, "assign alerts")
    name = None if to is None else plain(to.strip(), MAX_ACTOR_CHARS)
    if name == "":
        raise AppError("assigned to a name that is empty; expected somebody's name, or nobody")
    with _one(store, alert_id, now_ms) as (recorder, alert):
        if alert.state == State.RESOLVED:
            raise TransitionError("it is resolved; only alerts that are not over can be assigned")
        if alert.assigned_to != name:
            recorder.assign(alert, name, _actor(by), _note(note))


@contextmanager
def _one(store: Store, alert_id: str, now_ms: int) -> Iterator[tuple[Recorder, AlertRow]]:
    """A transaction about one alert; what its state does not allow is an AppError that names it."""
    found = store.alert(alert_id).alert.id
    with store.transaction() as writer:
        try:
            yield _recorder(writer, now_ms), _again(writer, found)
        except TransitionError as error:
            raise AppError(f"{found}: {error}") from None


def silence(
    store: Store, alert_id: str, duration_ms: int, by: Person, note: str, now_ms: int, every_key: bool = False
) -> int:
    """No messages for an alert's query and key for some time (with `every_key`: for its query whatever the key).

    New alerts of theirs fire silenced. Returns how many open alerts that silenced. Raises NotFoundError, AppError for
    a duration that is no time or longer than MAX_SILENCE_MS, ForbiddenError, StoreError.
    """
    by.need(Role.OPERATOR, "silence alerts")
    alert = store.alert(alert_id).alert
    matchers = matchers_of_alert(alert, every_key=every_key)
    wanted = silencing(matchers, now_ms, now_ms + duration_ms, (), now_ms)
    return _silence(store, wanted, by, note, now_ms, of=alert.id).n_alerts


def silence_matching(store: Store, wanted: Silencing, by: Person, note: str, now_ms: int) -> int:
    """No messages for alerts that match, while the silence holds; one that begins later is a maintenance window.

    Returns how many open alerts that silenced. Raises AppError when there are too many silences, ForbiddenError,
    StoreError.
    """
    return make_silence(store, wanted, by, note, now_ms).n_alerts


def make_silence(store: Store, wanted: Silencing, by: Person, note: str, now_ms: int) -> NewSilence:
    """As `silence_matching`; returns its number, too."""
    by.need(Role.OPERATOR, "silence alerts")
    return _silence(store, wanted, by, note, now_ms)


def new_silence(
    store: Store,
    matchers: Matchers,
    starts_ms: int,
    ends_ms: int,
    by: Person,
    note: str,
    now_ms: int,
    *,
    created_by: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> int:
    """As `silence_matching`, in the name of whom another program says, with its texts by name; returns the number of
    the silence."""
    by.need(Role.OPERATOR, "silence alerts")
    wanted = silencing(matchers, starts_ms, ends_ms, (), now_ms)
    return _silence(store, wanted, by, note, now_ms, created_by=created_by, annotations=annotations).id


def _silence(
    store: Store,
    wanted: Silencing,
    by: Person,
    note: str,
    now_ms: int,
    *,
    of: str | None = None,
    created_by: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> NewSilence:
    """What it covers is found by reading alone, and silenced in parts, so that nobody waits long for the store; what is
    new meanwhile, or left when the process ends in between, is silenced by the next step. `of`: an alert that has to be
    there."""
    _check_length(wanted.ends_ms - max(wanted.starts_ms, now_ms), by)
    actor, note = _actor(by), _note(note)
    covered = store.read(lambda session: covered_by(session, wanted, now_ms))
    with store.transaction() as writer:
        if of is not None:
            _again(writer, of)
        if (n := writer.silences.n_not_over(now_ms)) >= MAX_SILENCES:
            raise AppError(f"there are {n} silences; expected fewer than {MAX_SILENCES}: end some of them first")
        recorder = _recorder(writer, now_ms)
        made = recorder.between_steps.silence(wanted, actor, note, _name(created_by), annotations)
        n_alerts = recorder.between_steps.cover(made, covered[:MOST_COVERED], actor, note)
    for start in range(MOST_COVERED, len(covered), MOST_COVERED):
        with store.transaction() as writer:
            part = covered[start : start + MOST_COVERED]
            n_alerts += _recorder(writer, now_ms).between_steps.cover(made, part, actor, note)
    return NewSilence(made, n_alerts)


def _check_length(length_ms: int, by: Person) -> None:
    if length_ms > MAX_OPERATOR_SILENCE_MS:
        by.need(Role.ADMIN, f"silence for longer than {format_duration(MAX_OPERATOR_SILENCE_MS)}")


@dataclass(frozen=True)
class SilenceEdit:
    """What is to be changed of a silence; None: it stays."""

    matchers: Matchers | None = None
    starts_ms: int | None = None
    ends_ms: int | None = None
    recurrence: Sequence[Mapping[str, Any]] | None = None
    note: str | None = None
    created_by: str | None = None
    annotations: Mapping[str, str] | None = None


def edit_silence(store: Store, silence_id: int, edit: SilenceEdit, by: Person, now_ms: int) -> None:
    """Change a silence that is not over; with the next step alerts are silenced, or not, by what it says now.

    Raises NotFoundError when there is no such silence, AppError for a silence that may not be, ForbiddenError,
    StoreError.
    """
    by.need(Role.OPERATOR, "change silences")
    with store.transaction() as writer:
        row = writer.silences.get(silence_id)
        if row is None or row.until_ms <= now_ms:
            raise _no_silence(silence_id)
        wanted = silencing(
            matchers_of_row(row) if edit.matchers is None else edit.matchers,
            row.starts_ms if edit.starts_ms is None else edit.starts_ms,
            row.until_ms if edit.ends_ms is None else edit.ends_ms,
            row.recurrence if edit.recurrence is None else edit.recurrence,
            now_ms,
        )
        if _hides_more(wanted, row):
            _check_length(wanted.ends_ms - max(wanted.starts_ms, now_ms), by)
        values = {**wanted.columns(), "reason": row.reason if edit.note is None else _note(edit.note)}
        if edit.created_by is not None:
            values["created_by"] = _name(edit.created_by)
        if edit.annotations is not None:
            values["annotations"] = dict(edit.annotations)
        changed = [name for name, value in values.items() if getattr(row, name) != value]
        if changed:
            before = ", ".join(f"{_COLUMNS[name]} was {_shown(row, name)}" for name in changed)
            writer.silences.change(row, values, storable_text(f"changed: {before}", 2_000), _actor(by), now_ms)


def _hides_more(wanted: Silencing, row: SilenceRow) -> bool:
    """Whether a silence may hide what it did not, or when it did not; else who may silence may shorten it."""
    columns = wanted.columns()
    is_other = columns["matchers"] != row.matchers or columns["recurrence"] != row.recurrence
    return is_other or wanted.starts_ms < row.starts_ms or wanted.ends_ms > row.until_ms


_COLUMNS = {
    "matchers": "matchers",
    "starts_ms": "start",
    "until_ms": "end",
    "recurrence": "recurrence",
    "reason": "comment",
    "created_by": "creator",
    "annotations": "annotations",
}


def _shown(row: SilenceRow, column: str) -> str:
    if column == "matchers":
        return silence_text(row)
    value = getattr(row, column)
    return iso(value) if column.endswith("_ms") else repr(value)


def hidden_by(store: Store, matchers: Matchers) -> list[AlertRow]:
    """The alerts that are not over and that a silence with these matchers would hide now, the latest first; of at most
    MAX_ROWS that are looked at. Raises StoreError."""
    going_on = store.alerts(AlertFilter(states=OPEN_STATES, limit=MAX_ROWS))
    return [
        alert
        for alert in going_on
        if all_match(matchers, labels_of_row(alert.labels, alert.key, alert.query, alert.severity))
    ]


def labels_known(store: Store) -> frozenset[str]:
    """The names of labels that every query's alerts may have, and of those that the latest MAX_ROWS alerts have."""
    latest = store.alerts(AlertFilter(limit=MAX_ROWS))
    found = (labels_of_row(alert.labels, alert.key, alert.query, alert.severity) for alert in latest)
    return OF_EVERY_QUERY.union(*found)


def end_silence(store: Store, silence_id: int, by: Person, now_ms: int) -> int:
    """A silence is over before its time; with the next step its alerts are silenced no longer, unless by another one.

    Who was not told before is then told of those that still fire. Returns how many open alerts that concerns. Raises
    NotFoundError when no silence of this number is to come or holds, ForbiddenError, StoreError.
    """
    by.need(Role.OPERATOR, "end silences")
    with store.transaction() as writer:
        row = writer.silences.end(silence_id, _actor(by), now_ms)
        if row is None:
            raise _no_silence(silence_id)
        matchers, holding = matchers_of_row(row), Holding(writer.silences.not_over(now_ms), now_ms)

    def n_concerned(session: Session) -> int:
        n = 0
        for found in Writer(session).alerts.concerned_by_silences(open_too=False):
            labels = labels_of_row(found["labels"], found["key"], found["query"], found["severity"])
            n += found["open"] and all_match(matchers, labels) and holding.covering(labels) is None
        return n

    return store.read(n_concerned)


def send_again(store: Store, keys: Mapping[str | None, Sequence[str]], by: Person, now_ms: int) -> SentAgain:
    """Messages that were given up are pending again, by receiver (None: of all) their Idempotency-Keys (none: all).

    Which they are is found by reading alone, and they are sent in parts, each with the history of its alerts, so that
    nobody waits long for the store. Raises ForbiddenError, StoreError.
    """
    by.need(Role.OPERATOR, "send messages again")
    sent = SentAgain(0, 0)
    for receiver, of in keys.items():
        sent += SentAgain(0, store.n_to_send_again(receiver, of).n_overtaken)
        for of_receiver, part in _parts(store.to_send_again(receiver, of)):
            with store.transaction() as writer:
                sent += writer.outbox.send_again(of_receiver, part, actor=_actor(by), now_ms=now_ms)
    return sent


def _parts(messages: Sequence[GivenUp]) -> Iterator[tuple[str, list[str]]]:
    """(receiver, Idempotency-Keys) of so many as tell of MOST_SENT_AGAIN alerts together, or of one that tells of
    more."""
    part: list[str] = []
    receiver, n_alerts = "", 0
    for message in messages:
        if part and (message.receiver != receiver or n_alerts + len(message.alert_ids) > MOST_SENT_AGAIN):
            yield receiver, part
            part, n_alerts = [], 0
        part.append(message.key)
        receiver, n_alerts = message.receiver, n_alerts + len(message.alert_ids)
    if part:
        yield receiver, part


def _no_silence(silence_id: int) -> NotFoundError:
    return NotFoundError(f"no silence {silence_id} holds; 'clustercep alerts silences' lists those that do")


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


def _actor(by: Person) -> str:
    return storable_text(by.name, MAX_ACTOR_CHARS) or "unknown"


def _name(text: str | None) -> str | None:
    return None if text is None else storable_text(text, MAX_ACTOR_CHARS) or None


__all__ = [
    "MAX_ACKNOWLEDGED_MS",
    "MAX_ACTOR_CHARS",
    "MAX_NOTE_CHARS",
    "MAX_SILENCE_MS",
    "SilenceEdit",
    "acknowledge",
    "assign",
    "close",
    "edit_silence",
    "end_silence",
    "hidden_by",
    "new_silence",
    "send_again",
    "silence",
    "silence_matching",
    "unacknowledge",
]
