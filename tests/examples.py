"""How many examples a property test draws: the same few in every run, and many new ones in the thorough profile."""

from __future__ import annotations

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
TIMES_THOROUGH = 30


def examples(number: int) -> int:
    """`number`, which each run can afford; so many times as many in the thorough profile."""
    return number * TIMES_THOROUGH if PROFILE == "thorough" else number


__all__ = ["PROFILE", "examples"]
