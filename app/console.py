"""Where people read what is printed."""

from __future__ import annotations

from rich.console import Console

PIPE_WIDTH = 160


def table_console() -> Console:
    """As wide as the terminal; wide enough for whole words where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPE_WIDTH)


def inert(text: object) -> str:
    """`text` for a terminal: of control characters, which names of files and keys may hold, only line ends stay."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in str(text))
