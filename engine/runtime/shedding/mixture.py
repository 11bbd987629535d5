"""Which of events and partial matches are dropped while events wait: what loses less for the same work saved."""

from __future__ import annotations

from collections import deque
from enum import Enum

import numpy as np

from engine.events import Float64Array
from engine.runtime.shedding.event_shedder import EventShedder
from engine.runtime.shedding.run_shedder import RunShedder
from engine.shedding.overload.trade import Trade

_LOOKS = 16
"""What runs are worth and cost is that before so many steps."""
_STAYS = 0.02
"""Of all matches: what is dropped changes where that loses so much less."""


class Drops(Enum):
    """What is dropped."""

    EVENTS = "events"
    RUNS = "partial matches"


class Mixture:
    """Decides once events have to wait, and again after every so often: see `decide`.

    What runs are worth and cost is taken from steps before which none were dropped for a window: those that are left
    while they are dropped are worth more than those that come. So is the work of an event without shedding.
    """

    def __init__(self, runs: RunShedder, events: EventShedder) -> None:
        self._runs = runs
        self._events = events
        self._looks: deque[tuple[Float64Array, Float64Array]] = deque(maxlen=_LOOKS)
        self._unshed_s = 0.0
        self._decided_s = -np.inf
        self._n_parts = runs.events_per_match(events.features.types)
        self.drops: Drops | None = None
        """What was decided; None before."""
        self._looked_s = -np.inf
        if self._n_parts is not None:
            events.watch_costs()

    @property
    def is_known(self) -> bool:
        """Whether both are about the same matches, so that what they lose can be compared at all."""
        return self._n_parts is not None and self._events.costs is not None

    def look(self, now_ms: int, now_s: float, every_s: float) -> None:
        """Before a step, while nothing was dropped lately; once in `every_s` seconds."""
        if now_s - self._looked_s < every_s:
            return
        self._looked_s = now_s
        if (found := self._runs.outlooks(now_ms)) is not None and len(found[0]):
            self._looks.append(found)

    def took(self, n_events: int, seconds: float, time_constant_s: float) -> None:
        """A step before which nothing was dropped lately."""
        each_s, share = seconds / n_events, min(1.0, seconds / time_constant_s)
        self._unshed_s += (share if self._unshed_s else 1.0) * (each_s - self._unshed_s)

    def decide(self, now_s: float, every_s: float, arrivals_per_s: float, own_s: float) -> Drops:
        """What to drop, decided anew after `every_s` seconds; partial matches while too little is known.

        `own_s`: seconds that an event takes where there are no runs.
        """
        if self.drops is not None and now_s - self._decided_s < every_s:
            return self.drops
        if not arrivals_per_s * self._unshed_s > 0:
            return Drops.RUNS
        events, runs = self._event_trade(), self._run_trade(max(0.0, 1.0 - own_s / self._unshed_s))
        if events is None or runs is None:
            return self.drops or Drops.RUNS
        saved = max(0.0, 1.0 - 1.0 / (arrivals_per_s * self._unshed_s))
        by_events, by_runs = events.lost_at(saved), runs.lost_at(saved)
        if self.drops is None:
            self.drops = Drops.EVENTS if by_events < by_runs else Drops.RUNS
        elif self.drops is Drops.EVENTS and by_runs < by_events - _STAYS:
            self.drops = Drops.RUNS
        elif self.drops is Drops.RUNS and by_events < by_runs - _STAYS:
            self.drops = Drops.EVENTS
        self._decided_s = now_s
        return self.drops

    def _event_trade(self) -> Trade | None:
        trade = None if self._events.costs is None else self._events.costs.trade()
        return trade if trade is None or self._n_parts is None else trade.with_parts(self._n_parts)

    def _run_trade(self, share: float) -> Trade | None:
        if not self._looks:
            return None
        worth, seconds = (np.concatenate(part) for part in zip(*self._looks, strict=True))
        if not (worth.sum() > 0 and seconds.sum() > 0):
            return None
        each = np.divide(worth, seconds, out=np.zeros_like(worth), where=seconds > 0)
        return Trade.of(each, seconds, worth, share)


__all__ = ["Drops", "Mixture"]
