"""What the demo found, as of the recording's time: each injected fault with its alert, and a tour of three links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import streamlit as st

from app.replay.demo_report import JudgedFault, judged_faults, verdict_text
from dashboard import links
from dashboard.store import now_ms, store, watched
from dashboard.text import md
from dashboard.times import duration, shown
from dashboard.watch_banner import demo_verdict


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
    _tour(truth["found"])
    st.subheader("Faults, and the alerts that found them", anchor=False)
    for fault in judged_faults(truth):
        _fault(fault)
    _others(truth)


def _fault(fault: JudgedFault) -> None:
    """What was injected, and the alert that was raised first."""
    rows = (*fault.found, *fault.missed)
    name = md(str(rows[0]["fault"]).replace("_", " "), 100)
    with st.container(border=True, gap="small"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{'✗' if fault.missed else '✓'} {name}**", width="content")
            st.caption(md(_found_after(fault), 300))
        if fault.found:
            alert = fault.found[0]["alert"]
            st.markdown(md(alert["summary"], 300))  # a link's label would be cut off where the window is narrow
            links.link("alert", "Its alert", icon=":material/notification_important:", id=alert["id"])
        st.caption(f"What was done: {md(rows[0]['note'], 500)}")


def _found_after(fault: JudgedFault) -> str:
    told = []
    if fault.found:
        first = fault.found[0]
        after_ms = max(0, _ms(first["alert"]["raised"]) - _ms(first["from"]))
        told.append(f"found {duration(after_ms)} after it began, by {', '.join(row['query'] for row in fault.found)}")
    if fault.missed:
        told.append(f"missed by {', '.join(row['query'] for row in fault.missed)}")
    return "; ".join(told)


def _tour(found: Sequence[Mapping[str, Any]]) -> None:
    """Of the first fault that concerns a job: the alert, the job, the query."""
    row = next((row for row in found if row["job_id"]), None)
    if row is None:
        return
    st.subheader("Three pages to look at", anchor=False)
    stops: tuple[tuple[str, str, str, str, dict[str, Any]], ...] = (
        ("alert", "An alert", ":material/notification_important:", "What it means, what to do, the events behind it.",
         {"id": row["alert"]["id"]}),
        ("job", "Its job", ":material/work:", "Attempts by host over time, stragglers marked.", {"id": row["job_id"]}),
        ("query", "Its query", ":material/search:", "Its text and its alerts; the editor runs another.",
         {"name": row["query"]}),
    )  # fmt: skip
    for column, (page_name, label, icon, why, params) in zip(st.columns(len(stops)), stops, strict=True):
        with column.container(border=True, gap="small"):
            links.link(page_name, label, icon=icon, help=None, span=None, **params)
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
