"""What is needed to go back when the clock was ahead: what was known before the watermark leapt, what was late since.

While a clock is ahead every event that comes is late, and what was kept for matches to come is forgotten too early.
When the watermark leaps, what is kept then is remembered together with it; from then on late events are remembered,
too. Nobody can know yet whether the leap was wrong: the program may have been stopped for a while. So it is remembered
for some time, and the largest leaps longest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from app.live.ordering.deduplicate import distinct
from collectors.time_units import DAY_MS
from engine.events import FOREVER_MS, EventBatch

LEAP_MS = 60_000
"""A watermark that goes on by more than this in one step leaps."""
KEEP_MS = 3 * DAY_MS
"""A leap is remembered until the watermark has gone on for so long."""
MAX_LEAPS = 3
MAX_LATE_EVENTS = 100_000
"""Further ones are late for good."""
CHUNK_ROWS = 4_000
"""Late events are saved in tables of so many: a full one is written once."""

_BEFORE, _LATE = "before", "late"


@dataclass(frozen=True)
class Leap:
    """The watermark went from `before_ms` to `after_ms` in one step."""

    before_ms: int
    after_ms: int
    kept: pa.Table = field(compare=False)
    """The events that were kept for matches to come."""

    @property
    def length_ms(self) -> int:
        """By how much."""
        return self.after_ms - self.before_ms


@dataclass(frozen=True)
class Past:
    """From where matching goes on."""

    watermark_ms: int
    kept: EventBatch
    """Matching begins with those before the watermark, the others wait for it."""
    late: pa.Table | None
    """Events that were late while the watermark was ahead, as `Offered.late_rows` has them; those not before the
    watermark take part."""


class Leaps:
    """The leaps of one pipeline's watermark, and the late events since the first of them."""

    def __init__(self) -> None:
        self._watermark_ms = -FOREVER_MS
        self._leaps: list[Leap] = []
        self._late: list[pa.Table] = []

    def take(self, watermark_ms: int, kept: EventBatch, late: list[pa.Table], *, goes_on: bool = False) -> None:
        """A step ended at this watermark. `kept`: events for matches to come; `late`: what was late in it; `goes_on`:
        the step before was to come as far, but took its share alone: both are one leap."""
        before_ms, self._watermark_ms = self._watermark_ms, watermark_ms
        if goes_on and self._leaps and self._leaps[-1].after_ms == before_ms and watermark_ms < FOREVER_MS:
            self._leaps[-1] = replace(self._leaps[-1], after_ms=watermark_ms)
        # The first watermark is no leap, and none that ends the stream.
        elif before_ms > -FOREVER_MS and before_ms + LEAP_MS < watermark_ms < FOREVER_MS:
            self._leaps.append(Leap(before_ms, watermark_ms, kept.table))
        self._leaps = [leap for leap in self._leaps if leap.after_ms > watermark_ms - KEEP_MS]
        while len(self._leaps) > MAX_LEAPS:
            self._leaps.remove(min(self._leaps, key=lambda leap: leap.length_ms))
        if not self._leaps:
            self._late = []
            return
        for table in late:
            self._add(table)

    def back(self, now_ms: int, kept: EventBatch, at_most_back_ms: int) -> Past:
        """The watermark is ahead of `now_ms`: where the leap that made it so began, and what belongs to that time.

        Events that are ahead of now were dated by the wrong clock, too. Without such a leap nobody knows: it may be now
        that is wrong, so they stay; and it goes on behind the last one before now, at most `at_most_back_ms` before it.
        """
        leap = self._first_wrong(self._watermark_ms - now_ms, now_ms)
        late = pa.concat_tables(self._late, promote_options="default") if self._late else None
        if leap is not None:
            kept = distinct(EventBatch.concat([EventBatch(leap.kept), kept]))
            kept = kept.where(kept.t_hi_ms <= now_ms)
        times = kept.t_lo_ms[kept.t_lo_ms <= now_ms]
        last_ms = int(times.max()) + 1 if len(times) else -FOREVER_MS
        since_ms = min(now_ms, max(last_ms, now_ms - at_most_back_ms if leap is None else leap.before_ms))
        if leap is not None and late is not None:
            times = late.column("t_lo_ms").to_numpy()
            late = late.filter(pa.array((times >= leap.before_ms) & (times <= now_ms)))
            # What has been decided is decided again only where a late event stands before it.
            since_ms = min(since_ms, int(late.column("t_lo_ms").to_numpy().min(initial=since_ms)))
        self._leaps, self._late, self._watermark_ms = [], [], since_ms
        return Past(since_ms, kept, late)

    def save(self) -> tuple[dict[str, pa.Table], dict[str, Any]]:
        """Tables that stay the same objects until they change, and JSON-able state."""
        tables = {f"{_BEFORE}-{i}": leap.kept for i, leap in enumerate(self._leaps)}
        tables |= {f"{_LATE}-{i}": table for i, table in enumerate(self._late)}
        leaps = [[leap.before_ms, leap.after_ms] for leap in self._leaps]
        return tables, {"watermark_ms": self._watermark_ms, "leaps": leaps, "n_late": len(self._late)}

    def restore(self, tables: Mapping[str, pa.Table], state: Mapping[str, Any]) -> None:
        """Take over what `save` returned; raises KeyError, TypeError or ValueError when it is something else."""
        self._watermark_ms = int(state["watermark_ms"])
        leaps = enumerate(state["leaps"])
        self._leaps = [Leap(int(before), int(after), tables[f"{_BEFORE}-{i}"]) for i, (before, after) in leaps]
        self._late = [tables[f"{_LATE}-{i}"] for i in range(int(state["n_late"]))]

    def _first_wrong(self, ahead_ms: int, now_ms: int) -> Leap | None:
        """The latest leap that, with those after it, is long enough to be why the watermark is so far ahead."""
        length_ms = 0
        for leap in reversed(self._leaps):
            length_ms += leap.length_ms
            if length_ms >= ahead_ms - LEAP_MS and leap.before_ms <= now_ms:
                return leap
        return None

    def _add(self, late: pa.Table) -> None:
        first_ms = min(leap.before_ms for leap in self._leaps)
        late = late.filter(pa.array(late.column("t_lo_ms").to_numpy() >= first_ms))
        room = MAX_LATE_EVENTS - sum(table.num_rows for table in self._late)
        late = late.slice(0, room)
        if not late.num_rows:
            return
        if self._late and self._late[-1].num_rows < CHUNK_ROWS:
            late = pa.concat_tables([self._late.pop(), late], promote_options="default").combine_chunks()
        self._late.append(late)


__all__ = ["Leaps", "Past"]
