"""Pairs over imprecise events whose Kleene events are selected each by itself: counted by one kernel call for all.

The part of `PostponedRuntime` that serves collapsed and counted rows of plans of `engine.plan.sequence.independent`
without a threshold, beside `IndependentPairs` for precise events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.pairs.independent import replay_all
from engine.kernels.pairs.possible import COUNTED, LEFT_OUT, OTHER_FORM, count_possible
from engine.kernels.pairs.possible_orders import MOST
from engine.kernels.pairs.shared_search import FREE_STEPS
from engine.matching.output.match_row import Binding
from engine.matching.output.reading.arrow import ranges, with_ends
from engine.matching.pairs.context import Context
from engine.matching.pairs.counted_rows import OneKleeneBlock
from engine.matching.pairs.counting import Counted
from engine.matching.pairs.independent import independent_tables
from engine.matching.work_account import WorkAccount
from engine.plan.sequence.independent import IndependentForm
from engine.plan.sequence.model import SequencePlan


class PossibleColumns(NamedTuple):
    """What `count_possible` found of n pairs.

    pairs: int64 (n, 3): first, last, partition. first_lo_ms, last_lo_ms, last_hi_ms: int64 (n,). counts: int64 (n,), a
    lower bound unless complete, bool (n,). confidences: float64 (n,). bounds: int64 (n, 6) into `rows`. values: float64
    (n, n_returns).
    """

    pairs: Int64Array
    first_lo_ms: Int64Array
    last_lo_ms: Int64Array
    last_hi_ms: Int64Array
    counts: Int64Array
    complete: BoolArray
    confidences: Float64Array
    bounds: Int64Array
    rows: Int64Array
    values: Float64Array

    def longest(self, k: int) -> Int64Array:
        """The events of the match that is shown for pair k, in order."""
        first, last = self.pairs[k, :1], self.pairs[k, 1:2]
        between = self.rows[self.bounds[k, 0] : self.bounds[k, 1]]
        return np.concatenate((first, between, last)) if first[0] != last[0] else first

    def of(self, numbers: Int64Array) -> PossibleColumns:
        """What is known of these pairs alone."""
        c = self
        return PossibleColumns(
            c.pairs[numbers], c.first_lo_ms[numbers], c.last_lo_ms[numbers], c.last_hi_ms[numbers], c.counts[numbers],
            c.complete[numbers], c.confidences[numbers], c.bounds[numbers], c.rows, c.values[numbers],
        )  # fmt: skip

    def used(self, k: int) -> Int64Array:
        """The candidates of pair k without its ends."""
        _, _, *bounds = self.bounds[k].tolist()
        return np.concatenate((self.rows[bounds[0] : bounds[1]], self.rows[bounds[2] : bounds[3]]))


@dataclass(eq=False)
class PossibleBlock(OneKleeneBlock[PossibleColumns]):
    """Rows of COLLAPSED or COUNT over imprecise events."""

    def compact(self) -> Self:
        """The same rows without what is known of other pairs: of millions a few may have rows."""
        return replace(self, columns=self.columns.of(self.order), order=np.arange(len(self.order)))

    def _events(self, k: int) -> tuple[Int64Array, Int64Array]:
        return self.columns.longest(k), self.columns.used(k)

    def _bindings(self, k: int, texts: Mapping[int, str]) -> Mapping[str, Binding]:
        return self._bound(self.columns.longest(k).tolist(), texts)

    def _candidates(self, k: int, texts: Mapping[int, str]) -> Mapping[str, tuple[str, ...]]:
        first, last = self.columns.pairs[k, :2].tolist()
        used = self.columns.used(k).tolist()
        return self._bound(self._in_components([first], used, [] if first == last else [last]), texts)

    def _shown(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        c = self.columns
        first, last = c.pairs[numbers, 0], c.pairs[numbers, 1]
        ends = np.where(first == last, c.bounds[numbers, 0], c.bounds[numbers, 1])
        between, at = ranges(c.bounds[numbers, 0], ends)
        return self._with_steps(*with_ends(first, last, first == last, between, c.rows[at]))

    def _used(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        c, n_steps = self.columns, self.plan.n_steps
        first, last = c.pairs[numbers, 0], c.pairs[numbers, 1]
        two = c.bounds[numbers, 2:].reshape(-1, 2)
        between, at = ranges(two[:, 0], two[:, 1])
        bounds, rows = with_ends(first, last, first == last, between[::2], c.rows[at])
        index = np.zeros(len(rows), np.int8)
        index[bounds[:-1]] -= self.kleene > 0
        index[bounds[1:] - 1] += (self.kleene < n_steps - 1) & (first != last)
        rows = rows[np.lexsort((rows, index, np.repeat(np.arange(len(numbers)), np.diff(bounds))))]
        return self._with_steps(bounds, rows)

    def counted(self, context: Context, k: int) -> Counted:
        """What is known of pair k, as one that is counted by itself has it."""
        c = self.columns
        near = context.neighbourhood(*c.pairs[k].tolist())
        used = np.zeros((self.plan.n_steps, len(near.candidates)), np.bool_)
        used[self.kleene] = np.isin(near.candidates, c.used(k))
        chain = c.longest(k)
        steps = np.full(len(chain), self.kleene, np.int64)
        if self.kleene > 0:
            steps[0] = 0
        if self.kleene < self.plan.n_steps - 1:
            steps[-1] = self.plan.n_steps - 1
        known = int(c.counts[k]), bool(c.complete[k]), float(c.confidences[k])
        return Counted(near, *known, chain, steps, used, exact=True)

    def _in_components(self, first: list[int], used: list[int], last: list[int]) -> list[int]:
        """Candidates in the order of the components, in stream order each."""
        before = [] if self.kleene == 0 else first
        after = [] if self.kleene == self.plan.n_steps - 1 else last
        own = sorted([*([] if before else first), *used, *([] if after else last)])
        return [*before, *own, *after]


class PossiblePairs:
    """Counts the pairs of one plan."""

    def __init__(self, plan: SequencePlan, form: IndependentForm, work_budget: int, account: WorkAccount) -> None:
        self.plan = plan
        self.form = form
        self.work_budget = work_budget
        self._account = account
        self._free_steps = np.array([FREE_STEPS], np.int64)

    def counted(
        self, context: Context, pairs: Int64Array, _most: int, *, collapsed: bool
    ) -> tuple[PossibleBlock, Int64Array, int]:
        """A row for each pair (first, last, partition) that has matches; the numbers of the pairs of another form;
        1 when some were not paid for, else 0. All are counted: `_most` is of no use.

        `order` of the block are numbers of pairs, ascending.
        """
        store = context.store
        by_first = np.lexsort((pairs[:, 1], pairs[:, 2], pairs[:, 0]))
        sorted_pairs = pairs[by_first]
        if len(pairs):
            latest = int(pairs[-1, 1])
            self._account.allowance_at(int(store.position[latest]) if len(store.position) else store.n_seen - 1)
        tables = independent_tables(self.plan, self.form, context.compiled)
        status, counts, complete, confidences, bounds, rows = count_possible(
            tables, context.events, context.masks.begin, context.masks.take, context.members.rows,
            context.members.starts, sorted_pairs, context.longest_ms, self.form.reads_last, self.work_budget,
            self._account.account, self._free_steps,
        )  # fmt: skip
        index = np.empty(len(pairs), np.int64)
        index[by_first] = np.arange(len(pairs))
        first, last = pairs[:, 0], pairs[:, 1]
        columns = PossibleColumns(
            pairs=pairs,
            first_lo_ms=store.t_lo_ms[first],
            last_lo_ms=store.t_lo_ms[last],
            last_hi_ms=store.t_hi_ms[last],
            counts=counts[index],
            complete=complete[index] & (counts[index] < MOST),
            confidences=confidences[index],
            bounds=bounds[index],
            rows=rows,
            values=np.empty((len(pairs), 0)),
        )
        status = status[index]
        order = np.flatnonzero(status == COUNTED)
        columns = columns._replace(values=self._values(context, columns, order))
        block = PossibleBlock(self.plan, store.as_it_is(), columns, collapsed, order, self.form.kleene)
        return block, np.flatnonzero(status == OTHER_FORM), int((status == LEFT_OUT).any())

    def _values(self, context: Context, columns: PossibleColumns, order: Int64Array) -> Float64Array:
        values = np.full((len(columns.pairs), len(self.plan.returns)), np.nan)
        if len(self.plan.returns) and len(order):
            programs = self.plan.return_programs
            chains = [columns.longest(k) for k in order.tolist()]
            offsets = np.append(0, np.cumsum([len(chain) for chain in chains]))
            values[order] = replay_all(
                context.replayed, context.store.columns, offsets, np.concatenate(chains), self.form.kleene, programs
            )
        return values


__all__ = ["PossibleBlock", "PossibleColumns", "PossiblePairs"]
