"""What events are worth, learned from a history that was evaluated without shedding (gSPICE, section III-B1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from engine.compiled.query import CompiledQuery
from engine.errors import EngineError
from engine.events import AttributeType, EventBatch, EventSchema, Float64Array, Int64Array
from engine.matching.output.match_row import MatchRow, flat_ids
from engine.runtime.shedding.droppable import droppable_types
from engine.runtime.shedding.event_shedder import EventShedder, EventStrategy, numbers_of, types_of
from engine.runtime.shedding.expected_once import expected_once
from engine.shedding.events.by_type import TypeUtilities
from engine.shedding.events.features import AttributeBins, Features, Pane, ZobristKeys
from engine.shedding.events.forest import FOREST_TREES, Forest, without_panes
from engine.shedding.events.observations import AggregatedObservations
from engine.shedding.events.saved import EventModel

_NUMERIC = (AttributeType.INT, AttributeType.FLOAT)


@dataclass(frozen=True, slots=True)
class Judged:
    """What of events is looked at: `types`; numeric `attributes`; the pane before them; bins of their numbers."""

    types: tuple[str, ...]
    attributes: tuple[str, ...] = ()
    pane_events: int | None = 10
    pane_ms: int | None = None
    n_bins: int = 16
    count_bin: int = 1

    @classmethod
    def of(cls, queries: Mapping[str, CompiledQuery], schema: EventSchema, pane_events: int) -> Self:
        """Types that queries read (others cost next to nothing) and of which dropping an event makes no match that is
        none, and the numbers that queries ask of them."""
        read = frozenset[str]().union(*(query.read_types for query in queries.values()))
        types = tuple(name for name in droppable_types(queries, schema) if name in read)
        requested = {name for query in queries.values() for plan in query.branches for name in plan.programs.columns}
        numeric = {name for kind in types for name, has in schema.types[kind].items() if has in _NUMERIC}
        return cls(types, tuple(sorted(requested & numeric)), pane_events)


@dataclass
class EventTraining:
    """Events of a history or a warm-up without shedding, and the matches that they contributed to.

    Of the last events it is not known yet what they contribute to: those within the windows of the
    queries that read them of the end are left out.
    `expects_once`: each query is taken to have had one match more, see `expected_once`.
    """

    judged: Judged
    queries: Mapping[str, CompiledQuery]
    expects_once: bool = False
    _events: list[EventBatch] = field(default_factory=list)
    _contributed: dict[str, float] = field(default_factory=dict)

    def take(self, released: EventBatch, rows: Iterable[MatchRow]) -> None:
        """Events in stream order, and the rows told at their end."""
        self._events.append(released)
        for row in rows:
            weight = self.queries[row.query].resolved.weight * row.count
            for event_id in {found for binding in row.bindings.values() for found in flat_ids(binding)}:
                self._contributed[event_id] = self._contributed.get(event_id, 0.0) + weight

    def trained(self, strategy: EventStrategy, seed: int = 1) -> EventShedder:
        """What has been learned; raises EngineError where nothing was."""
        return shedder_of(of_trees(self.model(seed), strategy, seed), strategy, seed)

    def model(self, seed: int = 1) -> EventModel:
        """The same, to be saved."""
        events = EventBatch.concat(self._events)
        if not len(events):
            raise EngineError("training of event utilities: found no events, expected a warm-up of several windows")
        judged = self.judged
        codes, known = types_of(events, judged.types)
        columns = {name: numbers_of(events.where(known), name) for name in judged.attributes}
        features = Features(
            judged.types,
            tuple(AttributeBins.over(name, values, judged.n_bins) for name, values in columns.items()),
            judged.pane_events,
            judged.pane_ms,
            judged.count_bin,
            seed,
        )
        worth = expected_once(self.queries.values(), events) if self.expects_once else np.zeros(len(events))
        ids = events.table.column("event_id").to_pylist()
        worth += np.array([self._contributed.get(event_id, 0.0) for event_id in ids])
        observed = self._observed(features, events.where(known), codes, worth[known])
        by_type = self._type_utilities(codes)
        return EventModel(
            {name: query.hash for name, query in self.queries.items()},
            features,
            by_type.utility,
            by_type.share,
            observed,
        )

    def _observed(
        self, features: Features, events: EventBatch, codes: Int64Array, worth: Float64Array
    ) -> AggregatedObservations:
        _, counts = Pane(features, ZobristKeys(features)).observe(codes, events.t_lo_ms)
        bins = [bins.of(numbers_of(events, bins.name)) for bins in features.attributes]
        rows = np.column_stack([codes, *bins, counts])
        end_ms = int(events.t_lo_ms[-1]) if len(events) else 0
        decided = events.t_lo_ms <= end_ms - self._reaches_ms()[codes]
        return AggregatedObservations.of(np.ascontiguousarray(rows[decided]), worth[decided])

    def _reaches_ms(self) -> Int64Array:
        """By type: so long after an event it is known what it contributed to, int64 (n_types,)."""
        reaches = [
            max((query.reach_ms for query in self.queries.values() if event_type in query.read_types), default=0)
            for event_type in self.judged.types
        ]
        return np.array(reaches, np.int64)

    def _type_utilities(self, codes: Int64Array) -> TypeUtilities:
        n_types = len(self.judged.types)
        share: Float64Array = np.bincount(codes, minlength=n_types) / max(1, len(codes))
        in_patterns = np.zeros(n_types)
        for query in self.queries.values():
            for variable in query.resolved.variables.values():
                if variable.event_type in self.judged.types:
                    in_patterns[self.judged.types.index(variable.event_type)] += query.resolved.weight
        return TypeUtilities(in_patterns * share, share)


N_TREES = {EventStrategy.GSPICE_T: 1, EventStrategy.GSPICE_F: FOREST_TREES}
"""Trees that a strategy goes by; 0, a table or nothing learned, for the others."""


def of_trees(model: EventModel, strategy: EventStrategy, seed: int = 1) -> EventModel:
    """The model for a strategy: with trees that are grown from what was observed in place of the panes that were; the
    same where the strategy goes by none. Needs scikit-learn where it does."""
    n_trees = N_TREES.get(strategy, 0)
    if not n_trees or not len(model.observed):
        return model
    forest = Forest.grown(model.observed, n_trees, seed)
    return replace(model, forest=forest, observed=without_panes(model.features, model.observed))


def strategy_of(model: EventModel) -> EventStrategy:
    """What a saved model is for."""
    n_trees = 0 if model.forest is None else len(model.forest.roots)
    if not n_trees:
        return EventStrategy.GSPICE_H
    return EventStrategy.GSPICE_T if n_trees == 1 else EventStrategy.GSPICE_F


def shedder_of(model: EventModel, strategy: EventStrategy | None = None, seed: int = 1) -> EventShedder:
    """What drops events by a model; by the strategy that it is for where none is given."""
    strategy = strategy or strategy_of(model)
    by_type = TypeUtilities(model.type_utility, model.type_share)
    shedder = EventShedder(strategy, model.features, by_type, np.random.default_rng(seed))
    if strategy is EventStrategy.GSPICE_H or strategy in N_TREES:
        shedder.learn(model.observed, model.forest)
    return shedder


__all__ = ["EventTraining", "Judged", "of_trees", "shedder_of", "strategy_of"]
