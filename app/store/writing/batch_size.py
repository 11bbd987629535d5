"""How much one transaction takes: what holds the store for a moment, on this machine and with all that goes on now."""

from __future__ import annotations

HOLD_S = 0.2
"""About so long a transaction may hold the store: whoever else writes waits as long."""


class BatchSize:
    """Of transactions that each take some of the same work; it changes when the work is done, never what is done."""

    def __init__(self, most: int, least: int) -> None:
        """`least`: below it the transaction itself costs more than what it does; `most` may be less."""
        self._most = most
        self._least = min(least, most)
        self.now = most
        """How many the next one takes."""

    def took(self, n_done: int, seconds: float) -> None:
        """A transaction of so many has held the store for so long."""
        if seconds > HOLD_S:
            self.now = max(self._least, min(self.now, int(n_done * HOLD_S / seconds)))
        elif seconds < HOLD_S / 2 and n_done >= self.now:
            self.now = min(self._most, 2 * self.now)


__all__ = ["BatchSize"]
