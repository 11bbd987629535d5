"""Deleting what is over and older than its retention.

One call deletes a bounded number of rows per table, each found through an index: the write lock, for which steps wait,
is held briefly however large the store is. What remains goes with the next calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from app.settings import Retention
from app.store.bulk import in_chunks
from app.store.models import (
    AlertRow,
    EvidenceRow,
    LateEventRow,
    NotificationRow,
    ProblemRow,
    ProcessStatusRow,
    ReportRow,
    SilenceRow,
)

MAX_PER_CALL = 10_000
_INCIDENT = aliased(AlertRow)
_PROGRESS = "retention"
"""Row of process_status that says how far evidence was deleted."""


def apply_retention(session: Session, retention: Retention, now_ms: int) -> dict[str, int]:
    """Returns how many rows went, by table (with an alert all that is kept of it).

    An alert stays while a receiver has still to be told of it: its messages would go with it. Messages stay while an
    alert of their query and key is open: by them it is known who has to be told that it is over.
    """
    over = AlertRow.open.is_(False)
    finished = NotificationRow.status != "pending"
    of_message, still_open = aliased(AlertRow), aliased(AlertRow)
    settled = ~exists().where(
        of_message.id == NotificationRow.alert_id,
        still_open.query == of_message.query,
        still_open.key_text == of_message.key_text,
        still_open.open.is_(True),
    )
    told = ~exists().where(NotificationRow.alert_id == AlertRow.id, NotificationRow.status == "pending")
    old: dict[str, tuple[InstrumentedAttribute[Any], list[ColumnElement[bool]]]] = {
        "notifications": (
            NotificationRow.idempotency_key,
            [NotificationRow.created_ms < now_ms - retention.notifications_ms, finished, settled],
        ),
        "alerts": (AlertRow.id, [over, AlertRow.updated_ms < now_ms - retention.alerts_ms, told]),
        "reports": (ReportRow.id, [ReportRow.created_ms < now_ms - retention.reports_ms]),
        "late_events": (LateEventRow.event_id, [LateEventRow.seen_ms < now_ms - retention.late_events_ms]),
        "problems": (ProblemRow.place, [ProblemRow.last_ms < now_ms - retention.problems_ms]),
        "silences": (SilenceRow.id, [SilenceRow.until_ms < now_ms - retention.alerts_ms]),
    }
    removed = {"evidence": _remove_evidence(session, now_ms - retention.evidence_ms)}
    for table, (name, conditions) in old.items():
        found = session.scalars(select(name).where(*conditions).limit(MAX_PER_CALL)).all()
        removed[table] = _delete(session, name, found, conditions)
        if table == "alerts":
            _leave_incidents(session, found)
    return removed


def _leave_incidents(session: Session, incident_ids: Sequence[str]) -> None:
    """Alerts that outlive their incident stand by themselves."""
    for chunk in in_chunks(incident_ids):
        is_gone = ~exists().where(_INCIDENT.id == AlertRow.incident_id)
        left = update(AlertRow).where(AlertRow.incident_id.in_(chunk), is_gone).values(incident_id=None)
        session.execute(left.execution_options(synchronize_session=False))


def _remove_evidence(session: Session, before_ms: int) -> int:
    """Of alerts that changed last before a time; those that an earlier call dealt with are not looked at again."""
    progress = session.get(ProcessStatusRow, _PROGRESS)
    done_ms = int(progress.value["evidence_ms"]) if progress is not None else -(2**62)
    over = (AlertRow.open.is_(False), AlertRow.updated_ms >= done_ms, AlertRow.updated_ms < before_ms)
    order = select(AlertRow.id, AlertRow.updated_ms).where(*over).order_by(AlertRow.updated_ms)
    found = session.execute(order.limit(MAX_PER_CALL)).all()
    if len(found) == MAX_PER_CALL and found[0][1] == found[-1][1]:  # more of one moment than a call takes
        found = session.execute(order.where(AlertRow.updated_ms == found[0][1])).all()
        reached_ms = found[-1][1] + 1
    else:
        reached_ms = found[-1][1] if len(found) == MAX_PER_CALL else max(before_ms, done_ms)
    session.merge(ProcessStatusRow(name=_PROGRESS, updated_ms=before_ms, value={"evidence_ms": reached_ms}))
    return _delete(session, EvidenceRow.alert_id, [alert_id for alert_id, _ in found], [])


def _delete(
    session: Session, name: InstrumentedAttribute[Any], found: Sequence[Any], conditions: list[ColumnElement[bool]]
) -> int:
    n_removed = 0
    for chunk in in_chunks(found):
        of_chunk = delete(name.class_).where(name.in_(chunk), *conditions)
        result = session.execute(of_chunk.execution_options(synchronize_session=False))
        n_removed += int(getattr(result, "rowcount", 0))
    return n_removed
