"""One query: its text, parameters and plan, what to do about its alerts, and what it found lately."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from app.queries.runbook import parameter_text
from dashboard import links, looks
from dashboard.alerts import table as alert_table
from dashboard.components.copied_texts import CopiedText, copied_texts
from dashboard.figure_row import show_figures
from dashboard.queries.figures import Figures, query_figures
from dashboard.queries.list import KnownQuery, Parameter, QueryState, loaded_queries
from dashboard.queries.results import job_id_of
from dashboard.static_table import show_table
from dashboard.store import AlertFilter, ReportRow, store
from dashboard.text import inert, md
from dashboard.times import duration, shown
from dashboard.units import shown_cell
from dashboard.views.queries import STATES

PAGE_ROWS = 25


def page() -> None:
    """The query of `?name=`."""
    name = st.query_params.get("name", "")
    known = loaded_queries()
    query = known.named(name)
    links.link("queries", "All queries", icon=":material/arrow_back:")
    if query is None:
        st.title("Query")
        told = f"There is no query file {md(name)}.cep: it was removed or renamed." if name else "No query is chosen."
        st.info(f"{told} Choose one from the list of all queries.", icon=":material/search_off:")
        if name:
            _found_lately(name, query_figures([name])[name], is_report=False)
        return
    st.title(md(query.name))
    _state(query)
    figures = query_figures([query.name])[query.name]
    _figures(query, figures)
    text, about = st.container(key=looks.BESIDE).columns([3, 2], gap="large")
    with text:
        st.subheader("Text")
        copied_texts("query-text", [CopiedText("the query", query.text, kind="query")])
        links.link("editor", "Open in the editor", icon=":material/edit_note:", name=query.name)
    with about:
        _runbook(query)
        _parameters(query)
    if query.compiled is not None:
        with st.expander("Explain: how it is read and evaluated", icon=":material/account_tree:"):
            copied_texts("plan", [CopiedText("the plan", query.compiled.explain(), kind="lines")])
    _found_lately(query.name, figures, is_report=query.severity == "report")


def _state(query: KnownQuery) -> None:
    if query.state is QueryState.BROKEN:
        st.error(
            "This query cannot run; mend the file, then reload (SIGHUP or POST /-/reload).", icon=":material/error:"
        )
        _problem(query.problem or "")
    elif query.state is QueryState.DISABLED:
        st.warning("Switched off: its name stands in queries.disabled of config.yaml.", icon=":material/toggle_off:")
        if query.problem:
            _problem(query.problem)
    kinds = {"report": "a report: its matches become rows", "—": "not known while it cannot run"}
    window = "" if query.within_ms is None else f"; a match spans {duration(query.within_ms)} at most"
    kind = kinds.get(query.severity, f"alerts of severity {query.severity}")
    st.caption(f"{STATES[query.state].capitalize()}; {kind}{window}. File {md(query.path, 300)}")


def _problem(text: str) -> None:
    copied_texts("problem", [CopiedText("the problem", text, kind="lines")])


def _figures(query: KnownQuery, figures: Figures) -> None:
    shown_figures: list[tuple[str, str, str]] = []
    if query.severity == "report":
        shown_figures.append(("Report rows", f"{figures.n_reports:,}", "Rows that are kept."))
    else:
        shown_figures += [
            ("Open alerts", f"{figures.n_open:,}", "Firing or acknowledged."),
            ("Alerts", figures.alerts_text, "All that are kept."),
        ]
    shown_figures.append(("Matches", f"{figures.n_matches:,}", "Of all times, live and from histories."))
    if figures.seconds is not None:
        shown_figures += [
            ("Events read", f"{figures.n_events or 0:,}", "Since the process started."),
            ("Events kept", f"{figures.n_kept or 0:,}", "Those that a match may still need."),
            ("Engine time", duration(round(1_000 * figures.seconds)), "Since the process started."),
        ]
    if figures.n_rejected:
        told = "Events whose times the query cannot take: Explain says why."
        shown_figures.append(("Left out", f"{figures.n_rejected:,}", told))
    if figures.n_unfinished:
        told = "Stopped by the work budget: matches, and alerts, may be missing. Constrain the query further."
        shown_figures.append(("Searches stopped", f"{figures.n_unfinished:,}", told))
    show_figures(shown_figures)


def _runbook(query: KnownQuery) -> None:
    st.subheader("Runbook")
    if query.info is not None and query.info.runbook:
        # Written by those who write the queries, in Markdown; nothing of the cluster is in it.
        st.markdown(query.info.runbook)
    else:
        st.info(f"RUNBOOK.md has no paragraph below a heading {md(query.name)}.", icon=":material/menu_book:")


def _parameters(query: KnownQuery) -> None:
    st.subheader("Parameters")
    if not query.defaults:
        st.caption("It has none.")
        return
    configured = {name: inert(value) for name, value in query.configured.items()}
    show_table(
        {
            "Parameter": query.defaults,
            "Default": [_parameter(query, *default) for default in query.defaults.items()],
            "Configured": [configured.get(name, "—") for name in query.defaults],
            "In use": [_parameter(query, name, query.in_use[name]) if query.in_use else "—" for name in query.defaults],
        },
        label="Parameters",
        whole=("Default", "Configured", "In use"),
    )
    st.caption("Set them in config.yaml: queries.parameters, by the query's name.")


def _parameter(query: KnownQuery, name: str, value: Parameter) -> str:
    return inert(value) if query.compiled is None else parameter_text(query.compiled, name, value)


# ------------------------------------------------------------- what it found


def _found_lately(name: str, figures: Figures, *, is_report: bool) -> None:
    if is_report:
        st.subheader("Report rows")
        _reports(name)
    else:
        st.subheader("Alerts")
        _alerts(name, figures)


def _alerts(name: str, figures: Figures) -> None:
    wanted = AlertFilter(queries=(name,), merged=False, limit=PAGE_ROWS)
    found = alert_table.page_at(store(), wanted, "alerts")
    if not found.alerts:
        st.info("No alert of this query yet: nothing has matched it.", icon=":material/notifications_off:")
        return
    # What is counted may be some seconds older than what is listed.
    told = alert_table.range_text(found, figures.n_alerts, figures.n_alerts_exact)
    st.caption(f"{told}, by first event, the latest first")
    alert_table.show(found.alerts, "query-alerts")
    alert_table.pager(found, "alerts", told)


def _reports(name: str) -> None:
    number = _number(st.query_params.get("page"))
    rows = store().reports(name, limit=PAGE_ROWS + 1, offset=number * PAGE_ROWS)
    if not rows:
        told = "No row yet: rows come when a job has ended." if number == 0 else "There are no more rows."
        st.info(told, icon=":material/table_rows:")
    else:
        st.dataframe(
            reports_frame(rows[:PAGE_ROWS]),
            hide_index=True,
            height="content",
            column_config={"Job": st.column_config.LinkColumn("Job", display_text=r"id=(.+)$")},
            placeholder="",
            key=f"query-reports-{number}",
        )
    buttons = st.container(horizontal=True)
    if number > 0 and buttons.button("Newer", icon=":material/chevron_left:", key="query-newer"):
        _go(page=str(number - 1))
    if len(rows) > PAGE_ROWS and buttons.button("Older", icon=":material/chevron_right:", key="query-older"):
        _go(page=str(number + 1))


def reports_frame(rows: list[ReportRow]) -> pd.DataFrame:
    """One line per row: its job, its RETURN values, when its first and last event were."""
    lines: list[dict[str, Any]] = []
    for row in rows:
        values = {**row.key, **row.values}
        job_id = job_id_of(values)
        line: dict[str, Any] = {"Job": None if job_id is None else links.url("job", id=job_id)}
        line |= {
            name: shown_cell(name, value)
            for name, value in values.items()
            if not (name == "job_id" and value == job_id)
        }
        lines.append({**line, "From": shown(row.start_ms), "To": shown(row.end_ms)})
    return pd.DataFrame(lines)


def _go(**place: str) -> None:
    """Another page of the rows, in the address."""
    st.query_params.from_dict({"name": st.query_params.get("name", ""), **place})
    st.rerun()


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) <= 6 else 0
