"""A runbook paragraph as Markdown of which only lists, bold and code are left: all else shows as it is written."""

from __future__ import annotations

import re

from dashboard.text import inert, md

MAX_CHARS = 20_000
MAX_LINE_CHARS = 4_000

_ITEM = re.compile(r"^(\s{0,8})([-*]|\d{1,3}[.)])\s+(.*)$")
_SPAN = re.compile(r"`([^`]+)`|\*\*([^*`]+)\*\*")


def runbook_md(text: str) -> str:
    """Safe for `st.markdown` whatever the text holds: links, HTML, formulas and directives in it do nothing."""
    return "\n".join(_line(line) for line in text[:MAX_CHARS].splitlines())


def _line(line: str) -> str:
    item = _ITEM.match(line)
    if item is None:
        return _spans(line)
    indent = "  " * (len(item[1].expandtabs(2)) // 2)
    mark = "-" if item[2] in "-*" else f"{item[2][:-1]}."
    return f"{indent}{mark} {_spans(item[3])}"


def _spans(text: str) -> str:
    shown, at = [], 0
    for span in _SPAN.finditer(text):
        shown.append(_plain(text[at : span.start()]))
        shown.append(f"`{inert(span[1], MAX_LINE_CHARS)}`" if span[1] else f"**{md(span[2], MAX_LINE_CHARS)}**")
        at = span.end()
    return "".join([*shown, _plain(text[at:])])


def _plain(text: str) -> str:
    """`md`, with the spaces at both ends that part it from code and bold."""
    if not text.strip():
        return " " if text else ""
    before, after = text[0].isspace(), text[-1].isspace()
    return f"{' ' if before else ''}{md(text, MAX_LINE_CHARS)}{' ' if after else ''}"
