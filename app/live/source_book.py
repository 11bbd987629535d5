"""How each source stands: its last poll and how it ended, for the pages about health."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from app.live.intake import Intake
from app.live.ordering.watermarks import NEVER_MS
from app.store.models import SourceStatusRow
from app.store.status import SourceStatus


class SourceBook:
    """What the steps learn of the sources; it goes on where the store's rows stand."""

    def __init__(self, intervals_ms: Mapping[str, int]) -> None:
        """`intervals_ms`: how often each source is polled; the sources of the process."""
        self._sources = {
            name: SourceStatus(name, interval_ms, None, None, None, 0, None, False)
            for name, interval_ms in intervals_ms.items()
        }

    def restore(self, rows: Iterable[SourceStatusRow]) -> None:
        """Take over what was stored of the sources that still exist."""
        for row in rows:
            if row.name in self._sources:
                self._sources[row.name] = replace(
                    self._sources[row.name],
                    polled_ms=row.polled_ms,
                    succeeded_ms=row.succeeded_ms,
                    n_failed_in_a_row=row.n_failed_in_a_row,
                    last_error=row.last_error,
                )

    def take(self, intakes: Iterable[Intake]) -> None:
        """Polls of one step, in their order."""
        for intake in intakes:
            known = self._sources.get(intake.source)
            if known is None:
                continue
            if intake.watermark_ms is None:
                reason = intake.problems[-1].message if intake.problems else "the poll failed"
                known = replace(known, n_failed_in_a_row=known.n_failed_in_a_row + 1, last_error=reason)
            else:
                known = replace(known, succeeded_ms=intake.polled_ms, n_failed_in_a_row=0, last_error=None)
            self._sources[intake.source] = replace(known, polled_ms=intake.polled_ms)

    def status(self, watermarks: Mapping[str, tuple[int, bool]]) -> list[SourceStatus]:
        """All sources with their watermark and whether they are left out (`Watermarks.by_source`)."""
        found = []
        for name, known in self._sources.items():
            watermark_ms, left_out = watermarks.get(name, (NEVER_MS, False))
            promised_ms = None if watermark_ms == NEVER_MS else watermark_ms
            found.append(replace(known, watermark_ms=promised_ms, left_out=left_out))
        return found
