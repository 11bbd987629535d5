"""Events dropped before they are decoded (gSPICE-H, E-BL, random), and what their utilities are learned from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.compiled.query import CompiledQuery
from engine.errors import EngineError
from engine.events import BoolArray, EventBatch, Float64Array, Int64Array
from engine.matching.output.rows import MatchRow, flat_ids
from engine.shedding.events.by_type import TypeUtilities, sampled
from engine.shedding.events.features import AttributeBins, Features, Pane
from engine.shedding.events.hashed import EventDropper, HashedUtilities
from engine.shedding.events.observations import AggregatedObservations
from engine.shedding.events.threshold import UtilityDistribution

_N_RECENT = 4_096
_NOTICED_EVERY = 1_024
_FEW = 64
"""The distribution of utilities is that of the newest so many that were looked up, made anew every so often; while
there are few, that of the observations."""


class EventStrategy(Enum):
    """Which events are dropped first."""

    GSPICE_H = "gspice-h"
    """Those that contribute to the fewest matches, by type, attributes and the events before them."""
    BY_TYPE = "e-bl"
    """Those of types that patterns and windows repeat least."""
    RANDOM = "random"
    """Any."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What of events is looked at: `types`; numeric `attributes`; the pane before them; bins of their numbers."""

    types: tuple[str, ...]
    attributes: tuple[str, ...] = ()
    pane_events: int | None = 10
    pane_ms: int | None = None
    n_bins: int = 16
    count_bin: int = 1


@dataclass
class EventTraining:
    """Events of a warm-up without shedding, and the matches that they contributed to.

    Of the last events it is not known yet what they contribute to: those within a window of the end are left out.
    """

    judged: Judged
    queries: Mapping[str, CompiledQuery]
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
        events = EventBatch.concat(self._events)
        if not len(events):
            raise EngineError("training of event utilities: found no events, expected a warm-up of several windows")
        judged = self.judged
        codes, known = _types_of(events, judged.types)
        columns = {name: _numbers(events.where(known), name) for name in judged.attributes}
        features = Features(
            judged.types,
            tuple(AttributeBins.over(name, values, judged.n_bins) for name, values in columns.items()),
            judged.pane_events,
            judged.pane_ms,
            judged.count_bin,
            seed,
        )
        shedder = EventShedder(strategy, features, self._type_utilities(codes), np.random.default_rng(seed))
        if strategy is EventStrategy.GSPICE_H:
            shedder.learn(self._observed(features, events.where(known), codes))
        return shedder

    def _observed(self, features: Features, events: EventBatch, codes: Int64Array) -> AggregatedObservations:
        pane = Pane(features, HashedUtilities(features, _nothing(features)).keys)
        _, counts = pane.observe(codes, events.t_lo_ms)
        bins = [bins.of(_numbers(events, bins.name)) for bins in features.attributes]
        rows = np.column_stack([codes, *bins, counts])
        ids = events.table.column("event_id").to_pylist()
        contributed = np.array([self._contributed.get(event_id, 0.0) for event_id in ids])
        reach_ms = max((query.reach_ms for query in self.queries.values()), default=0)
        decided = events.t_lo_ms <= int(events.t_lo_ms[-1]) - reach_ms if len(events) else np.zeros(0, np.bool_)
        return AggregatedObservations.of(np.ascontiguousarray(rows[decided]), contributed[decided])

    def _type_utilities(self, codes: Int64Array) -> TypeUtilities:
        n_types = len(self.judged.types)
        share: Float64Array = np.bincount(codes, minlength=n_types) / max(1, len(codes))
        in_patterns = np.zeros(n_types)
        for query in self.queries.values():
            for variable in query.resolved.variables.values():
                if variable.event_type in self.judged.types:
                    in_patterns[self.judged.types.index(variable.event_type)] += query.resolved.weight
        return TypeUtilities(in_patterns * share, share)


class EventShedder:
    """Drops a share of the events that the watermark releases, before anything else is done with them."""

    def __init__(
        self, strategy: EventStrategy, features: Features, by_type: TypeUtilities, random: np.random.Generator
    ) -> None:
        self.strategy = strategy
        self.features = features
        self.n_seen = 0
        self.n_dropped = 0
        self._by_type = by_type
        self._random = random
        self._hashed: HashedUtilities | None = None
        self._pane: Pane | None = None
        self._dropper = EventDropper()
        self._distribution = UtilityDistribution.of(np.empty(0), np.empty(0))
        self._recent: Float64Array = np.empty(0)
        self._n_unnoticed = 0

    def learn(self, observed: AggregatedObservations) -> None:
        """Utilities for gSPICE-H."""
        self._hashed = HashedUtilities(self.features, observed)
        self._pane = self._hashed.pane()
        self._distribution = self._hashed.distribution
        self._recent = np.empty(0)
        self._n_unnoticed = 0

    def _notice(self, utilities: Float64Array, hashed: HashedUtilities) -> None:
        """The threshold is for utilities as they are looked up now: where many panes were never observed, these are
        not distributed as those that were."""
        self._recent = np.concatenate([self._recent, utilities])[-_N_RECENT:]
        self._n_unnoticed += len(utilities)
        if self._n_unnoticed >= min(_NOTICED_EVERY, len(self._recent)) and len(self._recent) >= _FEW:
            self._distribution = UtilityDistribution.of(self._recent, np.ones(len(self._recent)))
            self._n_unnoticed = 0
        elif len(self._recent) < _FEW:
            self._distribution = hashed.distribution

    def keeps(self, released: EventBatch, drop_share: float) -> BoolArray:
        """Which of the events, in stream order, go on, bool (n,). To be called for all events: panes have those that
        are dropped, too. Events of types that are not judged go on."""
        keeps: BoolArray = np.ones(len(released), np.bool_)
        codes, known = _types_of(released, self.features.types)
        self.n_seen += len(codes)
        if self._hashed is not None and self._pane is not None:
            pane_keys = self._pane.follow(codes, released.t_lo_ms[known])
            if drop_share > 0:
                events = released.where(known)
                bins = [bins.of(_numbers(events, bins.name)) for bins in self.features.attributes]
                attributes = np.array(bins, np.int64).reshape(-1, len(codes))
                utilities = self._hashed.of(codes, attributes, pane_keys)
                self._notice(utilities, self._hashed)
                keeps[known] = self._dropper.keeps(utilities, self._distribution.threshold(drop_share))
        elif drop_share > 0:
            n_types = len(self.features.types)
            by_type = self.strategy is EventStrategy.BY_TYPE
            chance = self._by_type.drop_probability(drop_share) if by_type else np.full(n_types, drop_share)
            keeps[known] = sampled(codes, chance, self._random)
        self.n_dropped += int(np.count_nonzero(~keeps))
        return keeps


def _types_of(events: EventBatch, types: Sequence[str]) -> tuple[Int64Array, BoolArray]:
    """The number of each event's type, of those that are judged, int64 (n_known,); which these are, bool (n,)."""
    found = pc.index_in(events.table.column("type"), pa.array(types, pa.string()))
    codes = np.asarray(pc.fill_null(found, -1).to_numpy(), np.int64)
    known: BoolArray = codes >= 0
    return codes[known], known


def _numbers(events: EventBatch, name: str) -> Float64Array:
    """An attribute as doubles, NaN for NULL and where no event has it."""
    if name not in events.table.column_names:
        return np.full(len(events), np.nan)
    column = events.table.column(name).cast(pa.float64())
    return np.asarray(column.to_numpy(), np.float64)


def _nothing(features: Features) -> AggregatedObservations:
    n_features = 1 + len(features.attributes) + len(features.types)
    return AggregatedObservations.of(np.empty((0, n_features), np.int64), np.empty(0))


__all__ = ["EventShedder", "EventStrategy", "EventTraining", "Judged"]
