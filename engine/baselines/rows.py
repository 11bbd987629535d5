"""The rows of listed matches."""

from __future__ import annotations

import numpy as np

from engine.matching.output.listed import ListedMatches
from engine.matching.output.match_row import MatchRow
from engine.plan.sequence.model import SequencePlan
from engine.stream.store import EventStore


def rows_of(plan: SequencePlan, store: EventStore, matches: ListedMatches) -> list[MatchRow]:
    """One row per match, in their order."""
    ids = store.ids.of(matches.rows)
    found: list[MatchRow] = []
    for at, (start, end) in enumerate(zip(matches.offsets[:-1].tolist(), matches.offsets[1:].tolist(), strict=True)):
        lo_ms, hi_ms = int(store.t_lo_ms[matches.rows[end - 1]]), int(store.t_hi_ms[matches.rows[end - 1]])
        bounds = start + np.searchsorted(matches.components[start:end], np.arange(plan.n_steps + 1))
        found.append(
            MatchRow(
                query=plan.name,
                key=store.key_of(int(matches.partition[at])),
                first_lo_ms=int(store.t_lo_ms[matches.rows[start]]),
                last_hi_ms=hi_ms,
                last_lo_ms=None if lo_ms == hi_ms else lo_ms,
                bindings={s.variable: ids[bounds[s.position] : bounds[s.position + 1]] for s in plan.steps},
                confidence=float(matches.confidence[at]),
                values={r.name: store.value(v, r.type) for v, r in zip(matches.values[at], plan.returns, strict=True)},
            )
        )
    return found


__all__ = ["rows_of"]
