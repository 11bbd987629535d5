"""What a run has to be worth to go on, where many windows pass while events wait.

Dropping down to a number of runs keeps the work of each step below a limit. Where the queue bears the work of several
windows that is more than has to be: many runs at once would be dropped whatever they are worth, and none between. Then
work may differ from step to step as long as the queue stays what it is, and runs are dropped that are worth less than a
price, which rises while the queue is long.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from engine.events import Float64Array

_RISE = 4.0
"""The logarithm of the price changes by so much within half of the bound for a queue as long as is planned."""
_AT_ONCE = 2.0
"""And so much is added for such a queue, as long as it is there."""
_START = 0.5
"""A run that is dropped takes with it all it would still have cost, also where it would have become worth more. So the
share of the work to save is more than the share of runs, over some time, that have to be below the price."""
_LOOKS = 64
"""The first price is found in what runs were worth in so many steps before."""


class Price:
    """In utilities of runs. Queues are shares of the latency that is planned, less the half that is aimed at."""

    def __init__(self) -> None:
        self._log: float | None = None
        self._seen: deque[Float64Array] = deque(maxlen=_LOOKS)

    @property
    def is_set(self) -> bool:
        """Whether there is one."""
        return self._log is not None

    def forget(self) -> None:
        """Events do not wait any more."""
        self._log = None
        self._seen.clear()

    def see(self, utilities: Float64Array) -> None:
        """What all runs are worth, before there is a price, float64 (n,)."""
        self._seen.append(utilities)

    def start(self, drop_share: float) -> None:
        """The price for a share of the work to be saved; none where nothing that was seen was worth anything."""
        every = np.concatenate([*self._seen, np.empty(0)])
        worth = every[every > 0]
        if len(worth):
            self._log = math.log(max(float(np.quantile(every, _START * drop_share)), float(worth.min())))

    def follow(self, queue: float, elapsed: float) -> None:
        """elapsed: what the step before took, in halves of the bound."""
        if self._log is not None:
            self._log += _RISE * queue * min(elapsed, 1.0)

    def n_below(self, utilities: Float64Array, queue: float) -> int:
        """How many of the runs are not worth it; 0 without a price."""
        if self._log is None:
            return 0
        return int(np.count_nonzero(utilities < math.exp(self._log + _AT_ONCE * queue)))


__all__ = ["Price"]
