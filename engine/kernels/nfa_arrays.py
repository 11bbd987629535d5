"""The arrays of the run-based runtime: a plan, the store, runs, nodes and matches, and what their columns mean."""

from __future__ import annotations

from typing import NamedTuple

from engine.kernels.types import BoolArray, Float64Array, Int32Array, Int64Array

BEGIN = 0
TAKE = 1
PROCEED = 2
FIRST_PROGRAM = 0  # columns of an edge: programs [first, last) are evaluated at once,
LAST_PROGRAM = 1
LAST_LOOP = 2  # programs [last, last_loop) for each event of an earlier Kleene component

# Columns of the negations of a plan.
NEGATED_TYPE = 0
AFTER = 1
DECIDED_AT = 2
FIRST_ABSENT = 3  # programs [FIRST_ABSENT, LAST_ABSENT)
LAST_ABSENT = 4


class PlanArrays(NamedTuple):
    """A plan as arrays. n steps, m negations, k programs, r registers.

    step_type int64 (n,), kleene bool (n,); edges int64 (n, 3, 3): BEGIN, TAKE, PROCEED by FIRST_PROGRAM, LAST_PROGRAM,
    LAST_LOOP; code int32 (., 3), bounds int32 (k + 1,), constants float64; loops int64 (k, 2): the component over whose
    events a program runs, -1 for none, and 1 if it does so from the second event on; slot arrays int32 (n_slots,);
    negations int64 (m, 5): NEGATED_TYPE, AFTER, DECIDED_AT, FIRST_ABSENT, LAST_ABSENT; returns int64, program numbers;
    having: a program number or -1.
    """

    step_type: Int64Array
    kleene: BoolArray
    edges: Int64Array
    code: Int32Array
    bounds: Int32Array
    constants: Float64Array
    loops: Int64Array
    slot_kind: Int32Array
    slot_component: Int32Array
    slot_column: Int32Array
    slot_base: Int32Array
    negations: Int64Array
    returns: Int64Array
    having: int
    n_registers: int
    within_ms: int
    strict_ties: bool


class StoreArrays(NamedTuple):
    """The columns of the store: t_ms, partition, type_index int64 (n,), columns float64 (n_columns, n)."""

    t_ms: Int64Array
    partition: Int64Array
    type_index: Int64Array
    columns: Float64Array


class RunArrays(NamedTuple):
    """Runs: fields int64 (c, 4): HEAD (node), PARTITION, STATE, NEXT (run); rows int64 (c, r); aggregates float64.

    `free` int64 (c,): stack of unused runs. `list_head` int64 (n_partitions + 1,): first run of each partition; the
    last entry chains the runs that started with broadcast events and belong to every partition not known yet. `known`
    bool (n_partitions,).
    """

    fields: Int64Array
    rows: Int64Array
    aggregates: Float64Array
    free: Int64Array
    list_head: Int64Array
    known: BoolArray


# Columns of the fields of runs and matches.
HEAD = 0
PARTITION = 1
STATE = 2
NEXT = 3


class MatchArrays(NamedTuple):
    """Completed matches: fields int64 (c, 2): HEAD, PARTITION; rows int64 (c, r); aggregates, values float64 (c, .)."""

    fields: Int64Array
    rows: Int64Array
    aggregates: Float64Array
    values: Float64Array


# Columns of the nodes, int64 (c, 3): what runs have selected, newest last; PARENT is -1 at the start of a chain.
ROW = 0
PARENT = 1
COMPONENT = 2

# Entries of the counters array.
N_FREE = 0  # runs on the free stack
N_NODES = 1
N_MATCHES = 2
N_LIVE = 3
