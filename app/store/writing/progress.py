"""How far the live path is: counters, late events, states of sources and process, checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import select, update

from app.store.bulk import in_chunks
from app.store.models import CheckpointRow, LateEventRow, ProcessStatusRow, SourceStatusRow, StatisticRow
from app.store.status import LIVE_PROCESS, PROGRESS, REPLAY, ProcessStatus, ReplayStatus, SourceStatus
from app.store.storable import MAX_MESSAGE_CHARS, storable_text, storable_values
from app.store.writing.gathered import GatheredRows


class Progress:
    """What a step leaves besides alerts and reports, as one transaction writes it."""

    def __init__(self, rows: GatheredRows) -> None:
        self._rows = rows

    def add_statistics(self, increments: Mapping[tuple[str, str, str], int]) -> None:
        """Add to counters named (name, source, type)."""
        names = sorted({name for name, _, _ in increments})
        statement = select(StatisticRow).where(StatisticRow.name.in_(names))
        known = {(row.name, row.source, row.type): row for row in self._rows.session.scalars(statement)}
        for (name, source, event_type), n in sorted(increments.items()):
            row = known.get((name, source, event_type))
            if row is None:
                self._rows.session.add(StatisticRow(name=name, source=source, type=event_type, value=n))
            else:
                row.value += n

    def add_late_events(self, rows: Iterable[LateEventRow]) -> None:
        """Keep events that came too late; those that are there stay as they are."""
        new = {(row.event_id, row.source): row for row in rows}
        ids = sorted({event_id for event_id, _ in new})
        for chunk in in_chunks(ids):
            of_chunk = LateEventRow.event_id.in_(chunk)
            for event_id, source in self._rows.session.execute(
                select(LateEventRow.event_id, LateEventRow.source).where(of_chunk)
            ):
                new.pop((event_id, source), None)
        self._rows.session.add_all(new.values())

    def put_source_status(self, sources: Iterable[SourceStatus]) -> None:
        """How the sources stand; rows of sources that are no more go."""
        known = {row.name: row for row in self._rows.session.scalars(select(SourceStatusRow))}
        for source in sources:
            values = {**asdict(source), "last_error": _optional_text(source.last_error)}
            row = known.pop(source.name, None)
            if row is None:
                self._rows.session.add(SourceStatusRow(**values))
            else:
                for name, value in values.items():
                    setattr(row, name, value)
        for gone in known.values():
            self._rows.session.delete(gone)

    def put_process_status(self, status: ProcessStatus, now_ms: int) -> None:
        """How the live process stands."""
        value = storable_values(dict(status))
        self._rows.session.merge(ProcessStatusRow(name=LIVE_PROCESS, updated_ms=now_ms, value=value))

    def put_progress(self, progress: Mapping[str, Any], now_ms: int) -> None:
        """How much of what the checkpoint sets aside is in the store."""
        self._rows.session.merge(ProcessStatusRow(name=PROGRESS, updated_ms=now_ms, value=dict(progress)))

    def put_replay_status(self, status: ReplayStatus, last_ms: int) -> None:
        """A recording fills the store; `last_ms`: its steps are made at this time of the recording at the latest."""
        self._rows.session.merge(ProcessStatusRow(name=REPLAY, updated_ms=last_ms, value=storable_values(dict(status))))

    def put_checkpoint(self, checkpoint: CheckpointRow) -> None:
        """This checkpoint belongs to what the transaction writes."""
        self._rows.session.merge(checkpoint)

    def forget_checkpoint(self, pipeline: str) -> None:
        """The next start begins without a past; how far the epoch went stays known to readers of the event log."""
        row = self._rows.session.get(CheckpointRow, pipeline)
        if row is not None:
            ended = {"pipeline": f"{pipeline}, until {row.epoch}"}
            self._rows.session.execute(update(CheckpointRow).where(CheckpointRow.pipeline == pipeline).values(**ended))

    def checkpoint(self, pipeline: str) -> CheckpointRow | None:
        """The checkpoint so far."""
        return self._rows.session.get(CheckpointRow, pipeline)


def _optional_text(text: str | None) -> str | None:
    return None if text is None else storable_text(text, MAX_MESSAGE_CHARS)


__all__ = ["Progress"]
