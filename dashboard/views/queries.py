"""Every query of this installation: what it looks for, whether it runs, what it found and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import links
from dashboard.components.copied_texts import CopiedText, copied_texts
from dashboard.queries.figures import Figures, query_figures
from dashboard.queries.list import KnownQueries, KnownQuery, QueryState, loaded_queries
from dashboard.store import settings
from dashboard.text import inert, md
from dashboard.times import duration

MOST_NAMED = 10
"""Queries that one message names."""

STATES = {
    QueryState.ACTIVE: "runs",
    QueryState.DISABLED: "switched off",
    QueryState.BROKEN: "cannot run",
}


def page() -> None:
    """The list."""
    st.title("Queries")
    known = loaded_queries()
    for problem in known.problems:
        st.warning(md(problem, 2_000), icon=":material/warning:")
    _broken(known.queries)
    if not known.queries:
        st.info(
            f"There is no query in {md(settings().queries.directory, 300)}. Write one in the editor and put it there.",
            icon=":material/manage_search:",
        )
    else:
        _list(known)
    links.link("editor", "Write a query", icon=":material/edit_note:")


def _broken(queries: Sequence[KnownQuery]) -> None:
    for query in queries:
        if query.state is QueryState.BROKEN:
            st.error(
                f"{md(query.name)} cannot run; the others do. Mend the file, then reload (SIGHUP or POST /-/reload).",
                icon=":material/error:",
            )
            copied_texts(f"problem-{query.name}", [CopiedText("the problem", query.problem or "", kind="lines")])


def _list(known: KnownQueries) -> None:
    figures = query_figures([query.name for query in known.queries])
    n_active = sum(query.state is QueryState.ACTIVE for query in known.queries)
    n_off = sum(query.state is QueryState.DISABLED for query in known.queries)
    st.caption(
        f"{n_active} run, {n_off} switched off. Select a row to open the query. Engine figures are those since the "
        "process started."
    )
    _stopped(figures)
    state = st.dataframe(
        queries_frame(known.queries, figures),
        hide_index=True,
        height="content",
        on_select="rerun",
        selection_mode="single-row",
        column_config=_columns(),
        placeholder="",
        key="queries-list",
    )
    chosen = state.selection.rows
    if chosen and chosen[0] < len(known.queries):
        links.go("query", name=known.queries[chosen[0]].name)


def _stopped(figures: Mapping[str, Figures]) -> None:
    """Which queries did not look at all there was to look at."""
    names = [md(name) for name, found in figures.items() if found.n_unfinished]
    if names:
        shown = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if names[MOST_NAMED:] else "")
        st.warning(
            f"Searches of {shown} were stopped by the work budget since the process started: an alert may be missing. "
            "Constrain the query further, or shorten its window.",
            icon=":material/warning:",
        )


def queries_frame(queries: Sequence[KnownQuery], figures: Mapping[str, Figures]) -> pd.DataFrame:
    """One line per query; what is not known is None."""
    lines: list[dict[str, Any]] = []
    for query in queries:
        found = figures[query.name]
        lines.append(
            {
                "Query": inert(query.name),
                "State": STATES[query.state],
                "Kind": query.severity,
                "Window": "—" if query.within_ms is None else duration(query.within_ms),
                "Strategy": query.strategy.replace("_", " "),
                "Open": None if query.severity == "report" else found.n_open,
                "Alerts": None if query.severity == "report" else found.alerts_text,
                "Report rows": found.n_reports if query.severity == "report" else None,
                "Events": found.n_events,
                "Matches": found.n_matches,
                "Searches stopped": found.n_unfinished or None,
                "Engine time": None if found.seconds is None else duration(round(1_000 * found.seconds)),
            }
        )
    frame = pd.DataFrame(lines)
    if all(not found.n_unfinished for found in figures.values()):
        frame = frame.drop(columns=["Searches stopped"], errors="ignore")
    whole = ("Open", "Report rows", "Events", "Matches", "Searches stopped")
    frame = frame.astype({name: "Int64" for name in whole if name in frame})
    if all(found.seconds is None for found in figures.values()):  # no process has told its figures
        return frame.drop(columns=["Events", "Engine time"], errors="ignore")
    return frame


def _columns() -> dict[str, Any]:
    column = st.column_config
    return {
        "Query": column.TextColumn(width="medium"),
        "Kind": column.TextColumn(help="The severity of its alerts; or report: its matches become rows."),
        "Window": column.TextColumn(help="From the first event of a match to its last one (WITHIN)."),
        "Open": column.NumberColumn(help="Alerts that are not over yet.", format="localized"),
        "Alerts": column.TextColumn(help="All alerts that are kept."),
        "Report rows": column.NumberColumn(format="localized"),
        "Events": column.NumberColumn(help="Events it has read since the process started.", format="localized"),
        "Matches": column.NumberColumn(help="Matches of all times, live and from histories.", format="localized"),
        "Searches stopped": column.NumberColumn(
            help="Searches that the work budget stopped since the process started: an alert may be missing.",
            format="localized",
        ),
        "Engine time": column.TextColumn(help="Of matching since the process started."),
    }
