"""Hostile text: what reaches a page is the text, and nothing of it acts."""

from __future__ import annotations

import re
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dashboard.alerts.runbook import runbook_md
from dashboard.text import JOINER, MAX_STACKED_MARKS, inert, lines, md
from tests.dashboard.conftest import HOSTILE

ISOLATES = "\u2068\u2069"

TOKENS = st.sampled_from(
    ["<", ">", "[", "]", "(", ")", ":", "red", "smile", "$", "$$", "\\", "`", "```", "*", "_", "~~", "#", "- ", "1. ",
     "|", "\n", "\t", "    ", "&amp;", "http://a.b", "www.a.b", "a@b.c", "javascript:", "->", "--", "<-", ">=", "!",
     "{", "}", "\u202e", "\x00", "שלום", "e\u0301\u0301\u0301\u0301\u0301", ":material/star:", "<b>", "</b>", "x y"]
)  # fmt: skip
HOSTILE_TEXT = st.lists(TOKENS | st.text(max_size=3), max_size=30).map("".join)


class Seen(HTMLParser):
    """What a browser would show of some HTML, and the elements that it is in."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.elements: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.elements.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def seen(markdown: str) -> Seen:
    parsed = Seen()
    parsed.feed(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown))
    return parsed


def without_marks(text: str) -> str:
    return text.translate(dict.fromkeys(map(ord, JOINER + ISOLATES)))


@settings(deadline=None)
@given(HOSTILE_TEXT)
def test_markdown_gives_the_text_back_and_nothing_else(text: str) -> None:
    shown = seen(md(text, 10_000))
    assert without_marks(shown.text).strip() == inert(text, 10_000)
    assert set(shown.elements) <= {"p"}


@settings(deadline=None)
@given(HOSTILE_TEXT)
def test_in_the_middle_of_other_text_too(text: str) -> None:
    shown = seen(f"before **{md(text, 10_000)}x** after")
    assert without_marks(shown.text).strip() == f"before {inert(text, 10_000)}x after"


@settings(deadline=None)
@given(HOSTILE_TEXT)
def test_nothing_is_left_for_replacements_in_the_finished_text(text: str) -> None:
    """Emoji and icon codes, addresses and arrows are looked for after the Markdown was read."""
    found = seen(md(text, 10_000)).text
    assert not re.search(r":[\w+/-]+:", found)
    assert not re.search(r"(?i)https?://|www\.|mailto:\w", found)
    assert not re.search(r"[\w.+-]@[\w-]", found)
    assert not re.search(r"<-|->|--|[<>~]=", found)
    assert not re.search(r"(?<!\\):[a-z]+(-[a-z]+)?\[", md(text, 10_000))
    assert not re.search(r"(?<!\\)\$", md(text, 10_000).replace("\\\\", ""))


@settings(deadline=None)
@given(HOSTILE_TEXT | st.text())
def test_inert_is_one_line_of_visible_characters(text: str) -> None:
    shown = inert(text, 50)
    assert len(shown) <= 50
    assert shown.isprintable()
    assert not any(unicodedata.category(c) == "Cf" for c in shown)
    assert inert(shown, 50) == shown
    assert not re.search(rf"[\u0300-\u036f]{{{MAX_STACKED_MARKS + 1}}}", shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\t c", "a b c"),
        ("abc\u202edcb", "abcdcb"),
        ("nul\x00", "nul\ufffd"),
        ("\ud800", "\ufffd"),
        (None, "unknown"),
        (0.1 + 0.2, "0.3"),
        (12, "12"),
        ("x" * 60, "x" * 49 + "…"),
        ("x" * 50, "x" * 50),
    ],
)
def test_inert_examples(text: object, shown: str) -> None:
    assert inert(text, 50) == shown


def test_lines_keep_their_indentation_and_are_cut() -> None:
    assert lines("a\n\tat x.Y\n  \u202ez\x00") == "a\n    at x.Y\n  z\ufffd"
    assert lines("\n".join("abc"), max_lines=2) == "a\nb\n… and 1 more lines"
    assert len(lines("x" * 10_000, max_chars=100)) == 100


@pytest.mark.parametrize("text", HOSTILE)
def test_runbook_lets_nothing_through(text: str) -> None:
    shown = seen(runbook_md(f"Look at {text} and\n\n- at `{text}` **{text}**"))
    assert set(shown.elements) <= {"p", "ul", "li", "code", "strong"}


def test_runbook_keeps_lists_code_and_bold() -> None:
    shown = seen(runbook_md("Look at `a_b` **now**:\n\n- one\n- two\n\n1. first\n2) second"))
    assert shown.elements == ["p", "code", "strong", "ul", "li", "li", "ol", "li", "li"]
    assert " ".join(shown.text.split()) == "Look at a_b now: one two first second"
