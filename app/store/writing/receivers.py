"""Whether receivers take messages."""

from __future__ import annotations

from app.store.models import ReceiverStatusRow
from app.store.writing.gathered import GatheredRows


class Receivers:
    """How receivers stand, as one transaction reads and writes it."""

    def __init__(self, rows: GatheredRows) -> None:
        self._rows = rows

    def down(self, receiver: str, error: str, now_ms: int) -> int:
        """A receiver takes no messages; returns since when."""
        row = self._row(receiver)
        row.last_error = error
        if row.down_since_ms is None:
            row.down_since_ms = now_ms
        return row.down_since_ms

    def took(self, receiver: str, now_ms: int) -> tuple[int, str] | None:
        """A receiver has taken a message; when it was down before: (since when, the last error)."""
        row = self._row(receiver)
        row.delivered_ms = now_ms
        if row.down_since_ms is None:
            return None
        was_down = row.down_since_ms, row.last_error or ""
        row.down_since_ms = row.last_error = None
        return was_down

    def status(self, receiver: str) -> ReceiverStatusRow | None:
        """Whether it takes messages; None: there was no attempt yet."""
        return self._rows.session.get(ReceiverStatusRow, receiver)

    def _row(self, receiver: str) -> ReceiverStatusRow:
        row = self._rows.session.get(ReceiverStatusRow, receiver)
        if row is None:
            row = ReceiverStatusRow(receiver=receiver, down_since_ms=None, last_error=None, delivered_ms=None)
            self._rows.session.add(row)
        return row


__all__ = ["Receivers"]
