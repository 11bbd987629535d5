"""A query over the event log, in messages: how far it is, each row as soon as it is decided, how it ended and why.

Nothing here knows Streamlit or processes: `dashboard.queries.worker` runs it apart, `dashboard.queries.pool` listens.
The engine gets the log in its order, batch by batch, behind a watermark that follows; memory is that of the query's
window, of one batch and of the rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import engine
from app.queries.messages import (
    End,
    EndReason,
    Failure,
    Message,
    Progress,
    QueryRequest,
    ResultRow,
    RunLimits,
    WindowValues,
    assumes_end,
    n_chars,
    result_row,
    window_values,
)
from collectors.schema import load_event_types
from engine.errors import EngineError, QueryError
from engine.events import EventBatch, EventSchema

BATCH_ROWS = 20_000
MAX_WINDOWS = 20_000
"""Values of so many windows and groups are told for the chart; rows come beside them."""
FIRST_BATCH_ROWS = 2_000
"""The first rows should not wait for a long batch."""


class Log(Protocol):
    """What is read: `app.event_log.EventLogReader`."""

    def batches(
        self, *, types: Collection[str] | None, from_ms: int | None, to_ms: int | None, rows: int
    ) -> Iterator[EventBatch]:
        """Events whose interval touches the closed span, in stream order, no id twice, at most `rows` at a time."""
        ...

    def count(self, *, types: Collection[str] | None, from_ms: int | None, to_ms: int | None) -> int:
        """How many they are, or a few more."""
        ...


def run_query(
    request: QueryRequest,
    log: Log,
    limits: RunLimits,
    *,
    schema: EventSchema | None = None,
    clock: Callable[[], float] = time.monotonic,
    batch_rows: int = BATCH_ROWS,
    memory_bytes: Callable[[], int] | None = None,
) -> Iterator[Message]:
    """Evaluate; messages as things happen, last an End or a Failure. Closing the iterator cancels.

    Does not raise for what the user's query or the data bring about; raises StoreError where the log cannot be read.
    """
    schema = schema or load_event_types()
    try:
        run = _Run.start(request, limits, schema, clock, memory_bytes or memory_in_use_bytes)
        yield from run.evaluate(request, log, batch_rows)
    except QueryError as error:
        yield Failure(str(error))
    except EngineError as error:
        yield Failure(f"the events cannot be evaluated: {error}")
    except MemoryError:
        yield Failure(
            f"the query needs more memory than the {limits.max_memory_bytes // 2**20:,} MiB that a run may take; "
            "choose a shorter time span, a shorter WITHIN, or predicates that keep fewer events"
        )


@dataclass
class _Run:
    """One evaluation under way."""

    query: engine.CompiledQuery
    running: engine.Engine
    limits: RunLimits
    clock: Callable[[], float]
    memory_bytes: Callable[[], int]
    started: float
    every_window: engine.CompiledQuery | None = None
    """Of a query about trends: itself without HAVING."""
    n_windows: int = 0
    """Of these, so many are told."""
    n_events: int = 0
    n_rows: int = 0
    n_row_chars: int = 0
    capped: bool = False
    """A limit left rows out."""

    @classmethod
    def start(
        cls,
        request: QueryRequest,
        limits: RunLimits,
        schema: EventSchema,
        clock: Callable[[], float],
        memory_bytes: Callable[[], int],
    ) -> Self:
        queries = request.compiled(schema)
        bounds = engine.Limits(max_rows=limits.engine_max_rows, work_budget=limits.engine_work_budget)
        own = queries[-1]
        of_all = engine.every_window(own) if own.resolved.is_trend else None
        running = engine.Engine([*queries, of_all] if of_all else queries, schema, limits=bounds)
        return cls(own, running, limits, clock, memory_bytes, clock(), of_all)

    def evaluate(self, request: QueryRequest, log: Log, batch_rows: int) -> Iterator[Message]:
        types, span = self.query.read_types, {"from_ms": request.from_ms, "to_ms": request.to_ms}
        n_estimated = log.count(types=types, **span)
        yield Progress(0, n_estimated, None, 0)
        reason = EndReason.FINISHED
        for batch in _small_first(log.batches(types=types, **span, rows=batch_rows), batch_rows):
            room = self.limits.max_events - self.n_events
            part = batch if len(batch) <= room else EventBatch(batch.table.slice(0, room))
            if len(part):
                # Events of the batch's last time wait for others of that time.
                yield from self._told(self.running.process(part, int(part.t_lo_ms[-1])))
                self.n_events += len(part)
                yield Progress(self.n_events, max(n_estimated, self.n_events), self.running.watermark_ms, self.n_rows)
            stopped = EndReason.EVENT_LIMIT if len(part) < len(batch) else self._stopped()
            if stopped is not None or self._is_full:
                reason = stopped or reason
                break
        # What waits for the last watermark is decided with what is known, unless there is no time or room left.
        if reason in (EndReason.FINISHED, EndReason.EVENT_LIMIT) and not self._is_full:
            yield from self._told(self.running.finish())
        yield self._end(self._stopped_by_rows() or reason)

    @property
    def _is_full(self) -> bool:
        """LIMIT has been reached, and there are more rows: none of the later ones will be told."""
        return self.running.statistics[self.query.name].is_full

    def _of(self, query: engine.CompiledQuery, rows: Sequence[engine.MatchRow]) -> Sequence[engine.MatchRow]:
        """Without those of the queries that it uses, where they say something by themselves."""
        is_alone = self.every_window is None and not self.query.producers
        return rows if is_alone else [row for row in rows if row.query == query.name]

    def _told(self, rows: Sequence[engine.MatchRow]) -> Iterator[ResultRow | WindowValues]:
        yield from self._windows(rows)
        for row in self._of(self.query, rows):
            self.capped = self.capped or row.capped
            if self._stopped_by_rows():
                return
            told = result_row(row)
            self.n_rows += 1
            self.n_row_chars += n_chars(told)
            yield told

    def _windows(self, rows: Sequence[engine.MatchRow]) -> Iterator[WindowValues]:
        """The values of windows, as many as a chart can show."""
        if self.every_window is None:
            return
        found = self._of(self.every_window, rows)[: MAX_WINDOWS - self.n_windows]
        self.n_windows += len(found)
        if found:
            yield window_values(found, engine.trend_numbers(self.every_window))

    def _stopped(self) -> EndReason | None:
        if (self.clock() - self.started) * 1000 >= self.limits.timeout_ms:
            return EndReason.TIME_LIMIT
        if self.memory_bytes() >= self.limits.max_memory_bytes:
            return EndReason.MEMORY_LIMIT
        return self._stopped_by_rows()

    def _stopped_by_rows(self) -> EndReason | None:
        full = self.n_rows >= self.limits.max_rows or self.n_row_chars >= self.limits.max_row_chars
        return EndReason.ROW_LIMIT if full else None

    def _end(self, reason: EndReason) -> End:
        chain = self.query.chain
        counted = [self.running.statistics[query.name] for query in chain]
        return End(
            reason=reason,
            n_events=self.n_events,
            n_rows=self.n_rows,
            n_rejected=sum(each.n_rejected for each in counted),
            n_unfinished=sum(each.n_unfinished for each in counted),
            n_late=self.running.n_late,
            capped=self.capped or any(each.n_limited for each in counted),
            assumes_end=assumes_end(self.query),
            seconds=round(self.clock() - self.started, 3),
            left_out_for=self._left_out_for(),
        )

    def _left_out_for(self) -> str | None:
        """Of each query that left out events."""
        counted = self.running.statistics
        reasons = [query.left_out_for for query in self.query.chain if counted[query.name].n_rejected]
        return "; ".join(dict.fromkeys(filter(None, reasons))) or None


def memory_in_use_bytes() -> int:
    """Resident memory of this process; 0 where the system does not tell."""
    try:
        n_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return n_pages * os.sysconf("SC_PAGE_SIZE")


def _small_first(batches: Iterator[EventBatch], rows: int) -> Iterator[EventBatch]:
    first = True
    for batch in batches:
        if first and len(batch) > FIRST_BATCH_ROWS < rows:
            yield EventBatch(batch.table.slice(0, FIRST_BATCH_ROWS))
            batch = EventBatch(batch.table.slice(FIRST_BATCH_ROWS))  # noqa: PLW2901  # the rest of it
        first = False
        yield batch


__all__ = ["Log", "memory_in_use_bytes", "run_query"]
