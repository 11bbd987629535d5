"""What stands below the window is made when it is scrolled to."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import on_sight as module
from tests.dashboard.query_fixtures import rerun, texts

PAGE = """
import streamlit as st
from dashboard.on_sight import on_sight

st.caption("above")
for name in ("first", "second"):
    on_sight(f"{name}-of-{st.session_state.get('page', 1)}", 200, lambda name=name: st.caption(f"made the {name}"))
st.caption("below")
"""
was_seen = module.was_seen
"""Before the fixture for all other tests of pages."""


@pytest.fixture(autouse=True)
def _in_sight_once_scrolled_to(all_in_sight: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "was_seen", was_seen)


def scrolled_to(page: AppTest, key: str) -> AppTest:
    """As after the browser told that this place was seen."""
    page.session_state[module._SEEN].add(key)
    return rerun(page)


def places(page: AppTest) -> list[str]:
    """What waits to be seen."""
    return [element.proto.id.rsplit("-unseen-", 1)[-1] for element in page.get("bidi_component")]


def test_it_is_made_once_its_place_is_seen() -> None:
    page = rerun(AppTest.from_string(PAGE))
    assert places(page) == ["first-of-1", "second-of-1"]
    assert "made" not in texts(page)
    scrolled_to(page, "second-of-1")
    assert places(page) == ["first-of-1"]
    assert [caption.value for caption in page.caption] == ["above", "made the second", "below"]


def test_it_is_there_when_the_page_is_shown_anew_and_not_on_another_page() -> None:
    page = scrolled_to(rerun(AppTest.from_string(PAGE)), "first-of-1")
    assert "made the first" in texts(rerun(page))
    page.session_state["page"] = 2
    assert places(rerun(page)) == ["first-of-2", "second-of-2"]
