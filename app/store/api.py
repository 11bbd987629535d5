"""The one way in and out of the store: connections, transactions and reading; writing is in `app.store.writing`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Engine, Select, and_, case, func, or_, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.errors import DamageError, NotFoundError, OwnershipError, StoreError
from app.store import active, alert_pages, believed, owner, urgency
from app.store.alert_pages import EVERY_ALERT, MAX_ROWS, AlertFilter, AlertPage, Cursor
from app.store.bulk import in_chunks
from app.store.change_marks import ChangeMarks
from app.store.damage import damage_of, damaged
from app.store.models import (
    AlertChangeRow,
    AlertGroupRow,
    AlertHostRow,
    AlertRow,
    Base,
    CheckpointRow,
    EvidenceRow,
    IncidentMemberRow,
    LateEventRow,
    NotificationRow,
    ProblemRow,
    ProcessStatusRow,
    ReceiverStatusRow,
    ReportRow,
    SilenceChangeRow,
    SilenceRow,
    SourceStatusRow,
    StatisticRow,
    ToldAlertRow,
)
from app.store.outbox import (
    GivenUp,
    SentAgain,
    due_first,
    due_too_late,
    given_up,
    is_overtaken,
    next_pending,
    to_send_again,
)
from app.store.owner import Claimant
from app.store.schema import open_database
from app.store.status import LIVE_PROCESS, PROGRESS, REPLAY
from app.store.writing.incidents import has_open_members
from app.store.writing.writer import Writer

Row = TypeVar("Row", bound=Base)
Answer = TypeVar("Answer")

ID_BEGINNING_LENGTH = 4
"""Characters of an alert's id: fewer name none."""
MAX_NAMES = 2_000
"""Among so many hosts or jobs the nearest of a mistyped one is looked for."""

_ID_BEGINNING = re.compile(f"[0-9a-f]{{{ID_BEGINNING_LENGTH},32}}")


@dataclass(frozen=True, slots=True)
class AlertDetails:
    """An alert with all that is kept of it."""

    alert: AlertRow
    changes: tuple[AlertChangeRow, ...]
    evidence: tuple[EvidenceRow, ...]
    notifications: tuple[NotificationRow, ...]


class Store:
    """A database whose tables are up to date."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writing = engine.execution_options(writes=True)
        self._marks = ChangeMarks(engine)
        self._token: str | None = None
        """Of the ownership without which this process writes nothing; None: it makes no steps and needs none."""
        self.fatal: StoreError | None = None
        """Why this process can make no more steps: another one owns the store, or what it holds is damaged."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def engine(self) -> Engine:
        """For looking at what the statements do; reading and writing have their own methods."""
        return self._engine

    def close(self) -> None:
        """Give all connections back."""
        self._engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[Writer]:
        """All or nothing; raises StoreError when the database refuses."""
        try:
            with Session(self._writing, expire_on_commit=False) as session, session.begin():
                self._check_owner(session)
                writer = Writer(session)
                yield writer
                writer.rows.flush()
        except SQLAlchemyError as error:
            raise self._refused("written", error) from error
        finally:
            self._marks.changed()

    def check_content(self) -> None:
        """Look at the whole of an SQLite file; raises DamageError, StoreError."""
        if self._engine.dialect.name != "sqlite":
            return
        with self._reading() as session:
            found = session.connection().exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        if found != "ok":
            self.fatal = DamageError(damaged(str(found).splitlines()[-1], self._engine.url))
            raise self.fatal

    # ---------------------------------------------------------- ownership

    def own(self, by: Claimant, *, take_over: bool = False) -> None:
        """Make this process the one that makes steps: from now on each transaction holds only as long as it is.

        Raises OwnershipError while another one is; `take_over`: see `app.store.owner.claim`.
        """
        with self.transaction() as writer:
            token = owner.claim(writer.session.connection(), by, take_over=take_over)
        self._token = token

    def renew(self) -> None:
        """Say that the owner lives; raises OwnershipError when it is another one, StoreError."""
        with self.transaction() as writer:
            if self._token is not None:
                owner.renew(writer.session.connection(), self._token)

    def disown(self) -> None:
        """Let others own the store; raises StoreError when the database cannot be told."""
        token, self._token = self._token, None
        if token is not None:
            with self.transaction() as writer:
                owner.release(writer.session.connection(), token)

    def check_owner(self) -> None:
        """Before something is done outside of the database; raises OwnershipError when another one owns the store."""
        if self._token is not None:
            with self._reading() as session:
                self._check_owner(session)

    def _check_owner(self, session: Session) -> None:
        if self._token is None:
            return
        try:
            owner.check(session.connection(), self._token)
        except OwnershipError as error:
            self.fatal = error
            raise

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        try:
            with Session(self._engine, expire_on_commit=False) as session:
                yield session
        except SQLAlchemyError as error:
            raise self._refused("read", error) from error

    def _refused(self, done: str, error: SQLAlchemyError) -> StoreError:
        if (found := damage_of(error, self._engine.url)) is not None:
            self.fatal = DamageError(found)
            return self.fatal
        return StoreError(f"the store cannot be {done}: {_first_line(error)}")

    # ------------------------------------------------------------- alerts

    def alerts(self, wanted: AlertFilter = EVERY_ALERT) -> list[AlertRow]:
        """Alerts, the latest start first (among equal ones the greatest id)."""
        with self._reading() as session:
            return alert_pages.listed(session, wanted)

    def alert_page(
        self, wanted: AlertFilter = EVERY_ALERT, *, after: Cursor | None = None, before: Cursor | None = None
    ) -> AlertPage:
        """`wanted.limit` alerts in the order of `alerts`: the first ones, those after a place, or those before it.

        The offset does not matter here. Raises ValueError when both places are given.
        """
        if after is not None and before is not None:
            raise ValueError("both after and before are given; expected at most one")
        with self._reading() as session:
            return alert_pages.page(session, wanted, after, before)

    def urgent_alerts(self, wanted: AlertFilter = EVERY_ALERT) -> list[AlertRow]:
        """Alerts by state, severity and time raised, from `wanted.offset` on; for such as are open."""
        with self._reading() as session:
            return urgency.most_urgent(session, wanted)

    def n_before(self, wanted: AlertFilter, place: Cursor, at_most: int = MAX_ROWS) -> int | None:
        """How many alerts stand before this place in the order of `alerts`; None: more than `at_most`."""
        with self._reading() as session:
            n, exact = alert_pages.count(session, wanted, at_most, before=place)
            return n if exact else None

    def count_alerts(self, wanted: AlertFilter = EVERY_ALERT, at_most: int = MAX_ROWS) -> tuple[int, bool]:
        """(How many the filter lets through, True) or (`at_most`, False) when there are more."""
        with self._reading() as session:
            return alert_pages.count(session, wanted, at_most)

    def counts_of_jobs(self, job_ids: Sequence[str], at_most: int = MAX_ROWS) -> dict[str, int]:
        """How many alerts each of these jobs has, up to `at_most`; without those that became part of another one."""
        if not job_ids:
            return {}
        with self._reading() as session:
            return alert_pages.counts_of_jobs(session, job_ids, at_most)

    def n_alerts(self, wanted: AlertFilter = EVERY_ALERT) -> int:
        """How many alerts the filter lets through, whatever its limit; looks at all of them."""
        with self._reading() as session:
            return alert_pages.count(session, wanted, None)[0]

    def alerts_of_query(self, query: str, limit: int = 100) -> list[AlertRow]:
        """The latest alerts of a query."""
        return self.alerts(AlertFilter(queries=(query,), limit=limit))

    def alerts_of_job(self, job_id: str, limit: int = 100) -> list[AlertRow]:
        """The latest alerts about a job."""
        return self.alerts(AlertFilter(job_id=job_id, limit=limit))

    def alerts_of_application(
        self, application_id: str, from_ms: int | None = None, to_ms: int | None = None, limit: int = 100
    ) -> list[AlertRow]:
        """The latest alerts about an application of any type in a closed span, by its id."""
        return self.alerts(AlertFilter(application_id=application_id, from_ms=from_ms, to_ms=to_ms, limit=limit))

    def query_names(self) -> list[str]:
        """The queries that have alerts, in alphabetical order: one look-up each."""
        return self._different(AlertRow.query, MAX_ROWS)

    def host_names(self, limit: int = MAX_NAMES) -> list[str]:
        """The first hosts that alerts name, in any role, in alphabetical order: one look-up each."""
        return self._different(AlertHostRow.host, limit)

    def job_ids(self, limit: int = MAX_NAMES) -> list[str]:
        """The first jobs that alerts are about, in the order of their ids: one look-up each."""
        return self._different(AlertRow.job_id, limit)

    def _different(self, column: InstrumentedAttribute[str] | InstrumentedAttribute[str | None], n: int) -> list[str]:
        """The first values of an indexed column: DISTINCT would read all rows."""
        names: list[str] = []
        with self._reading() as session:
            statement = select(func.min(column))
            name = session.scalar(statement)
            while name is not None and len(names) < n:
                names.append(name)
                name = session.scalar(statement.where(column > name))
        return sorted(names)

    def n_open_alerts(self) -> dict[tuple[str, bool, str], int]:
        """How many alerts are open, by (state, whether it is silenced, severity)."""
        by = (AlertRow.state, AlertRow.silenced, AlertRow.severity)
        counted = select(*by, func.count()).where(AlertRow.open.is_(True))
        with self._reading() as session:
            rows = session.execute(counted.group_by(*by)).all()
        return {(state, silenced, severity): n for state, silenced, severity, n in rows}

    def alert(self, alert_id: str) -> AlertDetails:
        """One alert by its id, or by a beginning of it that no other has; raises NotFoundError."""
        with self._reading() as session:
            alert = find_alert(session, alert_id)
            of_alert = AlertChangeRow.alert_id == alert.id
            return AlertDetails(
                alert,
                tuple(session.scalars(select(AlertChangeRow).where(of_alert).order_by(AlertChangeRow.revision))),
                tuple(
                    session.scalars(
                        select(EvidenceRow).where(EvidenceRow.alert_id == alert.id).order_by(EvidenceRow.position)
                    )
                ),
                tuple(session.scalars(_messages_about(alert.id))),
            )

    def evidence_of(self, alert_ids: Sequence[str]) -> dict[str, list[EvidenceRow]]:
        """What is kept of the matches of a few alerts, in the order of their patterns."""
        of = select(EvidenceRow).where(EvidenceRow.alert_id.in_(alert_ids))
        found: dict[str, list[EvidenceRow]] = {}
        for row in self._all(of.order_by(EvidenceRow.alert_id, EvidenceRow.position)):
            found.setdefault(row.alert_id, []).append(row)
        return found

    def members_of(self, incident_ids: Sequence[str]) -> dict[str, list[AlertRow]]:
        """The alerts of incidents by the incident, the earliest first; others are not among them."""
        found: dict[str, list[AlertRow]] = {}
        with self._reading() as session:
            for chunk in in_chunks(incident_ids):
                of = select(IncidentMemberRow.incident_id, AlertRow).join(
                    AlertRow, AlertRow.id == IncidentMemberRow.alert_id
                )
                of = of.where(IncidentMemberRow.incident_id.in_(chunk), AlertRow.merged_into.is_(None))
                order = (AlertRow.start_ms, AlertRow.id)
                for incident, alert in session.execute(of.order_by(*order).options(alert_pages.with_hosts())):
                    found.setdefault(incident, []).append(alert)
        return found

    def first_members_of(self, incident_ids: Sequence[str], at_most: int) -> dict[str, tuple[list[AlertRow], int]]:
        """As `members_of`, so many of each incident, and how many there are."""
        found: dict[str, tuple[list[AlertRow], int]] = {}
        is_behind = IncidentMemberRow.alert_id == AlertRow.id
        order = (AlertRow.start_ms, AlertRow.id)
        each = IncidentMemberRow.incident_id
        place, n = func.row_number().over(partition_by=each, order_by=order), func.count().over(partition_by=each)
        numbered = select(IncidentMemberRow.incident_id, AlertRow.id, place.label("place"), n.label("n"))
        numbered = numbered.join(AlertRow, is_behind).where(AlertRow.merged_into.is_(None))
        with self._reading() as session:
            for chunk in in_chunks(incident_ids):
                of = numbered.where(IncidentMemberRow.incident_id.in_(chunk)).subquery()
                first = select(of.c.incident_id, of.c.n, AlertRow).join(AlertRow, AlertRow.id == of.c.id)
                first = first.where(of.c.place <= at_most).order_by(*order).options(alert_pages.with_hosts())
                for incident, n_members, alert in session.execute(first):
                    found.setdefault(incident, ([], n_members))[0].append(alert)
        return found

    def incidents_of(self, alert_id: str) -> list[AlertRow]:
        """The incidents that an alert is part of, the latest first."""
        of = select(AlertRow).join(IncidentMemberRow, IncidentMemberRow.incident_id == AlertRow.id)
        of = of.where(IncidentMemberRow.alert_id == alert_id).order_by(AlertRow.start_ms.desc(), AlertRow.id)
        return self._all(of.options(alert_pages.with_hosts()))

    def read(self, ask: Callable[[Session], Answer]) -> Answer:
        """What `ask` makes of what is stored; raises StoreError."""
        with self._reading() as session:
            return ask(session)

    def reports(
        self,
        query: str | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit: int = 1_000,
        offset: int = 0,
    ) -> list[ReportRow]:
        """Rows of reports, the latest start first; times as in AlertFilter."""
        statement = select(ReportRow).order_by(ReportRow.start_ms.desc(), ReportRow.id.desc())
        if query is not None:
            statement = statement.where(ReportRow.query == query)
        if to_ms is not None:
            statement = statement.where(ReportRow.start_ms <= to_ms)
        with self._reading() as session:
            if from_ms is not None:
                length = ReportRow.end_ms - ReportRow.start_ms
                longest_ms = session.scalar(select(length).order_by(length.desc()).limit(1)) or 0
                statement = statement.where(ReportRow.start_ms >= from_ms - longest_ms, ReportRow.end_ms >= from_ms)
            return list(session.scalars(statement.limit(min(limit, MAX_ROWS)).offset(offset)))

    def n_reports_by_query(self) -> dict[str, int]:
        """How many rows each report has."""
        return self._counts(select(ReportRow.query, func.count()).group_by(ReportRow.query))

    def n_alerts_by_query(self) -> dict[str, int]:
        """How many alerts each query has."""
        return self._counts(select(AlertRow.query, func.count()).group_by(AlertRow.query))

    def notifications(self, status: str | None = None, limit: int = MAX_ROWS) -> list[NotificationRow]:
        """The outbox in order of writing."""
        statement = select(NotificationRow).order_by(NotificationRow.sequence, NotificationRow.receiver)
        if status is not None:
            statement = statement.where(NotificationRow.status == status)
        return self._all(statement.limit(limit))

    def due_notification(self, receiver: str, now_ms: int, longest_wait_ms: int) -> NotificationRow | None:
        """The message whose attempt is due, that of the earliest time first; None while none is.

        Nothing waits longer than `longest_wait_ms`: what seems to was written before the clock was set back; it is due.
        """
        with self._reading() as session:
            due = session.scalars(due_first(receiver), {"now_ms": now_ms}).first()
            if due is not None:
                return due
            return session.scalars(due_too_late(receiver), {"latest_ms": now_ms + longest_wait_ms}).first()

    def next_attempt_ms(self, receiver: str) -> int | None:
        """When the next attempt to tell a receiver is due; None when nothing waits for it."""
        with self._reading() as session:
            following = session.scalars(next_pending(receiver)).first()
            return None if following is None else following.next_attempt_ms

    def still_firing(
        self, receiver: str, fingerprint: Callable[[Mapping[str, str]], str], behind: str, at_most: int
    ) -> tuple[list[AlertRow], str | None]:
        """See app.store.believed."""
        with self._reading() as session:
            return believed.still_firing(session, receiver, fingerprint, behind, at_most)

    def next_flush_ms(self) -> int | None:
        """When a group of alerts is looked at next; None: there is none."""
        with self._reading() as session:
            return session.scalar(select(func.min(AlertGroupRow.flush_ms)))

    def alert_groups(self, limit: int = MAX_ROWS) -> list[AlertGroupRow]:
        """Groups of alerts that are told together, by receiver and key."""
        order = (AlertGroupRow.receiver, AlertGroupRow.key, AlertGroupRow.id)
        return self._all(select(AlertGroupRow).order_by(*order).limit(limit))

    def group_figures(self) -> dict[str, tuple[int, int]]:
        """By receiver: how many groups of alerts there are, and since when (ms) the oldest of them waits of which
        nothing was told yet; 0: there is none."""
        untold = func.min(case((AlertGroupRow.told_ms.is_(None), AlertGroupRow.created_ms)))
        with self._reading() as session:
            found = session.execute(
                select(AlertGroupRow.receiver, func.count(), untold).group_by(AlertGroupRow.receiver)
            ).all()
        return {receiver: (n, oldest_ms or 0) for receiver, n, oldest_ms in found}

    def receivers_down(self) -> dict[str, int]:
        """Receivers that take no messages, and since when."""
        return {row.receiver: row.down_since_ms for row in self.receiver_status() if row.down_since_ms is not None}

    def receiver_status(self) -> list[ReceiverStatusRow]:
        """Whether receivers take messages, by name; those that were never told anything are not among them."""
        return self._all(select(ReceiverStatusRow).order_by(ReceiverStatusRow.receiver))

    def failed_notifications(self, limit: int = 1_000) -> list[NotificationRow]:
        """What was given up, the latest first."""
        order = (NotificationRow.sequence.desc(), NotificationRow.receiver.desc())
        return self._all(
            select(NotificationRow).where(NotificationRow.status == "failed").order_by(*order).limit(limit)
        )

    def to_send_again(self, receiver: str | None = None, keys: Sequence[str] = ()) -> list[GivenUp]:
        """Which messages `Writer.outbox.send_again` with the same arguments would send, by receiver."""
        with self._reading() as session:
            return to_send_again(session, receiver, keys)

    def n_to_send_again(self, receiver: str | None = None, keys: Sequence[str] = ()) -> SentAgain:
        """What `Writer.outbox.send_again` with the same arguments would do."""
        n_again = n_overtaken = 0
        with self._reading() as session:
            for failed in given_up(receiver, keys):
                counted = select(func.count()).select_from(NotificationRow).where(failed)
                n_again += session.scalar(counted.where(~is_overtaken())) or 0
                n_overtaken += session.scalar(counted.where(is_overtaken())) or 0
        return SentAgain(n_again, n_overtaken)

    def n_notifications(self) -> dict[tuple[str, str], int]:
        """How many notifications there are, by (receiver, status)."""
        counted = select(NotificationRow.receiver, NotificationRow.status, func.count())
        with self._reading() as session:
            rows = session.execute(counted.group_by(NotificationRow.status, NotificationRow.receiver)).all()
        return {(receiver, status): n for receiver, status, n in rows}

    def n_notifications_by_status(self) -> dict[str, int]:
        """How many notifications are pending, delivered, failed, overtaken."""
        return self._counts(select(NotificationRow.status, func.count()).group_by(NotificationRow.status))

    def problems(self, limit: int = 1_000) -> list[ProblemRow]:
        """Problems, the last seen first."""
        order = (column.desc() for column in (ProblemRow.last_ms, ProblemRow.source, ProblemRow.place, ProblemRow.kind))
        return self._all(select(ProblemRow).order_by(*order).limit(limit))

    def late_events(self, limit: int = 1_000) -> list[LateEventRow]:
        """Events that came after the watermark, the last seen first."""
        order = (column.desc() for column in (LateEventRow.seen_ms, LateEventRow.event_id, LateEventRow.source))
        return self._all(select(LateEventRow).order_by(*order).limit(limit))

    def silences(self, now_ms: int) -> list[SilenceRow]:
        """Silences that are not over, also those that have not begun."""
        return self._all(select(SilenceRow).where(SilenceRow.until_ms > now_ms).order_by(SilenceRow.id))

    def silences_since(self, since_ms: int, at_most: int) -> list[active.ChangedSilence]:
        """Silences whose end lies behind a time, the last to end first, each with when it was changed last."""
        with self._reading() as session:
            return active.silences(session, since_ms, at_most)

    def silence(self, silence_id: int) -> active.ChangedSilence | None:
        """A silence, whether it is over or not; None: there is none of this number."""
        with self._reading() as session:
            return active.silence(session, silence_id)

    def silence_changes(self, silence_ids: Sequence[int]) -> dict[int, list[SilenceChangeRow]]:
        """By silence, what was done to it, the first first."""
        with self._reading() as session:
            return active.silence_changes(session, silence_ids)

    def change_mark(self) -> int | None:
        """What was read after one of these is as it is while another one equals it; None says nothing."""
        try:
            return self._marks.now()
        except SQLAlchemyError as error:
            raise self._refused("read", error) from error

    def active_alerts(self) -> frozenset[str]:
        """`id start_ms` of all alerts that are not over."""
        with self._reading() as session:
            return active.active(session)

    def told_by_incidents(self) -> dict[str, list[str]]:
        """By alert, the ids of the incidents that are not over and are told in its place."""
        with self._reading() as session:
            return active.told_by_incidents(session)

    def labelled(self, alert_ids: Collection[str]) -> list[active.Labelled]:
        """What tells these alerts apart, as far as they are kept."""
        with self._reading() as session:
            return active.labelled(session, alert_ids)

    def alert_versions(self, alert_ids: Sequence[str]) -> dict[str, active.AlertVersion]:
        """What changes with all that is said of these alerts, by id, as far as they are kept."""
        with self._reading() as session:
            return active.versions(session, alert_ids)

    def whole_alerts(self, alert_ids: Sequence[str]) -> dict[str, AlertRow]:
        """These alerts with their hosts, by id, as far as they are kept."""
        with self._reading() as session:
            return active.whole(session, alert_ids)

    def source_status(self) -> list[SourceStatusRow]:
        """How the sources of the live process stand, by name."""
        return self._all(select(SourceStatusRow).order_by(SourceStatusRow.name))

    def n_over(self, watermark_ms: int, at_most: int) -> int:
        """How many open alerts the watermark has passed, counted up to `at_most`."""
        over = AlertRow.end_ms + AlertRow.group_gap_ms < watermark_ms
        counted = (
            select(AlertRow.id).where(AlertRow.open.is_(True), over, ~has_open_members()).limit(at_most).subquery()
        )
        with self._reading() as session:
            return session.scalar(select(func.count()).select_from(counted)) or 0

    def progress(self) -> Mapping[str, Any]:
        """How much of what the checkpoint sets aside is stored, see `Writer.progress`; empty when nothing is said."""
        with self._reading() as session:
            row = session.get(ProcessStatusRow, PROGRESS)
            return {} if row is None else row.value

    def process_status(self) -> ProcessStatusRow | None:
        """How the live process stands; None before its first step."""
        with self._reading() as session:
            return session.get(ProcessStatusRow, LIVE_PROCESS)

    def replay_status(self) -> ProcessStatusRow | None:
        """Which recording filled the store (ReplayStatus); None for a live one."""
        with self._reading() as session:
            return session.get(ProcessStatusRow, REPLAY)

    def statistics(self, name: str | None = None) -> list[StatisticRow]:
        """Counters by name, source and type."""
        statement = select(StatisticRow).order_by(StatisticRow.name, StatisticRow.source, StatisticRow.type)
        return self._all(statement if name is None else statement.where(StatisticRow.name == name))

    def checkpoint(self, pipeline: str) -> CheckpointRow | None:
        """Which checkpoint belongs to this content."""
        with self._reading() as session:
            return session.get(CheckpointRow, pipeline)

    def event_log_positions(self) -> dict[str, int]:
        """The last committed step of each epoch, the present one and those that were forgotten."""
        return self._counts(select(CheckpointRow.epoch, func.max(CheckpointRow.number)).group_by(CheckpointRow.epoch))

    def _all(self, statement: Select[Row]) -> list[Row]:
        with self._reading() as session:
            return list(session.scalars(statement))

    def _counts(self, statement: Select[str, int]) -> dict[str, int]:
        with self._reading() as session:
            rows = session.execute(statement).all()
        return {name: n for name, n in rows}  # noqa: C416  # rows are no tuples to the type checker


def _messages_about(alert_id: str) -> Select[NotificationRow]:
    """Messages that tell of an alert alone, and those of groups that told something new of it."""
    is_one = and_(
        ToldAlertRow.idempotency_key == NotificationRow.idempotency_key,
        ToldAlertRow.receiver == NotificationRow.receiver,
    )
    in_groups = select(NotificationRow.sequence).join(ToldAlertRow, is_one).where(ToldAlertRow.alert_id == alert_id)
    alone = and_(NotificationRow.alert_id == alert_id, NotificationRow.group_id.is_(None))
    about = or_(alone, NotificationRow.sequence.in_(in_groups))
    return select(NotificationRow).where(about).order_by(NotificationRow.sequence, NotificationRow.receiver)


def open_store(
    url: str, *, durable: bool = True, make: bool = True, by: Claimant | None = None, take_over: bool = False
) -> Store:
    """Open (and make or migrate) the database at `url`; raises StoreError.

    Not `durable`: a power cut may damage an SQLite file (for replays that can be repeated). Not `make`: a file that is
    not there is an error. A new one in its place would be taken for the store by the process that waits for it.
    `by`: becomes its owner, as `Store.own` says.
    """
    store = Store(open_database(url, durable=durable, make=make, by=by, take_over=take_over))
    try:
        if by is not None:
            store.own(by, take_over=take_over)
    except BaseException:
        store.close()
        raise
    return store


def find_alert(session: Session, alert_id: str) -> AlertRow:
    """By id or by an unambiguous beginning of at least ID_BEGINNING_LENGTH characters; raises NotFoundError."""
    found = []
    if _ID_BEGINNING.fullmatch(alert_id):
        # No LIKE, nor a function of the id: two bounds enter the index of the primary key.
        within = (AlertRow.id >= alert_id, AlertRow.id < alert_id + "g")
        found = list(session.scalars(select(AlertRow).where(*within).options(alert_pages.with_hosts()).limit(2)))
    if len(found) == 1:
        return found[0]
    if found:
        raise NotFoundError(f"several alerts have an id that begins with {alert_id!r}; give more characters")
    if len(alert_id) < ID_BEGINNING_LENGTH:
        raise NotFoundError(
            f"found {alert_id!r}; expected the id of an alert, or its first {ID_BEGINNING_LENGTH} characters at least, "
            "as 'clustercep alerts list --ids' shows them"
        )
    raise NotFoundError(f"no alert has the id {alert_id!r}: list them with 'clustercep alerts list --ids'")


def _first_line(error: SQLAlchemyError) -> str:
    original = getattr(error, "orig", None) or error
    return str(original).splitlines()[0] if str(original) else type(original).__name__


__all__ = ["MAX_ROWS", "AlertDetails", "AlertFilter", "AlertPage", "Cursor", "Store", "find_alert", "open_store"]
