"""The runs of an automaton observed, valued and given up (pSPICE), see `engine.matching.shedding`.

In which state a run is: `engine.plan.automaton.run_states`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.errors import StateError
from engine.events import Int64Array
from engine.kernels.automaton import runs as automaton_runs
from engine.kernels.automaton.tables import Rows, Tables
from engine.kernels.shedding import automaton_runs as kernel
from engine.kernels.shedding.observing import NOT_OFFERED
from engine.matching.arrivals import Arrivals
from engine.matching.automaton.memory import Pending, RunsMemory
from engine.matching.shedding import RunsAtHand, RunUtilities, WatchesRuns
from engine.plan.automaton.model import AutomatonPlan
from engine.plan.automaton.run_states import run_states


class ShedRuns:
    """The runs in one memory. `tables`: of the plan."""

    def __init__(self, plan: AutomatonPlan, memory: RunsMemory, tables: Tables) -> None:
        self._plan = plan
        self._memory = memory
        self._tables = tables
        self._run_states = run_states(plan.states)
        self._arrivals: Arrivals | None = None
        self._watcher: WatchesRuns | None = None
        self._n_filled = -1
        self._n_numbered = 0
        n_counters = plan.states.n_counters
        self._counters: Int64Array = np.empty((0, n_counters), np.int64)
        self._states: Int64Array = np.empty(0, np.int64)
        self._state_of: Int64Array = np.empty(0, np.int64)
        self._marked: Int64Array = np.empty(0, np.int64)

    @property
    def n_states(self) -> int:
        """States of runs."""
        return self._run_states.n

    # -------------------------------------------------------------- observing

    def watch(self, by: WatchesRuns | None) -> None:
        """See `ObservesRuns.watch_runs`."""
        self._watcher = by

    def watched(self, n_rows: int) -> Iterator[int]:
        """Which of the next rows that are offered to runs are looked at, ascending."""
        yield from () if self._watcher is None else self._watcher.positions(n_rows).tolist()

    def before(self, rows: Rows, row: int) -> Observation | None:
        """Before this row is offered to the runs; None: nothing is to be learned of it."""
        state, partition = self._memory.state, int(rows.partition[row])
        if self._watcher is None or (partition >= 0 and not state.known[partition]):  # gets its runs only now
            return None
        states = self._node_states()
        self._reserve()
        first, last = (partition, partition + 1) if partition >= 0 else (0, len(state.heads) - 1)
        n_offers = np.zeros(self.n_states, np.int64)
        n_marked = kernel.mark_offered(
            state.runs, state.heads, first, last, rows.t_ms, self._plan.within_ms, int(rows.t_ms[row]),
            self._watcher.protected, states, self._state_of, self._marked, n_offers,
        )  # fmt: skip
        n_nodes = int(state.counts[automaton_runs.N_NODES])
        return Observation(self, self._watcher, first, last, n_offers, n_marked, n_nodes)

    def count(self, seen: Observation, found: Pending) -> Int64Array:
        """What became of the runs that `before` has noted; found: the matches of the event, as they were found."""
        memory = self._memory.state
        states = self._node_states()
        n_next = np.zeros((self.n_states, self.n_states + 1), np.int64)
        kernel.count_next(
            memory.runs, memory.heads, seen.first, seen.last, memory.nodes, seen.n_nodes,
            int(memory.counts[automaton_runs.N_NODES]), states, found.rows, found.edges, found.offsets,
            found.n_matches, self._state_of, n_next,
        )  # fmt: skip
        kernel.unmark(self._state_of, self._marked, seen.n_marked)
        return n_next

    def _reserve(self) -> None:
        if len(self._state_of) < len(self._memory.state.nodes):
            self._state_of = np.full(len(self._memory.state.nodes), NOT_OFFERED, np.int64)
        if len(self._marked) < len(self._memory.state.runs):
            self._marked = np.empty(len(self._memory.state.runs), np.int64)

    def _node_states(self) -> Int64Array:
        """By node the state of a run that it is the newest of."""
        memory, found = self._memory.state, self._run_states
        if self._n_filled != self._memory.n_filled:  # they are others now
            self._n_filled, self._n_numbered = self._memory.n_filled, 0
        if len(self._states) < len(memory.nodes):
            capacity = len(memory.nodes)
            self._states = np.append(self._states, np.empty(capacity - len(self._states), np.int64))
            more = np.empty((capacity - len(self._counters), self._counters.shape[1]), np.int64)
            self._counters = np.concatenate([self._counters, more])
        n_nodes = int(memory.counts[automaton_runs.N_NODES])
        kernel.number_states(
            memory.nodes, self._n_numbered, n_nodes, self._tables.edges, self._tables.actions, found.first, found.tops,
            found.strides, found.numbers, self._counters, self._states,
        )  # fmt: skip
        self._n_numbered = n_nodes
        return self._states

    # --------------------------------------------------------------- dropping

    def count_arrivals(self) -> None:
        """See `DropsRuns`."""
        if self._arrivals is None:
            self._arrivals = Arrivals(self._plan.within_ms)

    def arrived(self, t_ms: Int64Array, partition: Int64Array, n_partitions: int) -> None:
        """These rows have been offered to the runs."""
        if self._arrivals is not None:
            self._arrivals.take(t_ms, partition, n_partitions)

    def keep_partitions(self, new_partition: Int64Array) -> None:
        """Partitions have new numbers, -1 for those that are gone; one more entry at the end."""
        if self._arrivals is not None:
            self._arrivals.keep(np.flatnonzero(new_partition[:-1] >= 0))

    def restored(self, tables: Tables) -> None:
        """The runs are others, of other partitions."""
        self._tables = tables
        if self._arrivals is not None:
            self._arrivals = Arrivals(self._plan.within_ms)

    def events_per_window(self, n_partitions: int) -> float:
        """See `DropsRuns`."""
        if self._arrivals is None:
            return 0.0
        return float(self._arrivals.per_ms(max(1, n_partitions)).max()) * self._plan.within_ms

    def at_hand(self, t_ms: Int64Array, by: RunUtilities, now_ms: int) -> RunsAtHand:
        """See `DropsRuns.runs_at_hand`. t_ms: int64 (c,), of the store. Runs of no partition yet must not be dropped:
        they stand for those of every partition that is still to come."""
        if by.values.shape[0] != self.n_states:
            raise StateError(
                f"utilities of {by.values.shape[0]} states for {self._plan.name}, whose runs have {self.n_states}: "
                "they are of another query, train it again"
            )
        memory = self._memory.state
        arrivals = Arrivals(self._plan.within_ms) if self._arrivals is None else self._arrivals
        n = self._memory.n_runs
        numbers, utility = np.empty(n, np.int64), np.empty(n)
        kernel.utilities(
            memory.runs, memory.heads, t_ms, self._plan.within_ms, now_ms, self._node_states(),
            arrivals.per_ms(len(memory.heads)), by.values, by.bin_events, by.protected, numbers, utility,
        )  # fmt: skip
        return RunsAtHand(numbers, utility, np.ones(n))

    def give_up(self, numbers: Int64Array) -> None:
        """See `DropsRuns.drop_runs`."""
        if not len(numbers):
            return
        memory = self._memory.state
        chosen = np.zeros(len(memory.runs), np.bool_)
        chosen[numbers] = True
        kernel.give_up(memory.runs, memory.heads, memory.lengths, memory.counts, chosen)


class Observation:
    """One event that is looked at, from before it is offered to the runs until it has been."""

    def __init__(
        self, of: ShedRuns, by: WatchesRuns, first: int, last: int, n_offers: Int64Array, n_marked: int, n_nodes: int
    ) -> None:
        """first, last: the lists of the runs that it is offered to. n_marked: runs noted. n_nodes: before it."""
        self.first = first
        self.last = last
        self.n_marked = n_marked
        self.n_nodes = n_nodes
        self._of = of
        self._by = by
        self._n_offers = n_offers
        self._started = by.clock()

    def done(self, found: Pending, *, was_cut: bool) -> None:
        """The event has been offered; found: its matches, in the order in which they were found. was_cut: runs have
        been given up that might have gone on."""
        seconds = self._by.clock() - self._started
        n_next = self._of.count(self, found)
        if not was_cut:
            self._by.take(self._n_offers, n_next, None if self._by.protected else seconds)


__all__ = ["Observation", "ShedRuns"]
