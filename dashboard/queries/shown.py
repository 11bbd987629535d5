"""Rows of a query on a page: a table, files to take away, and the events behind one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
import pyarrow.compute as pc
import streamlit as st

from app.queries.messages import MAX_IDS, End, HistoryLimits, ResultRow, RunLimits
from dashboard.events.details import bound_events_frame
from dashboard.queries.pool import QueryRun, Snapshot
from dashboard.queries.results import (
    BEGINS,
    CONFIDENCE,
    ENDS,
    EVENTS,
    FIRST,
    JOB,
    LAST,
    NUMBERS,
    ROUNDED,
    as_csv,
    as_json_lines,
    n_matches,
    result_frame,
)
from dashboard.queries.window_chart import chart_of_windows
from dashboard.store import AppError, event_log
from dashboard.text import md
from dashboard.times import exactly
from engine.events import EventBatch

PREVIEW_ROWS = 200
"""Rows shown while a query still runs."""

AnyRun = QueryRun[RunLimits] | QueryRun[HistoryLimits]

_FILES = "editor-files"


def preview(snapshot: Snapshot, key: str) -> None:
    """The first rows, while others may come."""
    rows = snapshot.rows
    if rows:
        n_shown = min(len(rows), PREVIEW_ROWS)
        after = "" if snapshot.first_row_s is None else f"; the first came after {snapshot.first_row_s:.2f} s"
        st.caption(f"The first {n_shown:,} of {len(rows):,} rows so far{after}")
        _table(rows[:PREVIEW_ROWS], key, choose=False)


def account(end: End, notes: Sequence[str], span: str) -> None:
    """How a run ended that came to its end: what has to be known of its rows, and how much was read in the `span`."""
    for text in notes:
        st.warning(text, icon=":material/info:")
    rows = "1 row" if end.n_rows == 1 else f"{end.n_rows:,} rows"
    st.caption(f"{rows} from {end.n_events:,} events{span}, in {end.seconds:.1f} s")


def results(run: AnyRun, snapshot: Snapshot, *, of_log: bool = True) -> None:
    """All rows. `of_log`: their events are those of the event log; else it may have them or not."""
    rows = snapshot.rows
    chart_of_windows(run, snapshot)
    if not rows:
        if snapshot.end is not None and snapshot.windows:
            st.info("HAVING lets no window through: the values are those of the chart.", icon=":material/filter_alt:")
        elif snapshot.end is not None:
            st.info(
                "No match. Choose a longer span, or look at the plan: which predicate may be too strict?",
                icon=":material/search_off:",
            )
        return
    has_events = any(row.bindings for row in rows)
    chosen = _table(rows, f"editor-rows-{run.id}", choose=has_events)
    table, lines = _files(run.id, rows)
    buttons = st.container(horizontal=True)
    for label, data, kind, mime in (
        ("CSV", table, "csv", "text/csv"),
        ("JSON lines", lines, "jsonl", "application/jsonl"),
    ):
        buttons.download_button(
            label, data, f"{run.request.name}.{kind}", mime, icon=":material/download:", on_click="ignore"
        )
    if not has_events:
        st.caption("A row is about all trends of its window, after its begin up to its end; it names no events.")
    elif chosen is None:
        st.caption("Select a row to see the events behind it.")
    else:
        _details(rows[chosen], run.request.variables_of_others(), of_log=of_log)


def _files(run_id: str, rows: Sequence[ResultRow]) -> tuple[str, str]:
    """The rows as CSV and JSON lines, made once per run."""
    made = st.session_state.get(_FILES)
    if made is None or made[0] != run_id:
        made = (run_id, as_csv(rows), as_json_lines(rows))
        st.session_state[_FILES] = made
    return made[1], made[2]


def _table(rows: Sequence[ResultRow], key: str, *, choose: bool) -> int | None:
    frame = result_frame(rows)
    config: dict[str, Any] = {
        JOB: st.column_config.LinkColumn(JOB, display_text=r"id=(.+)$", help="Open the page of this job."),
        FIRST: st.column_config.DatetimeColumn(FIRST, format="YYYY-MM-DD HH:mm:ss.SSS"),
        LAST: st.column_config.DatetimeColumn(LAST, format="YYYY-MM-DD HH:mm:ss.SSS"),
        BEGINS: st.column_config.DatetimeColumn(BEGINS, format="YYYY-MM-DD HH:mm:ss.SSS"),
        ENDS: st.column_config.DatetimeColumn(ENDS, format="YYYY-MM-DD HH:mm:ss.SSS"),
        ROUNDED: st.column_config.CheckboxColumn(ROUNDED, help="A whole number of the row is beyond 2^63."),
        NUMBERS: st.column_config.TextColumn(NUMBERS, help="Over all possible orders of events that overlap in time."),
        CONFIDENCE: st.column_config.NumberColumn(CONFIDENCE, format="%.3f"),
        EVENTS: st.column_config.NumberColumn(EVENTS, help="Events that the match binds."),
    }
    if not choose:
        st.dataframe(frame, hide_index=True, column_config=config, placeholder="", key=key)
        return None
    state = st.dataframe(
        frame,
        hide_index=True,
        column_config=config,
        placeholder="",
        key=key,
        on_select="rerun",
        selection_mode="single-row",
    )
    chosen = state.selection.rows
    return chosen[0] if chosen and chosen[0] < len(rows) else None


def _details(row: ResultRow, matches: Mapping[str, str], *, of_log: bool) -> None:
    """The events that a row binds, from the log."""
    with st.container(border=True):
        about = f"{exactly(row.first_lo_ms)} to {exactly(row.last_hi_ms)}"
        about += "; a sample of the events" if row.of_trends else f", confidence {row.confidence:.3f}"
        if row.count != 1 or not row.count_exact:
            about += f"; the row stands for {n_matches(row)} matches, of which the best is shown"
        st.caption(about)
        frame = bound_events(row, matches, of_log=of_log)
        if frame is None:
            return
        st.dataframe(frame, hide_index=True, placeholder="", key="editor-bound")
        cut = [f"{md(name)} ({n:,})" for name, n in row.n_bound.items() if n > MAX_IDS]
        if cut:
            st.caption(f"Of these the first {MAX_IDS:,} are shown: {', '.join(cut)}")
        if row.candidates is not None:
            kind = "occur" if row.exact else "may occur"
            counts = ", ".join(f"{md(name)}: {len(ids):,}" for name, ids in row.candidates.items())
            st.caption(f"Events that {kind} in any of the matches: {counts}")


def bound_events(row: ResultRow, matches: Mapping[str, str], *, of_log: bool) -> pd.DataFrame | None:
    """The events that a row binds as the log has them; None when it cannot be read, which is told."""
    ids = [event_id for bound in row.bindings.values() for event_id in bound]
    try:
        found = event_log().read(
            from_ms=row.first_lo_ms, to_ms=row.last_hi_ms, where=pc.field("event_id").isin(list(dict.fromkeys(ids)))
        )
    except AppError as error:
        if of_log:
            st.error(f"The events cannot be read: {md(error, 1_000)}", icon=":material/error:")
            return None
        found = EventBatch.empty()
    gone = "no longer kept" if of_log else "not in the event log"
    return bound_events_frame(asdict(row)["bindings"], found, matches, gone)


__all__ = ["AnyRun", "account", "bound_events", "preview", "results"]
