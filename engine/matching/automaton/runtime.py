"""The automaton runtime: patterns that are no plain sequence, under all selection strategies.

Skip till any match lists, for each last event, depth first over the events of its window; the other strategies follow
runs. A match is decided when its last event arrives, a trailing negation when the watermark has passed its window.
While an imprecise event is kept, skip till any match goes by `engine.matching.automaton.imprecise` instead: a match is
decided when the watermark has passed its latest end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import FOREVER_MS, BoolArray, Float64Array, Int64Array
from engine.kernels.automaton import runs as automaton_runs
from engine.kernels.columns.partitions import BROADCAST
from engine.language import ast
from engine.matching.automaton.arrangement import Arrangements
from engine.matching.automaton.imprecise import Decided, ImpreciseMatching
from engine.matching.automaton.memory import Pending, RunsMemory, empty_matches, taken
from engine.matching.automaton.plan_arrays import tables
from engine.matching.automaton.precise import Listed, PreciseSearch
from engine.matching.automaton.shed_runs import ShedRuns
from engine.matching.automaton.stored_events import StoredWorth
from engine.matching.brake import braked
from engine.matching.deduplication import distinct
from engine.matching.output.listed import Cut, ListedMatches, Matches
from engine.matching.output.match_row import MatchRow
from engine.matching.output.results import Results, TakesMatches
from engine.matching.output.variables import shapes_of
from engine.matching.output_watermark import longest_interval_ms, output_watermark_ms
from engine.matching.protocol import Limits
from engine.matching.shedding import RunsAtHand, RunUtilities, WatchesRuns
from engine.plan.automaton.model import AutomatonPlan
from engine.stream.columns import StreamColumns
from engine.stream.early_filter import EarlyFilter, Masks, Survivors
from engine.stream.interner import Interner
from engine.stream.intervals import check_weights
from engine.stream.neighbours import Neighbours
from engine.stream.store import EventStore, MovesBack

_STATE_VERSION = 1
_LEAST_ROWS = 4096
"""Stores below this size are not compacted."""
_LEAST_SAVED = 256
"""Nor, before they are saved, below this one."""


class AutomatonRuntime:
    """Run state of one query; implements `engine.matching.protocol.Runtime`.

    But for skip till any match imprecise events are refused and counted in `n_rejected`.
    """

    def __init__(
        self, plan: AutomatonPlan, interner: Interner, limits: Limits, results: TakesMatches | None = None
    ) -> None:
        """`results`: what becomes of matches, the query's own output form when None."""
        self.plan = plan
        self.limits = limits
        self.n_rejected = 0
        self.store = EventStore(plan, interner, placed=True)
        self._interner = interner
        self._by_runs = not plan.lists_all
        contiguous = self._by_runs and plan.strategy is not ast.Strategy.SKIP_TILL_NEXT_MATCH
        self._neighbours = Neighbours(plan) if contiguous else None
        # What starts there are is remembered by time alone: where times move back, or a partition is shown earlier
        # events when it becomes known, that does not hold.
        self._live = plan.query.within_events is None and not plan.has_partial_keys
        self._filter = EarlyFilter(plan, interner, live=self._live)
        self._masks = Masks(plan)
        self._tables = tables(plan, interner)
        self._memory = RunsMemory()
        self._shed: ShedRuns | None = None
        self._worth: StoredWorth | None = None
        self._depth = max((len(path) for path in plan.states.paths), default=0)
        self._waits = plan.is_trailing
        self._results: TakesMatches = results or Results(
            plan, interner, limits, plan.bound_variables, trailing=self._waits, shapes=shapes_of([plan], plan.variables)
        )
        self._pending = taken(empty_matches(len(plan.returns), self._depth))
        self._work = limits.brake.account(limits.work_budget, n_sharing=limits.n_sharing)
        self._work_after = limits.brake.account(limits.work_budget, n_sharing=limits.n_sharing)
        self._positive = np.array([o.variable for o in plan.states.occurrences], np.int64)
        self._compact_at = _LEAST_ROWS
        self._arrangements = Arrangements(plan.states)
        self._watermark_ms = -FOREVER_MS
        self._advanced_to_ms: int | None = None
        self._is_postponed = False
        # Orders of the same events that AND leaves open, or that differ in what is negated, share worlds.
        has_choices = bool(plan.states.parallel) or (bool(plan.states.negations) and plan.states.n_groups > 0)
        # So do different ways to bind the same events to the same variables, which alternatives of a group may share.
        self._has_ways = sum(not occurrence.negated for occurrence in plan.states.occurrences) > plan.states.n_positive
        self._is_united = self._has_ways or (plan.query.output is ast.Output.SETS and has_choices)

    @property
    def n_rows(self) -> int:
        """Events kept."""
        return len(self.store)

    @property
    def n_runs(self) -> int:
        """Runs alive; 0 under skip till any match."""
        return self._memory.n_runs

    @property
    def n_offered(self) -> int:
        """Pairs of a run and an event looked at so far; 0 under skip till any match."""
        return self._memory.n_offered

    @property
    def n_unfinished(self) -> int:
        """See `Runtime.n_unfinished`."""
        return self._results.n_unfinished

    @braked
    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`."""
        survivors = self._survivors(stream)
        start = len(self.store)
        self._masks.append(survivors, start)
        _, end = self.store.append(stream, survivors.rows)
        if self._neighbours is not None:
            self.store.previous[start:end] = self._neighbours.of(stream)[survivors.rows]
        self._is_postponed = not self._by_runs and (self._is_postponed or self.store.n_imprecise > 0)
        if self._is_postponed:
            matches = self._postponed(watermark_ms)
        else:
            (found, cut), unfinished = self._find(start, end), False
            if found.n_matches > self.limits.max_listed:
                found, unfinished = found.chosen(np.arange(self.limits.max_listed)), True
            if self._waits:
                found, of_decided = self._decided(Pending.joined([self._pending, found]), watermark_ms)
                cut = tuple(dict.fromkeys((*cut, *of_decided)))
            matches = self._matches(found, unfinished=unfinished, cut=cut)
        self._watermark_ms = max(self._watermark_ms, watermark_ms)
        longest_ms = 2 * longest_interval_ms(self.store) if self.store.n_imprecise else 0
        if self._has_ways and not matches.in_order:
            matches = distinct(matches)
        rows = self._results.take(matches, stream, watermark_ms, longest_ms=longest_ms)
        if self._shed is not None:
            self._shed.arrived(self.store.t_lo_ms[start:end], self.store.partition[start:end], self.store.n_partitions)
        if len(self.store) >= self._compact_at:
            self._compact(watermark_ms)
        self._advanced_to_ms = watermark_ms
        self._is_postponed = self._is_postponed and self._pending.n_matches > 0
        return rows

    def move_back(self, by: MovesBack, most: int) -> None:
        """See `engine.matching.protocol.Movable`."""
        del most
        self.store.move_back(by)
        self._advanced_to_ms = None

    def _survivors(self, stream: StreamColumns) -> Survivors:
        """The events to be stored: accepted by some edge, or needed to tell what is contiguous. Where runs are followed
        precise ones alone."""
        survivors = self._filter.select(stream)
        plan = self.plan
        if plan.strategy is ast.Strategy.PARTITION_CONTIGUITY and plan.broadcast:
            keyed = [stream.rows_of_type(name) for name in plan.keyed_types]
            survivors = survivors.with_rows(self._filter.with_key(stream, np.sort(np.concatenate(keyed))))
        if not self._by_runs:
            check_weights(stream, plan.types)
            return survivors
        imprecise = stream.t_lo_ms != stream.t_hi_ms
        if imprecise.any():
            self.n_rejected += stream.n_imprecise(plan.types)
            survivors = survivors.where(~imprecise[survivors.rows])
        return survivors

    # -------------------------------------------------------------- matching

    def _find(self, start: int, end: int) -> Listed:
        """The matches that end in rows start..end-1, in listing order; more than there is room for when there are."""
        search = self._search()
        most = self.limits.max_listed + 1
        if self._by_runs:
            return search.follow(self._memory, start, end, most, self._shed)
        return search.list(start, end, most if self._waits else min(most, self._results.n_wanted))

    def _search(self) -> PreciseSearch:
        return PreciseSearch(self.plan, self.store, self._masks, self._tables, self._work, self._work_after)

    def _postponed(self, watermark_ms: int) -> Matches:
        """The matches that are decided at this watermark where some events are imprecise."""
        matching = ImpreciseMatching(
            self.plan, self.store, self._tables, self._search(), self._arrangements, self._work, self._work_after,
            with_possible=self._is_united or self.limits.possibilities,
        )  # fmt: skip
        decided, self._pending, unfinished = matching.decide(
            self._pending, self._watermark_ms, watermark_ms, self.limits.max_listed
        )
        return self._matches(decided.found, decided, unfinished=unfinished, cut=decided.cut)

    # --------------------------------------------------------------- results

    def _decided(self, matches: Pending, watermark_ms: int) -> Listed:
        """The matches that nothing can change any more; the others wait in `_pending`."""
        if not matches.n_matches:
            return Listed(matches, ())
        first_ms = self.store.t_lo_ms[matches.rows[matches.offsets[:-1]]]
        due: BoolArray = (first_ms + self.plan.within_ms < watermark_ms) | ~self._is_waiting(matches)
        self._pending = matches.chosen(np.flatnonzero(~due))
        return self._search().free_after(matches.chosen(np.flatnonzero(due)))

    def _is_waiting(self, matches: Pending) -> BoolArray:
        waiting = np.array([bool(end.crossings) for end in self.plan.states.exits], np.bool_)
        return np.asarray(waiting[matches.exit], np.bool_)

    def _matches(self, found: Pending, sure: Decided | None = None, *, unfinished: bool, cut: Cut) -> Matches:
        """`sure` None: precise events, matches in listing order."""
        edges = np.array([edge.occurrence for edge in self.plan.states.edges], np.int64)
        components = self._positive[edges[found.edges]]
        iterations = None
        automaton = self.plan.states
        depths = np.array([len(path) for path in automaton.paths[: automaton.n_positive]], np.int64)
        if depth := int(depths.max(initial=0)):
            within = np.arange(depth)[None, :] < depths[components][:, None]
            iterations = np.where(within, found.iterations[:, :depth] - 1, -1)
        listed = ListedMatches(
            partition=found.partition,
            offsets=found.offsets,
            rows=found.rows,
            components=components,
            iterations=iterations,
            confidence=np.ones(found.n_matches) if sure is None else sure.confidence,
            values=found.values,
            ends=None if sure is None or self._arrangements.are_sequences else sure.ends,
        )
        if sure is None and self.plan.broadcast and self._by_runs:
            listed = listed.chosen(_distinct(found))
        return Matches.of_store(
            self.store, listed, unfinished=unfinished, possible=None if sure is None else sure.possible, cut=cut,
            in_order=sure is None,
        )  # fmt: skip

    # --------------------------------------------------------------- shedding

    @property
    def n_run_states(self) -> int:
        """See `ObservesRuns`."""
        return self._shed_runs.n_states

    @property
    def _shed_runs(self) -> ShedRuns:
        if self._shed is None:
            self._shed = ShedRuns(self.plan, self._memory, self._tables)
        return self._shed

    def watch_runs(self, by: WatchesRuns | None) -> None:
        """See `ObservesRuns`."""
        self._shed_runs.watch(by)

    def count_arrivals(self) -> None:
        """See `DropsRuns`."""
        self._shed_runs.count_arrivals()

    def events_per_window(self) -> float:
        """See `DropsRuns`."""
        return self._shed_runs.events_per_window(self.store.n_partitions)

    def runs_at_hand(self, by: RunUtilities, now_ms: int) -> RunsAtHand:
        """See `DropsRuns`. What is negated is looked for among events, which stay."""
        return self._shed_runs.at_hand(self.store.t_lo_ms, by, now_ms)

    def drop_runs(self, numbers: Int64Array) -> None:
        """See `DropsRuns`."""
        self._shed_runs.give_up(numbers)

    @property
    def stored(self) -> object:
        """See `DropsStored`."""
        return self.store

    @property
    def n_stored(self) -> int:
        """See `DropsStored`."""
        t_lo_ms = self.store.t_lo_ms[: len(self.store)]
        return int(np.count_nonzero(t_lo_ms >= self._watermark_ms - self.plan.within_ms))

    def stored_worth(self, now_ms: int) -> Float64Array:
        """See `DropsStored`."""
        if self._worth is None:
            self._worth = StoredWorth(self.plan)
        return self._worth.of(self.store, self._masks, now_ms)

    def drop_stored(self, rows: Int64Array) -> None:
        """See `DropsStored`."""
        keep = np.ones(len(self.store), np.bool_)
        keep[rows] = False
        self._keep(keep)

    # ------------------------------------------------------------- compaction

    def _compact(self, watermark_ms: int) -> None:
        """Drop expired runs, unreachable nodes and the events that nothing refers to any more."""
        store, memory, n = self.store, self._memory, len(self.store)
        earliest_ms = max(watermark_ms - self.plan.within_ms, -FOREVER_MS)
        runs, owners = memory.alive()
        first_rows = memory.state.runs[runs, automaton_runs.FIRST_ROW]
        memory.compact(store.t_lo_ms[first_rows] >= earliest_ms, runs, owners)
        if self._by_runs:
            keep = self._kept_by_runs(watermark_ms)
        elif store.n_imprecise:
            keep = self._kept_of_intervals(watermark_ms)
        else:
            keep = store.t_lo_ms[:n] >= earliest_ms
            keep[self._pending.rows] = True
        if self._neighbours is not None:
            positions = store.position[:n][keep]
            self._neighbours.forget_before(int(positions.min()) if len(positions) else 2**62)
        self._keep(keep)
        self._compact_at = max(_LEAST_ROWS, 2 * len(store))

    def _keep(self, keep: BoolArray) -> None:
        """Forget all other rows, and the partitions that have none."""
        store = self.store
        self._masks.keep(keep)
        new_row, new_partition = store.keep(keep)
        self._memory.renumber(new_row, new_partition, store.n_partitions)
        if self._shed is not None:
            self._shed.keep_partitions(new_partition)
        pending = self._pending
        self._pending = pending._replace(rows=new_row[pending.rows], partition=new_partition[pending.partition])

    def _kept_of_intervals(self, watermark_ms: int) -> BoolArray:
        """Rows that an undecided match may have, or be denied by: it ends in an event that is not passed; one that
        waits for a negation at its end begins a window earlier, and what it forbids before it lies further back."""
        store, n, within_ms = self.store, len(self.store), self.plan.within_ms
        lo, hi = store.t_lo_ms[:n], store.t_hi_ms[:n]
        undecided = hi >= watermark_ms
        earliest_ms = min(watermark_ms, int(lo[undecided].min())) if undecided.any() else watermark_ms
        if self._waits:
            earliest_ms -= 2 * within_ms + longest_interval_ms(store)
        keep: BoolArray = hi + within_ms >= earliest_ms
        keep[self._pending.rows] = True
        return keep

    def _kept_by_runs(self, watermark_ms: int) -> BoolArray:
        """Rows of runs, of matches that wait, of what may still be negated, and the newest of each partition."""
        store, n = self.store, len(self.store)
        keep: BoolArray = np.any(self._masks.negated[:, :n], axis=0)
        keep &= store.t_lo_ms[:n] >= watermark_ms - 2 * self.plan.within_ms
        keep[self._memory.rows_in_use()] = True
        keep[self._pending.rows] = True
        if self.plan.broadcast:
            # While a run of no partition may be alive its partitions must stay known, or they would get it again.
            keyed = np.flatnonzero(store.partition[:n] != BROADCAST)
            last = np.full(store.n_partitions, -1, np.int64)
            last[store.partition[keyed]] = keyed
            last = last[last >= 0]
            keep[last[store.t_lo_ms[last] >= watermark_ms - self.plan.within_ms]] = True
        return keep

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`."""
        longest_ms = longest_interval_ms(self.store) if self.store.n_imprecise else 0
        output_ms = output_watermark_ms(longest_ms, watermark_ms, self.plan.within_ms if self._waits else 0)
        return self._results.buffered_from_ms(output_ms)

    # ------------------------------------------------------------------ state

    def save(self) -> dict[str, pa.Table]:
        """The state: kept events, runs and their nodes, known partitions, matches that wait, results. What is not
        needed any more is not saved."""
        if len(self.store) >= _LEAST_SAVED and self._advanced_to_ms is not None:
            self._compact(self._advanced_to_ms)
        meta = {
            "automaton_version": str(_STATE_VERSION),
            "watermark_ms": str(self._watermark_ms),
            "postponed": str(int(self._is_postponed)),
            "work": self._work.save(),
            "work_after": self._work_after.save(),
        }
        if self._neighbours is not None:
            meta["neighbours"] = self._neighbours.save()
        store = self.store.save()
        return {
            "store": store.replace_schema_metadata({**store.schema.metadata, **meta}),
            "pending": self._pending.save(),
            **self._memory.save(),
            **self._results.save(),
        }

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        missing = {"store", "pending", "runs", "nodes", "known"} - set(state)
        if missing:
            raise StateError(f"saved state of {self.plan.name} lacks {sorted(missing)}")
        meta: Mapping[bytes, bytes] = state["store"].schema.metadata or {}
        if meta.get(b"automaton_version") != str(_STATE_VERSION).encode():
            raise StateError(
                f"saved state of {self.plan.name} has automaton version {meta.get(b'automaton_version')!r}, "
                f"expected {_STATE_VERSION}"
            )
        self.store.restore(state["store"])
        n = len(self.store)
        # Saved before there was a watermark: all events, precise ones, are decided.
        passed_ms = int(self.store.t_hi_ms[:n].max()) + 1 if n else -FOREVER_MS
        self._watermark_ms = int(meta.get(b"watermark_ms", str(passed_ms).encode()))
        self._is_postponed = meta.get(b"postponed") == b"1"
        for name, account in ((b"work", self._work), (b"work_after", self._work_after)):
            if name in meta:
                account.restore(meta[name].decode())
        self._filter = EarlyFilter(self.plan, self._interner, live=self._live)
        self._tables = tables(self.plan, self._interner)
        if self._shed is not None:
            self._shed.restored(self._tables)
        self._masks = Masks(self.plan)
        self._masks.append(self._filter.of_store(self.store), 0)
        if self._neighbours is not None:
            self._neighbours.restore(meta[b"neighbours"].decode())
        self._memory.restore(state, self.store.n_partitions)
        self._pending = Pending.restored(state["pending"], len(self.plan.returns), self._depth)
        self._results.restore(state)


def _distinct(found: Pending) -> Int64Array:
    """The matches, those of broadcast events alone once: several partitions may have them."""
    seen: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    chosen = []
    for number, partition in enumerate(found.partition.tolist()):
        events = slice(int(found.offsets[number]), int(found.offsets[number + 1]))
        if partition == BROADCAST:
            match = tuple(found.rows[events].tolist()), tuple(found.edges[events].tolist())
            if match in seen:
                continue
            seen.add(match)
        chosen.append(number)
    return np.array(chosen, np.int64)


__all__ = ["AutomatonRuntime"]
