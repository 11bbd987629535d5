"""Figures side by side, each whole."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st


def show_figures(figures: Iterable[tuple[str, str, str]]) -> None:
    """Label, value, explanation: in as many rows as the window's width asks for, as a cut value is worth nothing."""
    with st.container(horizontal=True):
        for label, value, help_text in figures:
            st.metric(label, value, help=help_text, border=True, width="content")
