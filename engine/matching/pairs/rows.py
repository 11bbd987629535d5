"""Rows of output from matches and counted pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.events import BoolArray, Int64Array, Value
from engine.matching.output.bounds import limit
from engine.matching.output.match_row import MatchRow
from engine.matching.output.rows import first_rows
from engine.matching.pairs.context import Context, Neighbourhood
from engine.matching.pairs.counting import Counted
from engine.matching.pairs.listing import Listed, bound_ids
from engine.matching.pairs.possible_rows import PossibleRows
from engine.matching.protocol import Limits
from engine.plan.sequence.model import SequencePlan
from engine.uncertainty.possibilities import Possibilities


class ContextRows:
    """Makes the MatchRows of one context."""

    def __init__(self, plan: SequencePlan, context: Context, possible: PossibleRows | None = None) -> None:
        """`possible`: what rows over imprecise events carry of the matches behind them."""
        self.plan = plan
        self.context = context
        self._possible = possible
        self._keys: dict[int, tuple[tuple[str, Value], ...]] = {}

    def of_matches(self, matches: list[Listed]) -> list[MatchRow]:
        """The rows of matches or sets of events, in listing order."""
        rows = [(match, self._of_match(match)) for match in matches]
        rows.sort(key=lambda item: (item[0].chain[-1], item[0].chain[0], tuple(item[1].bindings.items())))
        return [row for _, row in rows]

    def _of_match(self, match: Listed) -> MatchRow:
        store = self.context.store
        return MatchRow(
            query=self.plan.name,
            key=self._key(match.partition),
            first_lo_ms=int(store.t_lo_ms[match.chain[0]]),
            last_hi_ms=int(store.t_hi_ms[match.chain[-1]]),
            last_lo_ms=self._unless_precise(match.chain[-1]),
            bindings=bound_ids(self.context, match.chain, match.steps),
            confidence=match.confidence,
            values=self._values(np.array(match.chain, np.int64), np.array(match.steps, np.int64)),
            count=match.n_orders,
            possible=self._possible_match(match),
        )

    def _possible_match(self, match: Listed) -> Possibilities | None:
        if self._possible is not None:
            return self._possible.of_match(match)
        # The orders of a set share no world: their sum says how sure it is that one of them happened.
        known = match.n_orders > 1 and match.confidence < 1.0
        return Possibilities.known_by(match.confidence, match.confidence) if known else None

    def of_pair(self, counted: Counted, collapsed: bool) -> MatchRow:
        """The row of all matches between one first and one last event."""
        store, near = self.context.store, counted.near
        return MatchRow(
            query=self.plan.name,
            key=self._key(near.partition),
            first_lo_ms=int(store.t_lo_ms[near.first]),
            last_hi_ms=int(store.t_hi_ms[near.last]),
            last_lo_ms=self._unless_precise(near.last),
            bindings=bound_ids(self.context, counted.chain.tolist(), counted.steps.tolist()),
            confidence=counted.confidence,
            values=self._values(counted.chain, counted.steps),
            count=int(counted.n_matches),
            count_exact=bool(counted.count_exact),
            candidates=self._candidates(near, counted.used) if collapsed else None,
            exact=bool(counted.exact) if collapsed else True,
            capped=not counted.count_exact,
            possible=None if self._possible is None else self._possible.of_pair(counted),
        )

    def limited(self, rows: list[MatchRow], limits: Limits, unfinished: bool) -> list[MatchRow]:
        """The rows up to the limits; the last one is `capped` when some are left out or were not looked for."""
        kept = list(first_rows(rows, limit(self.plan, limits)))
        if unfinished and kept:
            kept = [*kept[:-1], replace(kept[-1], capped=True)]
        return kept

    def _unless_precise(self, row: int) -> int | None:
        lo_ms, hi_ms = int(self.context.store.t_lo_ms[row]), int(self.context.store.t_hi_ms[row])
        return None if lo_ms == hi_ms else lo_ms

    def _key(self, partition: int) -> tuple[tuple[str, Value], ...]:
        if partition not in self._keys:
            self._keys[partition] = self.context.store.key_of(partition)
        return self._keys[partition]

    def _values(self, chain: Int64Array, steps: Int64Array) -> dict[str, Value]:
        if not self.plan.returns:
            return {}
        numbers = self.context.returned(chain, steps)
        return {
            value.name: self.context.store.value(float(number), value.type)
            for value, number in zip(self.plan.returns, numbers, strict=True)
        }

    def _candidates(self, near: Neighbourhood, used: BoolArray) -> dict[str, tuple[str, ...]]:
        """Ids by variable, in stream order."""
        candidates: dict[str, tuple[str, ...]] = {}
        for step in self.plan.steps:
            rows = set(near.candidates[used[step.position]].tolist())
            if step.position == 0:
                rows.add(near.first)
            if step.position == len(self.plan.steps) - 1:
                rows.add(near.last)
            candidates[step.variable] = tuple(map(self.context.event_id, sorted(rows)))
        return candidates


__all__ = ["ContextRows"]
