"""Runs in the chains of their partitions: begun, given up, merged away. Records: see `engine.kernels.runs.arrays`."""

from __future__ import annotations

from engine.kernels.compile.ways import leaf
from engine.kernels.runs.arrays import (
    CHAIN_HEAD,
    CHAIN_LENGTH,
    FIRST_REGISTER,
    HEAD,
    IS_KNOWN,
    N_BEGUN,
    N_FREE,
    N_LIVE,
    NEXT,
    PARTITION,
    STATE,
)
from engine.kernels.runs.merging import MERGED_AWAY

END = -1
"""In place of a run: there is none."""


@leaf
def begin_run(runs, partitions, counters, chain, state, head, partition, scratch):
    """A run in no chain yet, of the registers at hand; its number. It counts as one of `chain`."""
    run = runs.free[counters[N_FREE] - 1]
    runs.fields[run, STATE] = state
    runs.fields[run, HEAD] = head
    runs.fields[run, PARTITION] = partition
    runs.fields[run, NEXT] = END
    for k in range(scratch.rows.shape[0]):
        runs.fields[run, FIRST_REGISTER + k] = scratch.rows[k]
    for k in range(scratch.aggregates.shape[0]):
        runs.aggregates[run, k] = scratch.aggregates[k]
    counters[N_FREE] -= 1
    counters[N_LIVE] += 1
    counters[N_BEGUN] += 1
    partitions.chains[chain, CHAIN_LENGTH] += 1
    return run


@leaf
def know_partition(runs, partitions, counters, partition):
    """A partition seen for the first time has all runs that broadcast events have started so far."""
    chains, fields = partitions.chains, runs.fields
    partitions.seen[partition, IS_KNOWN] = 1
    tail = END
    run = chains[chains.shape[0] - 1, CHAIN_HEAD]
    while run != END:
        counters[N_FREE] -= 1
        counters[N_LIVE] += 1
        copy = runs.free[counters[N_FREE]]
        for k in range(fields.shape[1]):
            fields[copy, k] = fields[run, k]
        for k in range(runs.aggregates.shape[1]):
            runs.aggregates[copy, k] = runs.aggregates[run, k]
        fields[copy, PARTITION] = partition
        fields[copy, NEXT] = END
        if tail >= 0:
            fields[tail, NEXT] = copy
        else:
            chains[partition, CHAIN_HEAD] = copy
        tail = copy
        chains[partition, CHAIN_LENGTH] += 1
        run = fields[run, NEXT]


@leaf
def unlink(runs, chains, counters, chain, before, run):
    """Free a run; `before` is the one that stays before it in the chain, or END. chains: of the partitions."""
    if before >= 0:
        runs.fields[before, NEXT] = runs.fields[run, NEXT]
    else:
        chains[chain, CHAIN_HEAD] = runs.fields[run, NEXT]
    runs.free[counters[N_FREE]] = run
    counters[N_FREE] += 1
    counters[N_LIVE] -= 1
    chains[chain, CHAIN_LENGTH] -= 1


@leaf
def keep_oldest(runs, chains, counters, chain, most):
    """Give up the runs of a chain but for the `most` oldest; how many stay."""
    n, before = 0, END
    run = chains[chain, CHAIN_HEAD]
    while run != END:
        following = runs.fields[run, NEXT]
        if n < most:
            n += 1
            before = run
        else:
            unlink(runs, chains, counters, chain, before, run)
        run = following
    return n


@leaf
def unlink_merged(runs, chains, counters, chain):
    """Free the runs of a chain that others have taken in."""
    before = END
    run = chains[chain, CHAIN_HEAD]
    while run != END:
        following = runs.fields[run, NEXT]
        if runs.fields[run, STATE] == MERGED_AWAY:
            unlink(runs, chains, counters, chain, before, run)
        else:
            before = run
        run = following


__all__ = ["END", "begin_run", "keep_oldest", "know_partition", "unlink", "unlink_merged"]
