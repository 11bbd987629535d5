"""Rows that stand for all matches of one pair: existence, number, best match and candidates (COLLAPSED, COUNT)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.events import BoolArray, Int64Array
from engine.kernels.ordering import order_is_certain
from engine.kernels.postponed_chains import NOT_THIS_FORM, count_chains
from engine.kernels.postponed_labels import MOST, NEEDS_SEARCH, count
from engine.kernels.postponed_search import COMPLETE, OUT_OF_BUDGET, REFUSED, REFUSED_SKEW, search
from engine.language import ast
from engine.matching.postponed_context import Context, Neighbourhood, refused_skew
from engine.matching.postponed_listing import Pair

_LABELS_PER_TRIPLE = 16
"""Steps allowed per triple of candidates where the work is polynomial: three events and a bounded count."""

_OVERLAP_FACTOR = 4
"""Work budgets that counting one pair may take where events overlap and the work is not known to be polynomial."""


@dataclass(frozen=True)
class Counted:
    """The matches of one pair: how many (a lower bound unless `count_exact`), the best one, who takes part.

    used: bool (n_steps, n_candidates) over `near.candidates`; `exact`: every combination in order is a match.
    """

    near: Neighbourhood
    n_matches: int
    count_exact: bool
    confidence: float
    chain: Int64Array
    steps: Int64Array
    used: BoolArray
    exact: bool


class Counting:
    """Counts pairs of one context."""

    def __init__(self, context: Context, threshold: float, work_budget: int, with_candidates: bool) -> None:
        self.context = context
        self.threshold = threshold
        self.work_budget = work_budget
        self.with_candidates = with_candidates
        self.n_work = 0
        self.n_unfinished = 0
        self._scratch: BoolArray = np.zeros(context.masks.begin.shape, np.bool_)

    def of_pair(self, pair: Pair) -> Counted | None:
        """The row of one pair, None without a match.

        A pair whose work ends before its first match is found counts in `n_unfinished`.
        """
        near = self.context.neighbourhood(*pair)
        counted = self._by_chains(near) if self.context.compiled.chains else None
        if counted is None and self.context.compiled.countable and self._is_independent(near):
            counted = self._by_labels(near)
        if counted is None or (counted.n_matches == 0 and not counted.count_exact):
            counted = self._by_search(near)
        if counted.n_matches == 0:
            self.n_unfinished += not counted.count_exact
            return None
        return counted

    def _is_independent(self, near: Neighbourhood) -> bool:
        """Whether times are independent of each other, or do not matter: else prefixes have no classes of confidence
        that continue alike."""
        if not self.context.has_skew:
            return True
        rows = np.concatenate(([near.first, near.last], near.candidates))
        return not self.context.events.skew[rows].any() or bool(
            order_is_certain(self.context.events, near.candidates, near.first, near.last, self.context.plan.within_ms)
        )

    def _by_chains(self, near: Neighbourhood) -> Counted | None:
        context, form = self.context, self.context.compiled.chains
        assert form is not None
        masks = context.masks
        status, n, work, confidence, chain, steps, used = count_chains(
            context.compiled.tables, context.events, masks.begin, masks.take, near.candidates, near.blocks, near.first,
            near.last, self.threshold, form.count_slot, form.most_counted,
        )  # fmt: skip
        self.n_work += work
        if status == NOT_THIS_FORM:
            return None
        return Counted(near, n, n < MOST, confidence, chain, steps, used, self._chains_are_all(near, used, n))

    def _chains_are_all(self, near: Neighbourhood, used: BoolArray, n_matches: int) -> bool:
        """As `_exact`, where the order of all candidates is known, as chains need it: any selection is in order."""
        if not self.with_candidates or n_matches == MOST or self.context.plan.ties is ast.Ties.STRICT:
            return self._exact(near, used, n_matches)
        return bool(n_matches == 2 ** int(used[1].sum()) - 1)

    def _exact(self, near: Neighbourhood, used: BoolArray, n_matches: int) -> bool:
        if not self.with_candidates or n_matches == 0:
            return False
        if n_matches == MOST:
            return self._nothing_depends(near, used)
        return self._all_in_order(near, used, n_matches)

    def _by_labels(self, near: Neighbourhood) -> Counted | None:
        context = self.context
        budget = self._polynomial_budget(near) if context.compiled.polynomial else self.work_budget
        masks = context.masks
        status, n, work, confidence, chain, steps, used, used_exact = count(
            context.compiled.tables, context.events, masks.begin, masks.take, masks.negated, near.candidates,
            near.blocks, near.negated, near.first, near.last, self.threshold, budget, near.precise,
            self.with_candidates,
        )  # fmt: skip
        self.n_work += work
        if status == NEEDS_SEARCH:
            return None
        count_exact = status == COMPLETE and n < MOST
        exact = used_exact and self._exact(near, used, n)
        return Counted(near, n, count_exact, confidence, chain, steps, used, exact)

    def _by_search(self, near: Neighbourhood) -> Counted:
        context = self.context
        masks = context.masks
        status, n, work, confidences, _, chain, steps, used = search(
            context.compiled.tables, context.events, masks.begin, masks.take, masks.negated, near.candidates,
            near.blocks, near.negated, near.first, near.last, self.threshold, self.work_budget, 0, False,
        )  # fmt: skip
        self.n_work += work
        if status == REFUSED_SKEW:
            raise refused_skew(context.plan)
        finished = status == COMPLETE
        if status in (OUT_OF_BUDGET, REFUSED):
            used = self._acceptable(near)
        exact = finished and n > 0 and self.with_candidates and self._all_in_order(near, used, n)
        confidence = float(confidences[0]) if n else 0.0
        return Counted(near, n, finished, confidence, chain, steps, used, exact)

    def _acceptable(self, near: Neighbourhood) -> BoolArray:
        """Candidates by component as far as their own attributes go."""
        masks = self.context.masks
        used: BoolArray = masks.begin[:, near.candidates] | masks.take[:, near.candidates]
        return used

    def _all_in_order(self, near: Neighbourhood, used: BoolArray, n_matches: int) -> bool:
        """Whether the used candidates have no combination in order beside the matches."""
        context = self.context
        n_steps = len(context.plan.steps)
        mask = self._scratch
        mask[:, near.candidates] = used
        mask[0, near.first] = True
        mask[n_steps - 1, near.last] = True
        try:
            status, n_orders, *_ = count(
                context.compiled.sequence_only, context.events, mask, mask, context.masks.negated, near.candidates,
                near.blocks, np.empty(0, np.int64), near.first, near.last, 0.0, self._polynomial_budget(near),
                near.precise, False,
            )  # fmt: skip
        finally:
            mask[:, near.candidates] = False
            mask[0, near.first] = False
            mask[n_steps - 1, near.last] = False
        return bool(status == COMPLETE and n_orders == n_matches)

    def _polynomial_budget(self, near: Neighbourhood) -> int:
        budget = max(self.work_budget, _LABELS_PER_TRIPLE * (len(near.candidates) + 2) ** 3)
        # Orders of overlapping events are told apart, and these may be exponentially many.
        return budget if near.precise else min(budget, self.work_budget * _OVERLAP_FACTOR)

    def _nothing_depends(self, near: Neighbourhood, used: BoolArray) -> bool:
        """For more matches than are counted: precise events and no predicate but local ones, alike on both edges."""
        context = self.context
        alike = True
        for step in context.plan.steps:
            if step.kleene:
                rows = near.candidates[used[step.position]]
                begin = context.masks.begin[step.position, rows]
                alike &= bool((begin == context.masks.take[step.position, rows]).all())
        return near.precise and not context.compiled.has_predicates and alike


__all__ = ["Counted", "Counting"]
