"""Silences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import func, select

from app.store.models import ProcessStatusRow, SilenceChangeRow, SilenceRow
from app.store.writing.gathered import GatheredRows

APPLIED = "silences"
"""Row of process_status: the silences by which alerts were last told to be silenced or not."""
MAX_OVER = 1_000
"""Of those that are over, so many are looked through for who ended one."""


@dataclass(frozen=True)
class Applied:
    """By which silences alerts were last looked at: digests of those that held."""

    digest: str | None = None
    """Of all alerts; None: not known."""
    towards: str | None = None
    """Of the alerts up to `behind`; those that are new since are silenced, or not, by these as well."""
    behind: str = ""


class Silences:
    """Silences as one transaction reads and writes them."""

    def __init__(self, rows: GatheredRows) -> None:
        self._rows = rows

    def not_over(self, now_ms: int) -> list[SilenceRow]:
        """Those whose end lies ahead, also of those that have not begun; the last to end first."""
        statement = select(SilenceRow).where(SilenceRow.until_ms > now_ms)
        return list(self._rows.bare_session.scalars(statement.order_by(SilenceRow.until_ms.desc(), SilenceRow.id)))

    def over(self, now_ms: int) -> list[SilenceRow]:
        """The latest of those that are over, the last to end first."""
        statement = select(SilenceRow).where(SilenceRow.until_ms <= now_ms)
        order = (SilenceRow.until_ms.desc(), SilenceRow.id)
        return list(self._rows.bare_session.scalars(statement.order_by(*order).limit(MAX_OVER)))

    def n_not_over(self, now_ms: int) -> int:
        """How many there are."""
        counted = select(func.count()).select_from(SilenceRow).where(SilenceRow.until_ms > now_ms)
        return self._rows.bare_session.scalar(counted) or 0

    def add(self, silence: SilenceRow) -> None:
        """A new silence."""
        session = self._rows.session
        session.add(silence)
        session.flush()
        self._note(silence, silence.created_ms, silence.actor, "made")

    def get(self, silence_id: int) -> SilenceRow | None:
        """By its number."""
        return self._rows.session.get(SilenceRow, silence_id)

    def change(self, silence: SilenceRow, values: Mapping[str, Any], what: str, actor: str, now_ms: int) -> None:
        """Somebody changes a silence."""
        for name, value in values.items():
            setattr(silence, name, value)
        silence.revision += 1
        self._rows.session.flush()
        self._note(silence, now_ms, actor, what)

    def end(self, silence_id: int, actor: str, now_ms: int) -> SilenceRow | None:
        """The silence holds no longer; None when there is none of this number that is not over.

        Its alerts are no longer silenced with the next step, as those of one that is over by itself.
        """
        silence = self.get(silence_id)
        if silence is None or silence.until_ms <= now_ms:
            return None
        values = {"until_ms": now_ms, "ended_by": actor, "starts_ms": min(silence.starts_ms, now_ms)}
        self.change(silence, values, "ended", actor, now_ms)
        return silence

    def _note(self, silence: SilenceRow, now_ms: int, actor: str, what: str) -> None:
        self._rows.session.add(
            SilenceChangeRow(silence_id=silence.id, revision=silence.revision, at_ms=now_ms, actor=actor, what=what)
        )

    def applied(self) -> Applied:
        """By which silences alerts were last looked at."""
        found = self._rows.bare_session.get(ProcessStatusRow, APPLIED)
        return Applied() if found is None else Applied(**found.value)

    def set_applied(self, applied: Applied, now_ms: int) -> None:
        """Alerts are silenced, or not, by these."""
        self._rows.bare_session.merge(ProcessStatusRow(name=APPLIED, updated_ms=now_ms, value=asdict(applied)))


__all__ = ["Applied", "Silences"]
