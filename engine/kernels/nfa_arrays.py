"""The arrays of the run-based runtime: a plan, the store, runs, nodes and matches, and what their columns mean.

n steps, m negations, k programs, r registers, p partitions, c capacity:

- code, bounds, constants: programs, see `engine.plan.programs`.
- slots int32 (n_slots, 4): running aggregates by SLOT_KIND, SLOT_COMPONENT, SLOT_COLUMN, SLOT_BASE.
- steps int64 (n, 10): IS_KLEENE, then for each of BEGIN, TAKE, PROCEED first, last, last_loop: programs [first, last)
  are those that are not local, [last, last_loop) are evaluated for each event of an earlier component.
- loops int64 (k, 2): the component over whose events a program runs, -1 for none; 1 if from its second event on.
- negations int64 (m, 4): AFTER, DECIDED_AT, FIRST_ABSENT, LAST_ABSENT (programs that are not local).
- returns int64: program numbers. scalars int64 (5,): HAVING (a program or -1), N_REGISTERS, WITHIN, STRICT_TIES,
  STRATEGY.
- t_ms, partition_of, position, previous int64 (c,): of the store; position in the stream, and the position of the event
  before it in its partition (both empty unless the strategy needs them).
- begin, take bool (n, c), negated bool (m, c): what the early filter found. columns float64 (., c): attributes.
- runs int64 (c, 4 + r): HEAD (node), PARTITION, STATE, NEXT (run), registers. run_aggregates float64 (c, n_slots).
  free int64 (c,): stack of unused runs.
- list_head, chain_length int64 (p + 1,): first run of each partition, and how many; the last entry chains the runs that
  started with broadcast events and belong to every partition not known yet.
- known bool (p,): partitions that had an event; last_seen int64 (p,): the position of the newest.
- nodes int64 (c, 3): what runs have selected, newest last: ROW, PARENT (-1 at the start), COMPONENT.
- match_fields int64 (c, 2): HEAD, PARTITION; match_rows, match_aggregates, match_values: completed matches.
- counters int64 (4,): N_FREE, N_NODES, N_MATCHES, N_LIVE.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.kernels.types import Float64Array, Int64Array

BEGIN = 0
TAKE = 1
PROCEED = 2

# Columns of slots.
SLOT_KIND = 0
SLOT_COMPONENT = 1
SLOT_COLUMN = 2
SLOT_BASE = 3

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

# Strategies.
SKIP_TILL_NEXT_MATCH = 0
PARTITION_CONTIGUITY = 1
STRICT_CONTIGUITY = 2

# Columns of runs and of the fields of matches.
HEAD = 0
PARTITION = 1
STATE = 2
NEXT = 3
FIRST_REGISTER = 4

# Columns of nodes.
ROW = 0
PARENT = 1
COMPONENT = 2

# Entries of counters.
N_FREE = 0
N_NODES = 1
N_MATCHES = 2
N_LIVE = 3


class MatchArrays(NamedTuple):
    """Completed matches: fields int64 (n, 2): HEAD, PARTITION; rows int64 (n, r); aggregates, values float64 (n, .)."""

    fields: Int64Array
    rows: Int64Array
    aggregates: Float64Array
    values: Float64Array
