"""Small tables and rows of facts as plain HTML: whole texts that wrap, that the browser finds, and that are there soon.

Streamlit's own table is a canvas that is sorted and searched, for which a page loads a megabyte of script; it is for
tables of hundreds of rows. All text is made inert and escaped here, and nowhere else does a page write HTML.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import streamlit as st

from dashboard.text import inert

MAX_CELL_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Link:
    """A cell that leads to another page; `url` as of `links.url`."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Share:
    """A cell with a bar; `percent` from 0 to 100."""

    percent: float


Cell = str | int | None | Link | Share
"""None: nothing is known."""


def show_table(
    columns: Mapping[str, Iterable[Cell]],
    *,
    label: str,
    numbers: Collection[str] = (),
    whole: Collection[str] = (),
    broken: Collection[str] = (),
) -> None:
    """Columns by their headings, all of one length; `label` says what the table shows, `numbers` which columns are
    figures, `whole` which have short texts that stay on one line, `broken` which have long ones whose words are broken
    where the window is narrow."""
    st.html(table_html(columns, label=label, numbers=numbers, whole=whole, broken=broken))


def show_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Label and value beside each other, in as many rows as the window's width asks for."""
    told = "".join(f"<div><dt>{_text(label)}</dt><dd>{_text(value)}</dd></div>" for label, value in facts)
    st.html(f'<dl class="clustercep-facts">{told}</dl>')


def table_html(
    columns: Mapping[str, Iterable[Cell]],
    *,
    label: str,
    numbers: Collection[str] = (),
    whole: Collection[str] = (),
    broken: Collection[str] = (),
) -> str:
    """As `show_table`; a table wider or longer than its place is scrolled, by keys too."""
    kinds = {"number": numbers, "whole": whole, "broken": broken}
    classes = ["".join(f' class="{kind}"' for kind, of in kinds.items() if name in of) for name in columns]
    head = "".join(f'<th scope="col"{of}>{_text(name)}</th>' for name, of in zip(columns, classes, strict=True))
    rows: Iterable[Sequence[Cell]] = zip(*columns.values(), strict=True)
    body = "".join(
        f"<tr>{''.join(f'<td{of}>{_cell(cell)}</td>' for cell, of in zip(row, classes, strict=True))}</tr>"
        for row in rows
    )
    return (
        f'<div class="clustercep-table" role="region" aria-label="{_text(label)}" tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    if isinstance(cell, Link):
        return f'<a href="{escape(cell.url)}">{_text(cell.text)}</a>'
    if isinstance(cell, Share):
        percent = min(100.0, max(0.0, cell.percent))
        bar = f'<span class="bar" aria-hidden="true"><span style="width:{percent:.1f}%"></span></span>'
        return f'<span class="share">{bar}<span>{percent:.0f} %</span></span>'
    return "" if cell is None else _text(str(cell))


def _text(text: str) -> str:
    return escape(inert(text, MAX_CELL_CHARS))


__all__ = ["Cell", "Link", "Share", "show_facts", "show_table", "table_html"]
