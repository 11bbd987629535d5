"""Writing, inside one transaction that `Store.transaction` opened."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Protocol

from sqlalchemy import ColumnElement, bindparam, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session, make_transient_to_detached

from app.settings import Retention
from app.store import retention as retention_of_rows
from app.store.alert_pages import longest_ms
from app.store.bulk import Row, insert_rows, insert_values
from app.store.known_alerts import KnownAlerts, Span
from app.store.last_told import LastTold
from app.store.models import (
    AlertChangeRow,
    AlertHostRow,
    AlertRow,
    Base,
    CheckpointRow,
    EvidenceRow,
    EvidenceValues,
    LateEventRow,
    NotificationRow,
    ProblemRow,
    ProcessStatusRow,
    ReceiverStatusRow,
    ReportRow,
    SilenceRow,
    SourceStatusRow,
    StatisticRow,
)
from app.store.outbox import SentAgain, given_up, is_overtaken
from app.store.status import LIVE_PROCESS, PROGRESS, REPLAY, ProcessStatus, ReplayStatus, SourceStatus
from app.store.storable import storable_text, storable_values

MAX_PLACE_CHARS = 500
MAX_MESSAGE_CHARS = 1_000
_CHUNK = 500
"""Databases limit the number of bound parameters."""

# Made once: each in_() of a list of values would be looked at value by value.
_TRIED = select(NotificationRow).where(
    NotificationRow.receiver.in_(bindparam("receivers", expanding=True)),
    NotificationRow.fingerprint.in_(bindparam("fingerprints", expanding=True)),
    NotificationRow.status == "pending",
    NotificationRow.tried_since_ms.is_not(None),
)
"""In no order: for the sake of one SQLite would read all that is pending."""
_TO_CLOSE = select(AlertRow.query, AlertRow.key_text, AlertRow.start_ms, AlertRow.end_ms, AlertRow.id).where(
    AlertRow.id.in_(bindparam("ids", expanding=True)), AlertRow.open.is_(True)
)
_LAST_SEQUENCE = select(func.max(NotificationRow.sequence))
_SILENCES = (
    select(SilenceRow)
    .where(SilenceRow.query == bindparam("of_query"), SilenceRow.until_ms > bindparam("now_ms"))
    .order_by(SilenceRow.until_ms.desc(), SilenceRow.id)
)


@dataclass(frozen=True, slots=True)
class NewProblem:
    """Something to be reported once."""

    source: str
    place: str
    kind: str
    message: str


class Host(Protocol):
    """A host that an alert names."""

    @property
    def host(self) -> str:
        """Its name."""
        ...

    @property
    def role(self) -> str:
        """suspect or affected."""
        ...

    @property
    def value_name(self) -> str | None:
        """The RETURN value that is shown beside it."""
        ...

    @property
    def value(self) -> Any:
        """That value."""
        ...


class Writer:
    """The write operations of one transaction.

    Rows that come in numbers are gathered, and written before anything is read that might depend on them; `look_up`
    lets most of what alerting reads be answered from memory.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sequence: int | None = None
        self._known: KnownAlerts | None = None
        self._silences: dict[tuple[str, int], list[SilenceRow]] = {}
        self._new_alerts: dict[str, AlertRow] = {}
        self._gathered: dict[type[Base], list[Row]] = {}
        self._evidence: dict[str, Sequence[EvidenceValues]] = {}
        self._hosts: dict[str, Sequence[Row]] = {}
        """What replaces the evidence and the hosts of alerts."""
        self._messages: list[dict[str, Any]] = []
        self._last_told = LastTold()

    @property
    def session(self) -> Session:
        """For everything else; what was written so far is in it, and follows what is changed of it later."""
        for alert in self.flush():
            make_transient_to_detached(alert)
            self._session.add(alert)
        return self._session

    def look_up(self, spans: Sequence[Span]) -> None:
        """Read what is known of these alerts; what is asked of their queries and keys is then answered from memory."""
        self.flush()
        self._known = KnownAlerts(self._session, spans) if spans else None

    def forget(self) -> None:
        """Ask the database from now on."""
        self.flush()
        self._known = None

    def flush(self) -> list[AlertRow]:
        """Write what was gathered; returns the new alerts, of which later changes are not written."""
        new, self._new_alerts = self._new_alerts, {}
        insert_rows(self._session, AlertRow, [vars(alert) for alert in new.values()])
        evidence, self._evidence = self._evidence, {}
        self._remove(EvidenceRow, evidence.keys() - new.keys())
        insert_values(self._session, EvidenceRow, [*chain.from_iterable(evidence.values())])
        hosts, self._hosts = self._hosts, {}
        self._remove(AlertHostRow, hosts.keys() - new.keys())
        insert_rows(self._session, AlertHostRow, [*chain.from_iterable(hosts.values())])
        gathered, self._gathered = self._gathered, {}
        for model, rows in gathered.items():
            insert_rows(self._session, model, rows)
        messages, self._messages = self._messages, []
        if messages:
            self._add_messages(messages)
        return list(new.values())

    def _remove(self, model: type[Base], alert_ids: Collection[str]) -> None:
        table, before = model.metadata.tables[model.__tablename__], sorted(alert_ids)
        for start in range(0, len(before), _CHUNK):
            self._session.execute(delete(table).where(table.c.alert_id.in_(before[start : start + _CHUNK])))

    # ------------------------------------------------------------- alerts

    def alert(self, alert_id: str) -> AlertRow | None:
        """By id."""
        if self._known is not None:
            if (known := self._known.alert(alert_id)) is not None:
                return known
            if self._known.is_absent(alert_id):
                return None
        return self.session.get(AlertRow, alert_id)

    def alerts_near(self, query: str, key_text: str, start_ms: int, end_ms: int, gap_ms: int) -> list[AlertRow]:
        """Alerts of a query and key within the gap of a closed interval, the earliest first; not merged ones."""
        if self._known is not None and self._known.covers(query, key_text):
            return self._known.near(query, key_text, start_ms - gap_ms, end_ms + gap_ms)
        # Without a bound below, all earlier alerts of the key would be looked at.
        earliest_ms = start_ms - gap_ms - longest_ms(self.session)
        statement = (
            select(AlertRow)
            .where(
                AlertRow.query == query,
                AlertRow.key_text == key_text,
                AlertRow.start_ms >= earliest_ms,
                AlertRow.start_ms <= end_ms + gap_ms,
                AlertRow.end_ms >= start_ms - gap_ms,
                AlertRow.merged_into.is_(None),
            )
            .order_by(AlertRow.start_ms, AlertRow.id)
        )
        return list(self.session.scalars(statement))

    def open_alerts_over(self, watermark_ms: int) -> list[str]:
        """Ids of open alerts whose end and gap the watermark has passed, the earliest first."""
        over = AlertRow.end_ms + AlertRow.group_gap_ms < watermark_ms
        statement = select(AlertRow.id).where(AlertRow.open.is_(True), over)
        return list(self.session.scalars(statement.order_by(AlertRow.start_ms, AlertRow.id)))

    def look_up_to_close(self, alert_ids: Sequence[str]) -> list[AlertRow]:
        """Those of these alerts that are open, in their order, with what has to be known to close them."""
        spans = []
        for start in range(0, len(alert_ids), _CHUNK):
            found = self.session.execute(_TO_CLOSE, {"ids": alert_ids[start : start + _CHUNK]})
            spans += [Span(*of_alert, is_closing=True) for of_alert in found]
        self.look_up(spans)
        alerts = [self.alert(alert_id) for alert_id in alert_ids] if spans else []
        return [alert for alert in alerts if alert is not None and alert.open]

    def open_alerts_of(self, query: str, key_text: str | None) -> list[AlertRow]:
        """Open alerts of a query, and key unless None."""
        if key_text is not None and self._known is not None and self._known.covers(query, key_text):
            return self._known.open(query, key_text)
        statement = select(AlertRow).where(AlertRow.open.is_(True), AlertRow.query == query)
        if key_text is not None:
            statement = statement.where(AlertRow.key_text == key_text)
        return list(self.session.scalars(statement.order_by(AlertRow.start_ms, AlertRow.id)))

    def open_alerts_of_other_meanings(self, known: Mapping[str, str]) -> list[AlertRow]:
        """Open alerts of queries that are none of these (name -> hash of the meaning), or had another meaning."""
        other = or_(AlertRow.query.not_in(sorted(known)), AlertRow.query_hash.not_in(sorted(set(known.values()))))
        statement = select(AlertRow).where(AlertRow.open.is_(True), other)
        return list(self.session.scalars(statement.order_by(AlertRow.start_ms, AlertRow.id)))

    def silenced_alerts(self) -> list[AlertRow]:
        """Alerts that were silenced when they were looked at last, also those that are over since."""
        statement = select(AlertRow).where(AlertRow.silenced.is_(True)).order_by(AlertRow.start_ms, AlertRow.id)
        return list(self.session.scalars(statement))

    def alerts_no_longer_silenced(self, now_ms: int, at_most: int) -> list[AlertRow]:
        """So many of the alerts that were silenced when they were looked at last, and that no silence covers now."""
        covers = exists().where(
            SilenceRow.query == AlertRow.query,
            SilenceRow.until_ms > now_ms,
            SilenceRow.key_text.is_(None) | (SilenceRow.key_text == AlertRow.key_text),
        )
        statement = select(AlertRow).where(AlertRow.silenced.is_(True), ~covers)
        return list(self.session.scalars(statement.order_by(AlertRow.start_ms, AlertRow.id).limit(at_most)))

    def add_alert(self, alert: AlertRow) -> None:
        """A new alert, at once."""
        self.session.add(alert)
        self.session.flush()

    def new_alert(self, columns: Row) -> AlertRow:
        """A new alert, with all its columns; it is written with what becomes of it until `forget`."""
        alert = AlertRow()
        vars(alert).update(columns)  # nobody has to be told of changes of what is not there yet
        self._new_alerts[alert.id] = alert
        if self._known is not None:
            self._known.add(alert)
        return alert

    def add_change(self, change: Row) -> None:
        """A change of state that was made on its alert: the columns of AlertChangeRow."""
        self._gathered.setdefault(AlertChangeRow, []).append(change)

    def last_change_to(self, alert_id: str, state: str) -> AlertChangeRow:
        """The last change of an alert to a state that it had."""
        statement = select(AlertChangeRow).where(AlertChangeRow.alert_id == alert_id, AlertChangeRow.to_state == state)
        return self.session.scalars(statement.order_by(AlertChangeRow.revision.desc()).limit(1)).one()

    def replace_evidence(self, alert_id: str, rows: Sequence[EvidenceValues]) -> None:
        """The events of the match that the alert shows."""
        self._evidence[alert_id] = rows

    def copy_evidence(self, from_alert: str, to_alert: str) -> None:
        """The alert shows the match that the other one shows."""
        found = self.session.execute(select(*EvidenceRow.__table__.columns).where(EvidenceRow.alert_id == from_alert))
        self.replace_evidence(to_alert, [(to_alert, *values) for _, *values in found])

    def replace_hosts(self, alert_id: str, start_ms: int, hosts: Sequence[Host]) -> None:
        """The hosts that an alert names, in order."""
        self._hosts[alert_id] = [
            {
                "alert_id": alert_id,
                "position": position,
                "host": named.host,
                "role": named.role,
                "value_name": named.value_name,
                "value": named.value,
                "start_ms": start_ms,
            }
            for position, named in enumerate(hosts)
        ]

    def add_reports(self, reports: Iterable[Row]) -> int:
        """Rows of reports, with all columns; those that are there stay as they are. Returns how many are new."""
        new: dict[str, Row] = {}
        for report in reports:
            new.setdefault(report["id"], report)
        ids = list(new)
        for start in range(0, len(ids), _CHUNK):
            chunk = ReportRow.id.in_(ids[start : start + _CHUNK])
            for known in self.session.scalars(select(ReportRow.id).where(chunk)):
                del new[known]
        insert_rows(self.session, ReportRow, [*new.values()])
        return len(new)

    def remove_reports(
        self, query: str, key_text: str, lane: str, from_ms: int, to_ms: int, *, keep: Collection[str]
    ) -> int:
        """Remove rows of a report for one key within a closed interval, but those to keep; returns how many went."""
        statement = select(ReportRow).where(
            ReportRow.query == query,
            ReportRow.key_text == key_text,
            ReportRow.lane == lane,
            ReportRow.start_ms >= from_ms,
            ReportRow.end_ms <= to_ms,
        )
        rows = [row for row in self.session.scalars(statement) if row.id not in keep]
        for row in rows:
            self.session.delete(row)
        return len(rows)

    # ----------------------------------------------------- silences, outbox

    def silence_of(self, query: str, key_text: str, now_ms: int) -> SilenceRow | None:
        """The silence that covers alerts of this query and key now."""
        silences = self._silences.get((query, now_ms))
        if silences is None:
            found = self._session.scalars(_SILENCES, {"of_query": query, "now_ms": now_ms})
            silences = self._silences[query, now_ms] = list(found)
        return next((silence for silence in silences if silence.key_text in (None, key_text)), None)

    def add_silence(self, silence: SilenceRow) -> None:
        """A new silence."""
        self._silences.clear()
        self.session.add(silence)

    def silence(self, silence_id: int) -> SilenceRow | None:
        """By its number."""
        return self.session.get(SilenceRow, silence_id)

    def last_silence_of(self, query: str, key_text: str, now_ms: int) -> SilenceRow | None:
        """The silence that covered alerts of this query and key until the latest time before now."""
        statement = select(SilenceRow).where(
            SilenceRow.query == query,
            SilenceRow.until_ms <= now_ms,
            SilenceRow.key_text.is_(None) | (SilenceRow.key_text == key_text),
        )
        return self.session.scalars(statement.order_by(SilenceRow.until_ms.desc(), SilenceRow.id).limit(1)).first()

    def end_silence(self, silence_id: int, actor: str, now_ms: int) -> SilenceRow | None:
        """The silence holds no longer; None when there is none of this number that still holds.

        Its alerts are no longer silenced with the next step, as those of one that is over by itself.
        """
        silence = self.session.get(SilenceRow, silence_id)
        if silence is None or silence.until_ms <= now_ms:
            return None
        silence.until_ms, silence.ended_by = now_ms, actor
        self._silences.clear()
        return silence

    def was_told_since_firing(self, alert_id: str, receiver: str) -> bool:
        """Whether a receiver is, or will be, told that an alert fires, since it began to fire this time."""
        over = select(func.max(AlertChangeRow.revision)).where(
            AlertChangeRow.alert_id == alert_id, AlertChangeRow.to_state == "resolved"
        )
        statement = select(NotificationRow.idempotency_key).where(
            NotificationRow.alert_id == alert_id,
            NotificationRow.receiver == receiver,
            NotificationRow.state == "firing",
            NotificationRow.status.not_in(("failed", "overtaken")),
            NotificationRow.revision > func.coalesce(over.scalar_subquery(), 0),
        )
        return self.session.scalars(statement.limit(1)).first() is not None

    def last_told(self, alert: AlertRow, receiver: str) -> str | None:
        """The state that a receiver is, or will be, told last of an alert; None: it knows nothing of it."""
        if self._known is not None and self._known.has_all_of(alert):
            return self._known.last_told(alert, receiver)
        statement = select(NotificationRow.state).where(
            NotificationRow.alert_id == alert.id, NotificationRow.receiver == receiver
        )
        return self.session.scalars(statement.order_by(NotificationRow.sequence.desc()).limit(1)).first()

    def look_up_told(self, receivers: Collection[str], fingerprints: Collection[str]) -> None:
        """Read at once what `last_told_of_same` is asked for one by one."""
        self._last_told.look_up(self.session, receivers, fingerprints)

    def last_told_of_same(self, fingerprint: str, receiver: str) -> str | None:
        """The state that a receiver is, or will be, told last of alerts with these labels; None: it knows of none."""
        if not self._last_told.knows(receiver, fingerprint):
            self.look_up_told((receiver,), (fingerprint,))
        return self._last_told.state(receiver, fingerprint)

    def add_notification(self, message: Row, alert: AlertRow | None = None) -> bool:
        """Put a message into the outbox: the columns of NotificationRow but `sequence`; False when it is there already.

        `alert`: of which it tells; then it is written with the others that are gathered.
        """
        identity = (message["idempotency_key"], message["receiver"])
        known = self._known if alert is not None and self._known is not None and self._known.has_all_of(alert) else None
        if known is None or alert is None:
            is_there = self.session.get(NotificationRow, identity) is not None
        else:
            is_there = known.knows_message(alert, identity)
        if is_there:
            return False
        if self._sequence is None:
            self._sequence = self._session.scalar(_LAST_SEQUENCE) or 0
        self._sequence += 1
        self._messages.append({**message, "sequence": self._sequence})
        self._last_told.put(message["receiver"], message["fingerprint"], message["state"])
        if known is None or alert is None:
            self.flush()
        else:
            known.add_message(alert, identity, self._sequence, message["state"])
        return True

    def _add_messages(self, messages: Sequence[dict[str, Any]]) -> None:
        """Write new messages, in their order, and let each overtake what is tried of its receiver and fingerprint."""
        tried = self._tried_of_same(messages)
        latest: dict[tuple[str, str], dict[str, Any]] = {}
        for message in messages:
            of_same, now_ms = (message["receiver"], message["fingerprint"]), message["created_ms"]
            if message["status"] != "pending":
                continue
            if (before := latest.get(of_same)) is not None:
                next_ms = before["next_attempt_ms"]
                before |= {"status": "overtaken", "finished_ms": now_ms}
            elif of_same in tried:
                next_ms = max(row.next_attempt_ms for row in tried[of_same])
                for row in tried[of_same]:
                    row.status, row.finished_ms = "overtaken", now_ms
            else:
                continue
            message |= {"next_attempt_ms": max(message["next_attempt_ms"], next_ms), "tried_since_ms": now_ms}
            latest[of_same] = message
        insert_rows(self._session, NotificationRow, messages)

    def _tried_of_same(self, messages: Sequence[Row]) -> dict[tuple[str, str], list[NotificationRow]]:
        """Pending messages that were tried, by receiver and fingerprint, in order, of those of these messages."""
        found: list[NotificationRow] = []
        receivers = sorted({message["receiver"] for message in messages})
        fingerprints = sorted({message["fingerprint"] for message in messages})
        for start in range(0, len(fingerprints), _CHUNK):
            chunk = {"receivers": receivers, "fingerprints": fingerprints[start : start + _CHUNK]}
            found += self._session.scalars(_TRIED, chunk)
        tried: dict[tuple[str, str], list[NotificationRow]] = {}
        for message in sorted(found, key=lambda message: message.sequence):
            tried.setdefault((message.receiver, message.fingerprint), []).append(message)
        return tried

    def record_attempt(
        self, key: str, receiver: str, *, status: str, error: str | None, next_attempt_ms: int, now_ms: int
    ) -> None:
        """What became of one attempt to deliver; status pending, delivered or failed.

        When it is to be tried again and a later message of its fingerprint waits, that one is tried in its place.
        """
        tried = self.session.get(NotificationRow, (key, receiver))
        if tried is None:
            return
        if status != "pending" or tried.status != "overtaken":  # meanwhile, by what was written during the attempt
            tried.status, tried.finished_ms = status, None if status == "pending" else now_ms
        tried.n_attempts += 1
        tried.last_error = error
        tried.next_attempt_ms = next_attempt_ms
        if tried.tried_since_ms is None:
            tried.tried_since_ms = now_ms
        self.session.flush()
        if status == "pending" and (later := self._pending_of_same(tried, NotificationRow.sequence > tried.sequence)):
            *others, last = later
            self._overtake([tried, *others], last, next_attempt_ms, now_ms)

    def withdraw(self, alert: AlertRow, now_ms: int) -> None:
        """Nobody is told what waits of an alert to be tried again; what has become of it is told later."""
        if self._known is not None and self._known.has_all_of(alert) and not self._known.has_messages(alert):
            return
        waiting = update(NotificationRow).where(
            NotificationRow.alert_id == alert.id,
            NotificationRow.status == "pending",
            NotificationRow.tried_since_ms.is_not(None),
        )
        self.session.execute(waiting.values(status="overtaken", finished_ms=now_ms))

    def _pending_of_same(self, message: NotificationRow, *conditions: ColumnElement[bool]) -> list[NotificationRow]:
        """Pending messages of one's receiver and fingerprint, in order."""
        statement = select(NotificationRow).where(
            NotificationRow.receiver == message.receiver,
            NotificationRow.fingerprint == message.fingerprint,
            NotificationRow.status == "pending",
            *conditions,
        )
        return list(self.session.scalars(statement.order_by(NotificationRow.sequence)))

    @staticmethod
    def _overtake(messages: Sequence[NotificationRow], by: NotificationRow, next_ms: int, now_ms: int) -> None:
        """What one message says now is told in place of others; the wait for the next attempt goes on."""
        for message in messages:
            message.status, message.finished_ms = "overtaken", now_ms
        by.next_attempt_ms = max(by.next_attempt_ms, next_ms)
        if by.tried_since_ms is None:
            by.tried_since_ms = now_ms

    def receiver_down(self, receiver: str, error: str, now_ms: int) -> int:
        """A receiver takes no messages; returns since when."""
        row = self._receiver(receiver)
        row.last_error = error
        if row.down_since_ms is None:
            row.down_since_ms = now_ms
        return row.down_since_ms

    def receiver_took(self, receiver: str, now_ms: int) -> tuple[int, str] | None:
        """A receiver has taken a message; when it was down before: (since when, the last error)."""
        row = self._receiver(receiver)
        row.delivered_ms = now_ms
        if row.down_since_ms is None:
            return None
        was_down = row.down_since_ms, row.last_error or ""
        row.down_since_ms = row.last_error = None
        return was_down

    def receiver_status(self, receiver: str) -> ReceiverStatusRow | None:
        """Whether it takes messages; None: there was no attempt yet."""
        return self.session.get(ReceiverStatusRow, receiver)

    def _receiver(self, receiver: str) -> ReceiverStatusRow:
        row = self.session.get(ReceiverStatusRow, receiver)
        if row is None:
            row = ReceiverStatusRow(receiver=receiver, down_since_ms=None, last_error=None, delivered_ms=None)
            self.session.add(row)
        return row

    def send_again(self, receiver: str | None = None, keys: Sequence[str] = (), *, now_ms: int) -> SentAgain:
        """What was given up is pending again, under its Idempotency-Key and with all attempts before it.

        `receiver`: only of this one; `keys`: only these Idempotency-Keys. Messages that a later one has overtaken stay
        given up.
        """
        pending = {
            **{"status": "pending", "n_attempts": 0, "finished_ms": None},
            **{"tried_since_ms": now_ms, "next_attempt_ms": now_ms},
        }
        n_overtaken = n_again = 0
        for failed in given_up(receiver, keys):
            left = select(func.count()).select_from(NotificationRow).where(failed, is_overtaken())
            n_overtaken += self.session.scalar(left) or 0
            again = update(NotificationRow).where(failed, ~is_overtaken()).values(**pending)
            result = self.session.execute(again.execution_options(synchronize_session=False))
            n_again += int(getattr(result, "rowcount", 0))
        return SentAgain(n_again, n_overtaken)

    # ------------------------------------------- problems, counters, positions

    def add_problems(self, problems: Iterable[NewProblem], now_ms: int) -> list[NewProblem]:
        """Count problems; returns those that are new, for the log."""
        new = []
        for problem in problems:
            place = storable_text(problem.place, MAX_PLACE_CHARS)
            row = self.session.get(ProblemRow, (problem.source, place, problem.kind))
            message = storable_text(problem.message, MAX_MESSAGE_CHARS)
            if row is None:
                row = ProblemRow(
                    source=problem.source,
                    place=place,
                    kind=problem.kind,
                    message=message,
                    n_times=1,
                    first_ms=now_ms,
                    last_ms=now_ms,
                )
                self.session.add(row)
                self.session.flush()
                new.append(problem)
            else:
                row.n_times, row.last_ms, row.message = row.n_times + 1, now_ms, message
        return new

    def end_problem(self, problem: NewProblem, now_ms: int) -> None:
        """A problem that lasted is over: its message says so from now on, and it is counted no further."""
        place = storable_text(problem.place, MAX_PLACE_CHARS)
        row = self.session.get(ProblemRow, (problem.source, place, problem.kind))
        if row is not None:
            row.message, row.last_ms = storable_text(problem.message, MAX_MESSAGE_CHARS), now_ms

    def add_statistics(self, increments: Mapping[tuple[str, str, str], int]) -> None:
        """Add to counters named (name, source, type)."""
        names = sorted({name for name, _, _ in increments})
        statement = select(StatisticRow).where(StatisticRow.name.in_(names))
        known = {(row.name, row.source, row.type): row for row in self.session.scalars(statement)}
        for (name, source, event_type), n in sorted(increments.items()):
            row = known.get((name, source, event_type))
            if row is None:
                self.session.add(StatisticRow(name=name, source=source, type=event_type, value=n))
            else:
                row.value += n

    def add_late_events(self, rows: Iterable[LateEventRow]) -> None:
        """Keep events that came too late; those that are there stay as they are."""
        new = {(row.event_id, row.source): row for row in rows}
        ids = sorted({event_id for event_id, _ in new})
        for start in range(0, len(ids), _CHUNK):
            chunk = LateEventRow.event_id.in_(ids[start : start + _CHUNK])
            for event_id, source in self.session.execute(
                select(LateEventRow.event_id, LateEventRow.source).where(chunk)
            ):
                new.pop((event_id, source), None)
        self.session.add_all(new.values())

    def put_source_status(self, sources: Iterable[SourceStatus]) -> None:
        """How the sources stand; rows of sources that are no more go."""
        known = {row.name: row for row in self.session.scalars(select(SourceStatusRow))}
        for source in sources:
            values = {**asdict(source), "last_error": _optional_text(source.last_error)}
            row = known.pop(source.name, None)
            if row is None:
                self.session.add(SourceStatusRow(**values))
            else:
                for name, value in values.items():
                    setattr(row, name, value)
        for gone in known.values():
            self.session.delete(gone)

    def put_process_status(self, status: ProcessStatus, now_ms: int) -> None:
        """How the live process stands."""
        value = storable_values(dict(status))
        self.session.merge(ProcessStatusRow(name=LIVE_PROCESS, updated_ms=now_ms, value=value))

    def put_progress(self, progress: Mapping[str, Any], now_ms: int) -> None:
        """How much of what the checkpoint sets aside is in the store."""
        self.session.merge(ProcessStatusRow(name=PROGRESS, updated_ms=now_ms, value=dict(progress)))

    def put_replay_status(self, status: ReplayStatus, last_ms: int) -> None:
        """A recording fills the store; `last_ms`: its steps are made at this time of the recording at the latest."""
        self.session.merge(ProcessStatusRow(name=REPLAY, updated_ms=last_ms, value=storable_values(dict(status))))

    def n_pending(self, receiver: str | None = None) -> int:
        """Messages that receivers, or one of them, have still to be told."""
        pending = select(func.count()).select_from(NotificationRow).where(NotificationRow.status == "pending")
        if receiver is not None:
            pending = pending.where(NotificationRow.receiver == receiver)
        return self.session.scalar(pending) or 0

    def put_checkpoint(self, checkpoint: CheckpointRow) -> None:
        """This checkpoint belongs to what the transaction writes."""
        self.session.merge(checkpoint)

    def forget_checkpoint(self, pipeline: str) -> None:
        """The next start begins without a past; how far the epoch went stays known to readers of the event log."""
        row = self.session.get(CheckpointRow, pipeline)
        if row is not None:
            ended = {"pipeline": f"{pipeline}, until {row.epoch}"}
            self.session.execute(update(CheckpointRow).where(CheckpointRow.pipeline == pipeline).values(**ended))

    def checkpoint(self, pipeline: str) -> CheckpointRow | None:
        """The checkpoint so far."""
        return self.session.get(CheckpointRow, pipeline)

    # ------------------------------------------------------------- retention

    def apply_retention(self, retention: Retention, now_ms: int) -> dict[str, int]:
        """Delete a bounded part of what is over and older than its retention; returns how many rows went, by table."""
        self.session.flush()
        return retention_of_rows.apply_retention(self.session, retention, now_ms)


def _optional_text(text: str | None) -> str | None:
    return None if text is None else storable_text(text, MAX_MESSAGE_CHARS)


__all__ = ["NewProblem", "Writer"]
