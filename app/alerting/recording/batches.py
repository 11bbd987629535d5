"""What one transaction takes of a step's work: so few alerts that nobody waits long for the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

MOST_ALERTS = 64
"""Per transaction: reading and writing many at once saves statements, and beyond this hardly any more."""
MOST_EVENTS = 4_000
"""Of evidence, per transaction."""
MOST_ROWS = 500
"""Of reports, per transaction."""

Item = TypeVar("Item")


def in_parts(
    items: Sequence[Item], at_most: int = MOST_ALERTS, n_events: Callable[[Item], int] = lambda _item: 0
) -> Iterator[Sequence[Item]]:
    """Cut into parts of at most so many items and MOST_EVENTS events, or one item, in their order."""
    start = n_in_part = 0
    for at, item in enumerate(items):
        n = n_events(item)
        if at > start and (at - start == at_most or n_in_part + n > MOST_EVENTS):
            yield items[start:at]
            start, n_in_part = at, 0
        n_in_part += n
    if start < len(items):
        yield items[start:]


__all__ = ["MOST_ALERTS", "MOST_EVENTS", "MOST_ROWS", "in_parts"]
