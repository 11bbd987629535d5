"""The run-based NFAb runtime over precise events: both contiguities and skip till next match (SASE+ sections 3 to 5).

A match is decided when its last event arrives, a trailing negation when the watermark has passed its window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import BoolArray, Int64Array
from engine.kernels.runs import arrays as na
from engine.kernels.runs import edges as nfa_edges
from engine.kernels.runs import nfa
from engine.kernels.runs import upkeep as nfa_upkeep
from engine.language import ast
from engine.matching.arrivals import Arrivals
from engine.matching.brake import braked
from engine.matching.output.entry_work import SpelledMatches
from engine.matching.output.listed import Matches
from engine.matching.output.match_row import MatchRow
from engine.matching.output.results import Results, TakesMatches, needs_results
from engine.matching.output.rows import first_rows, joined_rows
from engine.matching.output_watermark import output_watermark_ms
from engine.matching.protocol import Limits
from engine.matching.runs.histories import Histories
from engine.matching.runs.memory import RunMemory, joined, keys_of, where
from engine.matching.runs.observed import ObservedRuns
from engine.matching.runs.partitions import RunPartitions
from engine.matching.runs.plan_arrays import new_scratch, plan_arrays
from engine.matching.runs.rows import RunRows
from engine.matching.runs.valued import give_up, runs_at_hand
from engine.matching.shedding import RunsAtHand, RunUtilities, WatchesRuns
from engine.plan.implied_key import implied_key
from engine.plan.sequence.model import SequencePlan
from engine.stream.columns import StreamColumns
from engine.stream.early_filter import EarlyFilter
from engine.stream.interner import Interner
from engine.stream.neighbours import Neighbours
from engine.stream.run_store import RunStore
from engine.stream.store import MovesBack

_LEAST_ROWS = 4096  # state of fewer rows, nodes and partitions is not compacted
_LEAST_SAVED = 256  # nor, before it is saved, of fewer than these
_OFFERS_PER_STEP = 10
"""Offers of an event to a run in the time of one step of the work budget."""
_VISITS_PER_STEP = 10
"""Looks at negated events in that time."""
_EVENTS_PER_ROW = 160
_EVENTS_PER_LISTED = 2
"""Events of merged histories, or of listed matches, that one step tells at most, for each that its limit allows."""
_MOSTLY = 0.75  # nor is state of which such a share would stay


class NfaRuntime:
    """Run state of one query with a contiguity or skip till next match; a `Runtime` that `KeepsRuns`."""

    def __init__(
        self, plan: SequencePlan, interner: Interner, limits: Limits, results: TakesMatches | None = None
    ) -> None:
        """`results`: what becomes of matches; None: the rows of the plan's own output form."""
        self.plan = plan
        self.limits = limits
        self.n_rejected = 0
        self._filter = EarlyFilter(plan, interner)
        self._neighbours = Neighbours(plan) if plan.strategy is ast.Strategy.PARTITION_CONTIGUITY else None
        work = limits.brake.account(limits.work_budget, _OFFERS_PER_STEP, limits.n_sharing)
        self._after = limits.brake.account(limits.work_budget, _VISITS_PER_STEP, limits.n_sharing)
        """Pays for what is negated at the end of the pattern."""
        self._spelled = SpelledMatches(limits)
        self._arrays = plan_arrays(plan, interner, work, merges=limits.merge_runs)
        self._scratch = new_scratch(self._arrays)
        self._waits = plan.is_trailing
        self._memory = RunMemory(
            plan.programs.n_registers,
            len(plan.programs.slots),
            len(plan.returns),
            len(plan.negations),
            waits=self._waits,
        )
        counted = self._memory.counters[na.BALANCE : na.AT_POSITION + 1]  # where its kernel keeps what the account has
        counted[:] = work.account
        work.account = counted
        self._pending = self._memory.no_matches()
        self._results = results
        if results is None and needs_results(plan):
            self._results = Results(plan, interner, limits, plan.bound_variables, trailing=self._waits)
        # Output forms are made by partition: of those that the query names.
        key = plan.key or (implied_key(plan) if self._results is None else ())
        self._partitions = RunPartitions(plan, key, self._filter)
        self.store = RunStore(plan, interner, key, described=self._results is not None)
        self._compact_at = _LEAST_ROWS
        self._advanced_to_ms: int | None = None
        self._n_usual = 0  # nodes and rows of a batch
        self._observed: ObservedRuns | None = None
        self._arrivals: Arrivals | None = None

    @property
    def n_rows(self) -> int:
        """Events kept."""
        return len(self.store)

    @property
    def n_unfinished(self) -> int:
        """See `Runtime.n_unfinished`: events at which runs were given up, and what output forms left out."""
        return self._memory.count(na.N_CUT) + (0 if self._results is None else self._results.n_unfinished)

    @property
    def n_runs(self) -> int:
        """Runs alive; those that have been merged are one."""
        return self._memory.count(na.N_LIVE)

    @property
    def n_begun(self) -> int:
        """Runs made so far: by events that begin the pattern, and by runs that go on to the next component."""
        return self._memory.count(na.N_BEGUN)

    @property
    def n_merged(self) -> int:
        """Runs that others have taken in so far (SASE+ section 5.3)."""
        return self._memory.count(na.N_MERGED)

    @property
    def n_offered(self) -> int:
        """Pairs of a run and an event of its partition looked at so far: over the events, runs per time step."""
        return self._memory.count(na.N_OFFERED)

    @braked
    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`. Imprecise events are refused and counted in `n_rejected`."""
        n_cut = self._memory.count(na.N_CUT)
        completed = self._decided(joined([self._pending, *self._run(stream)]), watermark_ms)
        is_cut = self._memory.count(na.N_CUT) > n_cut
        rows: Sequence[MatchRow] = []
        if self._results is not None or len(completed.fields):
            histories = self._histories(completed)
            if self._results is None:
                rows = self._rows(histories, is_cut=is_cut)
            else:
                rows = self._formed(self._results, histories, stream, watermark_ms, is_cut=is_cut)
        if self._size >= self._compact_at:
            self._compact(watermark_ms)
        self._advanced_to_ms = watermark_ms
        return rows

    def move_back(self, by: MovesBack, most: int) -> None:
        """See `engine.matching.protocol.Movable`."""
        del most
        self.store.move_back(by)
        self._advanced_to_ms = None

    def _run(self, stream: StreamColumns) -> list[na.MatchArrays]:
        """Offer a batch to the runs; returns the completed ones."""
        store, memory = self.store, self._memory
        first_position = store.n_seen
        store.n_seen += len(stream)
        self.n_rejected += stream.n_imprecise(self.plan.types)
        offered = self._partitions.of(stream, store, memory)
        previous = np.empty(0, np.int64)
        if self._neighbours is not None:
            previous = self._neighbours.of(stream)
        n = len(offered.rows)
        if n == 0:
            return []
        batch = na.BatchArrays(
            stream.t_lo_ms, offered.rows, offered.partition, previous, offered.roles, self._filter.columns(stream)
        )
        memory.know_partitions(store.n_partitions)
        memory.reserve(n, self._n_usual)
        n_nodes, n_stored = memory.n_nodes, memory.count(na.N_STORED)
        store.reserve(n_stored, n, self._n_usual)
        completed: list[na.MatchArrays] = []
        n_completed, most = 0, self._most_returned
        for matches in self._offered(batch, first_position):
            n_completed += len(matches.fields)
            if n_completed - len(matches.fields) <= most:  # those of later events are not told
                completed.append(matches)
        if self._arrivals is not None:
            self._arrivals.take(stream.t_lo_ms[offered.rows], offered.partition, store.n_partitions)
        # A little more than this time: then the next batch is done in one go.
        n_used = max(memory.n_nodes - n_nodes, memory.count(na.N_STORED) - n_stored)
        self._n_usual = n_used + n_used // 8
        store.complete(stream, memory.count(na.N_STORED))
        return completed

    def _offered(self, batch: na.BatchArrays, first_position: int) -> Iterator[na.MatchArrays]:
        """What the runs complete when they are offered a batch, part by part; observed if somebody watches."""

        def offer(part: na.BatchArrays) -> Iterator[na.MatchArrays]:
            store, memory = self.store, self._memory
            start, n = 0, len(part.rows)
            while start < n:
                start = nfa.advance(
                    self._arrays, part, self._store_arrays, memory.partition_arrays, memory.run_arrays, memory.nodes,
                    memory.matches, memory.counters, self._scratch, first_position, start,
                )  # fmt: skip
                yield memory.take_matches()
                if start < n:
                    memory.grow()
                    if memory.count(na.N_STORED) == len(store.t_lo_ms):
                        store.grow(memory.count(na.N_STORED))

        if self._observed is None:
            return offer(batch)
        return self._observed.offer(batch, lambda: self.store.t_lo_ms, offer)

    @property
    def _store_arrays(self) -> na.StoreArrays:
        store = self.store
        return na.StoreArrays(
            store.t_lo_ms, store.partition, store.position, store.source, store.columns, store.negated,
            store.negated_before,
        )  # fmt: skip

    # --------------------------------------------------------------- shedding

    @property
    def n_run_states(self) -> int:
        """See `ObservesRuns`."""
        return self.plan.n_steps

    def watch_runs(self, by: WatchesRuns | None) -> None:
        """See `ObservesRuns`."""
        self._observed = None if by is None else ObservedRuns(by, self._arrays, self._memory)

    def count_arrivals(self) -> None:
        """See `DropsRuns`."""
        if self._arrivals is None:
            self._arrivals = Arrivals(self.plan.within_ms)

    def events_per_window(self) -> float:
        """See `DropsRuns`."""
        if self._arrivals is None:
            return 0.0
        return float(self._arrivals.per_ms(max(1, self.store.n_partitions)).max()) * self.plan.within_ms

    def runs_at_hand(self, by: RunUtilities, now_ms: int) -> RunsAtHand:
        """See `DropsRuns`. Negated events are no runs: nothing of them is dropped."""
        if by.values.shape[0] != self.n_run_states:
            raise StateError(
                f"utilities of {by.values.shape[0]} states for {self.plan.name}, whose runs have {self.n_run_states}: "
                "they are of another query, train it again"
            )
        arrivals = Arrivals(self.plan.within_ms) if self._arrivals is None else self._arrivals
        return runs_at_hand(
            self._memory,
            self.store.t_lo_ms,
            self.plan.within_ms,
            now_ms,
            arrivals.per_ms(len(self._memory.chains)),
            by,
        )

    def drop_runs(self, numbers: Int64Array) -> None:
        """See `DropsRuns`."""
        if len(numbers):
            give_up(self._memory, numbers)

    # ---------------------------------------------------------------- results

    def _decided(self, matches: na.MatchArrays, watermark_ms: int) -> na.MatchArrays:
        """The matches that nothing can change any more; the others wait in `_pending`."""
        if not self._waits:
            return matches
        store, memory = self.store, self._memory
        due = store.t_lo_ms[matches.fields[:, na.FIRST_ROW]] + self.plan.within_ms < watermark_ms
        self._pending = where(matches, ~due)
        matches = where(matches, due)
        stands, was_cut = np.empty((2, len(matches.fields)), np.bool_)
        first, last = matches.fields[:, na.FIRST_ROW], matches.fields[:, na.LAST_ROW]
        nfa_edges.undisturbed(
            self._arrays, self._store_arrays, memory.newest_negated,
            np.ascontiguousarray(matches.fields[:, na.PARTITION]), len(store), matches, np.lexsort((last, first)),
            np.ascontiguousarray(first), self._after.terms, self._after.account, self._scratch,
            np.zeros(na.N_COUNTERS, np.int64), stands, was_cut,
        )  # fmt: skip
        memory.counters[na.N_CUT] += len(np.unique(last[was_cut]))
        return where(matches, stands)

    @property
    def _most_returned(self) -> int:
        """So many matches of one step are told at most, the first in listing order."""
        if self._waits or self.plan.limit is not None:
            return 2**62  # some may be none, or of one time with the first
        return self.limits.max_rows if self._results is None else self.limits.max_listed

    def _histories(self, completed: na.MatchArrays) -> Histories:
        """The matches of completed runs, no more than can be told."""
        limits, listed = self.limits, self._results is not None or self.plan.limit is not None
        return Histories.of(
            self._memory.nodes, self.store.t_lo_ms, completed, self.plan.within_ms,
            limits.max_listed if listed else limits.max_rows,
            _EVENTS_PER_LISTED * limits.max_listed if listed else _EVENTS_PER_ROW * limits.max_rows,
            of_all=self._results is not None,
        )  # fmt: skip

    def _rows(self, histories: Histories, *, is_cut: bool) -> Sequence[MatchRow]:
        is_cut |= histories.is_cut and self.plan.limit is None
        if self.plan.limit is not None:
            last_row = histories.last_row[histories.run[-1]] if histories.n_matches else 0
            is_left_out = histories.is_cut
            histories = histories.chosen(_first_in_time(histories, self.plan.limit + 1))
            # Those of earlier last events are all there.
            is_cut |= is_left_out and (self._waits or bool((histories.last_row[histories.run] == last_row).any()))
        most = self.limits.max_rows
        rows = first_rows(RunRows(self.plan, self.store.as_it_is(), histories.chosen(slice(0, most + 1))), most)
        return joined_rows([rows[:-1], [replace(rows[-1], capped=True)]]) if is_cut and len(rows) else rows

    def _formed(
        self, results: TakesMatches, histories: Histories, stream: StreamColumns, watermark_ms: int, *, is_cut: bool
    ) -> Sequence[MatchRow]:
        """The rows of an output form, from at most `limits.max_listed` matches."""
        most = self.limits.max_listed
        wanted, store = histories.chosen(slice(0, most)), self.store
        last = store.position[wanted.last_row[wanted.run]]
        due_ms = wanted.first_ms + self.plan.within_ms if self._waits else wanted.last_ms
        listed, numbers = self._spelled.listed(last, due_ms, lambda some: wanted.chosen(some).listed())
        ends_ms = dict(zip(last.tolist(), wanted.last_ms.tolist(), strict=True)) if len(numbers) else {}
        cut = tuple((number, ends_ms[number]) for number in dict.fromkeys(numbers.tolist()))
        unfinished = histories.is_cut or is_cut
        return results.take(Matches.of_store(store, listed, unfinished=unfinished, cut=cut), stream, watermark_ms)

    # ------------------------------------------------------------- compaction

    @property
    def _size(self) -> int:
        n_neighbours = 0 if self._neighbours is None else len(self._neighbours)
        return max(len(self.store), self._memory.n_nodes, self.store.n_partitions, n_neighbours)

    def _compact(self, watermark_ms: int) -> None:
        """Drop expired runs, unreachable nodes, events that nothing refers to any more, and partitions without one."""
        memory, store, n = self._memory, self.store, len(self.store)
        earliest_ms = watermark_ms - self.plan.within_ms
        nfa_upkeep.expire(
            store.t_lo_ms, self.plan.within_ms, memory.runs, memory.free, memory.chains, memory.counters, watermark_ms
        )
        replaced, nodes, rows = memory.reach(self._pending, store.t_lo_ms, n, earliest_ms)
        if self.plan.negations:
            # A match still to come may have to respect a negated event this far back.
            recent = store.t_lo_ms[:n] >= watermark_ms - 2 * self.plan.within_ms
            rows |= np.any(store.negated[:, :n], axis=0) & recent
        kept = np.flatnonzero(rows)
        if self._neighbours is not None:
            self._neighbours.forget_before(int(store.position[kept[0]]) if len(kept) else 2**62)
        partitions = self._partitions_in_use(kept, earliest_ms)
        n_now = n + memory.n_nodes + store.n_partitions
        n_kept = len(kept) + int(np.count_nonzero(nodes)) + len(partitions)
        if min(self._compact_at, _LEAST_ROWS) > 0 and n_kept > _MOSTLY * n_now:
            self._compact_at = 2 * self._size  # copying it would cost more than the rest is worth
            return
        new_row, new_partition = store.keep(kept, partitions)
        if self._arrivals is not None:
            self._arrivals.keep(partitions)
        fields = self._pending.fields
        fields[:, na.HEAD] = memory.renumber(replaced, nodes, new_row, new_partition, fields[:, na.HEAD])
        memory.counters[na.N_STORED] = len(store)
        nfa_upkeep.link_negated(
            store.partition, len(store), store.negated, store.negated_before, memory.newest_negated
        )  # fmt: skip
        fields[:, na.PARTITION] = new_partition[fields[:, na.PARTITION]]
        fields[:, na.FIRST_ROW :] = new_row[fields[:, na.FIRST_ROW :]]
        self._pending = self._pending._replace(rows=new_row[self._pending.rows])
        self._compact_at = max(_LEAST_ROWS, 2 * self._size)

    def _partitions_in_use(self, kept: Int64Array, earliest_ms: int) -> Int64Array:
        """Partitions with a run or a kept row. With broadcast types also those with an event in the window: while a run
        of no partition may still be alive, they must stay known, or they would be given that run a second time."""
        in_use: BoolArray = np.zeros(self.store.n_partitions + 1, np.bool_)
        in_use[self.store.partition[kept]] = True
        if self.plan.broadcast:  # a run of a partition may so far have events of no partition alone
            chains = self._memory.chains[:-1][: self.store.n_partitions]
            in_use[: len(chains)] |= chains[:, na.CHAIN_LENGTH] > 0
            seen = self._memory.seen[: self.store.n_partitions]
            in_use[: len(seen)] |= (seen[:, na.LAST_POSITION] >= 0) & (seen[:, na.LAST_T] >= earliest_ms)
        return np.flatnonzero(in_use[:-1])

    # ------------------------------------------------------------------ state

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`."""
        output_ms = output_watermark_ms(0, watermark_ms, self.plan.within_ms if self._waits else 0)
        return output_ms if self._results is None else self._results.buffered_from_ms(output_ms)

    def save(self) -> dict[str, pa.Table]:
        """The state: kept events, nodes, runs chain by chain, partitions, matches that wait. What is not needed any
        more is not saved: the size of what is written again and again would depend on when it was last compacted."""
        if self._size >= _LEAST_SAVED and self._advanced_to_ms is not None:
            self._compact(self._advanced_to_ms)
        store = self.store.save()
        store = store.replace_schema_metadata(
            {
                **(store.schema.metadata or {}),
                "spelled": self._spelled.account.save(),
                "after": self._after.save(),
            }
        )
        if self._neighbours is not None:
            store = store.replace_schema_metadata({**store.schema.metadata, "neighbours": self._neighbours.save()})
        results = {} if self._results is None else self._results.save()
        return {"store": store, **self._memory.save(self._pending, self.store.keys.values()), **results}

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        missing = {"store", "nodes", "partitions", "runs", "pending"} - set(state)
        if missing:
            raise StateError(f"saved state of {self.plan.name} lacks {sorted(missing)}")
        store, memory = self.store, self._memory
        store.restore(state["store"], keys_of(state, len(store.key)))
        self._pending = memory.restore(state)
        if self._arrivals is not None:
            self._arrivals = Arrivals(self.plan.within_ms)
        memory.counters[na.N_STORED] = len(store)
        nfa_upkeep.link_negated(
            store.partition, len(store), store.negated, store.negated_before, memory.newest_negated
        )  # fmt: skip
        meta: Mapping[bytes, bytes] = state["store"].schema.metadata or {}
        if b"spelled" in meta:  # states of before had no account
            self._spelled.account.restore(meta[b"spelled"].decode())
        if b"after" in meta:
            self._after.restore(meta[b"after"].decode())
        if self._neighbours is not None:
            self._neighbours.restore(state["store"].schema.metadata[b"neighbours"].decode())
        if self._results is not None:
            self._results.restore(state)


def _first_in_time(histories: Histories, n: int) -> Int64Array:
    """The numbers of the first n matches by their last events and the times of their first ones, and of others of
    these. Several last events may be at one time: all matches of one come before those of the next."""
    last, first_ms = histories.last_row[histories.run], histories.first_ms
    if len(last) <= n:
        return np.arange(len(last))
    nth = np.lexsort((first_ms, last))[n - 1]
    before = (last < last[nth]) | ((last == last[nth]) & (first_ms <= first_ms[nth]))
    return np.flatnonzero(before)
