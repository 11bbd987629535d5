"""What receivers were told last by labels: to them, alerts with the same labels are one."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from app.store.bulk import in_chunks
from app.store.models import NotificationRow

_OF_FINGERPRINTS = NotificationRow.fingerprint.in_(bindparam("fingerprints", expanding=True))
_LAST = (
    select(NotificationRow.receiver, NotificationRow.fingerprint, func.max(NotificationRow.sequence))
    .where(NotificationRow.receiver.in_(bindparam("receivers", expanding=True)), _OF_FINGERPRINTS)
    .group_by(NotificationRow.receiver, NotificationRow.fingerprint)
)
"""Answered from the index alone, however many messages there are."""
_STATES = select(NotificationRow.sequence, NotificationRow.state).where(
    NotificationRow.sequence.in_(bindparam("sequences", expanding=True))
)


class LastNotified:
    """The state that each receiver is, or will be, told last of each fingerprint, as far as it was looked up.

    Read once; what is written since has to be told by `put`.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], str | None] = {}

    def look_up(self, session: Session, receivers: Collection[str], fingerprints: Collection[str]) -> None:
        """Read at once what is not known yet of these."""
        wanted = {(receiver, fingerprint) for receiver in receivers for fingerprint in fingerprints}
        wanted -= self._states.keys()
        if not wanted:
            return
        names = sorted({receiver for receiver, _ in wanted})
        texts = sorted({fingerprint for _, fingerprint in wanted})
        self._states |= dict.fromkeys(wanted)
        last: dict[int, tuple[str, str]] = {}
        for chunk in in_chunks(texts):
            asked = {"receivers": names, "fingerprints": chunk}
            for receiver, fingerprint, sequence in session.execute(_LAST, asked):
                last[sequence] = receiver, fingerprint
        sequences = sorted(last)
        for some in in_chunks(sequences):
            for sequence, state in session.execute(_STATES, {"sequences": some}):
                if (place := last[sequence]) in wanted:
                    self._states[place] = state

    def knows(self, receiver: str, fingerprint: str) -> bool:
        """Whether it was looked up, or written since."""
        return (receiver, fingerprint) in self._states

    def state(self, receiver: str, fingerprint: str) -> str | None:
        """As it was looked up; None: the receiver knows nothing of it. Raises KeyError when it was not."""
        return self._states[receiver, fingerprint]

    def put(self, receiver: str, fingerprint: str, state: str) -> None:
        """A new message, later than all others."""
        self._states[receiver, fingerprint] = state


__all__ = ["LastNotified"]
