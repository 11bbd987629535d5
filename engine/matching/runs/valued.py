"""What the runs of a runtime are worth, and giving some of them up (pSPICE, section III-F)."""

from __future__ import annotations

import numpy as np

from engine.events import Float64Array, Int64Array
from engine.kernels.runs import arrays as na
from engine.kernels.shedding import dropping
from engine.matching.runs.memory import RunMemory
from engine.matching.shedding import RunsAtHand, RunUtilities


def runs_at_hand(
    memory: RunMemory, t_ms: Int64Array, within_ms: int, now_ms: int, events_per_ms: Float64Array, by: RunUtilities
) -> RunsAtHand:
    """All runs. t_ms: int64 (c,), of the store. events_per_ms: float64 (n_chains,), the last entry of no use."""
    n = memory.count(na.N_LIVE)
    n_histories = np.empty(memory.n_nodes)
    dropping.count_histories(memory.nodes, memory.n_nodes, t_ms, now_ms - within_ms, n_histories)
    numbers, utility = np.empty(n, np.int64), np.empty(n)
    dropping.utilities(
        memory.runs, memory.chains, t_ms, within_ms, now_ms, n_histories, events_per_ms, by.values, by.bin_events,
        by.protected, numbers, utility,
    )  # fmt: skip
    return RunsAtHand(numbers, utility, n_histories[memory.runs[numbers, na.HEAD]])


def give_up(memory: RunMemory, numbers: Int64Array) -> None:
    """Give up these runs."""
    chosen = np.zeros(len(memory.runs), np.bool_)
    chosen[numbers] = True
    dropping.give_up(memory.run_arrays, memory.chains, memory.counters, chosen)


__all__ = ["give_up", "runs_at_hand"]
