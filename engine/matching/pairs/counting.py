"""Rows that stand for all matches of one pair: existence, number, best match and candidates (COLLAPSED, COUNT)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from engine.events import BoolArray, Int64Array
from engine.kernels.confidence.ordering import order_is_certain
from engine.kernels.pairs.counting import EdgeMasks, PairEvents, count
from engine.kernels.pairs.labels import MOST
from engine.kernels.pairs.search import search
from engine.kernels.pairs.status import COMPLETE, NEEDS_SEARCH, OUT_OF_BUDGET, REFUSED, REFUSED_SKEW
from engine.matching.pairs.chains import STEPS_PER_BUDGET, ChainCount, CountedChains
from engine.matching.pairs.context import Context, Neighbourhood, refused_skew
from engine.matching.pairs.in_reach import PAIRS_COUNTED
from engine.matching.pairs.listing import LISTING_TIMES, PER_CANDIDATE, PER_PAIR, Pair
from engine.matching.work_account import WorkAccount
from engine.plan.evaluation import PairEvaluators, PairMethod

_LABELS_PER_TRIPLE = 16
"""Steps allowed per triple of candidates where the work is polynomial: three events and a bounded count."""

_POLYNOMIAL_FACTOR = 10
"""Work budgets that counting one pair may take where the work is polynomial: some seconds."""

_COUNTING_TIMES = 60
"""Steps of listing in the time of one that looks for prefixes that are alike; a pair may overdraw the account by it."""

_TIMES_PAIR = 3
"""A pair that is counted by itself takes so many times what one that is listed does: some 20 us."""

_CHAIN_STEPS_PER_STEP = STEPS_PER_BUDGET // LISTING_TIMES
"""Steps of chains in the time of one of listing."""

_SET_UP = 6
"""What is looked at before the first pass takes the time of so many."""

_EVENTS_TOGETHER = 16_000_000
"""Events between the pairs that are counted together: bounded memory, as each may be in a row of all of them."""

_PER_EMITTED = 16
"""Steps for an event that a row names."""

_NEGATED_PER_STEP = 2
"""Candidates of a pair are compared with each other before they are counted, each in a step, and with what is negated:
so many in the time of a step."""

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

    def __init__(
        self,
        context: Context,
        evaluators: PairEvaluators,
        threshold: float,
        work_budget: int,
        account: WorkAccount,
        *,
        with_candidates: bool,
    ) -> None:
        """`evaluators`: in which ways a pair is counted, one after the other, the last of which counts any."""
        self.context = context
        self.threshold = threshold
        self._budget = work_budget
        self._account = account
        self.with_candidates = with_candidates
        self.n_unfinished = 0
        self._n_work = 0
        self._n_compared = 0
        self._left = account.left
        self._scratch: BoolArray = np.zeros(context.masks.begin.shape, np.bool_)
        self._chains: CountedChains | None = None
        if evaluators.chains is not None and context.compiled.chains is not None:
            # What is known of imprecise events also says in which worlds there is a match.
            with_used = with_candidates or context.longest_ms > 0
            self._chains = CountedChains(
                context, evaluators.chains, context.compiled.chains, threshold, work_budget, with_used
            )
        by_method = {
            PairMethod.CHAINS: self._by_chains,
            PairMethod.CLASSES: self._by_labels,
            PairMethod.SEARCH: self._by_search,
        }
        *self._ways, self._any_way = [by_method[method] for method in evaluators.one_by_one]

    @property
    def n_work(self) -> int:
        """Steps of all searches so far."""
        return self._n_work + self._n_chain_steps

    @property
    def _n_chain_steps(self) -> int:
        return 0 if self._chains is None else self._chains.n_work

    def of_pairs(self, pairs: Int64Array, most: int) -> Iterator[tuple[int, Counted]]:
        """The first `most` of these pairs, int64 (n, 3), by last event, that have matches, each with its number.

        The pairs of a last event may take what the account holds when it stands at that event. Where pairs are counted
        together, as many are looked at as rows are wanted; more only once these have not been enough.
        """
        if self._chains is not None and any(self._chains.shared_by):
            yield from self._shared(pairs, most)
            return
        n_found = 0
        for begin, end in _by_last(pairs):
            self._left = self._account.allowance_at(self._position_of(int(pairs[begin, 1])))
            for number in range(begin, end):
                if self._left <= 0:
                    self.n_unfinished += 1
                    break
                first, last, partition = pairs[number].tolist()
                counted = self.of_pair((first, last, partition))
                if counted is not None:
                    yield number, counted
                    n_found += 1
                    if n_found == most:
                        return

    def _position_of(self, row: int) -> int:
        store = self.context.store
        return int(store.position[row]) if len(store.position) else store.n_seen - 1

    def _shared(self, pairs: Int64Array, most: int) -> Iterator[tuple[int, Counted]]:
        """What passes cost is known before; rows are paid for as they come, those that are not are left out."""
        n_between = self.context.members.n_between(pairs)
        cost = self._cost_of_passes(pairs, n_between)
        numbers, cut = self._paid(pairs, cost)
        n_found = start = 0
        at = self._left = -1
        sizes = np.cumsum(n_between[numbers] + 1)
        while start < len(numbers) and n_found < most:
            size = int(sizes[start - 1]) if start else 0
            together = int(np.searchsorted(sizes, size + _EVENTS_TOGETHER, "right"))
            some = numbers[start : max(start + 1, min(together, start + max(most - n_found, start)))]
            start += len(some)
            for number, counted in zip(some.tolist(), self._together(pairs[some]), strict=True):
                if pairs[number, 1] != at:
                    at = int(pairs[number, 1])
                    self._left = self._account.allowance_at(self._position_of(at))
                if self._left <= 0:
                    cut.add(at)
                    continue
                spent = int(cost[number]) + self._cost_of_row(counted)
                self._account.settle(spent)
                self._left -= spent
                if counted is not None:
                    yield number, counted
                    n_found += 1
                    if n_found == most:
                        break
        self.n_unfinished += len(cut)

    def _cost_of_passes(self, pairs: Int64Array, n_between: Int64Array) -> Int64Array:
        """What each pair adds to the passes that many share; int64 (n,)."""
        assert self._chains is not None
        n_firsts = np.concatenate(
            [np.full(end - begin, end - begin) for begin, end in _by_last(pairs)] or [pairs[:, 0]]
        )
        n_together = np.minimum(PAIRS_COUNTED, _EVENTS_TOGETHER / (n_between + 1))
        n_passes = np.minimum(_SET_UP * n_firsts / n_together, _SET_UP) + self._chains.with_used  # back from its end
        steps = n_passes * self._chains.n_steps_of_pass(n_between) / _CHAIN_STEPS_PER_STEP
        cost: Int64Array = PER_PAIR + steps.astype(np.int64)
        return cost

    def _cost_of_row(self, counted: Counted | None) -> int:
        """What it takes to name the events of a row."""
        if counted is None:
            return 0
        return _PER_EMITTED * (len(counted.chain) + (int(counted.used.sum()) if self.with_candidates else 0))

    def _paid(self, pairs: Int64Array, cost: Int64Array) -> tuple[Int64Array, set[int]]:
        """The numbers of the pairs that their last events could pay for if rows cost nothing; the others' last
        events."""
        before = self._account.account.copy()
        kept = np.ones(len(pairs), np.bool_)
        cut = set()
        for begin, end in _by_last(pairs):
            last = int(pairs[begin, 1])
            left = self._account.allowance_at(self._position_of(last))
            spent = np.cumsum(cost[begin:end])
            n = int(np.searchsorted(spent - cost[begin:end], left))  # the last one may overdraw it
            if n:
                self._account.settle(int(spent[n - 1]))
            if n < end - begin:
                kept[begin + n : end] = False
                cut.add(last)
        self._account.account[:] = before
        return np.flatnonzero(kept), cut

    def _together(self, pairs: Int64Array) -> Sequence[Counted | None]:
        """The rows of some pairs; those of one first event, or of one last event, are counted together."""
        assert self._chains is not None
        by_first, by_last = self._chains.shared_by
        if by_first and by_last:  # each first event has passes of its own: shared by last events, or for each of these
            n_firsts, n_lasts = len(np.unique(pairs[:, 0])), len(np.unique(pairs[:, 1]))
            by_last = n_lasts * (n_firsts + _SET_UP) < n_firsts * (1 + _SET_UP)
        shared, other = (1, 0) if by_last else (0, 1)
        found: list[Counted | None] = [None] * len(pairs)
        order = np.lexsort((pairs[:, other], pairs[:, shared], pairs[:, 2]))
        changes = np.flatnonzero((np.diff(pairs[order][:, [shared, 2]], axis=0) != 0).any(axis=1)) + 1
        for numbers in np.split(order, changes):
            for number, counted in zip(numbers.tolist(), self._of_group(pairs[numbers]), strict=True):
                found[number] = counted
        return found

    def _of_group(self, pairs: Int64Array) -> Sequence[Counted | None]:
        """The rows of pairs of one partition that share their first or their last event."""
        assert self._chains is not None
        partition = int(pairs[0, 2])
        firsts, lasts = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        near = self.context.neighbourhood(int(firsts[0]), int(lasts[-1]), partition)
        chains = self._chains.of_pairs(near, firsts, lasts)
        if chains is None:
            return [self.of_pair((first, last, partition)) for first, last in pairs[:, :2].tolist()]
        begins = np.searchsorted(near.candidates, firsts, "right").tolist()
        ends = np.searchsorted(near.candidates, lasts).tolist()
        found: list[Counted | None] = []
        for first, last, begin, end, chain in zip(firsts.tolist(), lasts.tolist(), begins, ends, chains, strict=True):
            part = slice(begin, end)
            own = Neighbourhood(first, last, partition, near.candidates[part], near.blocks[part], near.negated, True)
            found.append(self._counted_chain(own, chain) if chain.n_matches else None)
        return found

    def of_pair(self, pair: Pair) -> Counted | None:
        """The row of one pair, None without a match.

        A pair whose work ends before its first match is found counts in `n_unfinished`.
        """
        before, chains_before = self._n_work, self._n_chain_steps
        near = self.context.neighbourhood(*pair)
        counted = self._of_neighbourhood(near)
        n_around = len(near.candidates) + len(near.negated)
        spent = _COUNTING_TIMES * (self._n_work - before) + PER_CANDIDATE * n_around + _TIMES_PAIR * PER_PAIR
        spent += (self._n_chain_steps - chains_before) // _CHAIN_STEPS_PER_STEP
        spent += self._n_compared + self._cost_of_row(counted)
        self._n_compared = 0
        self._account.settle(spent)
        self._left -= spent
        return counted

    @property
    def work_budget(self) -> int:
        """Steps that one pair may take."""
        return max(min(self._budget, self._left // LISTING_TIMES), 1)

    def _of_neighbourhood(self, near: Neighbourhood) -> Counted | None:
        counted = next((found for way in self._ways if (found := way(near)) is not None), None)
        if counted is None or (counted.n_matches == 0 and not counted.count_exact):
            counted = self._any_way(near)
        assert counted is not None, "the last way counts any pair"
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
        chain = None if self._chains is None else self._chains.of_pair(near)
        return None if chain is None else self._counted_chain(near, chain)

    def _counted_chain(self, near: Neighbourhood, chain: ChainCount) -> Counted:
        assert self._chains is not None
        used = np.zeros((self.context.plan.n_steps, len(near.candidates)), np.bool_)
        used[self._chains.form.kleene] = np.isin(near.candidates, chain.used)
        if not chain.finished:
            used = self._acceptable(near)
        n = chain.n_matches
        is_ordered = self._chains.is_ordered or self._is_ordered(near, used)
        if not self.with_candidates or not chain.complete or not is_ordered:
            exact = self._exact(near, used, n)
        else:
            exact = self._chains.all_selections(int(used.sum()), n)
        return Counted(near, n, chain.complete, chain.confidence, chain.chain, chain.steps, used, exact)

    def _is_ordered(self, near: Neighbourhood, used: BoolArray) -> bool:
        """Whether the ends of a pair and the candidates used are precise, each later than the one before it."""
        rows = np.concatenate(([near.first], near.candidates[used.any(axis=0)], [near.last]))
        lo_ms, hi_ms = self.context.store.t_lo_ms[rows], self.context.store.t_hi_ms[rows]
        return bool((lo_ms == hi_ms).all() and (np.diff(lo_ms) > 0).all())

    def _exact(self, near: Neighbourhood, used: BoolArray, n_matches: int) -> bool:
        if not self.with_candidates or n_matches == 0:
            return False
        if n_matches == MOST:
            return self._nothing_depends(near, used)
        return self._all_in_order(near, used, n_matches)

    def _by_labels(self, near: Neighbourhood) -> Counted | None:
        if not self._is_independent(near):
            return None
        context = self.context
        budget = self._polynomial_budget(near) if context.compiled.polynomial else self.work_budget
        masks = context.masks
        status, n, work, confidence, chain, steps, used, used_exact = count(
            context.compiled.tables, context.events, EdgeMasks(masks.begin, masks.take, masks.negated),
            PairEvents(near.first, near.last, near.candidates, near.blocks, near.negated), self.threshold, budget,
            near.precise, self.with_candidates,
        )  # fmt: skip
        self._n_work += work
        self._n_compared += len(near.candidates) * (len(near.candidates) + len(near.negated) // _NEGATED_PER_STEP)
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
        self._n_work += work
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
            status, n_orders, n_work, *_ = count(
                context.compiled.sequence_only, context.events, EdgeMasks(mask, mask, context.masks.negated),
                PairEvents(near.first, near.last, near.candidates, near.blocks, np.empty(0, np.int64)), 0.0,
                self._polynomial_budget(near), near.precise, False,
            )  # fmt: skip
        finally:
            mask[:, near.candidates] = False
            mask[0, near.first] = False
            mask[n_steps - 1, near.last] = False
        self._n_work += n_work
        return bool(status == COMPLETE and n_orders == n_matches)

    def _polynomial_budget(self, near: Neighbourhood) -> int:
        needed = _LABELS_PER_TRIPLE * (len(near.candidates) + 2) ** 3
        budget = max(self.work_budget, min(needed, self.work_budget * _POLYNOMIAL_FACTOR))
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


def _by_last(pairs: Int64Array) -> list[tuple[int, int]]:
    """Where the pairs of each last event begin and end."""
    bounds = [0, *(np.flatnonzero(np.diff(pairs[:, 1])) + 1).tolist(), len(pairs)] if len(pairs) else []
    return list(pairwise(bounds))


__all__ = ["Counted", "Counting"]
