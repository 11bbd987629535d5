"""What alerts have become between two steps, by people and by the clock, of which a step has to tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from sqlalchemy.orm import Session

from app.alerting import lifecycle
from app.alerting.lifecycle import Change, State
from app.alerting.recording.telling import Telling
from app.alerting.silencing import Holding, Silencing, ended_by, labels_of_row, reason_of
from app.store.models import AlertRow, SilenceRow
from app.store.writing.silences import Applied
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
        if row["open"] and row["state"] != State.RESOLVED and not row["silenced"] and holding.covering(_labels(row))
    ]


class BetweenSteps:
    """Follows it, inside one transaction."""

    def __init__(
        self, writer: Writer, telling: Telling, change: Callable[[AlertRow, Change | None], bool], now_ms: int
    ) -> None:
        """`change`: makes a change of an alert, records and tells it."""
        self._writer = writer
        self._telling = telling
        self._change = change
        self._now_ms = now_ms
        self._is_to_apply = False
        """Whether the store knows by which silences alerts were looked at in this transaction."""

    def follow(self, at_most: int) -> int:
        """Alerts are silenced by what has begun, and no longer by what is over: those are what they have become
        meanwhile; acknowledgements end whose time is over, and what people changed is told. Returns how many there
        were; as many as `at_most`: there may be more."""
        n_done = 0
        for follow in (self._tell_changed_by_hand, self._end_acknowledgements, self._apply_silences):
            if n_done < at_most:
                n_done += follow(at_most - n_done)
        return n_done

    def _tell_changed_by_hand(self, at_most: int) -> int:
        """People know no receivers: the process tells what they did."""
        alerts = self._writer.alerts.by_ids(self._writer.alerts.to_tell(at_most))
        self._telling.look_up(alerts)
        for alert in alerts:
            alert.to_tell = False
            self._telling.change(alert, State.ACKNOWLEDGED if alert.state == State.FIRING else State.FIRING)
        if alerts:
            self._writer.rows.flush()
        return len(alerts)

    def _end_acknowledgements(self, at_most: int) -> int:
        ids = self._writer.alerts.acknowledged_until(self._now_ms, at_most)
        alerts = self._writer.alerts.by_ids(ids)
        self._telling.look_up(alerts)
        for alert in alerts:
            self._change(alert, lifecycle.on_acknowledgement_end())
        if alerts:
            self._writer.rows.flush()
        return len(alerts)

    def _apply_silences(self, at_most: int) -> int:
        applied, digest = self._writer.silences.applied(), self._holding.digest
        if applied.digest == digest:
            return 0
        behind, other = applied.behind if applied.towards == digest else "", list[str]()
        open_too = bool(self._holding)
        rows = self._writer.alerts.concerned_by_silences(open_too=open_too, behind=behind, at_most=MOST_LOOKED_AT)
        is_last = len(rows) < MOST_LOOKED_AT
        for row in rows:
            if len(other) == at_most:
                is_last = False
                break
            behind = row["id"]
            if self._is_otherwise(row):
                other.append(row["id"])
        self._follow_silences(other)
        now_applied = Applied(digest) if is_last else Applied(None, digest, behind)
        self._writer.silences.set_applied(now_applied, self._now_ms)
        return len(other) if is_last else at_most  # looking at so many is a part's work, whatever is found

    def _is_otherwise(self, row: Mapping[str, Any]) -> bool:
        """Whether an alert is not as the silences say."""
        covering = self._holding.covering(_labels(row))
        if row["silenced"] == (covering is not None):
            return False
        return covering is None or (row["open"] and row["state"] != State.RESOLVED)

    def _follow_silences(self, alert_ids: Sequence[str], actor: str = lifecycle.SYSTEM, note: str = "") -> None:
        """These are silenced, or no longer, as the silences say; told in this order, which is that of their ids
        wherever several parts of a step share them."""
        over = self._writer.silences.over(self._now_ms) if alert_ids else []
        alerts = self._writer.alerts.by_ids(alert_ids)
        self._telling.look_up(alerts)
        for alert in alerts:
            labels = _labels_of(alert)
            if (covering := self._holding.covering(labels)) is not None:
                change = lifecycle.on_silence(State(alert.state), alert.silenced, actor, note or reason_of(covering))
                self._change(alert, change)
            else:
                ended = None if self._holding.is_pausing(labels) else ended_by(over, labels)
                self._change(alert, lifecycle.on_silence_end(State(alert.state), ended))
        self._writer.rows.flush()

    # ---------------------------------------------------------------- silences

    def silence(
        self,
        wanted: Silencing,
        actor: str,
        note: str,
        created_by: str | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> int:
        """No messages for alerts that match, while it holds; returns its number. What is there is silenced by `cover`,
        or by the next steps."""
        row = SilenceRow(
            **wanted.columns(),
            created_ms=self._now_ms,
            reason=note,
            actor=actor,
            created_by=created_by,
            annotations=dict(annotations or {}),
        )
        self._writer.silences.add(row)
        vars(self).pop("_holding", None)
        return row.id

    def cover(self, silence_id: int, alert_ids: Sequence[str], actor: str, note: str) -> int:
        """Of these alerts those are silenced that this silence covers, and that are not yet; returns how many."""
        covered = []
        for known in self._writer.alerts.of_silences(alert_ids):
            if self._holding.is_covered_by(silence_id, _labels(known)) and self._is_otherwise(known):
                covered.append(known["id"])
        self._follow_silences(covered, actor, note)
        return len(covered)

    def silencing(self, labels: Mapping[str, str]) -> str | None:
        """Why alerts with these labels are silenced; None: they are not."""
        silence = self._holding.covering(labels)
        return None if silence is None else reason_of(silence)

    def silenced(self, alert: AlertRow) -> str | None:
        """The same of an alert."""
        return self.silencing(_labels_of(alert))

    def looked_for_silences(self) -> None:
        """An alert is silenced, or not, by what holds now: where that is not by what all alerts were looked at last,
        they have to be looked at again, also when the same silences hold then."""
        if self._is_to_apply:
            return
        applied = self._writer.silences.applied()
        if self._holding.digest not in (applied.digest, applied.towards):
            self._writer.silences.set_applied(Applied(), self._now_ms)
        self._is_to_apply = True

    @cached_property
    def _holding(self) -> Holding:
        return Holding(self._writer.silences.not_over(self._now_ms), self._now_ms)


def _labels(row: Mapping[str, Any]) -> Mapping[str, str]:
    return labels_of_row(row["labels"], row["key"], row["query"], row["severity"])


def _labels_of(alert: AlertRow) -> Mapping[str, str]:
    return labels_of_row(alert.labels, alert.key, alert.query, alert.severity)


__all__ = ["MOST_LOOKED_AT", "BetweenSteps", "covered_by", "n_to_follow"]
