"""Pairs of one query whose Kleene events are selected independently: counted or listed by a few kernel calls.

The part of `PostponedRuntime` that serves plans of `engine.plan.independent` as long as all kept events are precise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from engine.events import Float64Array, Int64Array
from engine.kernels.independent import MOST, IndependentTables, chain_pairs, count_pairs, replay_all
from engine.kernels.independent_listing import list_pairs, longest_path
from engine.language import ast
from engine.matching.early_filter import Masks
from engine.matching.match_blocks import MatchBlock, PairBlock, PairColumns
from engine.matching.postponed_tables import PostponedTables
from engine.matching.store import EventStore
from engine.plan.independent import IndependentForm
from engine.plan.model import Plan

_PAIRS = 65_536
"""Pairs that are looked at together: their rows are bounded memory."""

BLOCK_MATCHES = 262_144
"""Matches of a block."""

_NO_RANKS: Int64Array = np.empty(0, np.int64)


class IndependentPairs:
    """Finds the pairs that new rows of a store decide, and their matches."""

    def __init__(self, plan: Plan, form: IndependentForm, compiled: PostponedTables) -> None:
        self.plan = plan
        self.form = form
        self._tables = independent_tables(plan, form, compiled)
        self._replay = compiled.tables._replace(caps=np.full_like(compiled.tables.caps, np.inf))
        self._programs = np.array([value.program for value in plan.returns], np.int64)
        self._shared_first = plan.steps[0].event_type in plan.broadcast
        self._shared_member = plan.steps[form.kleene].event_type in plan.broadcast
        self._forget()

    def _forget(self) -> None:
        self._heads: Int64Array = np.full((2, 64), -1, np.int64)
        self._before: Int64Array = np.full((2, 64), -1, np.int64)
        self._n_rows = 0

    def enter_again(self) -> None:
        """The rows of the store have other numbers: all are entered anew with the next ones."""
        self._forget()

    def pairs(self, store: EventStore, masks: Masks, start: int) -> Iterator[Int64Array]:
        """The pairs that end in the rows from `start` on, see `chain_pairs`, in parts of bounded size."""
        end = len(store)
        self._reserve(end, store.n_partitions)
        if self._n_rows < start:
            self._enter(store, masks, start, -1)
        while self._n_rows < end:
            found = self._enter(store, masks, end, self.plan.within_ms)
            if len(found):
                yield found

    def counted(self, store: EventStore, masks: Masks, pairs: Int64Array) -> PairBlock:
        """A row for each pair that has matches."""
        rows, offsets, longest, used = count_pairs(
            self._tables, store.columns, masks.begin, masks.take, self._before, pairs
        )
        columns = PairColumns(
            rows=rows,
            first_lo_ms=store.t_lo_ms[rows[:, 0]],
            last_hi_ms=store.t_hi_ms[rows[:, 1]],
            offsets=offsets,
            longest=longest,
            used=used,
            values=self._values(store, offsets[0], longest),
        )
        collapsed = self.plan.output is ast.Output.COLLAPSED
        return PairBlock(self.plan, store.as_it_is(), self.form.kleene, columns, collapsed, MOST, 0, len(rows))

    def listed(
        self, store: EventStore, masks: Masks, pairs: Int64Array, *, by_id: bool, most: int = BLOCK_MATCHES
    ) -> Iterator[MatchBlock]:
        """The matches of the pairs in blocks of at most `most`; `by_id`: those of a pair in the order of their ids."""
        ranks = self._ranks(store, pairs) if by_id else _NO_RANKS
        longest = longest_path(self._before, pairs)
        cursor, path = np.zeros(2, np.int64), np.empty((3, longest), np.int64)
        most = min(most, BLOCK_MATCHES)
        lo_ms, hi_ms = store.t_lo_ms[pairs[:, 0]], store.t_hi_ms[pairs[:, 1]]
        while cursor[0] < len(pairs):
            room = most + 2 * longest + 4
            node_parent, node_row = np.empty(room, np.int32), np.empty(room, np.int64)
            match_node, match_pair = np.empty(most, np.int32), np.empty(most, np.int32)
            n_nodes, n = list_pairs(
                self._tables, store.columns, masks.begin, masks.take, self._before, pairs, ranks, cursor, path,
                node_parent, node_row, match_node, match_pair,
            )  # fmt: skip
            if not n:
                continue
            block = MatchBlock(
                plan=self.plan,
                source=store.as_it_is(),
                kleene=self.form.kleene,
                node_parent=node_parent[:n_nodes],
                node_row=node_row[:n_nodes],
                match_node=match_node[:n],
                match_pair=match_pair[:n],
                pairs=pairs,
                pair_lo_ms=lo_ms,
                pair_hi_ms=hi_ms,
                values=np.empty((n, 0)),
            )
            yield replace(block, values=self._values(store, *block.chains)) if len(self._programs) else block

    def _values(self, store: EventStore, offsets: Int64Array, chain: Int64Array) -> Float64Array:
        if not len(self._programs):
            return np.empty((len(offsets) - 1, 0))
        values: Float64Array = replay_all(self._replay, store.columns, offsets, chain, self.form.kleene, self._programs)
        return values

    def _ranks(self, store: EventStore, pairs: Int64Array) -> Int64Array:
        """For each row the place of its id among those of the pairs' rows."""
        low, high = int(pairs[:, 0].min()), int(pairs[:, 1].max()) + 1
        ranks = np.empty(high, np.int64)
        ranks[low + np.asarray(pc.sort_indices(store.ids.whole().slice(low, high - low)))] = np.arange(high - low)
        return ranks

    def _enter(self, store: EventStore, masks: Masks, end: int, within_ms: int) -> Int64Array:
        pairs, self._n_rows = chain_pairs(
            store.t_lo_ms, store.partition, masks.begin, masks.take, self._heads, self._before, self.form.kleene,
            self._shared_first, self._shared_member, self._n_rows, end, within_ms, _PAIRS,
        )  # fmt: skip
        found: Int64Array = pairs
        return found

    def _reserve(self, n_rows: int, n_partitions: int) -> None:
        if self._before.shape[1] < n_rows:
            self._before = _grown(self._before, n_rows)
        if self._heads.shape[1] < n_partitions + 1:
            self._heads = _grown(self._heads, n_partitions + 1)


def _grown(table: Int64Array, least: int) -> Int64Array:
    grown = np.full((2, max(least, 2 * table.shape[1])), -1, np.int64)
    grown[:, : table.shape[1]] = table
    return grown


def independent_tables(plan: Plan, form: IndependentForm, compiled: PostponedTables) -> IndependentTables:
    """The form as the kernels take it."""

    def numbers(programs: tuple[int, ...]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return np.array(programs, np.int32)

    return IndependentTables(
        code=form.code,
        bounds=form.bounds,
        constants=compiled.tables.constants,
        on_first=numbers(form.on_first),
        on_last=numbers(form.on_last),
        begin=numbers(form.begin),
        take=numbers(form.take),
        each=numbers(form.each),
        properties=np.array(form.properties, np.int32).reshape(-1, 4),
        sizes=np.array(form.sizes, np.bool_),
        kleene=form.kleene,
        n_steps=form.n_steps,
        within_ms=plan.within_ms,
        varies=form.varies,
    )


__all__ = ["BLOCK_MATCHES", "IndependentPairs", "independent_tables"]
