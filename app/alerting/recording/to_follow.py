"""What alerts have become between two steps, by people and by the clock, of which a step has to tell."""

from __future__ import annotations

from sqlalchemy.orm import Session

from app.alerting.lifecycle import State
from app.alerting.silencing import Holding, Silencing, labels_of_row
from app.store.models import SilenceRow
from app.store.writing.writer import Writer

MOST_LOOKED_AT = 1_000
"""Alerts that are read at once to see whether silences hide them."""


def n_to_follow(session: Session, now_ms: int, at_most: int) -> int:
    """Alerts that somebody changed by hand, or whose acknowledgement is over, counted up to `at_most`; which is also
    what there is when silences have changed and there are more alerts than are looked at at once.

    `session`: reading."""
    writer = Writer(session)
    n_changed = len(writer.alerts.to_tell(at_most)) + len(writer.alerts.acknowledged_until(now_ms, at_most))
    if n_changed >= at_most:
        return at_most
    holding = Holding(writer.silences.not_over(now_ms), now_ms)
    if writer.silences.applied().digest == holding.digest:
        return n_changed
    n_concerned = writer.alerts.n_concerned_by_silences(open_too=bool(holding), at_most=MOST_LOOKED_AT)
    return at_most if n_concerned == MOST_LOOKED_AT else n_changed


def covered_by(session: Session, wanted: Silencing, now_ms: int) -> list[str]:
    """The alerts, in the order of their ids, that are not over nor silenced, and that a silence would hide now.

    `session`: reading."""
    holding = Holding([SilenceRow(**wanted.columns())], now_ms)
    if not holding:
        return []
    found = Writer(session).alerts.concerned_by_silences(open_too=True)
    return [
        row["id"]
        for row in found
        if row["open"] and row["state"] != State.RESOLVED and not row["silenced"]
        and holding.covering(labels_of_row(row["labels"], row["key"], row["query"], row["severity"]))
    ]  # fmt: skip


__all__ = ["MOST_LOOKED_AT", "covered_by", "n_to_follow"]
