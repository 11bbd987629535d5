"""What a reader of a finished run's rows has to know: limits that were hit, events left out, counts that are bounds."""

from __future__ import annotations

from collections.abc import Mapping

from app.queries.messages import End, EndReason, HistoryLimits, RunLimits
from dashboard.queries.pool import Snapshot
from dashboard.times import duration


def notes_of_recent(most: RunLimits, snapshot: Snapshot) -> list[str]:
    """Of a run over the event log."""
    end = snapshot.end
    if end is None:
        return []
    limits = {
        EndReason.TIME_LIMIT: f"The time limit of {duration(most.timeout_ms)} was reached after {end.n_events:,} "
        "events: later events were not looked at. Choose a shorter span, or have dashboard.query_timeout raised.",
        EndReason.EVENT_LIMIT: f"The limit of {most.max_events:,} events was reached: later events were not looked at. "
        "Choose a shorter span, or have dashboard.max_query_events raised.",
        EndReason.ROW_LIMIT: f"These are the first {end.n_rows:,} rows; there may be more. Add predicates or LIMIT, or "
        "choose a shorter span.",
        EndReason.MEMORY_LIMIT: f"The limit of {most.max_memory_bytes // 2**20:,} MiB of memory was reached after "
        f"{end.n_events:,} events. Choose a shorter span, a shorter WITHIN, or predicates that keep fewer events.",
    }
    more = "A limit on rows was reached (LIMIT of the query, or engine.max_rows): there are more rows."
    return _notes(limits, more, end, snapshot, _left_out(end))


def notes_of_history(most: HistoryLimits, snapshot: Snapshot) -> list[str]:
    """Of a run over the event store, besides what the job said of itself."""
    end = snapshot.end
    if end is None:
        return []
    limits = {
        EndReason.TIME_LIMIT: f"The time limit of {duration(most.timeout_ms)} was reached: rows are missing. Choose a "
        "shorter span, run it in a terminal, or have dashboard.history_timeout raised.",
        EndReason.ROW_LIMIT: f"These are the first {end.n_rows:,} rows that were found; there may be more. Add "
        "predicates or LIMIT, choose a shorter span, or run it in a terminal.",
    }
    return _notes(limits, "LIMIT of the query was reached: there are more rows.", end, snapshot, [])


def _notes(limits: Mapping[EndReason, str], more: str, end: End, snapshot: Snapshot, left_out: list[str]) -> list[str]:
    """By why the run ended; `more` where LIMIT left rows out."""
    notes = [limits[end.reason]] if end.reason in limits else []
    if end.capped:
        notes.append(more)
    if any(not row.count_exact for row in snapshot.rows):
        notes.append("Some counts are lower bounds (at least): the work budget of the search was spent.")
    notes += left_out
    if snapshot.windows and end.reason is EndReason.FINISHED:
        notes.append(
            "The last windows reach beyond the end of the span, and the first ones begin before it: they have only "
            "the events within it."
        )
    elif end.assumes_end and end.reason is EndReason.FINISHED:
        notes.append(
            "The query asks that something does not happen: the end of the span counts as the end of all events, so "
            "that rows near it may be too early."
        )
    return notes


def _left_out(end: End) -> list[str]:
    """Searches and events that took no part, or not wholly; of a job on Spark its own notes tell."""
    notes = []
    if end.n_unfinished:
        notes.append(
            f"{end.n_unfinished:,} searches were stopped by the work budget: matches may be missing. Constrain the "
            "query further, or shorten its window."
        )
    if end.n_rejected:
        why = "they have no exact time" if end.left_out_for is None else end.left_out_for
        notes.append(f"{end.n_rejected:,} events were left out: {why}.")
    if end.n_late:
        notes.append(f"{end.n_late:,} events came out of order and were left out.")
    return notes


__all__ = ["notes_of_history", "notes_of_recent"]
