"""What an event is judged by before anything is done with it: type, attributes, predecessor pane (gSPICE, III-A).

The pane is over the input: events that are dropped are in it, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.events import Float64Array, Int64Array
from engine.kernels.shedding import panes

_MOST_COUNT_BINS = 512
_LEAST_CAPACITY = 1024


@dataclass(frozen=True, slots=True)
class AttributeBins:
    """A numeric attribute in `n_bins` bins of one width from `low` on; the first and the last have all beyond them,
    and one more has what is missing."""

    name: str
    low: float
    width: float
    n_bins: int

    def __post_init__(self) -> None:
        if not (self.n_bins >= 1 and self.width > 0 and np.isfinite(self.low) and np.isfinite(self.width)):
            raise ValueError(
                f"bins of {self.name}: found {self.n_bins} of width {self.width} from {self.low} on; expected at least "
                "one, of a width above 0"
            )

    @classmethod
    def over(cls, name: str, values: Float64Array, n_bins: int) -> AttributeBins:
        """Bins over the range of what was seen; whole numbers that fit get a bin each."""
        seen = values[np.isfinite(values)]
        if not len(seen):
            return cls(name, 0.0, 1.0, 1)
        low, high = float(seen.min()), float(seen.max())
        if np.array_equal(seen, np.floor(seen)) and high - low < n_bins:
            return cls(name, low, 1.0, int(high - low) + 1)
        with np.errstate(over="ignore"):
            span = high - low
        width = span / n_bins if np.isfinite(span) else high / n_bins - low / n_bins
        return cls(name, low, max(width, 1e-300), n_bins)

    def of(self, values: Float64Array) -> Int64Array:
        """The bin of each value, int64 (n,); `n_bins` for NaN. values: float64 (n,)."""
        with np.errstate(invalid="ignore", over="ignore"):
            at = np.clip(np.floor((values - self.low) / self.width), 0, self.n_bins - 1)
        return np.where(np.isnan(values), self.n_bins, np.nan_to_num(at)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Features:
    """Which features events have.

    `types`: event types, numbered in this order. `attributes`: of all types; one that a type lacks is missing in its
    events. `pane_events` or `pane_ms`: length of the pane, one of them. `count_bin`: so many events of a type are one
    bin. `seed`: of the random numbers that keys are made of.
    """

    types: tuple[str, ...]
    attributes: tuple[AttributeBins, ...] = ()
    pane_events: int | None = None
    pane_ms: int | None = None
    count_bin: int = 1
    seed: int = 1

    def __post_init__(self) -> None:
        if (self.pane_events is None) == (self.pane_ms is None):
            raise ValueError(
                f"the pane has {self.pane_events} events and {self.pane_ms} ms; expected one of the two, by events or "
                "by time"
            )
        if min(self.pane_events or 0, self.pane_ms or 0) < 0 or self.count_bin < 1:
            raise ValueError(
                f"a pane of {self.pane_events} events, {self.pane_ms} ms and bins of {self.count_bin} events; expected "
                "a length of at least 0 and bins of at least 1"
            )

    @property
    def n_count_bins(self) -> int:
        """Bins of the number of events of a type in the pane."""
        if self.pane_events is None:
            return _MOST_COUNT_BINS
        return min(self.pane_events // self.count_bin + 1, _MOST_COUNT_BINS)


class ZobristKeys:
    """Random numbers of 62 bits for each bin of each feature; a key is the XOR of those of an event's bins."""

    def __init__(self, features: Features) -> None:
        random = np.random.default_rng(features.seed)

        def numbers(*shape: int) -> Int64Array:
            return random.integers(1, 2**62, shape, np.int64)

        self.counts = numbers(len(features.types), features.n_count_bins)
        """Int64 (n_types, n_count_bins)."""
        self.types = numbers(len(features.types), 2)
        """Int64 (n_types, 2): of a type with its pane, and without."""
        self._attributes = [numbers(bins.n_bins + 1) for bins in features.attributes]

    def of_attributes(self, bins: Int64Array) -> Int64Array:
        """Keys of the attributes of events, int64 (n,). bins: int64 (n_attributes, n)."""
        keys = np.zeros(bins.shape[1], np.int64)
        for numbers, column in zip(self._attributes, bins, strict=True):
            keys ^= numbers[column]
        return keys

    def of_panes(self, counts: Int64Array) -> Int64Array:
        """Keys of panes by their bins, int64 (n, n_types): what `Pane` updates step by step, made anew."""
        keys = np.zeros(len(counts), np.int64)
        for kind, column in enumerate(counts.T):
            keys ^= self.counts[kind, column]
        return keys


class Pane:
    """The predecessor pane, followed over a stream."""

    def __init__(self, features: Features, keys: ZobristKeys) -> None:
        self._features = features
        self._numbers = keys.counts
        self._counts = np.zeros(len(features.types), np.int64)
        self._state = np.zeros(panes.N_STATE, np.int64)
        self._state[panes.KEY] = int(np.bitwise_xor.reduce(keys.counts[:, 0])) if len(features.types) else 0
        capacity = _LEAST_CAPACITY if features.pane_events is None else max(features.pane_events, 1)
        self._ring_types: Int64Array = np.zeros(capacity, np.int64)
        self._ring_ms: Int64Array = np.zeros(capacity, np.int64)

    def follow(self, types: Int64Array, t_ms: Int64Array) -> Int64Array:
        """The key of each event's pane; the events are in the panes of those after them. types, t_ms: int64 (n,), in
        the order of the stream."""
        return self._follow(types, t_ms, np.empty((0, len(self._counts)), np.int64))

    def observe(self, types: Int64Array, t_ms: Int64Array) -> tuple[Int64Array, Int64Array]:
        """As `follow`, and the bins of each pane, int64 (n, n_types)."""
        seen = np.empty((len(types), len(self._counts)), np.int64)
        return self._follow(types, t_ms, seen), seen

    def _follow(self, types: Int64Array, t_ms: Int64Array, seen: Int64Array) -> Int64Array:
        features, keys, position = self._features, np.empty(len(types), np.int64), 0
        most_events = -1 if features.pane_events is None else features.pane_events
        most_ms = -1 if features.pane_ms is None else features.pane_ms
        while True:
            position = panes.follow(
                types, t_ms, position, self._ring_types, self._ring_ms, self._counts, self._state, most_events, most_ms,
                features.count_bin, self._numbers, keys, seen,
            )  # fmt: skip
            if position == len(types):
                return keys
            self._grow()

    def _grow(self) -> None:
        capacity = len(self._ring_types)
        order = (np.arange(capacity) + self._state[panes.FIRST]) % capacity
        for name in ("_ring_types", "_ring_ms"):
            ring = getattr(self, name)
            setattr(self, name, np.concatenate([ring[order], np.zeros(capacity, np.int64)]))
        self._state[panes.FIRST] = 0


__all__ = ["AttributeBins", "Features", "Pane", "ZobristKeys"]
