"""The arrays of the run-based runtime, as records: a plan, a batch, the store, partitions, runs and matches.

n steps, m negations, k programs, r registers, p partitions, c capacity, b events in a batch, o of them offered. Beside
the records there are:

- nodes int64 (c, 4): what runs have selected, newest last: ROW, PARENT (-1 at the start), COMPONENT, BRANCH: the
  nearest node below it that is a union, or else the first. A union (COMPONENT UNION) has two ways down: PARENT is the
  history of the run that started last, ROW the node of the other one's, BRANCH the row with which that one started.
- counters int64 (12,): N_FREE, N_NODES, N_MATCHES, N_LIVE, N_STORED, N_BEGUN, N_MERGED, STAMP, N_OFFERED; the account:
  BALANCE, AT_POSITION up to which it has been paid in, N_CUT: events whose runs were given up since it was empty.

A leaf reads a record at no cost; a kernel would count references at each access to one of its arrays.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.kernels.compile.types import BoolArray, Float64Array, Int32Array, Int64Array

BEGIN = 0
TAKE = 1
PROCEED = 2

# Columns of steps.
IS_KLEENE = 0
EDGES = 1

# Columns of negations.
AFTER = 0
DECIDED_AT = 1
FIRST_ABSENT = 2
LAST_ABSENT = 3

# Entries of scalars.
HAVING = 0
N_REGISTERS = 1
WITHIN = 2
STRICT_TIES = 3
STRATEGY = 4
HAS_BROADCAST = 5
MERGES = 6
CAPACITY = 7
RATE = 8

# Columns of live and of live_states, and kinds of what is live.
LIVE_KIND = 0
LIVE_OF = 1
LIVE_COLUMN = 2
FIRST_LIVE = 0
LAST_LIVE = 1
MERGEABLE = 2
VALUE = 0
SLOT = 1
POSITION = 2

# Columns of chains and of seen.
CHAIN_HEAD = 0
CHAIN_LENGTH = 1
IS_KNOWN = 0
LAST_POSITION = 1
LAST_T = 2

# Columns of runs and of the fields of matches.
HEAD = 0
PARTITION = 1
STATE = 2
NEXT = 3
FIRST_REGISTER = 4
FIRST_ROW = 2
LAST_ROW = 3

# Columns of nodes; the component of a union.
ROW = 0
PARENT = 1
COMPONENT = 2
BRANCH = 3
UNION = -1

# Columns of the table of merging.
ENTRY_STAMP = 0
ENTRY_HASH = 1
ENTRY_RUN = 2

# Entries of counters.
N_FREE = 0
N_NODES = 1
N_MATCHES = 2
N_LIVE = 3
N_STORED = 4
N_BEGUN = 5
N_MERGED = 6
STAMP = 7
N_OFFERED = 8
BALANCE = 9
AT_POSITION = 10
N_CUT = 11
N_COUNTERS = 12


class PlanArrays(NamedTuple):
    """A plan.

    - code int32 (., 3), bounds int32 (k + 1,), constants float64 (.,): programs, see `engine.plan.programs`.
    - kinds, owners, slot_columns, bases int32 (n_slots,): running aggregates, see `engine.plan.programs.Slot`.
    - steps int64 (n, 10): IS_KLEENE, then for each of BEGIN, TAKE, PROCEED first, last, last_loop: programs
      [first, last) are those that are not local, [last, last_loop) are evaluated for each event of an earlier
      component. only_takes bool (n,): an event that the component may take by itself asks nothing else on its way: no
      predicate on the take edge, and after the last component none over events selected one by one.
    - loops int64 (k, 2): the component over whose events a program runs, -1 for none; and over which of them,
      `opcodes.OVER_ALL` and so on.
    - negations int64 (m, 4): AFTER, DECIDED_AT, FIRST_ABSENT, LAST_ABSENT (programs that are not local).
    - returns int64 (n_returns,): program numbers.
    - live int64 (., 3): what later predicates read of a run: LIVE_KIND (VALUE of a register's event, SLOT, PLACE of a
      register's event), LIVE_OF (register or slot), LIVE_COLUMN. live_states int64 (n, 3): FIRST_LIVE, LAST_LIVE into
      it for a run whose last event is of that component, and whether such runs are MERGEABLE.
    - scalars int64 (9,): HAVING (a program or -1), N_REGISTERS, WITHIN, STRICT_TIES, STRATEGY, HAS_BROADCAST, MERGES,
      CAPACITY and RATE of the account (`engine.matching.work_account`).
    """

    code: Int32Array
    bounds: Int32Array
    constants: Float64Array
    kinds: Int32Array
    owners: Int32Array
    slot_columns: Int32Array
    bases: Int32Array
    steps: Int64Array
    only_takes: BoolArray
    loops: Int64Array
    negations: Int64Array
    returns: Int64Array
    live: Int64Array
    live_states: Int64Array
    scalars: Int64Array


class BatchArrays(NamedTuple):
    """A batch, and which of its events are offered to the runs.

    - t_ms int64 (b,); columns float64 (., b); previous int64 (b,): position of the event before in the partition
      (empty unless the strategy needs it).
    - rows int64 (o,), ascending; partition int64 (o,): NOWHERE for those that no edge accepts, BROADCAST for those of
      every partition; roles bool (2 n + m, o): what begin edges, take edges and negations accept.
    """

    t_ms: Int64Array
    rows: Int64Array
    partition: Int64Array
    previous: Int64Array
    roles: BoolArray
    columns: Float64Array


class StoreArrays(NamedTuple):
    """The events that runs have selected, and negated ones, in stream order.

    t_ms, partition, position (in the stream), source (the row in the batch) int64 (c,). columns float64 (., c). negated
    bool (m, c); negated_before int64 (m, c): the row of the negated event before it in its partition.
    """

    t_ms: Int64Array
    partition: Int64Array
    position: Int64Array
    source: Int64Array
    columns: Float64Array
    negated: BoolArray
    negated_before: Int64Array


class PartitionArrays(NamedTuple):
    """What there is of each partition.

    - chains int64 (p + 1, 2): CHAIN_HEAD, the oldest run, and CHAIN_LENGTH; the last entry is of the runs that started
      with broadcast events and belong to every partition not known yet.
    - seen int64 (p, 3): IS_KNOWN (an event was offered to it), LAST_POSITION, LAST_T of its newest event (kept with
      broadcast types only).
    - newest_negated int64 (m, p + 1): the newest row of each negation; the last entry: broadcast.
    """

    chains: Int64Array
    seen: Int64Array
    newest_negated: Int64Array


class RunArrays(NamedTuple):
    """Runs, and scratch of their number.

    fields int64 (c, 4 + r): HEAD (node), PARTITION, STATE, NEXT (run), registers. aggregates float64 (c, n_slots). free
    int64 (c,): stack of unused runs. changed int64 (c,), table int64 (a power of two, 3): scratch.
    """

    fields: Int64Array
    aggregates: Float64Array
    free: Int64Array
    changed: Int64Array
    table: Int64Array


class Scratch(NamedTuple):
    """The run at hand, unpacked: rows int64 (r,), aggregates float64 (n_slots,); and what evaluating takes.

    stack float64 (MAX_STACK,); number float64 (1,), bits int64 (1,): the same memory.
    """

    rows: Int64Array
    aggregates: Float64Array
    stack: Float64Array
    number: Float64Array
    bits: Int64Array


class MatchArrays(NamedTuple):
    """Completed matches: fields int64 (n, 4): HEAD, PARTITION, FIRST_ROW, LAST_ROW; values float64 (n, n_returns).

    rows int64 (n, r) and aggregates float64 (n, n_slots) are of width 0 unless matches wait for the watermark.
    """

    fields: Int64Array
    rows: Int64Array
    aggregates: Float64Array
    values: Float64Array
