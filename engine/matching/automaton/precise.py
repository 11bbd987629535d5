"""The matches of an automaton among precise events: listed from their last events, or followed as runs.

What one event may cost is paid from the query's account (`engine.matching.work_account`), so that what is left out does
not depend on the batches that the stream came in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from engine.events import BoolArray, Int64Array
from engine.kernels.automaton import order as automaton_order
from engine.kernels.automaton import runs as automaton_runs
from engine.kernels.automaton import search as automaton_search
from engine.kernels.automaton.found import Found
from engine.kernels.automaton.tables import Rows, Tables
from engine.kernels.columns.partitions import BROADCAST
from engine.matching.automaton.memory import Pending, RunsMemory, empty_matches, grown, taken
from engine.matching.automaton.shed_runs import ShedRuns
from engine.matching.output.listed import Cut
from engine.matching.work_account import WorkAccount
from engine.plan.automaton.model import AutomatonPlan
from engine.stream.early_filter import Masks
from engine.stream.store import EventStore

_NO_RANKS = np.empty(0, np.int64)


class Listed(NamedTuple):
    """Matches in listing order, each binding once, and the last events of which some are missing."""

    found: Pending
    cut: Cut


class PreciseSearch:
    """Searches in the store of one automaton plan. `after`: pays for what is negated at the end of a pattern."""

    def __init__(
        self,
        plan: AutomatonPlan,
        store: EventStore,
        masks: Masks,
        tables: Tables,
        work: WorkAccount,
        after: WorkAccount,
    ) -> None:
        self._plan = plan
        self._store = store
        self._masks = masks
        self._tables = tables
        self._work = work
        self._after = after
        self._depth = max((len(path) for path in plan.states.paths), default=0)
        self._finals = _final_variables(plan)

    def list(self, start: int, end: int, most: int) -> Listed:
        """Skip till any match: the first `most` matches that end in rows start..end - 1."""
        return self.list_at(np.arange(start, end), most)

    def list_at(self, rows_due: Int64Array, most: int) -> Listed:
        """The same for matches that end in these rows, ascending."""
        lasts = rows_due[self._masks.begin[np.ix_(np.array(self._finals), rows_due)].any(axis=0)]
        found = empty_matches(len(self._plan.returns), self._depth)
        if not len(lasts):
            return Listed(taken(found), ())
        rows, ranks, number = self.rows(), _NO_RANKS, 0
        was_cut = np.zeros(len(lasts), np.bool_)
        while True:
            status, number, found = automaton_search.list_matches(
                self._tables, rows, self._store.position, ranks, lasts, number, most, self._work.terms,
                self._work.account, was_cut, found,
            )  # fmt: skip
            if status == automaton_search.DONE:
                return Listed(taken(found), self._cut(lasts[was_cut]))
            ranks = self._ranks(int(lasts[number]))

    def follow(self, memory: RunsMemory, start: int, end: int, most: int, observed: ShedRuns | None = None) -> Listed:
        """The matches that runs complete in rows start..end - 1, in listing order; with more than `most` in any.

        observed: looks at what some of the rows do to the runs.
        """
        memory.know_partitions(self._store.n_partitions)
        rows = self.rows()
        parts = [taken(empty_matches(len(self._plan.returns), self._depth))]
        was_cut = np.zeros(len(self._store), np.bool_)
        n_listed = 0
        for first, last, is_looked_at in _around_observed(start, end, observed):
            seen = None if observed is None or not is_looked_at else observed.before(rows, first)
            emitted = self._offered(memory, rows, first, last, was_cut)
            if seen is not None:
                every = [taken(found) for found in emitted]
                seen.done(Pending.joined(every), was_cut=bool(was_cut[first]))
                parts += [self._ordered(found) for found in every if n_listed <= most]
                n_listed += sum(found.n_matches for found in every)
                continue
            for found in emitted:
                if n_listed <= most:
                    parts.append(self._ordered(taken(found)))
                    n_listed += parts[-1].n_matches
        return Listed(Pending.joined(parts), self._cut(np.flatnonzero(was_cut)))

    def _offered(self, memory: RunsMemory, rows: Rows, start: int, end: int, was_cut: BoolArray) -> Iterator[Found]:
        """Offer rows start..end - 1 to the runs; what they complete, part by part, each to be taken before the next.
        was_cut: by row, written: runs have been given up."""
        found = empty_matches(len(self._plan.returns), self._depth)
        while start < end:
            start, found = automaton_runs.advance_runs(
                self._tables, rows, self._store.position, self._store.previous, memory.state, start, end,
                self._work.terms, self._work.account, was_cut, found,
            )  # fmt: skip
            yield found
            if bool(found.counts[2]):
                found = grown(found, 0, 0)
            elif start < end:
                memory.grow()
            found.counts[:] = 0

    def free_after(self, matches: Pending) -> Listed:
        """Those of the matches, whose windows have passed, that nothing negated follows."""
        first, last = matches.rows[matches.offsets[:-1]], matches.rows[matches.offsets[1:] - 1]
        matches = matches.chosen(np.lexsort((last, first)))
        was_cut = np.zeros(matches.n_matches, np.bool_)
        free = automaton_search.free_after(
            self._tables, self.rows(), self._store.position, matches.partition, matches.exit, matches.offsets,
            matches.rows, matches.edges, self._after.terms, self._after.account, was_cut,
        )  # fmt: skip
        last = matches.rows[matches.offsets[1:] - 1]
        return Listed(self._ordered(matches.chosen(np.flatnonzero(free))), self._cut(np.unique(last[was_cut])))

    def rows(self) -> Rows:
        """The store as kernels take it."""
        store, n = self._store, len(self._store)
        partitions = store.partition[:n]
        order = np.argsort(partitions, kind="stable")
        bounds = np.arange(BROADCAST, store.n_partitions + 1)
        return Rows(
            store.t_lo_ms[:n],
            partitions,
            store.columns,
            self._masks.begin,
            self._masks.negated,
            order.astype(np.int64),
            np.searchsorted(partitions[order], bounds).astype(np.int64),
        )

    def _ordered(self, found: Pending) -> Pending:
        """In listing order, each binding once."""
        if found.n_matches < 2:
            return found
        n = len(self._store)
        ranks = self._ranks_from(int(found.rows.min())) if n else _NO_RANKS
        return found.chosen(automaton_order.listing_order(self._tables, found.rows, found.edges, found.offsets, ranks))

    def _ranks(self, last: int) -> Int64Array:
        """The position of each id among those that may be in a match that ends in this row or later."""
        store = self._store
        return self._ranks_from(
            int(np.searchsorted(store.t_lo_ms[: len(store)], store.t_lo_ms[last] - self._plan.within_ms))
        )

    def _ranks_from(self, start: int) -> Int64Array:
        ids = self._store.ids.whole()[start : len(self._store)]
        ranks = np.zeros(len(self._store), np.int64)
        ranks[start + np.asarray(pc.sort_indices(ids))] = np.arange(len(ids))
        return ranks

    def _cut(self, lasts: Int64Array) -> Cut:
        store = self._store
        return tuple(zip(store.position[lasts].tolist(), store.t_hi_ms[lasts].tolist(), strict=True))


def _around_observed(start: int, end: int, observed: ShedRuns | None) -> Iterator[tuple[int, int, bool]]:
    """Rows start..end - 1 in pieces, and whether one is a row that is looked at."""
    n_done = start
    for row in () if observed is None else (start + position for position in observed.watched(end - start)):
        if n_done < row:
            yield n_done, row, False
        yield row, row + 1, True
        n_done = row + 1
    if n_done < end:
        yield n_done, end, False


def _final_variables(plan: AutomatonPlan) -> list[int]:
    """Variables whose event may be the last of a match."""
    states = plan.states
    ends = {end.state for end in states.exits}
    found = {states.occurrences[edge.occurrence].variable for edge in states.edges if edge.target in ends}
    return sorted(v for v in found if v < states.n_positive)


__all__ = ["Listed", "PreciseSearch"]
