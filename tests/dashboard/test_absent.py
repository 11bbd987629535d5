"""Addresses of what is not there, as any link may become one: each page says so, and what to do."""

from __future__ import annotations

import pytest

from tests.dashboard.query_fixtures import Installation, installation, texts, view

__all__ = ["installation"]  # a fixture


@pytest.mark.parametrize(
    ("page", "address", "told"),
    [
        ("alert", {"id": "0000"}, "retention.alerts"),
        ("alert", {}, "Which alert?"),
        ("job", {}, "Which job?"),
        ("query", {"name": "no-such-query"}, "There is no query file no-such-query"),
        ("query", {}, "No query is chosen"),
        ("editor", {"name": "no-such-query"}, "There is no query no-such-query"),
        ("editor", {"over": "history"}, "There is no event store yet"),
    ],
)
def test_what_is_not_there_is_told_with_what_to_do(
    installation: Installation, page: str, address: dict[str, str], told: str
) -> None:
    assert told in texts(view(page, **address)).replace("\\", "")  # of names, as Markdown needs it
