"""Numbers of the selection strategies (SASE+ section 3.2)."""

from __future__ import annotations

STRICT_CONTIGUITY = 0
PARTITION_CONTIGUITY = 1
SKIP_TILL_NEXT_MATCH = 2
SKIP_TILL_ANY_MATCH = 3

__all__ = ["PARTITION_CONTIGUITY", "SKIP_TILL_ANY_MATCH", "SKIP_TILL_NEXT_MATCH", "STRICT_CONTIGUITY"]
