"""Overload detection: how much has to be dropped so that the latency bound holds (pSPICE, Algorithm 1; gSPICE, III).

Latency of an event: from the moment the watermark releases it to the end of the step that evaluated it. It is the time
it waited (queueing), the time to shed, and that of the step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from engine.shedding.overload.regressions import Rising, fit, inverse

_LEAST_SAMPLES = 8
_FIT_EVERY = 64
"""Samples after which a function is fitted anew."""
_MOST_SAMPLES = 1024
_LONG = 0.5
"""Share of the latency that is planned from which on the queue must not grow."""
_FUTILE = 0.1
"""Share of the processing time that dropping everything has to save, where the bound cannot be met."""
_ORDINARY = 20.0
"""Times of so many medians and more at no more than the median load are no matter of load: such as that of the first
call of a kernel."""


@dataclass(frozen=True, slots=True)
class Bound:
    """`latency_s` must not be exceeded; what is planned ends `buffer_s` before it. A step is cut so that it should take
    `step_share` of the bound."""

    latency_s: float
    buffer_s: float
    step_share: float = 0.05

    def __post_init__(self) -> None:
        if not 0 <= self.buffer_s < self.latency_s:
            raise ValueError(
                f"a safety buffer of {self.buffer_s} s in a latency bound of {self.latency_s} s; expected less than "
                "the bound, and not below 0"
            )
        if not 0 < self.step_share <= 0.5:
            raise ValueError(f"steps of {self.step_share} of the bound; expected more than 0 and at most a half")

    @property
    def planned_s(self) -> float:
        """Latency that is aimed at."""
        return self.latency_s - self.buffer_s


class Measured:
    """A time as a rising function of a load, learned while it runs from the newest samples."""

    def __init__(self) -> None:
        self._loads: deque[float] = deque(maxlen=_MOST_SAMPLES)
        self._times: deque[float] = deque(maxlen=_MOST_SAMPLES)
        self._n_until_fit = _LEAST_SAMPLES
        self.function: Rising | None = None
        """None before there are enough samples."""

    def add(self, load: float, seconds: float) -> None:
        """One measurement."""
        self._loads.append(load)
        self._times.append(seconds)
        self._n_until_fit -= 1
        if self._n_until_fit <= 0:
            loads, times = np.array(self._loads), np.array(self._times)
            ordinary = (times <= _ORDINARY * np.median(times)) | (loads > np.median(loads))
            self.function = fit(loads[ordinary], times[ordinary])
            self._n_until_fit = _FIT_EVERY if len(self._loads) >= _FIT_EVERY else _LEAST_SAMPLES

    @property
    def has_few(self) -> bool:
        """Whether there are not enough samples for a function."""
        return len(self._times) < _LEAST_SAMPLES

    def at(self, load: float) -> float:
        """Expected seconds; the mean of the last samples while there is no function, 0.0 without any."""
        if self.function is not None:
            return float(self.function.at(np.array([load]))[0])
        return float(np.mean(self._times)) if self._times else 0.0

    def error(self, share: float = 0.99) -> float:
        """By how much the newest samples exceed the function at most, but for a share of them; 0.0 without one."""
        newest = 256
        if self.function is None:
            return 0.0
        skip = max(0, len(self._loads) - newest)
        loads = np.array(list(islice(self._loads, skip, None)))
        times = np.array(list(islice(self._times, skip, None)))
        return max(0.0, float(np.quantile(times - self.function.at(loads), share)))


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do before the next step. `n_drop`: partial matches; `drop_share`: of events, from 0 to 1; where both are
    given, either would do.

    `achievable_s`: the bound that could be met with everything dropped that can be, where the set one cannot; else
    None.
    """

    n_drop: int = 0
    drop_share: float = 0.0
    achievable_s: float | None = None
    is_enough: bool = True
    """Whether the step ends within what is planned then."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Events that have been released, those of the next step among them: how many, how long the last has waited, and at
    which rate they came lately, 0.0 where that is not known."""

    n_events: int
    last_s: float
    arrivals_per_s: float = 0.0


@dataclass
class OverloadDetector:
    """Plans the next step from what is measured; has no clock of its own.

    `per_event_s`: processing time per event by the number of partial matches. `shedding_s`: of dropping partial
    matches, by their number.
    """

    bound: Bound
    per_event_s: Measured = field(default_factory=Measured)
    shedding_s: Measured = field(default_factory=Measured)

    def affordable(self, seconds: float, n_partial_matches: int, most: int) -> int:
        """So many events are evaluated within a time, at least one."""
        per_event_s = self.per_event_s.at(n_partial_matches)
        return max(1, min(most, int(seconds / per_event_s) if per_event_s > 0 else most))

    def step_size(self, n_partial_matches: int, most: int) -> int:
        """So many events are taken next."""
        return self.affordable(self.bound.step_share * self.bound.latency_s, n_partial_matches, most)

    def drop_runs(
        self, queueing_s: float, n_partial_matches: int, n_events: int, waiting: Waiting | None = None
    ) -> Plan:
        """Before a step of `n_events`, of which the first has waited `queueing_s`: partial matches to drop.

        When queueing + processing + shedding exceed what is planned, so many go on as the inverse of the processing
        time allows. So do they where not this step but the last event that waits already, `waiting`, would come too
        late: a little is dropped now, in place of nearly everything before its step. Nothing is dropped where that
        would not meet the bound and save next to nothing: what takes the time is something else.
        """
        per_event = self.per_event_s
        if per_event.function is None or n_events < 1:
            return Plan()
        shedding_s = self.shedding_s.at(n_partial_matches)
        left_s = self.bound.planned_s - queueing_s
        each_s = max(0.0, left_s - shedding_s) / n_events
        saved = 1.0 - per_event.at(0) / max(per_event.at(n_partial_matches), 1e-12)
        for paced_s in self._paced(queueing_s, n_events, shedding_s, waiting):
            if paced_s >= per_event.at(0) or saved >= _FUTILE:
                each_s = min(each_s, paced_s)
        if per_event.at(n_partial_matches) <= each_s:
            return Plan()
        drop_share = min(1.0, 1.0 - each_s / per_event.at(n_partial_matches))
        kept = inverse(per_event.function, each_s)
        n_drop = max(0, n_partial_matches - int(min(kept, n_partial_matches)))
        least_s = queueing_s + n_events * per_event.at(0) + shedding_s
        achievable_s = least_s if least_s > self.bound.latency_s else None
        if least_s > self.bound.planned_s and saved < _FUTILE:
            return Plan(drop_share=drop_share, achievable_s=achievable_s, is_enough=False)
        return Plan(n_drop, drop_share, achievable_s, is_enough=least_s <= self.bound.planned_s)

    def _paced(self, queueing_s: float, n_events: int, shedding_s: float, waiting: Waiting | None) -> Iterator[float]:
        """Seconds for each event that keep the last of those that wait in time, and the queue from growing once it is
        half as long as is planned."""
        if waiting is None:
            return
        if waiting.n_events > n_events:
            yield max(0.0, self.bound.planned_s - waiting.last_s - shedding_s) / waiting.n_events
        beyond_s = queueing_s - _LONG * self.bound.planned_s
        if waiting.arrivals_per_s > 0 and beyond_s > 0:
            interval_s = self.bound.latency_s / 2
            yield interval_s / (waiting.arrivals_per_s * (interval_s + beyond_s))

    def drop_events(
        self, queueing_s: float, arrivals_per_s: float, per_event_s: float, dropping_s: float, interval_s: float
    ) -> Plan:
        """The share of events to drop in the next interval: what arrives in it, and what waits beyond what is planned
        (less what waits below it), is to be evaluated, at `per_event_s`, or dropped, at `dropping_s` each, within it.
        `per_event_s`: of those that went on lately: the more is dropped, the more of what is left has work to do.

        So the share rises with what waits, and is what the overload asks for when that is as planned, less a step.
        """
        planned_s = self.bound.planned_s - self.bound.step_share * self.bound.latency_s
        if per_event_s <= 0 or arrivals_per_s <= 0:
            return Plan()
        n_events = arrivals_per_s * (interval_s + queueing_s - planned_s)
        if n_events <= 0:
            return Plan()
        affordable = (interval_s / n_events - dropping_s) / per_event_s
        achievable_s = None
        if dropping_s * arrivals_per_s >= 1.0:
            achievable_s = float("inf")
        return Plan(drop_share=min(1.0, max(0.0, 1.0 - affordable)), achievable_s=achievable_s)


__all__ = ["Bound", "Measured", "OverloadDetector", "Plan", "Waiting"]
