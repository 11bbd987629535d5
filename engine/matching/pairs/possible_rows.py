"""What rows over imprecise events carry for P(at least one match): the possible matches that they stand for.

Taken while the store still has the events, evaluated when somebody asks (`MatchRow.at_least_one`). A collapsed or
counted row stands for as many matches as there are chains of its candidates; the shortest ones decide whether any of
them happened. Where all combinations of its candidates are matches these are known at once, elsewhere matches are
listed, up to a budget; beyond it the row has bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from engine.kernels.confidence.sequences import TOLERANCE
from engine.kernels.confidence.skew_events import time_distribution
from engine.matching.pairs.context import Context
from engine.matching.pairs.counting import Counted
from engine.matching.pairs.listing import Listed, Listing
from engine.matching.work_account import WorkAccount
from engine.uncertainty.existence import AtLeastOne, at_least_one
from engine.uncertainty.possibilities import (
    Conditions,
    Negated,
    Possibilities,
    PossibleMatch,
    TimedEvent,
    UnknownConditionsError,
)

_MAX_LISTED = 200
"""Matches of one row that are listed."""

_MAX_CONDITIONS = 100_000
"""Pairs of neighbours that are looked at for all rows of one `advance`."""

_MAX_EVALUATED = 20
"""Rows of one `advance` whose bounds are evaluated at once."""

_WORK_LIMIT = 200

_CERTAIN = 1.0 - TOLERANCE


class PossibleRows:
    """Possible matches behind the rows of one context; `threshold` as the rows have it."""

    def __init__(self, context: Context, threshold: float, work_budget: int) -> None:
        self._context = context
        self._threshold = threshold
        self._work_budget = work_budget
        self._left = _MAX_CONDITIONS
        self._n_evaluated = 0
        self._events: dict[int, TimedEvent] = {}
        plan = context.plan
        self._has_related_negation = any(negation.edge.rest < negation.edge.last for negation in plan.negations)

    def of_match(self, match: Listed) -> Possibilities | None:
        """Of one match; None when it is certain. Merged orders (SETS) are known by their sum alone."""
        if match.confidence >= _CERTAIN:
            return None
        if match.n_orders > 1:
            return Possibilities.known_by(match.confidence, match.confidence)
        return self._of_chains([match]) or Possibilities.known_by(match.confidence, match.confidence)

    def conditions_of(self, match: Listed) -> Possibilities | None:
        """Of one match where its conditions are known, else None; also where it is certain."""
        found = self.of_match(match)
        return None if found is None or found.parts else found

    def of_pair(self, counted: Counted) -> Possibilities | None:
        """Of all matches between one first and one last event; None when one of them is certain."""
        if counted.confidence >= _CERTAIN:
            return None
        near = counted.near
        confidence = float(counted.confidence)
        if counted.count_exact and counted.n_matches == 1:
            chain, steps = tuple(counted.chain.tolist()), tuple(counted.steps.tolist())
            found = self._of_chains([Listed(near.partition, chain, steps, confidence)])
            return found or Possibilities.known_by(confidence, confidence)
        if counted.exact and not self._context.plan.negations:
            shortest = self._shortest(counted)
            if shortest is not None and (found := self._of_chains(shortest)) is not None:
                return found
        return self._listed(counted, confidence)

    # ------------------------------------------------------------- from a budget

    def _listed(self, counted: Counted, confidence: float) -> Possibilities:
        near = counted.near
        listing = Listing(self._context, self._threshold, _MAX_LISTED, WorkAccount(max(1, self._work_budget)))
        matches = listing.of_pair((near.first, near.last, near.partition), _MAX_LISTED) if self._left > 0 else []
        found = self._of_chains(matches) if matches else None
        if found is None:
            return Possibilities.known_by(confidence, 1.0)
        if counted.count_exact and len(matches) == counted.n_matches:
            return found
        self._n_evaluated += 1
        if self._n_evaluated > _MAX_EVALUATED:
            return Possibilities.known_by(confidence, 1.0)
        least = max(confidence, self._bounds(found).lower)
        cover = self._shortest(counted)
        wider = None if cover is None else self._of_chains(cover, with_negated=False)
        return Possibilities.known_by(least, 1.0 if wider is None else self._bounds(wider).upper)

    def _bounds(self, possible: Possibilities) -> AtLeastOne:
        return at_least_one(possible, work_limit=_WORK_LIMIT, n_worlds=0)

    def _shortest(self, counted: Counted) -> list[Listed] | None:
        """One candidate per component, in all combinations: none of the row's matches happens without one of them.

        They are matches themselves where the row is exact. None where there are too many, or candidates are not known.
        """
        near, used = counted.near, counted.used
        n_steps = len(self._context.plan.steps)
        if n_steps == 1:
            chain = (near.first,) if near.first == near.last else (near.first, near.last)
            return [Listed(near.partition, chain, (0,) * len(chain), 0.0)]
        inner = [near.candidates[used[step]].tolist() for step in range(1, n_steps - 1)]
        if used.shape[1] != len(near.candidates) or math.prod(map(len, inner)) > _MAX_LISTED:
            return None
        return [
            Listed(near.partition, (near.first, *chosen, near.last), tuple(range(n_steps)), 0.0)
            for chosen in product(*inner)
            if len({near.first, *chosen, near.last}) == n_steps
        ]

    # ---------------------------------------------------------------- conditions

    def _of_chains(self, matches: Sequence[Listed], *, with_negated: bool = True) -> Possibilities | None:
        """None where the conditions are not known, or the budget is spent."""
        plan = self._context.plan
        conditions = Conditions(plan.within_ms, strict_ties=bool(self._context.events.strict))
        found: list[PossibleMatch | None] = []
        for match in matches:
            self._left -= len(match.chain)
            negated = list(self._negated(match)) if with_negated and plan.negations else []
            self._left -= len(negated)
            if self._left <= 0 or (negated and self._has_related_negation):
                return None
            try:
                found.append(conditions.of_match([self._event(row) for row in match.chain], negated))
            except UnknownConditionsError:
                return None
        return conditions.possibilities(found)

    def _negated(self, match: Listed) -> Iterator[Negated]:
        """The events that the match must not have in its gaps, wherever they may be."""
        context = self._context
        rows = context.neighbourhood(match.chain[0], match.chain[-1], match.partition).negated
        for number, negation in enumerate(context.plan.negations):
            gap = max((at for at, step in enumerate(match.steps) if step <= negation.after), default=-1)
            for row in rows[context.masks.negated[number, rows]].tolist():
                if row not in match.chain:
                    yield Negated(self._event(row), gap)

    def _event(self, row: int) -> TimedEvent:
        event = self._events.get(row)
        if event is None:
            store, events = self._context.store, self._context.events
            weights = store.weights.get(row)
            clock = int(events.clock[row])
            skew_ms = int(events.skew[row]) if len(events.skew) else 0
            if skew_ms and clock < 0:  # nobody shares its offset
                weights = time_distribution(events, row, True)
            event = self._events[row] = TimedEvent(
                event_id=self._context.event_id(row),
                lo_ms=int(events.lo_ms[row]),
                hi_ms=int(events.hi_ms[row]),
                number=row,
                clock=None if clock < 0 else str(clock),
                source_seq=int(events.source_seq[row]),
                weights=None if weights is None else tuple(weights.tolist()),
                skew_ms=skew_ms,
            )
        return event


__all__ = ["PossibleRows"]
