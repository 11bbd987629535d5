"""What a campaign is given and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Given:
    """What a campaign works with."""

    minutes: float
    """Of wall time, about; a campaign with a fixed number of attempts ends when it has made them."""
    seed: int
    folder: Path
    """Empty and its own; what it leaves there helps to look at a failure."""


@dataclass(frozen=True)
class Verdict:
    """What a campaign saw."""

    figures: str
    """One line, with units: how much was tried, and the figures next to their bounds."""
    failures: tuple[str, ...] = ()
    """One line each: what was done, what was expected, what was found. None: the bounds hold."""


Campaign = Callable[[Given], Verdict]
"""The function `run` of a module of `campaigns`. Raises what it did not expect, which fails the campaign, too."""
