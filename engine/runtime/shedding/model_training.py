"""A history through an engine that drops nothing, and what its runs and events turn out to be worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.compiled.query import CompiledQuery
from engine.events import EventBatch, EventSchema
from engine.matching.protocol import Limits
from engine.runtime.engine import Engine
from engine.runtime.shedding.control import OverloadControl
from engine.runtime.shedding.event_shedder import EventStrategy
from engine.runtime.shedding.event_training import EventTraining, Judged, of_trees
from engine.runtime.shedding.model import SheddingModel
from engine.runtime.shedding.run_shedder import RunShedder
from engine.runtime.shedding.run_watch import Sampling
from engine.shedding.overload.detector import Bound, OverloadDetector

_NO_BOUND = Bound(1e9, 0.0)
_SAMPLING = Sampling(first_every=1, n_first=20_000, every=64, n_again=200)
"""A history is looked at more closely than a stream that cannot wait."""
_FEW = 10
"""Samples of a query of which a history has no more; one that has fewer is learned of while it runs."""


class ModelTraining:
    """Takes a history in stream order, batch by batch."""

    def __init__(
        self,
        queries: Mapping[str, CompiledQuery],
        schema: EventSchema,
        limits: Limits,
        pane_events: int,
        clock: Callable[[], float],
        strategy: EventStrategy = EventStrategy.GSPICE_H,
    ) -> None:
        """`strategy`: by which events are valued."""
        self._strategy = strategy
        self._queries = queries
        self._made: list[RunShedder] = []

        def control(known: Mapping[str, CompiledQuery]) -> OverloadControl:
            self._made.append(RunShedder(known, sampling=_SAMPLING, clock=clock))
            return OverloadControl(OverloadDetector(_NO_BOUND), self._made[0], clock)

        self._engine = Engine(list(queries.values()), schema, limits=limits, overload=control)
        judged = Judged.of(queries, schema, pane_events)
        self._events = EventTraining(judged, queries, expects_once=True) if judged.types else None
        self.n_events = 0
        self._from_ms = self._to_ms = 0

    def take(self, batch: EventBatch) -> None:
        """The next events; none of a later batch is earlier than the last of these."""
        if not len(batch):
            return
        self._from_ms = self._from_ms if self.n_events else int(batch.t_lo_ms[0])
        self._to_ms = int(batch.t_lo_ms[-1])
        self.n_events += len(batch)
        rows = self._engine.process(batch, self._to_ms)
        if self._events is not None:
            self._events.take(batch, rows)

    def finished(self, watermark_ms: int) -> SheddingModel:
        """What was learned."""
        rows = self._engine.process(EventBatch.empty(), watermark_ms)
        if self._events is not None:
            self._events.take(EventBatch.empty(), rows)
        self._made[0].learn(least=_FEW)
        return SheddingModel(
            {name: query.hash for name, query in self._queries.items()},
            tuple(self._made[0].models()),
            None if self._events is None else of_trees(self._events.model(), self._strategy),
            self.n_events,
            self._from_ms,
            self._to_ms,
        )


__all__ = ["ModelTraining"]
