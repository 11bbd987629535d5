"""Small tables as HTML: texts stay texts, wherever they stand."""

from __future__ import annotations

import pytest

from dashboard.static_table import Link, Share, table_html
from tests.dashboard.conftest import HOSTILE
from tests.dashboard.query_fixtures import read_table

BREAKING = ('"><img src=x onerror=alert(1)>', "</td></tr></table><script>alert(1)</script>", "' onclick='alert(1)")


@pytest.mark.parametrize("text", [*HOSTILE, *BREAKING])
def test_hostile_texts_stay_texts(text: str) -> None:
    html = table_html({text: [text], "link": [Link(text, f"job?id={text}")]}, label=text, numbers=(text,))
    found = read_table(html)  # refuses elements that are not ours
    assert list(found) == [heading, "link"] if (heading := next(iter(found))) else False
    assert heading.isprintable()
    assert found[heading] == [heading]
    assert len(heading) <= 1_000


@pytest.mark.parametrize("text", BREAKING)
def test_nothing_breaks_out_of_an_attribute(text: str) -> None:
    html = table_html({"link": [Link("x", text)]}, label=text)
    assert text not in html
    assert html.count("<") == html.count(">") == table_html({"link": [Link("x", "y")]}, label="y").count("<")


def test_cells_of_each_kind() -> None:
    html = table_html(
        {
            "host": ["node1", None],
            "busy": [Share(95.04), Share(-3)],
            "n": [1, 20],
            "run": [Link("r", "job?a=1&b=2")] * 2,
        },
        label="Hosts",
        numbers=("n",),
        whole=("host",),
        broken=("run",),
    )
    assert read_table(html) == {
        "host": ["node1", ""],
        "busy": ["95 %", "0 %"],
        "n": ["1", "20"],
        "run": ["job?a=1&b=2 r"] * 2,
    }
    assert "width:95.0%" in html
    assert "width:0.0%" in html
    assert [html.count(f'class="{kind}"') for kind in ("number", "whole", "broken")] == [3, 3, 3]


def test_columns_have_one_length() -> None:
    with pytest.raises(ValueError, match="shorter"):
        table_html({"a": ["x", "y"], "b": ["z"]}, label="")
