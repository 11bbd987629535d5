"""Events dropped before they are decoded: gSPICE-H, -T and -F, E-BL, random."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.events import BoolArray, EventBatch, Float64Array, Int64Array
from engine.shedding.events.by_type import TypeUtilities, sampled
from engine.shedding.events.costs import EventCosts
from engine.shedding.events.features import Features, Pane
from engine.shedding.events.forest import Forest, ForestUtilities
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
    """Those that contribute to the fewest matches, by type, attributes and the events before them: by a table."""
    GSPICE_T = "gspice-t"
    """The same, by a decision tree."""
    GSPICE_F = "gspice-f"
    """The same, by a forest."""
    BY_TYPE = "e-bl"
    """Those of types that patterns and windows repeat least."""
    RANDOM = "random"
    """Any."""


class EventShedder:
    """Drops a share of the events that the watermark releases, before anything else is done with them."""

    def __init__(
        self, strategy: EventStrategy, features: Features, by_type: TypeUtilities, random: np.random.Generator
    ) -> None:
        self.strategy = strategy
        self.features = features
        self.n_seen = 0
        self.n_dropped_by_type: Int64Array = np.zeros(len(features.types), np.int64)
        self.expected_loss = 0.0
        """Matches, times their weights, that events like the dropped ones contributed to; of gSPICE alone."""
        self._by_type = by_type
        self._random = random
        self._utilities: HashedUtilities | ForestUtilities | None = None
        self._pane: Pane | None = None
        self._dropper = EventDropper()
        self._distribution = UtilityDistribution.of(np.empty(0), np.empty(0))
        self._recent: Float64Array = np.empty(0)
        self._n_unnoticed = 0
        self.costs: EventCosts | None = None
        """Of gSPICE alone, where `watch_costs` was called: what events cost, by what they are worth."""
        self._went_on: tuple[Float64Array, int] = (np.empty(0), 0)

    def watch_costs(self) -> None:
        """From now on all events are looked up, also while none is dropped, and `took` is told of each step."""
        if self._utilities is not None:
            self.costs = EventCosts(self._utilities.distribution)

    def took(self, work: float) -> None:
        """What was left of the events that `keeps` was asked about last was so much work, in any unit."""
        if self.costs is not None:
            self.costs.took(*self._went_on, work)

    @property
    def n_dropped(self) -> int:
        """Events dropped so far."""
        return int(self.n_dropped_by_type.sum())

    @property
    def dropped(self) -> dict[str, int]:
        """The same by type, of those that any were dropped of."""
        return {name: n for name, n in zip(self.features.types, self.n_dropped_by_type.tolist(), strict=True) if n}

    def n_judged(self, released: EventBatch) -> int:
        """How many of the events may be dropped."""
        return len(types_of(released, self.features.types)[0])

    def expected(self, n_events: int, drop_share: float) -> float | None:
        """The loss to be expected of dropping this share of so many events; None where nothing is known of it: events
        of types that were never observed, which are not dropped, are among them."""
        if self._utilities is None:
            return None
        expected = n_events * self._distribution.below(drop_share)
        return expected if np.isfinite(expected) else None

    def learn(self, observed: AggregatedObservations, forest: Forest | None = None) -> None:
        """Utilities for gSPICE: by a table, or by trees that were grown."""
        self._utilities = (
            HashedUtilities(self.features, observed)
            if forest is None
            else ForestUtilities(self.features, forest, observed)
        )
        self._pane = self._utilities.pane()
        self._distribution = self._utilities.distribution
        self._recent = np.empty(0)
        self._n_unnoticed = 0

    def _notice(self, utilities: Float64Array, at_first: UtilityDistribution) -> None:
        """The threshold is for utilities as they are looked up now: where many panes were never observed, these are
        not distributed as those that were."""
        self._recent = np.concatenate([self._recent, utilities])[-_N_RECENT:]
        self._n_unnoticed += len(utilities)
        if self._n_unnoticed >= min(_NOTICED_EVERY, len(self._recent)) and len(self._recent) >= _FEW:
            self._distribution = UtilityDistribution.of(self._recent, np.ones(len(self._recent)))
            self._n_unnoticed = 0
        elif len(self._recent) < _FEW:
            self._distribution = at_first

    def keeps(self, released: EventBatch, drop_share: float) -> BoolArray:
        """Which of the events, in stream order, go on, bool (n,). To be called for all events: panes have those that
        are dropped, too. Events of types that are not judged go on."""
        keeps: BoolArray = np.ones(len(released), np.bool_)
        codes, known = types_of(released, self.features.types)
        self.n_seen += len(codes)
        known_utilities, pane = self._utilities, self._pane
        if known_utilities is not None and pane is not None:
            if drop_share <= 0 and self.costs is None:
                pane.follow(codes, released.t_lo_ms[known])
            else:
                seen = known_utilities.seen(pane, codes, released.t_lo_ms[known])
                events = released.where(known)
                bins = [bins.of(numbers_of(events, bins.name)) for bins in self.features.attributes]
                attributes = np.array(bins, np.int64).reshape(len(self.features.attributes), len(codes))
                utilities = known_utilities.of(codes, attributes, seen)
                if drop_share > 0:
                    self._notice(utilities, known_utilities.distribution)
                goes_on = self._dropper.keeps(utilities, self._distribution.threshold(drop_share))
                keeps[known] = goes_on
                if self.costs is not None:
                    n_others = len(released) - len(codes)
                    self.costs.see(utilities, n_others)
                    self._went_on = utilities[goes_on], n_others
                self.expected_loss += float(utilities[~goes_on].sum())
        elif drop_share > 0:
            n_types = len(self.features.types)
            by_type = self.strategy is EventStrategy.BY_TYPE
            chance = self._by_type.drop_probability(drop_share) if by_type else np.full(n_types, drop_share)
            keeps[known] = sampled(codes, chance, self._random)
        lost = ~keeps[known]
        self.n_dropped_by_type += np.bincount(codes[lost], minlength=len(self.n_dropped_by_type))
        return keeps


def types_of(events: EventBatch, types: Sequence[str]) -> tuple[Int64Array, BoolArray]:
    """The number of each event's type, of those that are judged, int64 (n_known,); which these are, bool (n,)."""
    found = pc.index_in(events.table.column("type"), pa.array(types, pa.string()))
    codes = np.asarray(pc.fill_null(found, -1).to_numpy(), np.int64)
    known: BoolArray = codes >= 0
    return codes[known], known


def numbers_of(events: EventBatch, name: str) -> Float64Array:
    """An attribute as doubles, NaN for NULL and where no event has it; whole numbers beyond 2^53 as the nearest one,
    which is in the same bin but for the last digits."""
    if name not in events.table.column_names:
        return np.full(len(events), np.nan)
    column = events.table.column(name).cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(), np.float64)


__all__ = ["EventShedder", "EventStrategy", "numbers_of", "types_of"]
