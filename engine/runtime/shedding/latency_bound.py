"""The overload control of an engine that has to hold a latency bound, with what is usual for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engine.compiled.query import CompiledQuery
from engine.events import Int64Array
from engine.runtime.shedding.control import OverloadControl
from engine.runtime.shedding.run_shedder import RunShedder
from engine.shedding.overload.detector import Bound, OverloadDetector

BUFFER_SHARE = 0.2
"""Of the bound: what is planned ends so long before it."""


def latency_bound(
    latency_s: float,
    clock: Callable[[], float],
    released_at: Callable[[Int64Array], Sequence[float]] | None = None,
) -> Callable[[Mapping[str, CompiledQuery]], OverloadControl]:
    """For `Engine(overload=...)`: partial matches are dropped by pSPICE before a latency of `latency_s` is exceeded.

    `clock`: monotonic, seconds. `released_at`: see `OverloadControl`.
    """

    def control(queries: Mapping[str, CompiledQuery]) -> OverloadControl:
        detector = OverloadDetector(Bound(latency_s, BUFFER_SHARE * latency_s))
        return OverloadControl(detector, RunShedder(queries, clock=clock), clock, released_at=released_at)

    return control


__all__ = ["BUFFER_SHARE", "latency_bound"]
