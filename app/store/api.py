"""The one way in and out of the store: connections, transactions and reading; writing is in `app.store.writer`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Engine, Select, func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.errors import NotFoundError, StoreError
from app.store.models import (
    AlertChangeRow,
    AlertRow,
    Base,
    CheckpointRow,
    EvidenceRow,
    LateEventRow,
    NotificationRow,
    ProblemRow,
    ReportRow,
    SilenceRow,
    StatisticRow,
)
from app.store.schema import open_database
from app.store.writer import Writer

MAX_ROWS = 10_000

Row = TypeVar("Row", bound=Base)


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """Which alerts to list; None leaves a criterion out. Times: closed interval that the episode must touch."""

    state: str | None = None
    query: str | None = None
    severity: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    limit: int = 100
    offset: int = 0


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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give all connections back."""
        self._engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[Writer]:
        """All or nothing; raises StoreError when the database refuses."""
        try:
            with Session(self._writing, expire_on_commit=False) as session, session.begin():
                yield Writer(session)
        except SQLAlchemyError as error:
            raise StoreError(f"the store cannot be written: {_first_line(error)}") from error

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        try:
            with Session(self._engine, expire_on_commit=False) as session:
                yield session
        except SQLAlchemyError as error:
            raise StoreError(f"the store cannot be read: {_first_line(error)}") from error

    def alerts(self, wanted: AlertFilter = AlertFilter()) -> list[AlertRow]:
        """Alerts, the latest start first."""
        query = _matching(select(AlertRow), wanted).order_by(AlertRow.start_ms.desc(), AlertRow.id)
        with self._reading() as session:
            return list(session.scalars(query.limit(min(wanted.limit, MAX_ROWS)).offset(wanted.offset)))

    def n_alerts(self, wanted: AlertFilter = AlertFilter()) -> int:
        """How many alerts the filter lets through, whatever its limit."""
        with self._reading() as session:
            return session.scalar(_matching(select(func.count()).select_from(AlertRow), wanted)) or 0

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
                tuple(
                    session.scalars(
                        select(NotificationRow)
                        .where(NotificationRow.alert_id == alert.id)
                        .order_by(NotificationRow.sequence, NotificationRow.receiver)
                    )
                ),
            )

    def reports(
        self,
        query: str | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit: int = 1_000,
        offset: int = 0,
    ) -> list[ReportRow]:
        """Rows of reports, the latest start first; times as in AlertFilter."""
        statement = select(ReportRow).order_by(ReportRow.start_ms.desc(), ReportRow.id)
        if query is not None:
            statement = statement.where(ReportRow.query == query)
        if from_ms is not None:
            statement = statement.where(ReportRow.end_ms >= from_ms)
        if to_ms is not None:
            statement = statement.where(ReportRow.start_ms <= to_ms)
        return self._all(statement.limit(min(limit, MAX_ROWS)).offset(offset))

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

    def pending_notifications(self, receiver: str, limit: int = 100) -> list[NotificationRow]:
        """What a receiver has still to be told, in order."""
        return self._all(
            select(NotificationRow)
            .where(NotificationRow.status == "pending", NotificationRow.receiver == receiver)
            .order_by(NotificationRow.sequence)
            .limit(limit)
        )

    def n_notifications_by_status(self) -> dict[str, int]:
        """How many notifications are pending, delivered, failed."""
        return self._counts(select(NotificationRow.status, func.count()).group_by(NotificationRow.status))

    def problems(self, limit: int = 1_000) -> list[ProblemRow]:
        """Problems, the last seen first."""
        order = (ProblemRow.last_ms.desc(), ProblemRow.source, ProblemRow.place, ProblemRow.kind)
        return self._all(select(ProblemRow).order_by(*order).limit(limit))

    def late_events(self, limit: int = 1_000) -> list[LateEventRow]:
        """Events that came after the watermark, the last seen first."""
        return self._all(select(LateEventRow).order_by(LateEventRow.seen_ms.desc(), LateEventRow.event_id).limit(limit))

    def silences(self, now_ms: int) -> list[SilenceRow]:
        """Silences that hold now."""
        return self._all(select(SilenceRow).where(SilenceRow.until_ms > now_ms).order_by(SilenceRow.id))

    def statistics(self, name: str | None = None) -> list[StatisticRow]:
        """Counters by name, source and type."""
        statement = select(StatisticRow).order_by(StatisticRow.name, StatisticRow.source, StatisticRow.type)
        return self._all(statement if name is None else statement.where(StatisticRow.name == name))

    def checkpoint(self, pipeline: str) -> CheckpointRow | None:
        """Which checkpoint belongs to this content."""
        with self._reading() as session:
            return session.get(CheckpointRow, pipeline)

    def _all(self, statement: Select[Row]) -> list[Row]:
        with self._reading() as session:
            return list(session.scalars(statement))

    def _counts(self, statement: Select[str, int]) -> dict[str, int]:
        with self._reading() as session:
            rows = session.execute(statement).all()
        return {name: n for name, n in rows}  # noqa: C416  # rows are no tuples to the type checker


def open_store(url: str, *, durable: bool = True) -> Store:
    """Open (and make or migrate) the database at `url`; raises StoreError.

    Not `durable`: a power cut may damage an SQLite file (for replays that can be repeated).
    """
    return Store(open_database(url, durable=durable))


def find_alert(session: Session, alert_id: str) -> AlertRow:
    """By id or by an unambiguous beginning of at least four characters; raises NotFoundError."""
    alert = session.get(AlertRow, alert_id)
    if alert is not None:
        return alert
    found = []
    if len(alert_id) >= 4:
        # No LIKE: the id comes from a user and may hold wildcards.
        found = list(
            session.scalars(select(AlertRow).where(func.substr(AlertRow.id, 1, len(alert_id)) == alert_id).limit(2))
        )
    if len(found) == 1:
        return found[0]
    reason = "several alerts begin so; give more characters" if found else "list them with 'clustercep alerts list'"
    raise NotFoundError(f"no one alert has the id {alert_id!r}: {reason}")


def _matching(statement: Select[Any], wanted: AlertFilter) -> Select[Any]:
    if wanted.state is not None:
        statement = statement.where(AlertRow.state == wanted.state)
    if wanted.query is not None:
        statement = statement.where(AlertRow.query == wanted.query)
    if wanted.severity is not None:
        statement = statement.where(AlertRow.severity == wanted.severity)
    if wanted.from_ms is not None:
        statement = statement.where(AlertRow.end_ms >= wanted.from_ms)
    if wanted.to_ms is not None:
        statement = statement.where(AlertRow.start_ms <= wanted.to_ms)
    return statement


def _first_line(error: SQLAlchemyError) -> str:
    original = getattr(error, "orig", None) or error
    return str(original).splitlines()[0] if str(original) else type(original).__name__
