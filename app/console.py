"""Where people read what is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 160
WHOLE_WIDTH = 10_000


def table_console(*, whole_lines: bool = False) -> Console:
    """As wide as the terminal; where there is none, wide enough for whole words, or for lines that are never cut."""
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        return console
    return Console(width=WHOLE_WIDTH if whole_lines else PIPE_WIDTH)


def inert(text: object) -> str:
    """`text` for a terminal: of control characters, which names of files and keys may hold, only line ends stay."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in str(text))
