"""Saved cases of any kind."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.budgets import Budgeted, load_budgeted
from tests.fuzz.case import FuzzCase, load
from tests.fuzz.hostile import Hostile, load_hostile


def load_saved(folder: Path) -> FuzzCase | Budgeted | Hostile:
    """What `save` of one of them wrote."""
    return load_budgeted(folder) or load_hostile(folder) or load(folder)


__all__ = ["load_saved"]
