"""The alerts that are not over, for those who ask often: which there are, their labels, some of them whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Select, String, cast, func, select
from sqlalchemy.orm import Session, aliased

from app.store.alert_pages import filtered_later, with_hosts
from app.store.bulk import in_chunks
from app.store.models import AlertRow, IncidentMemberRow, SilenceChangeRow, SilenceRow
from app.store.states import OPEN_STATES


class Labelled(NamedTuple):
    """What tells an alert apart."""

    id: str
    query: str
    key: Mapping[str, Any]
    severity: str
    labels: Mapping[str, str]


AlertVersion = tuple[str, int, int, int]
"""What changes with all that is said of an alert: id, revision, updated_ms, n_matches."""


def version_of(alert: AlertRow) -> AlertVersion:
    """That of a row."""
    return alert.id, alert.revision, alert.updated_ms, alert.n_matches


class ChangedSilence(NamedTuple):
    """A silence, and when it was changed last."""

    silence: SilenceRow
    changed_ms: int


def active(session: Session) -> frozenset[str]:
    """`id start_ms` of all alerts that are not over: from an index alone, and put together by the database, since
    100,000 rows take Python longer than the database."""
    listed = func.aggregate_strings(AlertRow.id + " " + cast(AlertRow.start_ms, String), "\n")
    found = session.connection().scalar(select(listed).where(AlertRow.state.in_(OPEN_STATES)))
    return frozenset(found.split("\n") if found else ())


def told_by_incidents(session: Session) -> dict[str, list[str]]:
    """By inhibited alert, the ids of the incidents that are not over and are told in its place."""
    found: dict[str, list[str]] = {}
    for alert_id, incident_id in session.connection().execute(_hidden()):
        found.setdefault(alert_id, []).append(incident_id)
    return found


@cache
def _hidden() -> Select[str, str]:
    """(inhibited alert, incident told in its place). Made once: to make it took as long as to ask."""
    incident = aliased(AlertRow)
    return (
        select(AlertRow.id, incident.id)
        .join(IncidentMemberRow, IncidentMemberRow.alert_id == AlertRow.id)
        .join(incident, incident.id == IncidentMemberRow.incident_id)
        .where(
            AlertRow.inhibited.is_(True),  # few are: by this index
            filtered_later(IncidentMemberRow.covered.is_(True)),
            filtered_later(incident.state.in_(OPEN_STATES)),
        )
    )


def labelled(session: Session, alert_ids: Collection[str]) -> list[Labelled]:
    """What tells these apart, as far as they are kept; it never changes."""
    columns = AlertRow.id, AlertRow.query, AlertRow.key, AlertRow.severity, AlertRow.labels
    found: list[Labelled] = []
    for chunk in in_chunks(sorted(alert_ids)):
        found += (
            Labelled(*row) for row in session.connection().execute(select(*columns).where(AlertRow.id.in_(chunk)))
        )
    return found


def versions(session: Session, alert_ids: Sequence[str]) -> dict[str, AlertVersion]:
    """By id, as far as they are kept."""
    columns = AlertRow.id, AlertRow.revision, AlertRow.updated_ms, AlertRow.n_matches
    found: dict[str, AlertVersion] = {}
    for chunk in in_chunks(alert_ids):
        cursor = session.connection().execute(select(*columns).where(AlertRow.id.in_(chunk))).cursor
        assert cursor is not None, "it returns rows"
        found |= {row[0]: row for row in cursor.fetchall()}
    return found


def whole(session: Session, alert_ids: Sequence[str]) -> dict[str, AlertRow]:
    """By id, with hosts, as far as they are kept."""
    found: dict[str, AlertRow] = {}
    for chunk in in_chunks(alert_ids):
        alerts = session.scalars(select(AlertRow).where(AlertRow.id.in_(chunk)).options(with_hosts()))
        found |= {alert.id: alert for alert in alerts}
    return found


def silences(session: Session, since_ms: int, at_most: int) -> list[ChangedSilence]:
    """Silences whose end lies behind a time, the last to end first."""
    rows = list(
        session.scalars(
            select(SilenceRow)
            .where(SilenceRow.until_ms > since_ms)
            .order_by(SilenceRow.until_ms.desc(), SilenceRow.id)
            .limit(at_most)
        )
    )
    changed = _changed(session, [row.id for row in rows])
    return [ChangedSilence(row, changed.get(row.id, row.created_ms)) for row in rows]


def silence(session: Session, silence_id: int) -> ChangedSilence | None:
    """One, whether it is over or not."""
    row = session.get(SilenceRow, silence_id)
    return None if row is None else ChangedSilence(row, _changed(session, [row.id]).get(row.id, row.created_ms))


def silence_changes(session: Session, ids: Sequence[int]) -> dict[int, list[SilenceChangeRow]]:
    """By silence, what was done to it, the first first; nothing for one that is not kept."""
    found: dict[int, list[SilenceChangeRow]] = {}
    for chunk in in_chunks(ids):
        statement = select(SilenceChangeRow).where(SilenceChangeRow.silence_id.in_(chunk))
        for row in session.scalars(statement.order_by(SilenceChangeRow.silence_id, SilenceChangeRow.revision)):
            found.setdefault(row.silence_id, []).append(row)
    return found


def _changed(session: Session, ids: Sequence[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for chunk in in_chunks(ids):
        last = select(SilenceChangeRow.silence_id, func.max(SilenceChangeRow.at_ms))
        rows = session.execute(last.where(SilenceChangeRow.silence_id.in_(chunk)).group_by(SilenceChangeRow.silence_id))
        found |= {row[0]: row[1] for row in rows}
    return found


__all__ = [
    "AlertVersion",
    "ChangedSilence",
    "Labelled",
    "active",
    "labelled",
    "silence",
    "silence_changes",
    "silences",
    "told_by_incidents",
    "version_of",
    "versions",
    "whole",
]
