"""What is closed is made when it is opened, and only then."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.dashboard.query_fixtures import opened, rerun, texts

PAGE = """
import streamlit as st
from dashboard.on_demand import on_demand

st.title("Page")
on_demand(f"Things: {st.session_state.get('n', 1)}", "things", lambda: st.caption("made"))
"""


def test_content_is_made_when_it_is_opened() -> None:
    test = rerun(AppTest.from_string(PAGE))
    assert test.expander[0].label == "Things: 1"
    assert "made" not in texts(test)
    assert "made" in texts(opened(test, "things"))


def test_it_stays_as_it_is_when_its_label_changes() -> None:
    test = rerun(AppTest.from_string(PAGE))
    test.session_state["n"] = 2
    assert "made" not in texts(rerun(test))
    opened(test, "things")
    test.session_state["n"] = 3
    assert "made" in texts(rerun(test))
    assert test.expander[0].label == "Things: 3"
