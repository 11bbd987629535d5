"""The overload control of an engine that has to hold a latency bound, with what is usual for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engine.compiled.query import CompiledQuery
from engine.events import Int64Array
from engine.runtime.shedding.control import OverloadControl, Works
from engine.runtime.shedding.event_training import shedder_of
from engine.runtime.shedding.model import SheddingModel
from engine.runtime.shedding.run_shedder import RunShedder
from engine.shedding.overload.detector import Bound, OverloadDetector

LEAST_SIMULATED = 4
"""Events of a step where the clock is simulated: there a step costs nothing by itself."""
BUFFER_SHARE = 0.2
"""Of the bound: what is planned ends so long before it."""


def latency_bound(
    latency_s: float,
    clock: Callable[[], float],
    released_at: Callable[[Int64Array], Sequence[float]] | None = None,
    works: Works | None = None,
    model: SheddingModel | None = None,
    *,
    shares_times: bool = False,
) -> Callable[[Mapping[str, CompiledQuery]], OverloadControl]:
    """For `Engine(overload=...)`: partial matches are dropped by pSPICE before a latency of `latency_s` is exceeded;
    with a model of events, those by gSPICE-H where that loses less, or dropping partial matches is not enough.

    `clock`: monotonic, seconds. `released_at`: see `OverloadControl`. `works`: is told what
    the engine does, where the clock is simulated. `shares_times`: all engines that are made with it evaluate the same
    queries on one machine, one at a time, and learn together how long steps take: one that goes on elsewhere, from
    saved state, knows it from the first step on.
    """
    bound = Bound(latency_s, BUFFER_SHARE * latency_s)
    shared = OverloadDetector(bound) if shares_times else None

    def control(queries: Mapping[str, CompiledQuery]) -> OverloadControl:
        detector = OverloadDetector(bound) if shared is None else shared
        shedder, events = RunShedder(queries, clock=clock), None
        if model is not None:
            shedder.take_over(model.runs)
            events = None if model.events is None else shedder_of(model.events)
        return OverloadControl(
            detector,
            shedder,
            clock,
            events=events,
            is_mixed=True,
            released_at=released_at,
            least_events=OverloadControl.least_events if works is None else LEAST_SIMULATED,
            works=works,
        )

    return control


__all__ = ["BUFFER_SHARE", "latency_bound"]
