"""Rows of reports."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import select

from app.store.bulk import Row, in_chunks, insert_rows
from app.store.models import ReportRow
from app.store.writing.gathered import GatheredRows


class Reports:
    """Rows of reports as one transaction writes them."""

    def __init__(self, rows: GatheredRows) -> None:
        self._rows = rows

    def add(self, reports: Iterable[Row]) -> int:
        """Rows of reports, with all columns; those that are there stay as they are. Returns how many are new."""
        new: dict[str, Row] = {}
        for report in reports:
            new.setdefault(report["id"], report)
        ids = list(new)
        for chunk in in_chunks(ids):
            of_chunk = ReportRow.id.in_(chunk)
            for known in self._rows.session.scalars(select(ReportRow.id).where(of_chunk)):
                del new[known]
        insert_rows(self._rows.session, ReportRow, [*new.values()])
        return len(new)

    def remove(self, query: str, key_text: str, lane: str, from_ms: int, to_ms: int, *, keep: Collection[str]) -> int:
        """Remove rows of a report for one key within a closed interval, but those to keep; returns how many went."""
        statement = select(ReportRow).where(
            ReportRow.query == query,
            ReportRow.key_text == key_text,
            ReportRow.lane == lane,
            ReportRow.start_ms >= from_ms,
            ReportRow.end_ms <= to_ms,
        )
        rows = [row for row in self._rows.session.scalars(statement) if row.id not in keep]
        for row in rows:
            self._rows.session.delete(row)
        return len(rows)


__all__ = ["Reports"]
