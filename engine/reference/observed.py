"""Events as the oracle sees them: one Python object per event, exact numbers, the order of the definitions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from engine.errors import EventError
from engine.events import HEADER_NAMES, TIME_ATTRIBUTE, EventBatch, EventSchema

Value = Fraction | float | str | bool | None
"""A value of the query language: exact numbers (floats only for infinities), strings, truth values, None for NULL."""


@dataclass(frozen=True, eq=False)
class ObservedEvent:
    """One event.

    `times` maps each possible millisecond to its probability (they add up to 1); `values` has the attributes that the
    event's type has, exact; `raw` the same as they were given. `skew_ms` bounds the unknown offset of the event's
    clock, which `times` includes; `nominal` has the times by that clock.
    """

    event_id: str
    event_type: str
    lo_ms: int
    hi_ms: int
    source_rank: int
    source_seq: int
    clock_id: str | None
    times: Mapping[int, Fraction]
    values: Mapping[str, Value]
    raw: Mapping[str, int | float | str | None] = field(repr=False)
    skew_ms: int = 0
    nominal: Mapping[int, Fraction] = field(default_factory=dict, repr=False)

    @property
    def is_precise(self) -> bool:
        """True when the time is known to the millisecond."""
        return self.lo_ms == self.hi_ms

    @property
    def is_nominally_precise(self) -> bool:
        """True when the time by the event's own clock is known to the millisecond."""
        return self.hi_ms - self.lo_ms == 2 * self.skew_ms

    @property
    def clock(self) -> str:
        """The clock whose offset the event has: its own where it names none."""
        return f"of event {self.event_id}" if self.clock_id is None else f"clock {self.clock_id}"

    @property
    def stream_order(self) -> tuple[int, int, int, str]:
        """Sort key of the total order in which events are read (the same for every shuffle of the input)."""
        return (self.lo_ms, self.source_rank, self.source_seq, self.event_id)


def observe(batch: EventBatch, schema: EventSchema) -> list[ObservedEvent]:
    """The events of a batch in stream order.

    Raises EventError when `weights` do not fit the interval, or clocks have two bounds of skew. Attributes that the
    event's type does not have in `schema` are dropped; types that the schema does not know keep none.
    """
    events = [_observe(row, schema) for row in batch.table.to_pylist()]
    bounds: dict[str, int] = {}
    for event in events:
        if bounds.setdefault(event.clock, event.skew_ms) != event.skew_ms:
            raise EventError(
                f"event {event.event_id}: skew of {event.skew_ms} ms, but {bounds[event.clock]} ms in another event of "
                f"its clock {event.clock_id}; expected one bound per clock"
            )
    return sorted(events, key=lambda event: event.stream_order)


def exact(value: int | float | str | bool | None) -> Value:
    """A value without rounding: numbers as fractions, NaN as NULL, infinities as they are."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else value
    return Fraction(value)


def _observe(row: Mapping[str, Any], schema: EventSchema) -> ObservedEvent:
    attributes = schema.types.get(row["type"], {})
    raw = {name: row.get(name) for name in attributes if name not in HEADER_NAMES}
    skew_ms = row.get("skew_ms") or 0
    nominal = _distribution(row, skew_ms)
    return ObservedEvent(
        event_id=row["event_id"],
        event_type=row["type"],
        lo_ms=row["t_lo_ms"],
        hi_ms=row["t_hi_ms"],
        source_rank=row["source_rank"],
        source_seq=row["source_seq"],
        clock_id=row.get("clock_id"),
        times=_shifted_by_any(nominal, skew_ms),
        values={name: exact(value) for name, value in raw.items()}
        | {TIME_ATTRIBUTE: Fraction(row["t_hi_ms"]), "type": row["type"]},
        raw=raw | {TIME_ATTRIBUTE: row["t_hi_ms"]},
        skew_ms=skew_ms,
        nominal=nominal,
    )


def _shifted_by_any(nominal: dict[int, Fraction], skew_ms: int) -> dict[int, Fraction]:
    """The distribution of a nominal time and an offset that is uniform over -skew_ms..skew_ms, added up."""
    if skew_ms == 0:
        return nominal
    times: dict[int, Fraction] = {}
    for offset_ms in range(-skew_ms, skew_ms + 1):
        for time_ms, share in nominal.items():
            times[time_ms + offset_ms] = times.get(time_ms + offset_ms, Fraction(0)) + share / (2 * skew_ms + 1)
    return times


def _distribution(row: Mapping[str, Any], skew_ms: int) -> dict[int, Fraction]:
    """Times by the event's own clock."""
    lo_ms, hi_ms, weights = row["t_lo_ms"] + skew_ms, row["t_hi_ms"] - skew_ms, row.get("weights")
    n_points = hi_ms - lo_ms + 1
    if weights is None:
        return {time_ms: Fraction(1, n_points) for time_ms in range(lo_ms, hi_ms + 1)}
    if len(weights) != n_points or any(not 0 <= weight < math.inf for weight in weights) or not any(weights):
        raise EventError(
            f"event {row['event_id']}: weights {weights!r} do not fit its interval of {n_points} ms; expected "
            f"one finite number >= 0 per millisecond of [{lo_ms}, {hi_ms}], not all 0"
        )
    total = sum(map(Fraction, weights))
    return {lo_ms + offset: Fraction(weight) / total for offset, weight in enumerate(weights) if weight}


__all__ = ["ObservedEvent", "Value", "exact", "observe"]
