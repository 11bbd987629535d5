"""Upkeep of what trend queries keep: vertices whose windows are closed, regions that move."""

from __future__ import annotations

from engine.kernels.compile.ways import leaf
from engine.kernels.programs.predicates import evaluate
from engine.kernels.trends.arrays import N_INDEXES, N_STORED


@leaf
def forget_closed(template, sums, vertices, indexes, states, capacity, n_partitions):
    """Drop the vertices at the start of each region whose windows are all closed: panes expire as a whole.

    states: int64 (n_indexes,), the stored state of each index. capacity: int64 (p, n_stored), room from the start on.
    """
    n_stored = template.sizes[N_STORED]
    n_indexes = template.sizes[N_INDEXES]
    for partition in range(n_partitions):
        for stored in range(n_stored):
            region = partition * n_stored + stored
            dropped = 0
            start = vertices.start[region]
            if sums.first_open[partition] > sums.last_open[partition]:
                dropped = vertices.length[region]
            while (
                dropped < vertices.length[region] and vertices.last_window[start + dropped] < sums.first_open[partition]
            ):
                dropped += 1
            if dropped == 0:
                continue
            vertices.start[region] += dropped
            vertices.length[region] -= dropped
            capacity[region] -= dropped
            for index in range(n_indexes):
                if states[index] == stored:
                    entry = partition * n_indexes + index
                    indexes.limit[entry] = max(0, indexes.limit[entry] - dropped)
                    indexes.gone[entry] += dropped
                    if indexes.limit[entry] == 0:
                        indexes.size[entry] = 0


@leaf
def move_regions(source, target, starts, new_starts, lengths, width):
    """Copy regions from one store of vertices to another, or to another position of it that they do not overlap.

    starts, new_starts, lengths: int64 (n,). width: numbers of a vertex in all its windows.
    """
    for region in range(starts.shape[0]):
        for offset in range(lengths[region]):
            old = starts[region] + offset
            new = new_starts[region] + offset
            target.order[new] = source.order[old]
            target.first_window[new] = source.first_window[old]
            target.last_window[new] = source.last_window[old]
            for entry in range(width):
                target.whole[new * width + entry] = source.whole[old * width + entry]
                target.scale[new * width + entry] = source.scale[old * width + entry]
            for column in range(source.derived.shape[0]):
                target.derived[column, new] = source.derived[column, old]
            for column in range(source.columns.shape[0]):
                target.columns[column, new] = source.columns[column, old]


@leaf
def derive(code, bounds, programs, constants, columns, registers, aggregates, stack, values):
    """Evaluate programs on single events: each register stands for the event at hand.

    code, constants, stack: see `engine.kernels.programs.predicates`; bounds: int32 (n_programs + 1,), the begin of each
    program. programs: int64 (n,), the numbers of those that are evaluated. columns: float64 (n_columns, n_events).
    registers: int64 (n_registers,), aggregates: float64 (1,), both scratch. values: float64 (n, n_events), the results.
    """
    for at in range(programs.shape[0]):
        program = programs[at]
        for row in range(values.shape[1]):
            registers[:] = row
            values[at, row] = evaluate(
                code, bounds[program], bounds[program + 1], constants, columns, registers, aggregates, stack
            )


__all__ = ["derive", "forget_closed", "move_regions"]
