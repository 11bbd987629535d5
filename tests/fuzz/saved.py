"""Saved cases of either kind."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.case import FuzzCase, load
from tests.fuzz.hostile import Hostile, load_hostile


def load_saved(folder: Path) -> FuzzCase | Hostile:
    """What `FuzzCase.save` or `Hostile.save` wrote."""
    return load_hostile(folder) or load(folder)


__all__ = ["load_saved"]
