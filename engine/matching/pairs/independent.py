"""Pairs of one query whose Kleene events are selected independently: counted or listed by a few kernel calls.

The part of `PostponedRuntime` that serves plans of `engine.plan.sequence.independent` as long as all kept events are
precise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow.compute as pc

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.compile.types import Int32Array
from engine.kernels.pairs.independent import MOST, IndependentTables, replay_all
from engine.kernels.pairs.independent_chains import find_pairs, longest_path
from engine.kernels.pairs.independent_counting import count_pairs
from engine.kernels.pairs.independent_listing import list_pairs
from engine.language import ast
from engine.matching.output.match_row import Binding
from engine.matching.output.reading.arrow import capacity_for, ranges, with_ends
from engine.matching.output.reading.match_blocks import MatchBlock
from engine.matching.pairs.counted_rows import OneKleeneBlock
from engine.matching.pairs.plan_arrays import PostponedTables
from engine.plan.sequence.independent import IndependentForm
from engine.plan.sequence.model import SequencePlan
from engine.stream.buffers import own_pool
from engine.stream.early_filter import Masks
from engine.stream.intake import Intake
from engine.stream.store import EventStore

_PAIRS = 65_536
_EVENTS = 1 << 24
"""Pairs that are looked at together, and events of theirs at most, but for those of one last event: their rows are
bounded memory."""

BLOCK_MATCHES = 262_144
"""Matches of a block."""

_FEW_MATCHES = 8_192
"""Blocks with fewer are copied from memory that the next one is made in: new memory for as many as there may be would
be mapped and given back each time. What is kept of a block is no larger than it is."""

_NO_RANKS: Int64Array = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class IndependentColumns:
    """What `count_pairs` found of n pairs, see there; implements `counted_rows.PairColumns`.

    rows: int64 (n, 7): first, last, partition, count, exact, time of the first event, of the last. offsets: int64
    (2, n + 1) into longest and used, int64: the events of the match that is shown, and those between the ends that are
    in matches. values: float64 (n, n_returns).
    """

    rows: Int64Array
    offsets: Int64Array
    longest: Int64Array
    used: Int64Array
    values: Float64Array

    @property
    def pairs(self) -> Int64Array:
        return self.rows[:, :3]

    @property
    def counts(self) -> Int64Array:
        return self.rows[:, 3]

    @property
    def first_lo_ms(self) -> Int64Array:
        return self.rows[:, 5]

    @property
    def last_lo_ms(self) -> Int64Array:
        return self.rows[:, 6]

    @property
    def last_hi_ms(self) -> Int64Array:
        return self.rows[:, 6]

    @cached_property
    def complete(self) -> BoolArray:
        return self.counts < MOST

    @cached_property
    def exact(self) -> BoolArray:
        return self.rows[:, 4] > 0

    @cached_property
    def confidences(self) -> Float64Array:
        return np.ones(len(self.rows))


class IndependentBlock(OneKleeneBlock[IndependentColumns]):
    """Rows of COLLAPSED or COUNT over precise events."""

    @property
    def _exact(self) -> BoolArray:
        return self.columns.exact

    def _longest_of(self, k: int) -> Int64Array:
        c = self.columns
        return c.longest[c.offsets[0, k] : c.offsets[0, k + 1]]

    def _used_of(self, k: int) -> Int64Array:
        c = self.columns
        return c.used[c.offsets[1, k] : c.offsets[1, k + 1]]

    def _events(self, k: int) -> tuple[Int64Array, Int64Array]:
        return self._longest_of(k), self._used_of(k)

    def _bindings(self, k: int, texts: Mapping[int, str]) -> Mapping[str, Binding]:
        return self._bound(self._longest_of(k).tolist(), texts)

    def _candidates(self, k: int, texts: Mapping[int, str]) -> Mapping[str, tuple[str, ...]]:
        first, last = self.columns.pairs[k, :2].tolist()
        return self._bound([first, *self._used_of(k).tolist(), *([] if first == last else [last])], texts)

    def _shown(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        c = self.columns
        bounds, at = ranges(c.offsets[0, numbers], c.offsets[0, numbers + 1])
        return self._with_steps(bounds, c.longest[at])

    def _used(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        c = self.columns
        first, last = c.pairs[numbers, 0], c.pairs[numbers, 1]
        bounds, at = ranges(c.offsets[1, numbers], c.offsets[1, numbers + 1])
        return self._with_steps(*with_ends(first, last, first == last, bounds, c.used[at]))


class IndependentPairs:
    """Finds the pairs that new rows of a store decide, and their matches."""

    def __init__(self, plan: SequencePlan, form: IndependentForm, compiled: PostponedTables) -> None:
        self.plan = plan
        self.form = form
        self._tables = independent_tables(plan, form, compiled)
        self._replay = compiled.tables._replace(caps=np.full_like(compiled.tables.caps, np.inf))
        self._programs = plan.return_programs
        self.is_cut = False
        self._n_listed = 0  # matches of the last block

    def counted(self, intake: Intake, start: int, most_events: int | None = None) -> Iterator[IndependentBlock]:
        """A row for each pair that ends in the rows from `start` on and has matches, in blocks of bounded size; where
        they have more than `most_events` events, `is_cut` is set and the other last events are left out."""
        n_events, self.is_cut = 0, False
        store, masks, before = intake.store, intake.masks, intake.predecessors()
        end = len(store)
        collapsed = self.plan.output is ast.Output.COLLAPSED
        together = min(_PAIRS, _EVENTS // max(end, 1) + 1)
        while start < end:
            rows, offsets, longest, used, start = count_pairs(
                self._tables, store.columns, masks.begin, masks.take, store.t_lo_ms, store.partition, before, start,
                end, together, collapsed,
            )  # fmt: skip
            if len(rows):
                columns = IndependentColumns(rows, offsets, longest, used, self._values(store, offsets[0], longest))
                every = np.arange(len(rows))
                yield IndependentBlock(self.plan, store.as_it_is(), columns, collapsed, every, self.form.kleene)
            n_events += len(longest) + len(used)
            if most_events is not None and n_events > most_events and masks.ends(end)[start:].any():
                self.is_cut = True
                return

    def listed(self, intake: Intake, start: int, *, by_id: bool, most: int = BLOCK_MATCHES) -> Iterator[MatchBlock]:
        """The matches that end in the rows from `start` on in blocks of at most `most`; `by_id`: those of a pair in the
        order of their ids."""
        store, masks, before = intake.store, intake.masks, intake.predecessors()
        end = len(store)
        while start < end:
            pairs, start = find_pairs(
                store.t_lo_ms, store.partition, masks.begin, masks.take, before, self.form.kleene, self.plan.within_ms,
                start, end, _PAIRS,
            )  # fmt: skip
            if len(pairs):
                yield from self._listed(store, masks, before, pairs, by_id=by_id, most=min(most, BLOCK_MATCHES))

    def _listed(
        self, store: EventStore, masks: Masks, before: Int64Array, pairs: Int64Array, *, by_id: bool, most: int
    ) -> Iterator[MatchBlock]:
        ranks = self._ranks(store, pairs) if by_id else _NO_RANKS
        longest = longest_path(before, pairs)
        cursor, path = np.zeros(2, np.int64), np.empty((3, longest), np.int64)
        lo_ms, hi_ms = store.t_lo_ms[pairs[:, 0]], store.t_hi_ms[pairs[:, 1]]
        while cursor[0] < len(pairs):
            capacity, is_small = most + 2 * longest + 4, self._n_listed < _FEW_MATCHES
            node_parent, node_row, match_node, match_pair = (
                _again(capacity, most) if is_small else _anew(capacity, most)
            )
            n_nodes, n = list_pairs(
                self._tables, store.columns, masks.begin, masks.take, before, pairs, ranks, cursor, path,
                node_parent, node_row, match_node, match_pair,
            )  # fmt: skip
            if not n:
                continue
            self._n_listed = n
            if is_small:
                node_parent, node_row = node_parent[:n_nodes].copy(), node_row[:n_nodes].copy()
                match_node, match_pair = match_node[:n].copy(), match_pair[:n].copy()
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
        """For each row the position of its id among those of the pairs' rows."""
        low, high = int(pairs[:, 0].min()), int(pairs[:, 1].max()) + 1
        ranks = np.empty(high, np.int64)
        ranks[low + np.asarray(pc.sort_indices(store.ids.whole().slice(low, high - low)))] = np.arange(high - low)
        return ranks


def _again(n_nodes: int, n_matches: int) -> tuple[Int32Array, Int64Array, Int32Array, Int32Array]:
    """Memory for a trie, see `list_pairs`: that of the one before, where nobody has it any longer."""
    pool = own_pool()
    return pool.codes(n_nodes), pool.integers(n_nodes), pool.codes(n_matches), pool.codes(n_matches)


def _anew(n_nodes: int, n_matches: int) -> tuple[Int32Array, Int64Array, Int32Array, Int32Array]:
    """As `_again`, of its own."""
    return (
        capacity_for(np.int32, n_nodes),
        capacity_for(np.int64, n_nodes),
        capacity_for(np.int32, n_matches),
        capacity_for(np.int32, n_matches),
    )


def independent_tables(plan: SequencePlan, form: IndependentForm, compiled: PostponedTables) -> IndependentTables:
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
