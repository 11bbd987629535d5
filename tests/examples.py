"""How many examples a property test draws: the same few in every run, and many new ones in the thorough profile."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from unittest.mock import patch

from hypothesis.internal.conjecture.engine import ConjectureRunner

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
TIMES_THOROUGH = 30


def examples(number: int) -> int:
    """`number`, which each run can afford; so many times as many in the thorough profile."""
    return number * TIMES_THOROUGH if PROFILE == "thorough" else number


def each_drawn_anew() -> AbstractContextManager[object]:
    """Within it Hypothesis draws every example by itself. Otherwise it repeats parts of one in the next: of a hundred
    drawn queries and streams half are then almost the same."""
    return patch.object(ConjectureRunner, "generate_mutations_from", lambda *_: None)


__all__ = ["PROFILE", "each_drawn_anew", "examples"]
