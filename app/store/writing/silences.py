"""Silences."""

from __future__ import annotations

from sqlalchemy import bindparam, select

from app.store.models import SilenceRow
from app.store.writing.gathered import GatheredRows

_SILENCES = (
    select(SilenceRow)
    .where(SilenceRow.query == bindparam("of_query"), SilenceRow.until_ms > bindparam("now_ms"))
    .order_by(SilenceRow.until_ms.desc(), SilenceRow.id)
)


class Silences:
    """Silences as one transaction reads and writes them; those of a query are read once."""

    def __init__(self, rows: GatheredRows) -> None:
        self._rows = rows
        self._silences: dict[tuple[str, int], list[SilenceRow]] = {}
        """By query and time."""

    def covering(self, query: str, key_text: str, now_ms: int) -> SilenceRow | None:
        """The silence that covers alerts of this query and key now."""
        silences = self._silences.get((query, now_ms))
        if silences is None:
            found = self._rows.bare_session.scalars(_SILENCES, {"of_query": query, "now_ms": now_ms})
            silences = self._silences[query, now_ms] = list(found)
        return next((silence for silence in silences if silence.key_text in (None, key_text)), None)

    def add(self, silence: SilenceRow) -> None:
        """A new silence."""
        self._silences.clear()
        self._rows.session.add(silence)

    def get(self, silence_id: int) -> SilenceRow | None:
        """By its number."""
        return self._rows.session.get(SilenceRow, silence_id)

    def last_covering(self, query: str, key_text: str, now_ms: int) -> SilenceRow | None:
        """The silence that covered alerts of this query and key until the latest time before now."""
        statement = select(SilenceRow).where(
            SilenceRow.query == query,
            SilenceRow.until_ms <= now_ms,
            SilenceRow.key_text.is_(None) | (SilenceRow.key_text == key_text),
        )
        return self._rows.session.scalars(
            statement.order_by(SilenceRow.until_ms.desc(), SilenceRow.id).limit(1)
        ).first()

    def end(self, silence_id: int, actor: str, now_ms: int) -> SilenceRow | None:
        """The silence holds no longer; None when there is none of this number that still holds.

        Its alerts are no longer silenced with the next step, as those of one that is over by itself.
        """
        silence = self._rows.session.get(SilenceRow, silence_id)
        if silence is None or silence.until_ms <= now_ms:
            return None
        silence.until_ms, silence.ended_by = now_ms, actor
        self._silences.clear()
        return silence


__all__ = ["Silences"]
