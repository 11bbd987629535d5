"""What matching returns: one row per match, or per (first, last) pair of events for collapsed and counted output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Value = int | float | str | None


@dataclass(frozen=True, slots=True)
class MatchRow:
    """One row of a query's output.

    `key`: the partition key as (attribute, value) pairs, () without one. `first_lo_ms` to `last_hi_ms`: from the
    earliest possible time of the first event to the latest of the last one. `bindings`: event ids by variable, of the
    match (OUTPUT ALL, SETS, TOP) or of the best match behind the row (COLLAPSED, COUNT), with its `confidence`
    (1.0 for precise events). `values`: RETURN. `count`: matches behind the row; a lower bound unless `count_exact`.
    `candidates` (COLLAPSED): ids per variable that occur in a match, or may do so unless `exact`. `capped`: a limit or
    the work budget stopped the listing.
    """

    query: str
    key: tuple[tuple[str, Value], ...]
    first_lo_ms: int
    last_hi_ms: int
    bindings: Mapping[str, tuple[str, ...]]
    confidence: float
    values: Mapping[str, Value]
    count: int = 1
    count_exact: bool = True
    candidates: Mapping[str, tuple[str, ...]] | None = None
    exact: bool = True
    capped: bool = False
