"""Pairs of queries of the form S+ K S+ (`engine.plan.sequence.single_kleene`): one kernel call counts all of a step.

The part of `PostponedRuntime` that serves their collapsed and counted rows, whatever the threshold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.pairs.independent import MOST
from engine.kernels.pairs.paths import replay_steps
from engine.kernels.pairs.possible import COUNTED, OTHER_FORM
from engine.kernels.pairs.single_kleene import SingleKleeneTables, count_single_kleene
from engine.matching.output.match_row import Binding
from engine.matching.output.reading.arrow import ranges, with_ends
from engine.matching.pairs.context import Context, Groups
from engine.matching.pairs.counted_rows import PairBlock
from engine.matching.pairs.counting import Counted
from engine.matching.pairs.independent import independent_tables
from engine.matching.pairs.listing import LISTING_TIMES
from engine.matching.work_account import WorkAccount
from engine.plan.sequence.model import SequencePlan
from engine.plan.sequence.single_kleene import SingleKleeneForm


class SingleKleeneColumns(NamedTuple):
    """What `count_single_kleene` found of n pairs.

    pairs: int64 (n, 3): first, last, partition. first_lo_ms, last_lo_ms, last_hi_ms: int64 (n,). counts: int64 (n,),
    lower bounds unless complete, bool (n,). confidences: float64 (n,). exact: bool (n,). bounds: int64 (n, 4) into
    `rows` and `steps`, int64. values: float64 (n, n_returns).
    """

    pairs: Int64Array
    first_lo_ms: Int64Array
    last_lo_ms: Int64Array
    last_hi_ms: Int64Array
    counts: Int64Array
    complete: BoolArray
    confidences: Float64Array
    exact: BoolArray
    bounds: Int64Array
    rows: Int64Array
    steps: Int64Array
    values: Float64Array

    def longest(self, k: int) -> tuple[Int64Array, Int64Array]:
        """The events of the match that is shown for pair k, in order, and the component of each."""
        own = slice(self.bounds[k, 0], self.bounds[k, 1])
        return self.rows[own], self.steps[own]

    def used(self, k: int) -> tuple[Int64Array, Int64Array]:
        """The events between the ends of pair k that are in matches, by component, and the component of each."""
        own = slice(self.bounds[k, 2], self.bounds[k, 3])
        return self.rows[own], self.steps[own]


class SingleKleeneBlock(PairBlock[SingleKleeneColumns]):
    """Rows of COLLAPSED or COUNT of such queries."""

    def counted(self, context: Context, k: int) -> Counted:
        """What is known of pair k, as one that is counted by itself has it."""
        c = self.columns
        near = context.neighbourhood(*c.pairs[k].tolist())
        used = np.zeros((self.plan.n_steps, len(near.candidates)), np.bool_)
        rows, steps = c.used(k)
        for step in range(1, self.plan.n_steps - 1):
            used[step] = np.isin(near.candidates, rows[steps == step])
        known = int(c.counts[k]), bool(c.complete[k]), float(c.confidences[k])
        return Counted(near, *known, *c.longest(k), used, exact=bool(self.columns.exact[k]))

    def _events(self, k: int) -> tuple[Int64Array, Int64Array]:
        return self.columns.longest(k)[0], self.columns.used(k)[0]

    def _bindings(self, k: int, texts: Mapping[int, str]) -> Mapping[str, Binding]:
        return self._bound(self.columns.longest(k), texts)

    def _candidates(self, k: int, texts: Mapping[int, str]) -> Mapping[str, tuple[str, ...]]:
        first, last = self.columns.pairs[k, :2].tolist()
        steps = self.plan.steps
        ends = {steps[0].variable: (texts[first],), steps[-1].variable: (texts[last],)}
        return self._bound(self.columns.used(k), texts) | ends

    @property
    def _exact(self) -> BoolArray:
        return self.columns.exact

    def _shown(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        c = self.columns
        bounds, at = ranges(c.bounds[numbers, 0], c.bounds[numbers, 1])
        return bounds, c.rows[at], c.steps[at]

    def _used(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        c = self.columns
        bounds, at = ranges(c.bounds[numbers, 2], c.bounds[numbers, 3])
        first, last = c.pairs[numbers, 0], c.pairs[numbers, 1]
        apart, zeros = np.zeros(len(numbers), np.bool_), np.zeros(len(numbers), np.int64)
        _, steps = with_ends(zeros, zeros + self.plan.n_steps - 1, apart, bounds, c.steps[at])
        bounds, rows = with_ends(first, last, apart, bounds, c.rows[at])
        return bounds, rows, steps

    def _bound(self, events: tuple[Int64Array, Int64Array], texts: Mapping[int, str]) -> dict[str, tuple[str, ...]]:
        bound: list[list[str]] = [[] for _ in self.plan.steps]
        for row, step in zip(events[0].tolist(), events[1].tolist(), strict=True):
            bound[step].append(texts[row])
        return {step.variable: tuple(bound[step.position]) for step in self.plan.steps}


class SingleKleenePairs:
    """Counts the pairs of one plan."""

    def __init__(self, plan: SequencePlan, form: SingleKleeneForm, threshold: float, account: WorkAccount) -> None:
        self.plan = plan
        self.form = form
        self.threshold = threshold
        self._account = account

    def counted(
        self, context: Context, pairs: Int64Array, most: int, *, collapsed: bool
    ) -> tuple[SingleKleeneBlock, Int64Array, int]:
        """A row for each of the first `most` pairs (first, last, partition) that have matches of at least this
        confidence; the numbers of the pairs before the last of these that are of another form; of how many last events
        pairs were left out, as there was nothing left for them.

        `order` of the block are numbers of pairs, ascending.
        """
        store, n = context.store, context.n_rows
        kleene = self.form.each.kleene
        between = context.masks.begin[1:-1, :n].copy()
        between[kleene - 1] |= context.masks.take[kleene, :n]
        inner, inner_starts = Groups.stacked(between, store)
        # Without positions every event stands where the batch ends.
        positions = store.position if len(store.position) else np.full(n, store.n_seen - 1)
        n_cut, status, counts, complete, confidences, exact, bounds, rows, steps = count_single_kleene(
            self._tables(context), context.events, context.masks.begin, context.masks.take, inner, inner_starts, pairs,
            context.longest_ms, self.threshold, most, collapsed, positions, self._account.terms, self._account.account,
            LISTING_TIMES,
        )  # fmt: skip
        first, last = pairs[:, 0], pairs[:, 1]
        columns = SingleKleeneColumns(
            pairs=pairs,
            first_lo_ms=store.t_lo_ms[first],
            last_lo_ms=store.t_lo_ms[last],
            last_hi_ms=store.t_hi_ms[last],
            counts=counts,
            complete=complete & (counts < MOST),
            confidences=confidences,
            exact=exact,
            bounds=bounds,
            rows=rows,
            steps=steps,
            values=np.full((len(pairs), len(self.plan.returns)), np.nan),
        )
        order = np.flatnonzero(status == COUNTED)
        self._replay(context, columns, order)
        block = SingleKleeneBlock(self.plan, store.as_it_is(), columns, collapsed, order)
        return block, np.flatnonzero(status == OTHER_FORM), int(n_cut)

    def _tables(self, context: Context) -> SingleKleeneTables:
        on = self.form.on
        return SingleKleeneTables(
            each=independent_tables(self.plan, self.form.each, context.compiled),
            on=np.array([program for programs in on for program in programs], np.int32),
            on_starts=np.append(0, np.cumsum([len(programs) for programs in on])).astype(np.int64),
            least=self.form.least,
        )

    def _replay(self, context: Context, columns: SingleKleeneColumns, order: Int64Array) -> None:
        """Write what RETURN says of the match that is shown for each pair of `order`."""
        if not self.plan.returns or not len(order):
            return
        programs = self.plan.return_programs
        chains = [columns.longest(k) for k in order.tolist()]
        offsets = np.append(0, np.cumsum([len(rows) for rows, _ in chains]))
        columns.values[order] = replay_steps(
            context.replayed, context.store.columns, offsets, np.concatenate([rows for rows, _ in chains]),
            np.concatenate([steps for _, steps in chains]), programs,
        )  # fmt: skip


__all__ = ["SingleKleeneBlock", "SingleKleeneColumns", "SingleKleenePairs"]
