"""The window of a query as plans have it."""

from __future__ import annotations

from engine.errors import UnsupportedQueryError
from engine.language import ast

UNBOUNDED_MS = 2**60
"""Of a window of events nothing is known in time; sums with it stay far below 2^63."""


def window_length(query: ast.Query) -> int:
    """last - first at most: milliseconds, or of WITHIN n EVENTS the n - 1 positions between the first and the last.

    A runtime of events gets their positions in the partition in place of times
    (`engine.matching.count_windows.runtime`).
    """
    if query.within_events is not None:
        return query.within_events - 1
    if not isinstance(query.within_ms, int):
        raise UnsupportedQueryError("the query has no window", query.span, "WITHIN", "say how long a match may be")
    return query.within_ms


__all__ = ["UNBOUNDED_MS", "window_length"]
