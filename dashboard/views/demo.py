"""What the demo found, as of the recording's time: each injected fault with its alert, and a tour of three links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pandas as pd
import streamlit as st

from app.demo_report import JudgedFault, judged_faults, verdict_text
from dashboard import links
from dashboard.store import now_ms, store, watched
from dashboard.text import inert, md
from dashboard.times import duration, shown
from dashboard.watch_banner import demo_verdict

_COLUMNS = {
    "found": st.column_config.TextColumn("Found", width=80),
    "fault": st.column_config.TextColumn("Injected fault", width=130),
    "after": st.column_config.TextColumn("Found after", width=100, help="From the fault's begin to the alert."),
    "link": st.column_config.LinkColumn("Alert", display_text=r"id=(.{8})", width=80, help="The alert's page"),
    "summary": st.column_config.TextColumn("What the alert says", width=520),
    "query": st.column_config.TextColumn("Query", width=190),
    "note": st.column_config.TextColumn("What was done", width=400),
}


def page() -> None:
    """The page."""
    st.title("What the demo found")
    truth = demo_verdict()
    if truth is None:
        st.info("This store was not filled by the demo. Run `make demo`.", icon=":material/play_circle:")
        links.link("alerts", "Alerts", icon=":material/notifications_active:")
        return
    passed = not truth["missed"] and not truth["false_alarms"]
    (st.success if passed else st.warning)(
        f"**{md(verdict_text(truth))}**", icon=":material/check_circle:" if passed else ":material/warning:"
    )
    watch = watched(store(), now_ms())
    n_faults = len(judged_faults(truth))
    st.markdown(
        f"A recorded Hadoop cluster, in which {n_faults} faults were injected, went through the whole pipeline: the "
        "collectors that read a live cluster, matching, alerts and notifications. Everything here is as of "
        f"**{shown(watch.as_of_ms)}**, when the recording ended; nothing is watched now."
    )
    st.dataframe(
        faults_frame(truth), hide_index=True, height="content", row_height=35, column_config=_COLUMNS, alt="Faults"
    )
    _tour(truth["found"])
    _others(truth)


def faults_frame(truth: Mapping[str, Any]) -> pd.DataFrame:
    """One line per injected fault, in order of time; all text inert."""
    return pd.DataFrame([_line(fault) for fault in judged_faults(truth)], columns=list(_COLUMNS), dtype="string")


def _line(fault: JudgedFault) -> dict[str, str]:
    """The alert that was raised first; of several queries all names."""
    rows = (*fault.found, *fault.missed)
    line = {
        "found": "✗ missed" if fault.missed else "✓ found",
        "fault": inert(str(rows[0]["fault"]).replace("_", " "), 100),
        "note": inert(rows[0]["note"], 300),
        "query": inert(", ".join(row["query"] for row in rows)),
    }
    if not fault.found:
        return line
    alert = fault.found[0]["alert"]
    told = {"after": duration(max(0, _ms(alert["raised"]) - _ms(rows[0]["from"]))), "summary": alert["summary"]}
    return {**line, "link": links.url("alert", id=alert["id"]), **{n: inert(v, 300) for n, v in told.items()}}


def _tour(found: Sequence[Mapping[str, Any]]) -> None:
    """Of the first fault that concerns a job: the alert, the job, the query."""
    row = next((row for row in found if row["job_id"]), None)
    if row is None:
        return
    st.subheader("Three pages to look at", anchor=False)
    for page_name, label, icon, why, params in (
        ("alert", "The alert", ":material/notification_important:", "what it means, what to do, the events behind it",
         {"id": row["alert"]["id"]}),
        ("job", "Its job", ":material/work:", "its attempts by host over time, stragglers marked",
         {"id": row["job_id"]}),
        ("query", "The query that found it", ":material/search:", "its text, its alerts; the editor runs a changed one",
         {"name": row["query"]}),
    ):  # fmt: skip
        with st.container(horizontal=True, vertical_alignment="center"):
            links.link(page_name, label, icon=icon, **params)
            st.caption(why)


def _others(truth: Mapping[str, Any]) -> None:
    told = [
        f"{len(truth[name]):,} {what}"
        for name, what in (
            ("secondary", "further alerts on the same faults"),
            ("unexplained", "on their jobs at another time"),
            ("false_alarms", "that belong to no fault"),
        )
        if truth[name]
    ]
    if told:
        st.caption(f"Beside these: {', '.join(told)}.")
    links.link("alerts", "All alerts", icon=":material/notifications_active:")


def _ms(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1_000)
