"""The alerts of one job or application, above all else of its page."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard.alerts import table as alert_table
from dashboard.store import AlertRow, live_store

MAX_ALERTS = 50
FIRST_ALERTS = 8
"""They stand above all else; the others on demand."""


def alerts_of_job(job_id: str) -> Sequence[AlertRow]:
    """The latest alerts about a job."""
    alerts = live_store()
    return () if alerts is None else alerts.alerts_of_job(job_id, MAX_ALERTS)


def alerts_of_application(application_id: str, from_ms: int | None, to_ms: int | None) -> Sequence[AlertRow]:
    """The latest alerts about an application that runs no job, which touch a closed span."""
    alerts = live_store()
    return () if alerts is None else alerts.alerts_of_application(application_id, from_ms, to_ms, MAX_ALERTS)


def show_alerts(alerts: Sequence[AlertRow], of: str) -> None:
    """What there are. `of`: "job" or "application"."""
    if not alerts:
        return
    st.subheader("Alerts", anchor=False)
    alert_table.show(alerts[:FIRST_ALERTS], f"{of}-alerts", f"Alerts of this {of}")
    if others := alerts[FIRST_ALERTS:]:
        with st.expander(
            f"{len(others):,} earlier one{'' if len(others) == 1 else 's'}", icon=":material/expand_more:"
        ):
            alert_table.show(others, f"{of}-alerts-before", f"Earlier alerts of this {of}")
    if len(alerts) == MAX_ALERTS:
        st.caption(f"The latest {MAX_ALERTS}; the page Alerts shows all of them.")


__all__ = ["FIRST_ALERTS", "MAX_ALERTS", "alerts_of_application", "alerts_of_job", "show_alerts"]
