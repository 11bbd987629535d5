"""Events whose times are intervals, with their distributions and clocks, as the kernels of confidence take them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.errors import EventError
from engine.events import Float64Array
from engine.kernels.confidence.ordering import Events
from engine.stream.columns import StreamColumns
from engine.stream.store import EventStore


def events_of(store: EventStore, *, strict: bool) -> Events:
    """The rows of a store as kernels take them; `strict`: see `Events`."""
    weight_at = np.full(len(store.t_lo_ms), -1, np.int64)
    parts: list[Float64Array] = []
    n_points = 0
    for row, weights in store.weights.items():
        # Those of nominal times are for the kernels that know of skew.
        weight_at[row] = -2 - n_points if len(store.skew_ms) and store.skew_ms[row] > 0 else n_points
        parts.append(weights / weights.sum())
        n_points += len(weights)
    return Events(
        lo_ms=store.t_lo_ms,
        hi_ms=store.t_hi_ms,
        clock=store.clock,
        source_seq=store.source_seq,
        weight_at=weight_at,
        weights=np.concatenate(parts) if parts else np.empty(0, np.float64),
        columns=store.columns,
        strict=strict,
        skew=store.skew_ms,
    )


def check_weights(stream: StreamColumns, types: Iterable[str]) -> None:
    """Raise EventError for the first event of these types whose `weights` do not fit its interval."""
    column = stream.weights
    if column is None:
        return
    lo, hi, skew_ms = stream.t_lo_ms, stream.t_hi_ms, stream.skew_ms
    for row in sorted(int(row) for name in types for row in stream.rows_of_type(name)):
        weights = column[row].as_py()
        if weights is None:
            continue
        given = np.array([np.nan if w is None else w for w in weights], np.float64)
        inner_ms = 0 if skew_ms is None else skew_ms[row]
        n_points = hi[row] - lo[row] + 1 - 2 * inner_ms
        if len(given) != n_points or not (np.isfinite(given) & (given >= 0)).all() or not given.any():
            raise EventError(
                f"event {stream.event_ids[row]}: its {len(given)} weights do not fit the {n_points} ms "
                f"of [{lo[row] + inner_ms}, {hi[row] - inner_ms}]; expected one finite number >= 0 per millisecond, "
                "not all 0"
            )


__all__ = ["check_weights", "events_of"]
