"""Pairs whose matches are chains of neighbours (`engine.plan.chain_form`); last events of one first share a pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.events import BoolArray, Int64Array
from engine.kernels.links import LinkTables
from engine.kernels.postponed_chains import MOST, NOT_THIS_FORM, count_chains
from engine.kernels.postponed_search import COMPLETE
from engine.language import ast
from engine.matching.postponed_context import Context, Neighbourhood
from engine.plan.chain_form import ChainForm

_STEPS_PER_BUDGET = 100
"""Steps of chains that cost about one of the work budget's: nodes of a tree, comparisons of two numbers."""

_MOST_LAYERED = 8_000_000
"""Events times numbers of events that are told apart: what one pair may keep in memory (some 13 bytes each)."""

_MOST_USED = 16_000_000
"""Events times last events whose candidates are found together: bytes."""


class ChainCount(NamedTuple):
    """The matches of one pair: how many (a lower bound unless complete), the best one, and the candidates of the Kleene
    component in matches, bool (n_candidates,), where they are asked for."""

    n_matches: int
    complete: bool
    confidence: float
    chain: Int64Array
    steps: Int64Array
    used: BoolArray


class CountedChains:
    """Counts pairs of one context; `n_work`: steps so far, see `count_chains`."""

    def __init__(
        self,
        context: Context,
        form: ChainForm,
        links: LinkTables,
        threshold: float,
        work_budget: int,
        with_used: bool,
    ) -> None:
        self.context = context
        self.form = form
        self.n_work = 0
        self._links = links
        self._threshold = threshold
        self._budget = work_budget * _STEPS_PER_BUDGET
        self._with_used = with_used
        self._one_pass = form.ordered and not (form.reads_start and form.kleene)

    @property
    def shares(self) -> bool:
        """Whether all last events of one first event are counted together: one pass is enough, and bounds itself."""
        return self._one_pass and not self.form.reads_last and self.context.longest_ms == 0

    def of_pair(self, near: Neighbourhood) -> ChainCount | None:
        """The matches of one pair; None where it is not of this form after all."""
        found = self.of_first(near, np.array([near.last]))
        return None if found is None else found[0]

    def of_first(self, near: Neighbourhood, lasts: Int64Array) -> list[ChainCount] | None:
        """The matches of one first event and each of these last events, ascending; `near`: of the last one of them."""
        plan, kleene = self.context.plan, self.form.kleene
        at_end = kleene == plan.n_steps - 1
        begins = [near.first] if kleene == 0 else []
        ends = [near.last] if at_end and near.last != near.first else []
        rows = np.concatenate((begins, near.candidates, ends)).astype(np.int64)
        if len(rows) * self.form.most_counted > _MOST_LAYERED:
            return None
        n_before = np.array([len(rows)]) if len(lasts) == 1 else np.searchsorted(rows, lasts) + at_end
        found: list[ChainCount] = []
        n_together = max(1, _MOST_USED // max(len(rows), 1)) if self._with_used else len(lasts)
        for start in range(0, len(lasts), n_together):
            part = slice(start, start + n_together)
            counted = self._count(near, rows, lasts[part], n_before[part])
            if counted is None:
                return None
            found += counted
        return found

    def _count(
        self, near: Neighbourhood, rows: Int64Array, lasts: Int64Array, n_before: Int64Array
    ) -> list[ChainCount] | None:
        context, masks = self.context, self.context.masks
        bounded = not (self._one_pass and near.precise)
        status, counts, confidences, offsets, chain, steps, used, n_work = count_chains(
            context.compiled.tables, self._links, context.events, masks.begin, masks.take, rows[: n_before[-1]],
            near.first, lasts, n_before, self._threshold, self._with_used, self._budget if bounded else MOST,
        )  # fmt: skip
        self.n_work += n_work
        if status == NOT_THIS_FORM:
            return None
        own = slice(1 if self.form.kleene == 0 else 0, None)
        return [
            ChainCount(
                n_matches=int(count),
                complete=status == COMPLETE and count < MOST,
                confidence=float(confidences[e]),
                chain=chain[offsets[e] : offsets[e + 1]],
                steps=steps[offsets[e] : offsets[e + 1]],
                used=used[e, own] if self._with_used else used[e],
            )
            for e, count in enumerate(counts.tolist())
        ]

    def all_selections(self, used: BoolArray, n_matches: int) -> bool:
        """Whether every selection of the used candidates in order is a match, where they have one certain order."""
        enclosed = 0 < self.form.kleene < self.context.plan.n_steps - 1
        return bool(n_matches == 2 ** int(used.sum()) - enclosed)

    @property
    def is_ordered(self) -> bool:
        """Whether candidates of a pair that is of this form have one certain order."""
        return self.context.plan.ties is not ast.Ties.STRICT


__all__ = ["ChainCount", "CountedChains"]
