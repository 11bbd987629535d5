"""One query: its text, parameters and plan, what to do about its alerts, and what it found lately."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import links, looks
from dashboard.alerts.words import at_least_one, suspects
from dashboard.figure_row import show_figures
from dashboard.queries.figures import Figures, query_figures
from dashboard.queries.list import KnownQuery, QueryState, loaded_queries
from dashboard.queries.results import job_id_of
from dashboard.store import AlertFilter, AlertRow, Cursor, ReportRow, store
from dashboard.text import inert, md
from dashboard.times import duration, local, shown
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
            _found_lately(name, is_report=False)
        return
    st.title(md(query.name))
    _state(query)
    figures = query_figures([query.name])[query.name]
    _figures(query, figures)
    text, about = st.container(key=looks.BESIDE).columns([3, 2], gap="large")
    with text:
        st.subheader("Text")
        st.code(query.text, language="sql", wrap_lines=True)
        links.link("editor", "Open in the editor", icon=":material/edit_note:", name=query.name)
    with about:
        _runbook(query)
        _parameters(query)
    if query.compiled is not None:
        with st.expander("Explain: how it is read and evaluated", icon=":material/account_tree:"):
            st.code(query.compiled.explain(), language=None)
    _found_lately(query.name, is_report=query.severity == "report")


def _state(query: KnownQuery) -> None:
    if query.state is QueryState.BROKEN:
        st.error(
            "This query cannot run; mend the file, then reload (SIGHUP or POST /-/reload).", icon=":material/error:"
        )
        st.code(query.problem or "", language=None)
    elif query.state is QueryState.DISABLED:
        st.warning("Switched off: its name stands in queries.disabled of config.yaml.", icon=":material/toggle_off:")
        if query.problem:
            st.code(query.problem, language=None)
    kinds = {"report": "a report: its matches become rows", "—": "not known while it cannot run"}
    window = "" if query.within_ms is None else f"; a match spans {duration(query.within_ms)} at most"
    kind = kinds.get(query.severity, f"alerts of severity {query.severity}")
    st.caption(f"{STATES[query.state].capitalize()}; {kind}{window}. File {md(query.path, 300)}")


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
        shown_figures.append(("Left out", f"{figures.n_rejected:,}", "Events without an exact time: see the strategy."))
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
    st.dataframe(parameters_frame(query), hide_index=True, height="content", key="query-parameters")
    st.caption("Set them in config.yaml: queries.parameters, by the query's name.")


def parameters_frame(query: KnownQuery) -> pd.DataFrame:
    """Name, default, configured value as written, and the value in use."""
    return pd.DataFrame(
        [
            {
                "Parameter": name,
                "Default": inert(default),
                "Configured": inert(query.configured[name]) if name in query.configured else "—",
                "In use": inert(query.in_use[name]) if name in query.in_use else "—",
            }
            for name, default in query.defaults.items()
        ]
    )


# ------------------------------------------------------------- what it found


def _found_lately(name: str, *, is_report: bool) -> None:
    if is_report:
        st.subheader("Report rows")
        _reports(name)
    else:
        st.subheader("Alerts")
        _alerts(name)


def _alerts(name: str) -> None:
    after, before = _cursor("after"), _cursor("before")
    wanted = AlertFilter(queries=(name,), merged=False, limit=PAGE_ROWS)
    found = store().alert_page(wanted, after=after, before=None if after is not None else before)
    if not found.alerts:
        st.info("No alert of this query yet: nothing has matched it.", icon=":material/notifications_off:")
        return
    state = st.dataframe(
        alerts_frame(found.alerts),
        hide_index=True,
        height="content",
        on_select="rerun",
        selection_mode="single-row",
        key=f"query-alerts-{after}-{before}",
    )
    _pager(
        None if found.previous is None else _written(found.previous),
        None if found.next is None else _written(found.next),
    )
    chosen = state.selection.rows
    if chosen and chosen[0] < len(found.alerts):
        links.go("alert", id=found.alerts[chosen[0]].id)
    st.caption("Select a row to open the alert.")


def alerts_frame(alerts: tuple[AlertRow, ...]) -> pd.DataFrame:
    """One line per alert, with inert text."""
    return pd.DataFrame(
        [
            {
                "State": looks.standing(alert.state, alert.silenced),
                "Severity": alert.severity,
                "Began": local(alert.onset_ms).replace(tzinfo=None),
                "Last seen": local(alert.last_seen_ms).replace(tzinfo=None),
                "Host": inert(suspects(alert)),
                "Summary": inert(alert.summary, 300),
                "Matches": f"{'' if alert.n_matches_exact else 'at least '}{alert.n_matches:,}",
                "At least one match": at_least_one(alert),
            }
            for alert in alerts
        ]
    )


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


def _pager(previous: str | None, following: str | None) -> None:
    buttons = st.container(horizontal=True)
    if previous is not None and buttons.button("Newer", icon=":material/chevron_left:", key="query-newer"):
        _go(before=previous)
    if following is not None and buttons.button("Older", icon=":material/chevron_right:", key="query-older"):
        _go(after=following)


def _go(**place: str) -> None:
    """Another page of the rows, in the address."""
    st.query_params.from_dict({"name": st.query_params.get("name", ""), **place})
    st.rerun()


def _written(cursor: Cursor) -> str:
    return f"{cursor.start_ms}.{cursor.id}"


def _cursor(name: str) -> Cursor | None:
    start, dot, alert_id = st.query_params.get(name, "").partition(".")
    if not dot or not start.lstrip("-").isdecimal() or len(start) > 18 or len(alert_id) > 64:
        return None
    return Cursor(int(start), alert_id)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) <= 6 else 0
