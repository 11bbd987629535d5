"""Matches of precise events: searched together for all deciding events of a step, paid for as if each were alone.

So what a query may list, and what is left out, is a function of the stream: the search for each event may take what the
account holds when it stands at that event. All are searched at once first. Where that has cost none of them more than
it is allowed, it stands; else those from the first on that costs more are searched again, one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from engine.events import BoolArray, Int64Array
from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.compile.types import Int32Array
from engine.kernels.pairs.paths import Paths
from engine.kernels.pairs.precise_search import WORK_PER_PAIR, list_precise, pair_work
from engine.kernels.pairs.status import COMPLETE, OUT_OF_CAPACITY
from engine.matching.output.listed import Cut
from engine.matching.pairs.context import Context, Groups
from engine.matching.pairs.shared_listing import ListedBlock, matches_of, ranks_of
from engine.matching.work_account import WorkAccount

_PAIRS_TOGETHER = 262_144
"""Pairs of a first and a last event that are searched together: bounded memory."""
_FEW_PAIRS = 32_768
"""So many are made at once, though less may be left than they take."""
_MOST_UNORDERED = 1 << 20
"""Matches that are found before the first ones in listing order are known, where first events decide."""
_PER_EVENT = 1
_PER_REPLAYED = 25
"""Steps for an event of a match: by itself, and where RETURN is evaluated at once."""


@dataclass(frozen=True)
class Deciding:
    """The events that decide the matches of a step: those that they end with, or begin with (`by_first`).

    rows: int64 (n,), ascending. n_pairs: int64 (n,), so many pairs at most each decides. pairs_of: from some of the
    rows to their pairs, int64 (m, 3): first, last, partition, by last event. has_pairs: which of some of the rows
    surely have any, bool.
    """

    rows: Int64Array
    n_pairs: Int64Array
    pairs_of: Callable[[Int64Array], Int64Array]
    has_pairs: Callable[[Int64Array], BoolArray]
    by_first: bool = False

    @cached_property
    def _ends(self) -> Int64Array:
        return np.cumsum(self.n_pairs)

    def part(self, start: int, most: int) -> int:
        """Where those from `start` on end that have so many pairs; one more than it at least."""
        before = int(self._ends[start - 1]) if start else 0
        return max(int(np.searchsorted(self._ends, before + most, side="right")), start + 1)


class _Found(NamedTuple):
    """See `precise_search.list_precise`; pairs: those of the paths, cut: bool, by pair."""

    pairs: Int64Array
    cut: BoolArray
    paths: Paths

    def of_pairs(self, kept: BoolArray) -> _Found:
        """The matches of the pairs whose mask is True."""
        return self._replace(paths=matches_of(self.paths, kept[self.paths.match_pair]))

    def compact(self) -> _Found:
        """The same without the pairs that have no match."""
        used, pair = np.unique(self.paths.match_pair, return_inverse=True)
        paths = self.paths._replace(match_pair=pair.astype(np.int64))
        return _Found(self.pairs[used], self.cut[used], paths)


@dataclass
class PreciseListing:
    """Lists matches of precise events in listing order; `is_full` is set when there may be more than `max_matches`.

    work: what pays for the search. per_match: what a match costs beside it. longest_only: OUTPUT NON_OVERLAPPING, see
    `precise_search.list_precise`; ends_ms: the end of the match chosen last by partition, brought up to date.
    """

    context: Context
    max_matches: int
    work: WorkAccount
    per_match: int = 0
    per_event: int = 0
    longest_only: bool = False
    ends_ms: dict[int, int] = field(default_factory=dict)
    is_full: bool = False
    cut_rows: list[int] = field(default_factory=list)
    """The deciding events whose search ended early."""
    _by_first: bool = False

    @property
    def cut(self) -> Cut:
        """The same as they are told, see `listed.Cut`."""
        store, rows = self.context.store, np.array(self.cut_rows, np.int64)
        numbers = store.position[rows]
        numbers = ~numbers if self._by_first else numbers
        return tuple(zip(numbers.tolist(), store.t_hi_ms[rows].tolist(), strict=True))

    def block(self, deciding: Deciding) -> ListedBlock:
        """The matches of all pairs, the first `max_matches` in listing order."""
        self._by_first = deciding.by_first
        found: list[_Found] = []
        most = max(self.max_matches, _MOST_UNORDERED) if deciding.by_first else self.max_matches
        start, n_rows = self._paid_from(deciding, 0), len(deciding.rows)
        while start < n_rows and not self.is_full:
            stop = deciding.part(start, min(max(self._expected(deciding, start), _FEW_PAIRS), _PAIRS_TOGETHER))
            pairs = deciding.pairs_of(deciding.rows[start:stop])
            if len(pairs):
                ranks = self._all_ranks if stop - start < n_rows else ranks_of(self.context.store, pairs, 0)
                for some in self._of_pairs(pairs, ranks, most, deciding.by_first):
                    found.append(some.compact())
                    most -= len(some.paths.match_node)
            start = self._paid_from(deciding, stop)
        return self._block(_joined(found))

    def _expected(self, deciding: Deciding, start: int) -> int:
        """How many pairs can be paid for from there on."""
        return self.work.expected_at(int(self._positions[deciding.rows[start]])) // WORK_PER_PAIR

    def _paid_from(self, deciding: Deciding, start: int) -> int:
        """The first of the deciding events, from `start` on, for which the account holds anything; those before it are
        cut if they have pairs, which are not made: they may be far more than all that can be paid for."""
        rows = deciding.rows[start:]
        if self.longest_only or not len(rows) or self.work.expected_at(int(self._positions[rows[0]])) > 0:
            return start
        balance, paid = self.work.account.tolist()
        paid_in = np.maximum.accumulate(np.maximum(self._positions[rows] + 1 - paid, 0))
        holds = balance + int(self.work.terms[2]) * paid_in > 0
        n = int(holds.argmax()) if holds.any() else len(rows)
        unpaid = rows[:n]
        has_pairs = deciding.has_pairs(unpaid)
        others = unpaid[~has_pairs]
        of = 0 if deciding.by_first else 1
        step = max(_PAIRS_TOGETHER // max(int(deciding.n_pairs[start : start + n].max()), 1), 1)
        with_pairs = [unpaid[has_pairs]]
        for at in range(0, len(others), step):
            with_pairs.append(deciding.pairs_of(others[at : at + step])[:, of])
        self.cut_rows += np.unique(np.concatenate(with_pairs)).tolist()
        return start + n

    @cached_property
    def _all_ranks(self) -> Int64Array:
        ids = self.context.store.ids.array()
        ranks = np.empty(len(ids), np.int64)
        ranks[np.asarray(pc.sort_indices(ids))] = np.arange(len(ids))
        return ranks

    # ----------------------------------------------------------------- search

    def _of_pairs(self, pairs: Int64Array, ranks: Int64Array, most: int, by_first: bool) -> list[_Found]:
        context, of = self.context, 0 if by_first else 1
        first, last, partition = pairs.T
        if by_first:
            pairs = np.ascontiguousarray(pairs[np.lexsort((last, partition, first))])
        elif not _are_in_order(last, partition, first):
            pairs = np.ascontiguousarray(pairs[np.lexsort((first, partition, last))])
        found: list[_Found] = []
        reads_last = context.compiled.reads_last
        budget = self.work.expected_at(int(self._positions[pairs[-1, of]]))
        tries = not self.cut_rows or budget > self.work.terms[0]  # else one of them is cut again, most likely
        is_shared = not by_first and not reads_last and not self.longest_only and pairs[0, 1] != pairs[-1, 1]
        if is_shared and tries and budget > 0:
            together = np.lexsort((pairs[:, 1], pairs[:, 0], pairs[:, 2]))
            shared = np.ascontiguousarray(pairs[together])
            status, some, work = self._search(shared, ranks, most, budget, by_first=False, alone=False, apart=False)
            if status == COMPLETE:
                by_pair = np.empty_like(work)
                by_pair[together] = work
                n_paid = int(pair_work(pairs, of, self._positions, by_pair, self.work.terms, self.work.account))
                if n_paid == len(pairs):
                    return [some]
                found = [some.of_pairs(shared[:, 1] < pairs[n_paid, 1])]
                most -= len(found[0].paths.match_node)
                pairs = pairs[n_paid:]
        status, some, _ = self._search(
            pairs, ranks, most, 0, by_first=by_first, alone=reads_last or not by_first, apart=True
        )
        self.is_full |= status == OUT_OF_CAPACITY
        self.cut_rows += np.unique(pairs[some.cut, of]).tolist()
        return [*found, some]

    def _search(
        self, pairs: Int64Array, ranks: Int64Array, most: int, budget: int, *, by_first: bool, alone: bool, apart: bool
    ) -> tuple[int, _Found, Int64Array]:
        context = self.context
        ends_ms = np.full(context.store.n_partitions + 1 if self.longest_only else 0, -(2**62), np.int64)
        if self.longest_only:
            for partition, end_ms in self.ends_ms.items():
                ends_ms[partition] = end_ms
        denied, denied_starts = context.denied
        status, paths, work, cut = list_precise(
            context.compiled.tables, context.events, context.masks.begin, context.masks.take,
            context.members.rows, context.members.starts, denied, denied_starts, pairs, self._positions, ranks,
            alone, by_first, self.longest_only, ends_ms, apart, self.work.terms, self.work.account, budget,
            self.per_match, self._per_event, most,
        )  # fmt: skip
        if self.longest_only:
            chosen = np.flatnonzero(ends_ms > -(2**62)).tolist()
            self.ends_ms.update({partition: int(ends_ms[partition]) for partition in chosen})
        return status, _Found(pairs, cut, paths), work

    @cached_property
    def _per_event(self) -> int:
        return self.per_event + (_PER_REPLAYED if self.context.plan.returns else _PER_EVENT)

    @property
    def _positions(self) -> Int64Array:
        return self.context.store.position

    # ------------------------------------------------------------------- rows

    def _block(self, found: _Found) -> ListedBlock:
        context, store, pairs = self.context, self.context.store, found.pairs
        own = pairs[found.paths.match_pair]
        order = np.lexsort((own[:, 2], own[:, 0], own[:, 1]))
        if len(order) > self.max_matches:
            self.is_full = True
            order = order[: self.max_matches]
        block = ListedBlock(
            plan=context.plan,
            source=store.as_it_is(),
            pairs=pairs,
            first_lo_ms=store.t_lo_ms[pairs[:, 0]],
            last_lo_ms=store.t_lo_ms[pairs[:, 1]],
            last_hi_ms=store.t_hi_ms[pairs[:, 1]],
            paths=matches_of(found.paths, order),
            confidence=np.ones(len(order)),
            values=np.empty((len(order), 0)),
            is_cut=found.cut,
        )
        return block.with_values(context.replayed, store.columns)


def _are_in_order(*columns: Int64Array) -> bool:
    """Whether rows ascend by the first of these columns, those that are equal in it by the next, and so on."""
    tied: BoolArray = np.ones(max(len(columns[0]) - 1, 0), np.bool_)
    for column in columns:
        step = np.diff(column)
        if (tied & (step < 0)).any():
            return False
        tied &= step == 0
    return True


def _joined(parts: list[_Found]) -> _Found:
    """The matches of all parts."""
    if len(parts) == 1:
        return parts[0]
    nothing, numbers = np.empty(0, np.int64), np.empty(0, np.int32)
    paths = [part.paths for part in parts]
    n_nodes = np.cumsum([0, *(len(part.node_row) for part in paths)])
    n_pairs = np.cumsum([0, *(len(part.pairs) for part in parts)])

    def shifted(of: Int32Array, by: int) -> Int32Array:
        return np.where(of >= 0, of + by, -1).astype(np.int32)

    return _Found(
        np.concatenate([np.empty((0, 3), np.int64), *(part.pairs for part in parts)]),
        np.concatenate([np.empty(0, np.bool_), *(part.cut for part in parts)]),
        Paths(
            np.concatenate([numbers, *(shifted(part.node_parent, n) for part, n in zip(paths, n_nodes, strict=False))]),
            np.concatenate([nothing, *(part.node_row for part in paths)]),
            np.concatenate([numbers, *(part.node_step for part in paths)]),
            np.concatenate([numbers, *(shifted(part.match_node, n) for part, n in zip(paths, n_nodes, strict=False))]),
            np.concatenate([nothing, *(part.match_pair + n for part, n in zip(paths, n_pairs, strict=False))]),
        ),
    )


def most_pairs(
    of: Int64Array, times_ms: Int64Array, partition: Int64Array, others: Groups, from_ms: int, to_ms: int
) -> Int64Array:
    """How many of the other rows are within [t + from_ms, t + to_ms] of each row's time t, in its partition or in all:
    int64 (n,)."""
    n_groups = len(others.starts) - 2
    if not len(others.rows) or not len(of):
        return np.zeros(len(of), np.int64)
    least_ms = min(int(times_ms[others.rows].min()), int(times_ms[of].min()))
    span_ms = max(int(times_ms[others.rows].max()), int(times_ms[of].max())) - least_ms + 2
    t = times_ms[of] - least_ms
    low, high = np.maximum(t + max(from_ms, -span_ms), 0), np.minimum(t + min(to_ms, span_ms), span_ms - 1)
    groups = np.repeat(np.arange(-1, n_groups), np.diff(others.starts))
    codes = (groups + 1) * span_ms + times_ms[others.rows] - least_ms

    def within(group: Int64Array | int) -> Int64Array:
        found: Int64Array = np.searchsorted(codes, (group + 1) * span_ms + high, "right") - np.searchsorted(
            codes, (group + 1) * span_ms + low
        )
        return found

    common = within(BROADCAST)
    own = within(partition[of])
    return np.where(partition[of] == BROADCAST, len(others.rows) + n_groups * common, own + common)


__all__ = ["Deciding", "PreciseListing", "most_pairs"]
