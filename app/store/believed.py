"""Which alerts a receiver believes to fire, and which do: for receivers that have to hear it again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.store.bulk import in_chunks
from app.store.models import AlertGroupRow, AlertRow, GroupMemberRow, NotificationRow


def still_firing(
    session: Session, receiver: str, fingerprint: Callable[[Mapping[str, str]], str], behind: str, at_most: int
) -> tuple[list[AlertRow], str | None]:
    """(Alerts that are not over and that the receiver has taken to fire, id of the last one that was looked at).

    Of `at_most` alerts in order of their ids, from behind one on; None: there are no more. By groups, or by what the
    receiver took last of alerts with these labels.
    """
    going_on = (AlertRow.open.is_(True), AlertRow.state != "resolved", AlertRow.id > behind)
    alerts = list(session.scalars(select(AlertRow).where(*going_on).order_by(AlertRow.id).limit(at_most)))
    told: set[str] = set()
    by_print: dict[str, list[str]] = {}
    for alert in alerts:
        by_print.setdefault(fingerprint(alert.labels), []).append(alert.id)
    for chunk in in_chunks([alert.id for alert in alerts]):
        of_groups = (
            select(GroupMemberRow.alert_id)
            .join(AlertGroupRow, AlertGroupRow.id == GroupMemberRow.group_id)
            .where(
                GroupMemberRow.alert_id.in_(chunk), GroupMemberRow.told.is_(True), AlertGroupRow.receiver == receiver
            )
        )
        told.update(session.scalars(of_groups))
    for chunk in in_chunks(sorted(by_print)):
        taken = (
            NotificationRow.receiver == receiver,
            NotificationRow.fingerprint.in_(chunk),
            NotificationRow.status == "delivered",
        )
        last = select(func.max(NotificationRow.sequence)).where(*taken).group_by(NotificationRow.fingerprint)
        firing = select(NotificationRow.fingerprint).where(
            NotificationRow.sequence.in_(last), NotificationRow.receiver == receiver, NotificationRow.state == "firing"
        )
        told.update(alert_id for found in session.scalars(firing) for alert_id in by_print[found])
    last_id = alerts[-1].id if len(alerts) == at_most else None
    return [alert for alert in alerts if alert.id in told], last_id


__all__ = ["still_firing"]
