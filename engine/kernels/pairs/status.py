"""How a search between a first and a last event ended; one number means one thing in all kernels of pairs."""

from __future__ import annotations

COMPLETE = 0
OUT_OF_CAPACITY = 1
OUT_OF_BUDGET = 2
REFUSED = 3  # too many events may each stand in several negated gaps
REFUSED_SKEW = 4  # too many combinations of the offsets of clocks, see `engine.kernels.confidence.skew`
NEEDS_SEARCH = 5  # an imprecise negated event: the confidence depends on the neighbours of each match

__all__ = ["COMPLETE", "NEEDS_SEARCH", "OUT_OF_BUDGET", "OUT_OF_CAPACITY", "REFUSED", "REFUSED_SKEW"]
