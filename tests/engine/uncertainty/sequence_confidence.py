"""Confidence of a sequence of events given as intervals (SASE++ section 4; DESIGN 4), over the kernels.

A possible world gives every event one millisecond of its interval, independently of the others. The confidence of the
ordered sequence e1..em is the share of worlds in which each event is before the next and last - first <= WITHIN. Before
means an earlier millisecond, with two exceptions that hold in every world, whatever the times: two precise events of
one millisecond have the order in which they are read (none with strict ties), and two events of one clock, one of them
imprecise, the order of (t_hi, source_seq). Such a known order makes no difference to how the times are distributed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.errors import EventError
from engine.events import Float64Array
from engine.kernels.confidence.ordering import Events
from engine.kernels.confidence.sequences import chain_confidence


def sequence_confidence(
    intervals_ms: Sequence[tuple[int, int]],
    within_ms: int,
    *,
    clocks: Sequence[int] | None = None,
    weights: Sequence[Sequence[float] | None] | None = None,
    strict_ties: bool = False,
) -> float:
    """P(the events of these intervals are in this order and inside the window, both ends inclusive).

    intervals_ms: (t_lo, t_hi) per event, inclusive; the order given is also the order of reading. clocks: a number per
    event, -1 (default) for a clock of its own. weights: shares of the milliseconds per event, None for uniform. Raises
    EventError for a reversed interval or weights that do not fit theirs. Accurate to about 1e-13.
    """
    n = len(intervals_ms)
    ends = np.array(intervals_ms, np.int64).reshape(n, 2)
    lo, hi = np.ascontiguousarray(ends[:, 0]), np.ascontiguousarray(ends[:, 1])
    if (lo > hi).any():
        raise EventError(f"interval {intervals_ms[int(np.argmax(lo > hi))]}: its start is after its end")
    weight_at = np.full(n, -1, np.int64)
    given: list[Float64Array] = []
    for row, shares in enumerate(weights or ()):
        if shares is None:
            continue
        values = np.asarray(shares, np.float64)
        if len(values) != hi[row] - lo[row] + 1 or not (values >= 0).all() or not 0 < values.sum() < np.inf:
            raise EventError(
                f"weights {list(shares)} do not fit the interval {intervals_ms[row]}: expected one number >= 0 per "
                "millisecond, not all 0"
            )
        weight_at[row] = sum(map(len, given))
        given.append(values / values.sum())
    events = Events(
        lo_ms=lo,
        hi_ms=hi,
        clock=np.full(n, -1, np.int64) if clocks is None else np.asarray(clocks, np.int64),
        source_seq=np.arange(n),
        weight_at=weight_at,
        weights=np.concatenate(given) if given else np.empty(0, np.float64),
        columns=np.empty((0, n), np.float64),
        strict=strict_ties,
    )
    return float(chain_confidence(events, np.arange(n), n, within_ms)) if n else 1.0


__all__ = ["sequence_confidence"]
