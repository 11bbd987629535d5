"""The lower half of the editor: choose a time span, run, watch, stop, look at the rows and take them away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
import pyarrow.compute as pc
import streamlit as st

from dashboard.event_details import bound_events_frame
from dashboard.query_check import Checked
from dashboard.query_pool import QueryPool, QueryRun, Snapshot, TooManyRunsError, memory_limit_bytes
from dashboard.query_results import (
    CONFIDENCE,
    EVENTS,
    FIRST,
    JOB,
    LAST,
    as_csv,
    as_json_lines,
    n_matches,
    result_frame,
)
from dashboard.query_run import MAX_IDS, EndReason, QueryRequest, ResultRow, RunLimits
from dashboard.store import AppError, EventLogReader, event_log, now_ms, settings
from dashboard.text import md
from dashboard.times import duration, exactly, shown, span_picker

LOOK_S = 0.5
"""How often the page looks at a run."""

PREVIEW_ROWS = 200
"""Rows shown while a query still runs."""

DAY_MS = 86_400_000

_RUN = "editor-run"
_FILES = "editor-files"


@st.cache_resource(show_spinner=False)
def pool() -> QueryPool:
    """The runs of all viewers of this process."""
    return QueryPool()


def run_panel(name: str, text: str, checked: Checked, *, run_now: bool) -> None:
    """Everything about running `text`; `run_now` as if the button had been pressed."""
    st.subheader("Run over the recent events")
    log = _readable_log()
    if log is None:
        return
    reader, kept = log
    st.caption(f"The log holds events from {shown(kept[0])} to {shown(kept[1])}.")
    if reader.problems:
        st.warning(
            f"Files of the event log that cannot be read, and are left out: {len(reader.problems):,}. The health page "
            "names them (Storage).",
            icon=":material/warning:",
        )
    default = (max(kept[0], kept[1] - DAY_MS), kept[1])
    from_ms, to_ms = span_picker("editor-span", default)
    pressed, about = st.columns([1, 4], vertical_alignment="center")
    current: QueryRun | None = st.session_state.get(_RUN)
    is_running = current is not None and not current.is_over
    clicked = pressed.button(
        "Run",
        icon=":material/play_arrow:",
        type="primary",
        disabled=checked.compiled is None,
        width="stretch",
        key="editor-run-button",
        help="Ctrl+Enter in the text does the same. A run that is under way is stopped.",
    )
    about.caption(_estimate(reader, checked, from_ms, to_ms))
    if (clicked or run_now) and checked.compiled is not None:
        used = checked.used
        _start(QueryRequest(text, checked.parameters, from_ms, to_ms, name, used.texts, used.parameters))
        current = st.session_state.get(_RUN)
        is_running = current is not None and not current.is_over
    if current is None:
        st.info("Rows appear here once the query has run.", icon=":material/table_rows:")
        return
    if current.request.text != text:
        st.caption("The rows below are those of the text as it was when it ran.")
    if is_running:
        st.fragment(_watch, run_every=LOOK_S)(current)
        return
    snapshot = current.snapshot()
    _tell_end(current, snapshot)
    _results(current, snapshot)


def limits() -> RunLimits:
    """What one run may cost, by the settings."""
    configured = settings()
    return RunLimits(
        max_events=configured.dashboard.max_query_events,
        timeout_ms=configured.dashboard.query_timeout_ms,
        engine_max_rows=configured.engine.max_rows,
        engine_work_budget=configured.engine.work_budget,
        max_memory_bytes=memory_limit_bytes(),
    )


def _readable_log() -> tuple[EventLogReader, tuple[int, int]] | None:
    try:
        reader = event_log()
        kept = reader.span()
    except AppError as error:
        st.error(f"The event log cannot be read: {md(error, 1_000)}", icon=":material/error:")
        return None
    if kept is None:
        st.info(
            "No events are kept yet: the log is filled while clustercep run (or clustercep demo) works. Queries can be "
            "written and checked all the same.",
            icon=":material/hourglass_empty:",
        )
        return None
    return reader, kept


def _estimate(reader: EventLogReader, checked: Checked, from_ms: int, to_ms: int) -> str:
    if checked.compiled is None:
        return "A query that is not valid cannot run."
    n_events = _n_events(reader, tuple(sorted(checked.compiled.read_types)), from_ms, to_ms, now_ms() // 30_000)
    most = settings().dashboard
    text = f"About {n_events:,} events to read; {duration(most.query_timeout_ms)} at most."
    if n_events > most.max_query_events:
        text += f" Only the first {most.max_query_events:,} are read: choose a shorter span to see its end."
    return text


@st.cache_data(show_spinner=False, max_entries=200)
def _n_events(_reader: EventLogReader, types: tuple[str, ...], from_ms: int, to_ms: int, half_minute: int) -> int:
    del half_minute
    return _reader.count(types=types, from_ms=from_ms, to_ms=to_ms)


def _start(request: QueryRequest) -> None:
    before: QueryRun | None = st.session_state.get(_RUN)
    if before is not None and not before.is_over:
        before.stop()
        before.wait(5.0)
    try:
        st.session_state[_RUN] = pool().start(request, limits())
    except TooManyRunsError as error:
        st.warning(md(error), icon=":material/hourglass_top:")
    except AppError as error:
        st.error(md(error, 1_000), icon=":material/error:")


def _watch(run: QueryRun) -> None:
    snapshot = run.snapshot()
    if snapshot.is_over:
        st.rerun()  # the whole page: it need not look any more
    _progress(run, snapshot)
    if snapshot.rows:
        n_shown = min(len(snapshot.rows), PREVIEW_ROWS)
        st.caption(f"The first {n_shown:,} of {len(snapshot.rows):,} rows so far")
        _table(snapshot.rows[:PREVIEW_ROWS], "editor-preview", choose=False)


def _progress(run: QueryRun, snapshot: Snapshot) -> None:
    bar, stop = st.columns([4, 1], vertical_alignment="center")
    progress = snapshot.progress
    if progress is None:
        bar.progress(0.0, text="Starting …")
    else:
        share = min(1.0, progress.n_events / max(1, progress.n_estimated))
        reached = "" if progress.watermark_ms is None else f", up to {shown(progress.watermark_ms)}"
        bar.progress(
            share,
            text=f"{progress.n_events:,} of about {progress.n_estimated:,} events{reached}; "
            f"{len(snapshot.rows):,} rows; {snapshot.seconds:.0f} s",
        )
    if stop.button("Stop the query", icon=":material/stop:", width="stretch", key="editor-stop"):
        run.stop()
        run.wait(5.0)
        st.rerun()


# ---------------------------------------------------------------- how it went


def _tell_end(run: QueryRun, snapshot: Snapshot) -> None:
    if snapshot.failure is not None:
        st.error("The query could not be run.", icon=":material/error:")
        st.code(snapshot.failure, language=None)
    elif snapshot.is_stopped:
        st.warning(f"Stopped. {_so_far(snapshot)}", icon=":material/stop:")
    elif snapshot.end is not None:
        for text in notes(run.limits, snapshot):
            st.warning(text, icon=":material/info:")
        st.caption(
            f"{snapshot.end.n_rows:,} rows from {snapshot.end.n_events:,} events between "
            f"{shown(run.request.from_ms)} and {shown(run.request.to_ms)}, in {snapshot.end.seconds:.1f} s"
        )


def _so_far(snapshot: Snapshot) -> str:
    reached = "" if snapshot.progress is None else f" from {snapshot.progress.n_events:,} events"
    return f"What was found until then stays: {len(snapshot.rows):,} rows{reached}."


def notes(most: RunLimits, snapshot: Snapshot) -> list[str]:
    """What a reader of the rows has to know: limits that were hit, events that took no part, counts that are bounds."""
    end = snapshot.end
    if end is None:
        return []
    told = {
        EndReason.TIME_LIMIT: f"The time limit of {duration(most.timeout_ms)} was reached after {end.n_events:,} "
        "events: later events were not looked at. Choose a shorter span, or have dashboard.query_timeout raised.",
        EndReason.EVENT_LIMIT: f"The limit of {most.max_events:,} events was reached: later events were not looked at. "
        "Choose a shorter span, or have dashboard.max_query_events raised.",
        EndReason.ROW_LIMIT: f"These are the first {end.n_rows:,} rows; there may be more. Add predicates or LIMIT, or "
        "choose a shorter span.",
        EndReason.MEMORY_LIMIT: f"The limit of {most.max_memory_bytes // 2**20:,} MiB of memory was reached after "
        f"{end.n_events:,} events. Choose a shorter span, a shorter WITHIN, or predicates that keep fewer events.",
    }
    found = [told[end.reason]] if end.reason in told else []
    if end.capped:
        found.append("A limit on rows was reached (LIMIT of the query, or engine.max_rows): there are more rows.")
    if any(not row.count_exact for row in snapshot.rows):
        found.append("Some counts are lower bounds (at least): the work budget of the search was spent.")
    if end.n_unfinished:
        found.append(
            f"{end.n_unfinished:,} searches were stopped by the work budget: matches may be missing. Constrain the "
            "query further, or shorten its window."
        )
    if end.n_rejected:
        found.append(
            f"{end.n_rejected:,} events without an exact time were left out: this strategy, or this window, needs "
            "exact times; skip_till_any_match within a time does not."
        )
    if end.n_late:
        found.append(f"{end.n_late:,} events came out of order and were left out.")
    if end.assumes_end and end.reason is EndReason.FINISHED:
        found.append(
            "The query asks that something does not happen: the end of the span counts as the end of all events, so "
            "that rows near it may be too early."
        )
    return found


# -------------------------------------------------------------------- results


def _results(run: QueryRun, snapshot: Snapshot) -> None:
    rows = snapshot.rows
    if not rows:
        if snapshot.end is not None:
            st.info(
                "No match. Choose a longer span, or look at the plan: which predicate may be too strict?",
                icon=":material/search_off:",
            )
        return
    chosen = _table(rows, f"editor-rows-{run.id}", choose=True)
    table, lines = _files(run.id, rows)
    as_table, as_lines, _ = st.columns([1, 1, 3])
    for column, label, data, kind, mime in (
        (as_table, "CSV", table, "csv", "text/csv"),
        (as_lines, "JSON lines", lines, "jsonl", "application/jsonl"),
    ):
        column.download_button(
            label, data, f"{run.request.name}.{kind}", mime, icon=":material/download:", on_click="ignore"
        )
    if chosen is None:
        st.caption("Select a row to see the events behind it.")
    else:
        _details(rows[chosen], run.request.variables_of_others())


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


def _details(row: ResultRow, matches: Mapping[str, str]) -> None:
    """The events that a row binds, from the log."""
    with st.container(border=True):
        about = f"{exactly(row.first_lo_ms)} to {exactly(row.last_hi_ms)}, confidence {row.confidence:.3f}"
        if row.count != 1 or not row.count_exact:
            about += f"; the row stands for {n_matches(row)} matches, of which the best is shown"
        st.caption(about)
        frame = _bound(row, matches)
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


def _bound(row: ResultRow, matches: Mapping[str, str]) -> pd.DataFrame | None:
    ids = [event_id for bound in row.bindings.values() for event_id in bound]
    try:
        found = event_log().read(
            from_ms=row.first_lo_ms, to_ms=row.last_hi_ms, where=pc.field("event_id").isin(list(dict.fromkeys(ids)))
        )
    except AppError as error:
        st.error(f"The events cannot be read: {md(error, 1_000)}", icon=":material/error:")
        return None
    return bound_events_frame(asdict(row)["bindings"], found, matches)
