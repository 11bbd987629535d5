"""The door: which events of a batch can take part, and why the others cannot.

An event that is refused stops nothing: the good ones of its batch go on, it is counted and kept aside with its reason.
Longer than the window of a query is no reason here: windows belong to queries (`too_long`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.events import MAX_EXACT_INT, BoolArray, EventBatch, Float64Array, Int64Array

MAX_INTERVAL_MS = 31 * 24 * 3_600_000
"""The longest interval: the coarsest samples that are kept for a year cover a day, polls come back within a month."""

WEIGHTS_TOLERANCE = 1e-9
"""By how much the probabilities of an interval may miss 1; they are not made to fit."""

MAX_KEPT_ASIDE = 1_000
"""Refused events that are kept with their reasons until they are asked for; further ones are counted alone."""


class Refusal(StrEnum):
    """Why an event is refused."""

    REVERSED = "interval_reversed"
    OUT_OF_RANGE = "time_out_of_range"
    INTERVAL_TOO_LONG = "interval_too_long"
    SKEW = "skew_does_not_fit"
    CLOCK = "two_skews_of_one_clock"
    WEIGHTS = "weights_do_not_fit"
    LONGER_THAN_WINDOW = "longer_than_window"  # by one query


@dataclass(frozen=True)
class RefusedEvent:
    """One event that was refused; `query`: by this query alone."""

    event_id: str
    event_type: str
    t_lo_ms: int
    t_hi_ms: int
    reason: Refusal
    found: str
    query: str | None = None

    def __str__(self) -> str:
        return f"event {self.event_id} ({self.event_type}): {self.found}"


@dataclass(frozen=True)
class Refused:
    """The events of one batch that were refused; `counts` has all, `events` the first MAX_KEPT_ASIDE of them."""

    counts: Mapping[Refusal, int]
    events: tuple[RefusedEvent, ...]

    @property
    def n_events(self) -> int:
        """How many there are."""
        return sum(self.counts.values())

    def summary(self, n_shown: int = 3) -> str:
        """For people: how many, and what is wrong with the first ones."""
        shown = "; ".join(map(str, self.events[:n_shown]))
        more = self.n_events - min(n_shown, len(self.events))
        return f"{self.n_events} event(s) refused: {shown}" + (f"; and {more} more" if more else "")


NONE_REFUSED = Refused({}, ())


def admit(batch: EventBatch) -> tuple[EventBatch, Refused]:
    """The events that can take part, and the others.

    Refused are: t_lo > t_hi; times before 0 or beyond 2^53 ms; intervals of more than MAX_INTERVAL_MS; a skew below 0,
    or for which the interval has no room, or another one than that of the clock's first event in the batch; weights
    that are not one finite number >= 0 for each nominal millisecond, adding up to 1 within WEIGHTS_TOLERANCE. A batch
    without any is returned as it is.
    """
    if not len(batch):
        return batch, NONE_REFUSED
    lo_ms, hi_ms = batch.t_lo_ms, batch.t_hi_ms
    # As unsigned numbers negative ones are the largest, so that one comparison of the largest tells of all.
    most_ms = 0 if batch.is_precise else _unsigned_max(hi_ms - lo_ms)
    last_ms = int(lo_ms[-1]) if batch.is_ascending and lo_ms[0] >= 0 else _unsigned_max(lo_ms)
    weighted, skew_ms = _weighted(batch), batch.skew_ms
    is_in_bounds = most_ms <= MAX_INTERVAL_MS and last_ms + most_ms <= MAX_EXACT_INT
    if is_in_bounds and weighted is None and skew_ms is None:
        return batch, NONE_REFUSED
    reasons: dict[Refusal, BoolArray] = {
        Refusal.REVERSED: lo_ms > hi_ms,
        Refusal.OUT_OF_RANGE: (lo_ms < 0) | (hi_ms > MAX_EXACT_INT),
        Refusal.INTERVAL_TOO_LONG: hi_ms - lo_ms > MAX_INTERVAL_MS,
    }
    if skew_ms is not None:
        reasons[Refusal.SKEW] = (skew_ms < 0) | (skew_ms > (hi_ms - lo_ms) // 2)
        reasons[Refusal.CLOCK] = _first_bounds(batch, skew_ms) != skew_ms
    if weighted is not None:
        reasons[Refusal.WEIGHTS] = _unfit(batch, weighted, skew_ms)
    return _parted(batch, reasons)


def too_long(batch: EventBatch, within_ms: int, types: Iterable[str], query: str) -> tuple[EventBatch, Refused]:
    """As `admit`, for one query: refused are the events of these types whose interval is longer than its window."""
    if not len(batch):
        return batch, NONE_REFUSED
    long: BoolArray = batch.t_hi_ms - batch.t_lo_ms > within_ms
    if long.any():
        long &= np.asarray(
            pc.is_in(batch.table.column("type"), value_set=pa.array(sorted(types), pa.string())).to_numpy(), np.bool_
        )
    if not long.any():
        return batch, NONE_REFUSED
    return _parted(batch, {Refusal.LONGER_THAN_WINDOW: long}, query, within_ms)


def _unsigned_max(values: Int64Array) -> int:
    return int(values.view(np.uint64).max())


def _weighted(batch: EventBatch) -> Int64Array | None:
    """The rows with weights of their own, None without any."""
    column = batch.table.column("weights")
    if column.null_count == len(batch):
        return None
    return np.flatnonzero(column.is_valid().to_numpy()).astype(np.int64)


def _first_bounds(batch: EventBatch, skew_ms: Int64Array) -> Int64Array:
    """For each row the bound that the first row of its clock has, its own without a clock, (n,)."""
    clocks = batch.strings("clock_id").dictionary_encode().indices
    given = np.flatnonzero(clocks.is_valid().to_numpy(zero_copy_only=False))
    _, first, of_row = np.unique(clocks.drop_null().to_numpy(), return_index=True, return_inverse=True)
    bounds = skew_ms.copy()
    bounds[given] = skew_ms[given[first[of_row]]]
    return bounds


def _unfit(batch: EventBatch, rows: Int64Array, skew_ms: Int64Array | None) -> BoolArray:
    """Of all rows those whose weights do not fit their nominal interval."""
    given = batch.table.column("weights").drop_null().combine_chunks()
    lengths: Int64Array = np.asarray(pc.list_value_length(given).to_numpy(zero_copy_only=False), np.int64)
    shares: Float64Array = np.asarray(given.flatten().to_numpy(zero_copy_only=False), np.float64)
    owners = np.repeat(np.arange(len(rows)), lengths)
    bad = ~(np.isfinite(shares) & (shares >= 0))
    n_bad = np.bincount(owners[bad], minlength=len(rows))
    sums = np.bincount(owners, np.where(bad, 0.0, shares), minlength=len(rows))
    n_points = batch.t_hi_ms[rows] - batch.t_lo_ms[rows] + 1 - (0 if skew_ms is None else 2 * skew_ms[rows])
    fits = (lengths == n_points) & (n_bad == 0)
    unfit: BoolArray = np.zeros(len(batch), np.bool_)
    unfit[rows] = ~(fits & (np.abs(sums - 1.0) <= WEIGHTS_TOLERANCE))
    return unfit


def _parted(
    batch: EventBatch, reasons: Mapping[Refusal, BoolArray], query: str | None = None, within_ms: int = 0
) -> tuple[EventBatch, Refused]:
    """The events without a reason, and the others, each for the first of its reasons."""
    left: BoolArray = np.ones(len(batch), np.bool_)
    counts: dict[Refusal, int] = {}
    rows: list[tuple[int, Refusal]] = []
    for reason, mask in reasons.items():
        found = np.flatnonzero(mask & left)
        left &= ~mask
        if len(found):
            counts[reason] = len(found)
            rows += [(int(row), reason) for row in found[:MAX_KEPT_ASIDE]]
    if not counts:
        return batch, NONE_REFUSED
    rows.sort()
    kept = tuple(_refused(batch, row, reason, query, within_ms) for row, reason in rows[:MAX_KEPT_ASIDE])
    return batch.where(left), Refused(counts, kept)


def _refused(batch: EventBatch, row: int, reason: Refusal, query: str | None, within_ms: int) -> RefusedEvent:
    lo_ms, hi_ms = int(batch.t_lo_ms[row]), int(batch.t_hi_ms[row])
    skew_ms = 0 if batch.skew_ms is None else int(batch.skew_ms[row])
    if reason is Refusal.REVERSED:
        found = f"its interval starts at {lo_ms} ms, after its end at {hi_ms} ms"
    elif reason is Refusal.OUT_OF_RANGE:
        found = f"its interval [{lo_ms}, {hi_ms}] ms; expected times from 0 to 2^53 ms"
    elif reason is Refusal.INTERVAL_TOO_LONG:
        found = f"its interval is {hi_ms - lo_ms} ms long; expected at most {MAX_INTERVAL_MS} ms"
    elif reason is Refusal.LONGER_THAN_WINDOW:
        found = f"its interval is {hi_ms - lo_ms} ms long, longer than the window of {within_ms} ms"
    elif reason is Refusal.SKEW:
        found = (
            f"its skew of {skew_ms} ms does not fit its interval [{lo_ms}, {hi_ms}]; expected a number from 0 to half "
            "of the interval's length: the interval has room for the skew on both sides of the nominal time"
        )
    elif reason is Refusal.CLOCK:
        found = (
            f"its clock {batch.table.column('clock_id')[row]} has a skew of {skew_ms} ms here, but another one before "
            "in the batch; expected one bound per clock"
        )
    else:
        weights = batch.table.column("weights")[row].as_py()
        total = sum(w for w in weights if w is not None)
        found = (
            f"its {len(weights)} weights with sum {total:.12g} do not fit the {hi_ms - lo_ms + 1 - 2 * skew_ms} "
            f"nominal ms of [{lo_ms}, {hi_ms}]; expected one finite number >= 0 per millisecond, 1 in all"
        )
    event_id, event_type = (str(batch.table.column(name)[row].as_py()) for name in ("event_id", "type"))
    return RefusedEvent(event_id, event_type, lo_ms, hi_ms, reason, found, query)


class Aside:
    """What was refused: counted, and kept until it is asked for."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts: Counter[Refusal] = Counter({Refusal(name): n for name, n in (counts or {}).items()})
        self._events: list[RefusedEvent] = []

    def add(self, refused: Refused) -> None:
        """Count these and keep them while there is room."""
        self.counts.update(refused.counts)
        self._events += refused.events[: MAX_KEPT_ASIDE - len(self._events)]

    def take(self) -> list[RefusedEvent]:
        """What has been kept since the last call."""
        taken, self._events = self._events, []
        return taken


__all__ = [
    "MAX_INTERVAL_MS",
    "MAX_KEPT_ASIDE",
    "NONE_REFUSED",
    "WEIGHTS_TOLERANCE",
    "Aside",
    "Refusal",
    "Refused",
    "RefusedEvent",
    "admit",
    "too_long",
]
