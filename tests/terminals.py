"""Terminals of a width, and what was printed on them."""

from __future__ import annotations

import io

from rich.cells import cell_len
from rich.console import Console

WIDTH = 80
LONG_HOST = "worker-0123.hadoop-production.eu-central.example.org"
LONG_JOB = "nightly aggregation of all click-stream events into hourly partitions, by country (stage 12)"
LONG_USER = "svc-clickstream-aggregation-production"
ATTEMPT = "attempt_1700000000000_0123456_r_000012_1000"


def terminal(width: int = WIDTH) -> Console:
    """One without colours."""
    return Console(width=width, force_terminal=True, color_system=None, file=io.StringIO(), highlight=False)


def pipe() -> Console:
    """No terminal: somebody's program reads it."""
    return Console(width=160, file=io.StringIO(), highlight=False)


def lines_of(console: Console) -> list[str]:
    """What stands there."""
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def fitting(console: Console) -> list[str]:
    """The lines of a terminal, none of which is wider than that, nor broken into single letters."""
    lines = lines_of(console)
    assert lines
    too_wide = [line for line in lines if cell_len(line) > console.width]
    assert too_wide == []
    is_sliver = [len(line.split()) == 1 and len(line.split()[0]) <= 3 for line in lines]
    assert not any(map(all, zip(is_sliver, is_sliver[1:], is_sliver[2:], strict=False))), "letters below each other"
    return lines


__all__ = ["ATTEMPT", "LONG_HOST", "LONG_JOB", "LONG_USER", "WIDTH", "fitting", "lines_of", "pipe", "terminal"]
