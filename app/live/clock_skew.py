"""Skew bounds of clocks: from what collectors tell, by the sources' own clocks, to the times that are possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from collectors.base import Collected
from engine.events import HEADER, SKEW, EventBatch


@dataclass(frozen=True)
class ClockSkewBounds:
    """By how many milliseconds clocks may be off, by clock; `default_ms` for the others and events without a clock."""

    default_ms: int = 0
    by_clock_ms: Mapping[str, int] = field(default_factory=dict)
    offsets_ms: Mapping[str, int] = field(default_factory=dict)
    """By clock, how far it is known to be ahead (negative: behind): its times are set right by that."""

    @property
    def greatest_ms(self) -> int:
        """No clock is further off."""
        return max(self.default_ms, *self.by_clock_ms.values(), 0)

    @property
    def changes_times(self) -> bool:
        """Whether any event may get another time than its source gave it."""
        return self.greatest_ms > 0 or any(self.offsets_ms.values())

    def applied(self, collected: Collected) -> Collected:
        """With intervals of all times that are possible; the promise about what may still come is about these, too."""
        if not self.changes_times:
            return collected
        return replace(
            collected,
            events=self.widened(collected.events),
            watermark_ms=collected.watermark_ms - self.greatest_ms - max(0, *self.offsets_ms.values(), 0),
            finished=tuple(replace(history, events=self.widened(history.events)) for history in collected.finished),
        )

    def widened(self, events: EventBatch) -> EventBatch:
        """Events whose intervals are by their own clocks, set right by known offsets, with room for unknown ones."""
        if not len(events):
            return events
        clocks = events.strings("clock_id").dictionary_encode()
        names = clocks.dictionary.to_pylist()
        bounds = [self.by_clock_ms.get(name, self.default_ms) for name in names]
        offsets = [self.offsets_ms.get(name, 0) for name in names]
        codes = clocks.indices.fill_null(len(bounds)).to_numpy(zero_copy_only=False)
        skew_ms = np.array([*bounds, self.default_ms], np.int64)[codes]
        offset_ms = np.array([*offsets, 0], np.int64)[codes]
        if not skew_ms.any() and not offset_ms.any():
            return events
        table = events.table
        t_lo_ms, t_hi_ms = events.t_lo_ms - offset_ms - skew_ms, events.t_hi_ms - offset_ms + skew_ms
        for name, times in (("t_lo_ms", t_lo_ms), ("t_hi_ms", t_hi_ms)):
            place = table.column_names.index(name)
            table = table.set_column(place, table.schema.field(name), pa.array(times))
        return EventBatch(table.append_column(SKEW, pa.array(skew_ms)) if skew_ms.any() else table)


def apart(events: EventBatch) -> EventBatch:
    """Events from before and after a change of the settings: those by an earlier bound have another clock.

    A clock keeps its name for the bound that its latest event has; nothing is known of how its offset then has to do
    with the one before.
    """
    skew_ms = events.skew_ms
    if skew_ms is None:
        return events
    clocks = events.strings("clock_id").dictionary_encode()
    names = clocks.dictionary.to_pylist()
    codes = clocks.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
    latest = np.zeros(len(names) + 1, np.int64)
    in_order = np.argsort(events.t_hi_ms, kind="stable")
    latest[codes[in_order]] = skew_ms[in_order]
    earlier = (skew_ms != latest[codes]) & (codes < len(names))
    if not earlier.any():
        return events
    texts = np.array([*names, None], object)[codes]
    for row in np.flatnonzero(earlier).tolist():
        texts[row] = f"{texts[row]} within {skew_ms[row]} ms"
    place = events.table.column_names.index("clock_id")
    return EventBatch(events.table.set_column(place, HEADER.field("clock_id"), pa.array(texts, pa.string())))


EXACT_CLOCKS = ClockSkewBounds()

__all__ = ["EXACT_CLOCKS", "ClockSkewBounds", "apart"]
