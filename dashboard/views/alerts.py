"""Alerts now and before."""

from __future__ import annotations

import streamlit as st

from dashboard.store import AlertFilter, store


def page() -> None:
    """The list of alerts."""
    st.title("Alerts")
    rows = store().alerts(AlertFilter(limit=100))
    st.dataframe([{"state": row.state, "query": row.query, "summary": row.summary} for row in rows])
