"""Where tables are printed."""

from __future__ import annotations

from rich.console import Console

PIPE_WIDTH = 160


def table_console() -> Console:
    """As wide as the terminal; wide enough for whole words where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPE_WIDTH)
