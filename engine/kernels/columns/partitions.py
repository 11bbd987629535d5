"""Numbers in place of a partition's."""

from __future__ import annotations

BROADCAST = -1
"""Of an event that is in every partition."""

NOWHERE = -2
"""Of an event that is in none."""

__all__ = ["BROADCAST", "NOWHERE"]
