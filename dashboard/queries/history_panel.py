"""Runs a query over the history, by a job on Spark: choose a span, start, watch, cancel, look at the rows."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import streamlit as st

from app.chosen_store import STORE_VARIABLE
from app.commands.spark_query import command_line, without_passwords
from app.config import CONFIG_VARIABLE
from app.queries.messages import HistoryLimits, QueryRequest
from dashboard.components.copied_texts import CopiedText, copied_texts
from dashboard.queries.check import NAME_OF_OWN, NO_NAME, Checked
from dashboard.queries.history_pool import HistoryPool, HistoryRun
from dashboard.queries.list import loaded_queries
from dashboard.queries.notes import notes_of_history
from dashboard.queries.pool import Snapshot, TooManyRunsError
from dashboard.queries.shown import account, preview, results
from dashboard.store import AppError, settings
from dashboard.text import md
from dashboard.times import duration, open_span_picker, shown

LOOK_S = 1.0
"""How often the page looks at a run."""

_RUN = "history-run"


@st.cache_resource(show_spinner=False)
def pool() -> HistoryPool:
    """The runs of all viewers of this process."""
    return HistoryPool()


class Viewer:
    """A browser's connection; the run that it looks at is left when it ends."""

    def __init__(self) -> None:
        self.run: HistoryRun | None = None

    def sees(self, run: HistoryRun | None) -> None:
        """From now on this run; the viewer is there."""
        self.run = run
        if run is not None:
            run.stay()

    def leave(self) -> None:
        """The connection has ended."""
        if self.run is not None:
            self.run.leave()


@st.cache_resource(show_spinner=False, scope="session", on_release=Viewer.leave)
def viewer() -> Viewer:
    """This viewer's connection."""
    return Viewer()


def history_panel(name: str, text: str, checked: Checked, *, run_now: bool) -> None:
    """Everything about running `text` over the event store; `run_now` as if the button had been pressed."""
    most = settings().dashboard
    if most.history_queries == 0:
        st.info(
            "Queries over the history are switched off on these pages (dashboard.history_queries is 0). "
            "`clustercep query` runs them in a terminal.",
            icon=":material/block:",
        )
        return
    problem = _missing_store()
    if problem is not None:
        st.info(problem, icon=":material/inventory_2:")
        return
    st.caption(_about())
    from_ms, to_ms = open_span_picker("history-span")
    request = QueryRequest(text, checked.parameters, from_ms, to_ms, name, checked.used.texts, checked.used.parameters)
    current: HistoryRun | None = st.session_state.get(_RUN)
    is_running = current is not None and not current.is_over
    pressed, about = st.columns([1, 4], vertical_alignment="center")
    clicked = pressed.button(
        "Run",
        icon=":material/play_arrow:",
        type="primary",
        disabled=checked.compiled is None or is_running,
        width="stretch",
        key="history-run-button",
        help="Ctrl+Enter in the text does the same.",
    )
    about.caption(_limits_told(checked))
    if checked.compiled is not None:
        with st.expander("The same in a terminal", icon=":material/terminal:"):
            _command(request)
    if (clicked or run_now) and checked.compiled is not None:
        if is_running:
            st.warning("Your query still runs: cancel it first, or wait.", icon=":material/hourglass_top:")
        else:
            _start(request)
            current = st.session_state.get(_RUN)
    viewer().sees(current)
    if current is None:
        st.info("Rows appear here once the query has run.", icon=":material/table_rows:")
        return
    if current.request != request:
        st.caption("What stands below is of the query and span as they were when it ran.")
    if not current.is_over:
        st.fragment(_watch, run_every=LOOK_S)(current)
        return
    snapshot = current.snapshot()
    _tell_end(current, snapshot)
    results(current, snapshot, of_log=False)


def limits() -> HistoryLimits:
    """What one run may cost, by the settings."""
    return HistoryLimits(timeout_ms=settings().dashboard.history_timeout_ms)


# ------------------------------------------------------------------ beforehand


def local_folder(url: str) -> Path | None:
    """The folder of this machine that a store's URL names; None for one elsewhere."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(url) if "://" not in url else None


def _missing_store() -> str | None:
    url = settings().event_store_url
    folder = local_folder(url)
    if folder is None or folder.is_dir():
        return None
    return (
        f"There is no event store yet: nothing is in {md(without_passwords(url), 300)}. Read job histories, logs and "
        "RRDs into it, then run queries over all of them: `clustercep ingest FOLDER` (spark.store of config.yaml says "
        "where it is)."
    )


def _about() -> str:
    chosen = settings()
    where = "this machine" if chosen.spark.master is None else md(chosen.spark.master, 200)
    return f"Over all events of the store {md(without_passwords(chosen.event_store_url), 300)}, by Spark on {where}."


def _limits_told(checked: Checked) -> str:
    if checked.compiled is None:
        return "A query that is not valid cannot run."
    most = settings().dashboard
    at_once = "one such query" if most.history_queries == 1 else f"{most.history_queries} such queries"
    return (
        "Few events take a second or two, for many Spark starts first; "
        f"{duration(most.history_timeout_ms)} at most, {limits().max_rows:,} rows, "
        f"and {at_once} at a time for all viewers."
    )


def _command(request: QueryRequest) -> None:
    known = loaded_queries()
    file = f"{NAME_OF_OWN if request.name == NO_NAME else request.name}.cep"
    same = known.named(request.name)
    is_file = same is not None and same.text == request.text
    used = [query.path for query in known.queries if query.name in request.others]
    chosen = settings()
    elsewhere = bool(os.environ.get(STORE_VARIABLE)) and local_folder(chosen.event_store_url) is not None
    line = command_line(
        request.name if is_file else file,
        from_ms=request.from_ms,
        to_ms=request.to_ms,
        parameters=request.parameters,
        used=() if is_file else used,
        config=os.environ.get(CONFIG_VARIABLE),
        store=chosen.event_store_url if elsewhere else None,
    )
    copied_texts("history-command", [CopiedText("the command", line)])
    kept = "" if is_file else f"Download the text (below) as {md(file)} first. "
    st.caption(
        f"{kept}--format csv, jsonl or parquet with --out writes the rows into a file, without a limit on their number."
    )


def _start(request: QueryRequest) -> None:
    runs = pool()
    runs.n_at_once = settings().dashboard.history_queries
    try:
        st.session_state[_RUN] = runs.start(request, limits())
        st.rerun()  # so that the button knows
    except TooManyRunsError as error:
        st.warning(md(error, 1_000), icon=":material/hourglass_top:")
    except AppError as error:
        st.error(md(error, 1_000), icon=":material/error:")


# ------------------------------------------------------------------- meanwhile


def _watch(run: HistoryRun) -> None:
    snapshot = run.snapshot()
    if snapshot.is_over:
        st.rerun()  # the whole page: it need not look any more
    bar, cancel = st.columns([4, 1], vertical_alignment="center")
    share, told = progress_of(snapshot)
    bar.progress(share, text=md(told, 400))
    cancel.button(
        "Cancel",
        icon=":material/stop:",
        width="stretch",
        key="history-cancel",
        disabled=snapshot.is_stopped,
        help="Ends what runs on Spark's executors, as Ctrl-C does in a terminal. Rows that were found stay.",
        on_click=run.stop,
    )
    preview(snapshot, "history-preview")


def progress_of(snapshot: Snapshot) -> tuple[float, str]:
    """How much of the present step is done, and what it is."""
    tasks = snapshot.tasks
    after = f"{len(snapshot.rows):,} rows; {snapshot.seconds:.0f} s"
    if snapshot.is_stopped:
        return 1.0, f"Cancelling: Spark ends what runs; {after}"
    if tasks is None:
        return 0.0, f"Starting; {after}"
    share = min(1.0, tasks.n_done / tasks.n_tasks) if tasks.n_tasks else 0.0
    of_tasks = f": {tasks.n_done:,} of {tasks.n_tasks:,} tasks are done" if tasks.n_tasks else ""
    return share, f"{tasks.what}{of_tasks}; {after}"


# ---------------------------------------------------------------- how it went


def _tell_end(run: HistoryRun, snapshot: Snapshot) -> None:
    for text in snapshot.notes:
        st.warning(md(text, 1_000), icon=":material/info:")
    if snapshot.is_stopped:
        st.warning(
            f"Cancelled after {snapshot.seconds:.0f} s. What was found until then stays: {len(snapshot.rows):,} rows.",
            icon=":material/stop:",
        )
    elif snapshot.failure is not None:
        st.error("The query could not be run.", icon=":material/error:")
        copied_texts("history-failure", [CopiedText("the failure", without_passwords(snapshot.failure))])
    elif snapshot.end is not None:
        account(snapshot.end, notes_of_history(run.limits, snapshot), _span(run.request))


def _span(request: QueryRequest) -> str:
    since = "" if request.from_ms is None else f" from {shown(request.from_ms)}"
    return since if request.to_ms is None else f"{since} to {shown(request.to_ms)}"


__all__ = ["history_panel", "local_folder", "pool", "progress_of"]
