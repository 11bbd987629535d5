"""Pairs whose matches are chains of neighbours (`plan.sequence.chain_form`), counted together where they share them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.events import Int64Array
from engine.kernels.pairs.chains import MOST, NOT_THIS_FORM, count_chains
from engine.kernels.pairs.links import LinkTables
from engine.kernels.pairs.status import COMPLETE
from engine.matching.pairs.context import Context, Neighbourhood
from engine.plan.sequence.chain_form import ChainForm

STEPS_PER_BUDGET = 100
"""Steps of chains that cost about one of the work budget's: nodes of a tree, comparisons of two numbers."""

_MOST_LAYERED = 8_000_000
"""Events times numbers of events that are told apart: what one pair may keep in memory (some 13 bytes each)."""

_MOST_USED = 16_000_000
"""Events times last events whose candidates are found together: bytes."""


class ChainCount(NamedTuple):
    """The matches of one pair: how many (a lower bound unless complete), the best one, and the rows of the Kleene
    component that are in matches, where they are asked for: not all of them unless finished."""

    n_matches: int
    complete: bool
    finished: bool
    confidence: float
    chain: Int64Array
    steps: Int64Array
    used: Int64Array


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
        self._budget = work_budget * STEPS_PER_BUDGET
        self.with_used = with_used
        self._one_pass = form.ordered and not (form.reads_start and form.kleene)

    @property
    def shared_by(self) -> tuple[bool, bool]:
        """Whether pairs with one first event, and with one last event, are counted together: what may follow what is
        the same for them, one pass for each first event is enough, and bounds itself."""
        if not self._one_pass or self.context.longest_ms > 0:
            return False, False
        at_start = self.form.kleene == 0 < self.context.plan.n_steps - 1
        return not self.form.reads_last, at_start and not self.form.reads_first

    def n_steps_of_pass(self, n_between: Int64Array) -> Int64Array:
        """What a pass over so many events takes, where they have an order by what neighbours are compared by."""
        levels = np.ceil(np.log2(n_between + 2)).astype(np.int64)
        return 3 * self.form.most_counted * levels * n_between

    def of_pair(self, near: Neighbourhood) -> ChainCount | None:
        """The matches of one pair; None where it is not of this form after all."""
        found = self.of_pairs(near, np.array([near.first]), np.array([near.last]))
        return None if found is None else found[0]

    def of_pairs(self, near: Neighbourhood, firsts: Int64Array, lasts: Int64Array) -> list[ChainCount] | None:
        """The matches of pairs with one first or one last event, ascending; `near`: of the first and the last of them
        all. Precise events stand in the order of their rows."""
        kleene, at_end = self.form.kleene, self.form.kleene == self.context.plan.n_steps - 1
        begins = firsts[:1] if kleene == 0 else firsts[:0]
        ends = lasts[-1:] if at_end and near.first != near.last else lasts[:0]
        # What overlaps a pair of one event is around it, not between.
        between = near.candidates[:0] if near.first == near.last else near.candidates
        rows = np.concatenate((begins, between, ends))
        n_before = np.array([len(rows)])
        positions = np.zeros(1, np.int64)
        if len(lasts) > 1:
            # Those at one time with the first or the last of them all are no candidates of these under TIES STRICT.
            if kleene == 0:
                rows = np.union1d(rows, firsts)
            if at_end:
                rows = np.union1d(rows, lasts)
            n_before = np.searchsorted(rows, lasts) + at_end
            positions = np.searchsorted(rows, firsts)
        if len(rows) * self.form.most_counted > _MOST_LAYERED:
            return None
        found: list[ChainCount] = []
        n_together = max(1, _MOST_USED // max(len(rows), 1)) if self.with_used else len(lasts)
        for start in range(0, len(lasts), n_together):
            part = slice(start, start + n_together)
            counted = self._count(near, rows, positions[part], lasts[part], n_before[part])
            if counted is None:
                return None
            found += counted
        return found

    def _count(
        self, near: Neighbourhood, rows: Int64Array, positions: Int64Array, lasts: Int64Array, n_before: Int64Array
    ) -> list[ChainCount] | None:
        context, masks = self.context, self.context.masks
        bounded = not (self._one_pass and near.precise)
        rows = rows[: n_before[-1]]
        status, counts, confidences, offsets, chain, steps, used, n_work = count_chains(
            context.compiled.tables, self._links, context.events, masks.begin, masks.take, rows, near.first, positions,
            lasts, n_before, self._threshold, self.with_used, self._budget if bounded else MOST,
        )  # fmt: skip
        self.n_work += n_work
        if status == NOT_THIS_FORM:
            return None
        return [
            ChainCount(
                n_matches=int(count),
                complete=status == COMPLETE and count < MOST,
                finished=status == COMPLETE,
                confidence=float(confidences[p]),
                chain=chain[offsets[p] : offsets[p + 1]],
                steps=steps[offsets[p] : offsets[p + 1]],
                used=rows[used[p]] if self.with_used else rows[:0],
            )
            for p, count in enumerate(counts.tolist())
        ]

    def all_selections(self, n_used: int, n_matches: int) -> bool:
        """Whether every selection of the used candidates in order is a match, where they have one certain order."""
        enclosed = 0 < self.form.kleene < self.context.plan.n_steps - 1
        return bool(n_matches == 2**n_used - enclosed)

    @property
    def is_ordered(self) -> bool:
        """Whether candidates of a pair that is of this form have one certain order."""
        return not self.context.plan.strict_ties


__all__ = ["STEPS_PER_BUDGET", "ChainCount", "CountedChains"]
