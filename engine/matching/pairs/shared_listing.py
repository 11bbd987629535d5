"""Matches of many pairs at once: the pairs of one first event are searched together, rows are made when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.pairs.pairs import by_first
from engine.kernels.pairs.paths import Paths, replay_steps, spell_steps
from engine.kernels.pairs.shared_search import list_shared
from engine.kernels.pairs.state import Tables
from engine.kernels.pairs.status import OUT_OF_BUDGET, OUT_OF_CAPACITY, REFUSED_SKEW
from engine.matching.output.forms import RANK_STEP, ranked_confidence
from engine.matching.output.match_row import MatchRow
from engine.matching.output.reading.arrow import coded, lists_by_step
from engine.matching.output.reading.match_blocks import OneByOne, values_of
from engine.matching.pairs.context import Context, refused_skew
from engine.matching.work_account import WorkAccount
from engine.plan.sequence.model import SequencePlan
from engine.stream.store import EventStore, StoredEvents
from engine.stream.values import column_of

_PARTS = 8
"""Into so many the last events are divided when there is no room for the matches of all."""

_BEFORE_SEARCH = 6
"""Steps in the time that a pair takes before its search: it is found, and put beside those of its first event."""
_PER_PAIR = 25
"""Steps in the time that a pair takes before its search, where it is searched again."""

Parts = Sequence[Callable[[], Int64Array]]
"""Pairs by last event, int64 (n, 3): first, last, partition; each part is found when it is called, and is later in
listing order than those before it."""

_MOST_ROUNDS = 64
"""Searches for the most confident matches, each with a higher threshold."""


@dataclass(frozen=True, eq=False)
class ListedBlock(OneByOne):
    """Matches as paths of a trie, in listing order.

    pairs: int64 (n_pairs, 3); first_lo_ms, last_lo_ms, last_hi_ms: int64 (n_pairs,), their times. values: float64
    (n, n_returns), NaN for NULL, strings as codes. is_cut: bool (n_pairs,), of such a pair matches may be missing;
    without entries: of none.
    """

    plan: SequencePlan
    source: StoredEvents
    pairs: Int64Array
    first_lo_ms: Int64Array
    last_lo_ms: Int64Array
    last_hi_ms: Int64Array
    paths: Paths
    confidence: Float64Array
    values: Float64Array
    is_cut: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))

    def __len__(self) -> int:
        return len(self.paths.match_node)

    def chosen(self, numbers: slice | Int64Array) -> ListedBlock:
        """See `OneByOne`."""
        return replace(
            self,
            paths=matches_of(self.paths, numbers),
            confidence=self.confidence[numbers],
            values=self.values[numbers],
        )

    @property
    def match_pair(self) -> Int64Array:
        """The pair of each match, int64 (n,)."""
        return self.paths.match_pair

    @cached_property
    def chains(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """offsets int64 (n + 1,), rows and steps int64 (m,): the events of match k, and the component of each, are
        those of offsets[k] : offsets[k + 1]."""
        first, last = self.pairs[self.match_pair, 0], self.pairs[self.match_pair, 1]
        offsets, rows, steps = spell_steps(
            self.paths.node_parent, self.paths.node_row, self.paths.node_step, self.paths.match_node,
            np.where(first == last, -1, last), self.plan.n_steps - 1,
        )  # fmt: skip
        return offsets, rows, steps

    def with_values(self, tables: Tables, columns: Float64Array) -> ListedBlock:
        """The same with the values of RETURN."""
        if not self.plan.returns:
            return self
        programs = self.plan.return_programs
        return replace(self, values=replay_steps(tables, columns, *self.chains, programs))

    @property
    def is_columnar(self) -> bool:
        """Yes."""
        return True

    def to_arrow(self) -> pa.Table:
        """key, first_lo_ms, last_hi_ms, bindings, confidence, values: one row per match; see `rows.rows_table`."""
        offsets, rows, steps = self.chains
        dictionary, codes, _ = coded(self.source.known, rows)
        columns = {
            "key": self.source.keys_as_arrow(self.pairs[self.match_pair, 2]),
            "first_lo_ms": column_of(self.first_lo_ms[self.match_pair]),
            "last_hi_ms": column_of(self.last_hi_ms[self.match_pair]),
            "bindings": lists_by_step(dictionary, [s.variable for s in self.plan.steps], offsets, steps, codes),
            "confidence": column_of(self.confidence),
            "values": self.source.values_as_arrow(self.plan.returns, self.values),
        }
        if self.is_cut.any():
            columns["capped"] = pa.array(self.is_cut[self.match_pair])
        return pa.table(columns)

    def _row(self, k: int) -> MatchRow:
        pair = int(self.match_pair[k])
        first, last, partition = self.pairs[pair].tolist()
        texts = self._texts
        bound: list[list[str]] = [[] for _ in self.plan.steps]
        if last != first:
            bound[-1].append(texts[last])
        paths = self.paths
        node = int(paths.match_node[k])
        while node >= 0:
            bound[paths.node_step[node]].append(texts[int(paths.node_row[node])])
            node = int(paths.node_parent[node])
        lo_ms, hi_ms = int(self.last_lo_ms[pair]), int(self.last_hi_ms[pair])
        return MatchRow(
            query=self.plan.name,
            key=self.source.key_of(partition),
            first_lo_ms=int(self.first_lo_ms[pair]),
            last_hi_ms=hi_ms,
            last_lo_ms=None if lo_ms == hi_ms else lo_ms,
            bindings={step.variable: tuple(reversed(bound[step.position])) for step in self.plan.steps},
            confidence=float(self.confidence[k]),
            values=values_of(self.plan, self.source, self.values[k]),
            capped=len(self.is_cut) > 0 and bool(self.is_cut[pair]),
        )

    @cached_property
    def _texts(self) -> dict[int, str]:
        """The ids of all events of the block."""
        return self.source.texts(np.concatenate((self.paths.node_row, self.pairs[np.unique(self.match_pair), 1])))


def matches_of(paths: Paths, numbers: slice | Int64Array | BoolArray) -> Paths:
    """Some of the matches, among the same nodes."""
    return paths._replace(match_node=paths.match_node[numbers], match_pair=paths.match_pair[numbers])


class Ranks:
    """`ranks_of` for many searches of one store: once as many rows have been sorted as it has, all of them are."""

    def __init__(self, store: EventStore, longest_ms: int) -> None:
        self._store = store
        self._longest_ms = longest_ms
        self._n_sorted = 0
        self._of_all: Int64Array | None = None

    def of(self, pairs: Int64Array) -> Int64Array:
        """For each row around a pair a number that orders it by its id, (n_rows,)."""
        if self._of_all is not None:
            return self._of_all
        if self._n_sorted > len(self._store):
            ids = self._store.ids.array()
            self._of_all = np.empty(len(ids), np.int64)
            self._of_all[np.asarray(pc.sort_indices(ids))] = np.arange(len(ids))
            return self._of_all
        ranks = ranks_of(self._store, pairs, self._longest_ms)
        self._n_sorted += int(ranks.max(initial=0)) + 1
        return ranks


@dataclass
class SharedListing:
    """Lists the matches of pairs of a plan without negations; `unfinished` is set when a bound stopped it.

    max_matches: of one call. work: what pays for the search. free_steps: int64 (1,), what need not be paid for, all
    searches of a step share it. ranks: of the events of the context. per_match: what a match costs.
    """

    context: Context
    threshold: float
    max_matches: int
    work: WorkAccount
    free_steps: Int64Array
    ranks: Ranks
    per_match: int = 0
    unfinished: bool = False

    def blocks(self, parts: Parts) -> list[ListedBlock]:
        """The first `max_matches` matches of the pairs in listing order: by last event, first event, ids."""
        found: list[ListedBlock] = []
        left = self.max_matches
        for part in parts:
            if self._is_spent:
                self.unfinished = True
                break
            some, is_full = self._blocks(part(), left)
            found += some
            left -= sum(map(len, some))
            if is_full:
                break
        return found

    @property
    def _is_spent(self) -> bool:
        """Whether no search will be paid for."""
        return not self.work.left and self.free_steps[0] <= 0

    def _blocks(self, pairs: Int64Array, left: int) -> tuple[list[ListedBlock], bool]:
        """The first so many matches of some pairs; whether there are more."""
        found: list[ListedBlock] = []
        ranks = self.ranks.of(pairs)
        waiting = [pairs]
        while waiting and len(pairs):
            some = waiting.pop()
            block, is_full = self._search(some, ranks, left, self.threshold)
            lasts = np.unique(some[:, 1])
            if is_full and len(lasts) > 1 and self.work.left:
                # Those of the earlier last events come first: as many as there is room for.
                self.work.settle(_PER_PAIR * (1 + int(block.match_pair.max(initial=0))))
                parts = [own for own in np.array_split(lasts, _PARTS) if len(own)]
                waiting += [some[(some[:, 1] >= own[0]) & (some[:, 1] <= own[-1])] for own in reversed(parts)]
                continue
            found.append(block)
            left -= len(block)
            if is_full:
                self.unfinished = True
                return found, True
        return found, False

    def best(self, parts: Parts, k: int, least: float) -> list[ListedBlock]:
        """The k most confident matches of the pairs that reach `least` too, and others: of each part most confident
        first, at a tie the first in listing order."""
        found: list[ListedBlock] = []
        confidence = np.empty(0)
        for part in parts:
            if self._is_spent:
                self.unfinished = True
                break
            some = self._best(part(), k, least)
            confidence = np.sort(np.concatenate((confidence, *(ranked_confidence(block.confidence) for block in some))))
            if len(confidence) >= k:
                confidence = confidence[-k:]
                least = max(least, float(confidence[0]) - RANK_STEP)
            found += some
        return found

    def _best(self, pairs: Int64Array, k: int, least: float) -> list[ListedBlock]:
        """The k most confident matches of some pairs, most confident first.

        Where there is no room for all the threshold rises above the k-th best of those that were found.
        """
        ranks = self.ranks.of(pairs)
        threshold = max(self.threshold, least)
        level = None  # the confidence above which there are fewer than k
        for _ in range(_MOST_ROUNDS if len(pairs) else 0):
            block, is_full = self._search(pairs, ranks, max(self.max_matches, k), threshold)
            chosen = block.chosen(np.argsort(-ranked_confidence(block.confidence), kind="stable")[:k])
            if not is_full:
                return [chosen] if level is None else [chosen, *self._of_level(pairs, level, k, k - len(chosen))]
            level = float(chosen.confidence[-1])
            threshold = level + RANK_STEP
            if threshold >= 1.0:
                return self._of_level(pairs, level, k, k)
        self.unfinished |= level is not None
        return [] if level is None else [chosen]

    def _of_level(self, pairs: Int64Array, level: float, k: int, n: int) -> list[ListedBlock]:
        """The first n matches in listing order that are so confident, where fewer than k are more so."""
        listing = replace(self, threshold=max(self.threshold, level - RANK_STEP), max_matches=k, unfinished=False)
        found: list[ListedBlock] = []
        for block in listing.blocks([lambda: pairs]):
            own = block.chosen(np.flatnonzero(block.confidence <= level + RANK_STEP)[: max(n, 0)])
            found, n = [*found, own], n - len(own)
        return found

    def _search(
        self, pairs: Int64Array, ranks: Int64Array, capacity: int, threshold: float
    ) -> tuple[ListedBlock, bool]:
        context, store = self.context, self.context.store
        self._pay_for(len(pairs))
        ordered = by_first(pairs, len(store), store.n_partitions)
        status, paths, confidence = list_shared(
            context.compiled.tables, context.events, context.masks.begin, context.masks.take, context.members.rows,
            context.members.starts, ordered, ranks, context.longest_ms, threshold, context.compiled.reads_last,
            self.work.terms[0], self.work.account, self.free_steps, self.per_match, capacity,
        )  # fmt: skip
        if status == REFUSED_SKEW:
            raise refused_skew(context.plan)
        self.unfinished |= status == OUT_OF_BUDGET
        used, match_pair = np.unique(paths.match_pair, return_inverse=True)
        paths = paths._replace(match_pair=match_pair)
        ordered = ordered[used]
        own = ordered[match_pair]
        order = np.lexsort((own[:, 2], own[:, 0], own[:, 1]))
        block = ListedBlock(
            plan=context.plan,
            source=store.as_it_is(),
            pairs=ordered,
            first_lo_ms=store.t_lo_ms[ordered[:, 0]],
            last_lo_ms=store.t_lo_ms[ordered[:, 1]],
            last_hi_ms=store.t_hi_ms[ordered[:, 1]],
            paths=matches_of(paths, order),
            confidence=confidence[order],
            values=np.empty((len(order), 0)),
        )
        return block.with_values(context.replayed, store.columns), status == OUT_OF_CAPACITY

    def _pay_for(self, n_pairs: int) -> None:
        """What pairs cost before their search: from what need not be paid for, as far as that goes."""
        cost = _BEFORE_SEARCH * n_pairs
        free = min(cost, max(int(self.free_steps[0]), 0))
        self.free_steps[0] -= free
        self.work.settle(cost - free)


def ranks_of(store: EventStore, pairs: Int64Array, longest_ms: int) -> Int64Array:
    """For each row around a pair the position of its id among those, for all others 0."""
    n = len(store)
    ranks = np.zeros(n, np.int64)
    rows = _rows_around(store, pairs, longest_ms)
    if len(rows):
        ids = store.ids.whole().take(pa.array(rows))
        ranks[rows[np.asarray(pc.sort_indices(ids))]] = np.arange(len(rows))
    return ranks


def _rows_around(store: EventStore, pairs: Int64Array, longest_ms: int) -> Int64Array:
    """The rows that may be in a match of the pairs."""
    n = len(store)
    lo_ms = store.t_lo_ms[:n]
    begins = np.searchsorted(lo_ms, lo_ms[pairs[:, 0]] - longest_ms)
    ends = np.searchsorted(lo_ms, store.t_hi_ms[pairs[:, 1]], side="right")
    changes = np.bincount(begins, minlength=n + 1) - np.bincount(ends, minlength=n + 1)
    return np.flatnonzero(np.cumsum(changes)[:n])


__all__ = ["ListedBlock", "Parts", "Ranks", "SharedListing", "matches_of", "ranks_of"]
