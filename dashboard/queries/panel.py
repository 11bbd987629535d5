"""The lower half of the editor: choose a time span, run, watch, stop, look at the rows and take them away."""

from __future__ import annotations

import streamlit as st

from app.queries.messages import QueryRequest, RunLimits
from collectors.time_units import DAY_MS
from dashboard.components.copied_texts import CopiedText, copied_texts
from dashboard.queries.check import Checked
from dashboard.queries.history_panel import history_panel
from dashboard.queries.notes import notes_of_recent
from dashboard.queries.pool import QueryPool, QueryRun, Snapshot, TooManyRunsError, memory_limit_bytes
from dashboard.queries.shown import account, preview, results
from dashboard.store import AppError, EventLogReader, event_log, now_ms, settings
from dashboard.text import md
from dashboard.times import duration, shown, span_picker

LOOK_S = 0.5
"""How often the page looks at a run."""
PATIENCE_S = 0.3
"""So long a look waits for the first rows: most queries have theirs sooner, and would be seen a look later. Shorter
than LOOK_S: a look must be over when the next is due."""


RECENT, HISTORY = "recent", "history"
PLACES = {RECENT: "Recent events", HISTORY: "History"}
"""Over what a query runs: `?over=` in the address."""

_RUN, _OVER = "editor-run", "editor-over"


@st.cache_resource(show_spinner=False)
def pool() -> QueryPool:
    """The runs of all viewers of this process."""
    return QueryPool()


def prepare() -> None:
    """Somebody is at the editor: the next run will not wait for its process to start."""
    pool().prepare()


def run_panel(name: str, text: str, checked: Checked, *, run_now: bool) -> None:
    """Everything about running `text`; `run_now` as if the button had been pressed."""
    st.subheader("Run")
    chosen = st.segmented_control(
        "Over",
        list(PLACES),
        format_func=PLACES.__getitem__,
        default=HISTORY if st.query_params.get("over") == HISTORY else RECENT,
        required=True,
        key=_OVER,
        on_change=_put_into_url,
        help="Recent events: what the live event log holds. History: what clustercep ingest has read into the event "
        "store, by a job on Spark.",
    )
    if chosen == HISTORY:
        history_panel(name, text, checked, run_now=run_now)
    else:
        _recent_panel(name, text, checked, run_now=run_now)


def _put_into_url() -> None:
    st.query_params["over"] = st.session_state[_OVER]


def _recent_panel(name: str, text: str, checked: Checked, *, run_now: bool) -> None:
    log = _readable_log()
    if log is None:
        return
    reader, kept = log
    st.caption(f"The log holds events from {shown(kept[0])} to {shown(kept[1])}.")
    unreadable = st.container()
    if reader.problems:
        unreadable.warning(
            f"Files of the event log that cannot be read, and are left out: {len(reader.problems):,}. The health page "
            "names them (Storage).",
            icon=":material/warning:",
        )
    default = (max(kept[0], kept[1] - DAY_MS), kept[1])
    from_ms, to_ms = span_picker("editor-span", default)
    pressed, about = st.columns([1, 4], vertical_alignment="center")
    current: QueryRun[RunLimits] | None = st.session_state.get(_RUN)
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
        if current is not None:
            current.wait_for_rows(PATIENCE_S)  # one that is over by then is shown without another run of the page
        is_running = current is not None and not current.is_over
    if not is_running:
        prepare()
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
    results(current, snapshot)


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
    before: QueryRun[RunLimits] | None = st.session_state.get(_RUN)
    if before is not None and not before.is_over:
        before.stop()
        before.wait(5.0)
    try:
        st.session_state[_RUN] = pool().start(request, limits())
    except TooManyRunsError as error:
        st.warning(md(error), icon=":material/hourglass_top:")
    except AppError as error:
        st.error(md(error, 1_000), icon=":material/error:")


def _watch(run: QueryRun[RunLimits]) -> None:
    run.wait_for_rows(PATIENCE_S)
    snapshot = run.snapshot()
    if snapshot.is_over:
        st.rerun()  # the whole page: it need not look any more
    _progress(run, snapshot)
    preview(snapshot, "editor-preview")


def _progress(run: QueryRun[RunLimits], snapshot: Snapshot) -> None:
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


def _tell_end(run: QueryRun[RunLimits], snapshot: Snapshot) -> None:
    if snapshot.failure is not None:
        st.error("The query could not be run.", icon=":material/error:")
        copied_texts("failure", [CopiedText("the failure", snapshot.failure, kind="lines")])
    elif snapshot.is_stopped:
        st.warning(f"Stopped. {_so_far(snapshot)}", icon=":material/stop:")
    elif snapshot.end is not None:
        span = f" between {shown(run.request.from_ms)} and {shown(run.request.to_ms)}"
        account(snapshot.end, notes_of_recent(run.limits, snapshot), span)


def _so_far(snapshot: Snapshot) -> str:
    reached = "" if snapshot.progress is None else f" from {snapshot.progress.n_events:,} events"
    return f"What was found until then stays: {len(snapshot.rows):,} rows{reached}."
