"""Fixture files of one case per line: `text` or `text => canonical text`; `-- ` begins a comment line."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "fixtures"


def cases(name: str) -> list[tuple[str, str]]:
    """(text, canonical text) of every line."""
    lines = [line for line in (FOLDER / name).read_text(encoding="utf-8").splitlines() if line[:3] != "-- "]
    return [
        (text.strip(), canonical.strip() or text.strip()) for text, _, canonical in (x.partition("=> ") for x in lines)
    ]
