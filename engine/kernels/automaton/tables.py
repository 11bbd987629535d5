"""The automaton of a query as arrays, and the chain of events of a run, as the automaton kernels take them.

In these modules numbers that are arguments are written np.int64(0): a plain 0 is a type of its own, for which the
function, and all that it calls, would be compiled once more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.compile.ways import kernel

# Columns of Tables.edges.
SOURCE, TARGET, OCCURRENCE, VARIABLE, BLOCKS = 0, 1, 2, 3, 4
GUARDS, GUARDS_END, ACTIONS, ACTIONS_END, CROSSINGS, CROSSINGS_END, CHECKS, CHECKS_END = 5, 6, 7, 8, 9, 10, 11, 12

# Columns of Tables.exits; column 0 is the state.
EXIT_GUARDS, EXIT_GUARDS_END, EXIT_CROSSINGS, EXIT_CROSSINGS_END, EXIT_CHECKS, EXIT_CHECKS_END = 1, 2, 3, 4, 5, 6

# Columns of Tables.checks.
CHECKED, DEPTH, NEWEST, BEFORE = 0, 1, 2, 3

# Columns of Tables.conditions.
PROGRAM, TERMS, TERMS_END, CONTEXT, CONTEXT_END, STEPPING, FIRST_I = 0, 1, 2, 3, 4, 5, 6

# Columns of Tables.terms.
TERM_KIND, TERM_VARIABLE, TERM_COLUMN, TERM_DEPTH, TERM_RANGE = 0, 1, 2, 3, 4

# Kinds of terms: one event of a variable, or an aggregate of its list.
ONLY, FIRST_OF, LAST_OF, CURRENT_OF, PREVIOUS_OF = 0, 1, 2, 3, 4
COUNT_EVENTS, COUNT, SUM, MIN, MAX, AVG, STDDEV, VALUE_OF_FIRST, VALUE_OF_LAST = 10, 11, 12, 13, 14, 15, 16, 17, 18
REPEATS = 19
"""How many events before the current one of a list have its value."""

# Ranges of aggregates.
WHOLE, UP_TO_CURRENT, UP_TO_LAST = 0, 1, 2

# Columns of Tables.naming.
NAME, KLEENE, ALWAYS = 0, 1, 2

# Columns of Tables.negations.
NEGATION_START, BESIDE, BESIDE_END = 0, 1, 2

# Places in Tables.scalars.
N_POSITIVE, N_COUNTERS, N_DEPTH, HAVING, WITHIN_MS, STRICT_TIES, MUST_BE_KEYED, STRATEGY = 0, 1, 2, 3, 4, 5, 6, 7
TIME_COLUMN = 8
"""The column of the times that may be tied; -1: t_ms."""

UNBOUNDED = 2**62


class Tables(NamedTuple):
    """One automaton. Ranges [x, x_END) of one array are rows of another; states, variables and so on are numbers.

    code, bounds, constants: the programs of `conditions`. edges: int64 (n_edges, 13), sorted by SOURCE, those of state
    s are state_edges[s:s + 2]; exits likewise (n_exits, 7). guards: (n, 3) counter, least, most. actions: (n, 2)
    counter, 1 for a restart. crossings: (n, 2) negation, 1 when the iteration has begun. checks: (n, 4). conditions:
    (n, 7). contexts: groups. terms: (n, 5). paths: groups of variable v at path_bounds[v:v + 2]. in_context: bool
    (n_conditions, n_variables), the variable is inside all groups of the context. negations: (n, 3); beside: (n, 2)
    occurrence, depth. parallel: (n_occurrences, n_occurrences), depth or -1. returns: conditions. naming: (n_positive,
    3): the position of a variable's name among all in the order of letters, whether it may have several events in one
    iteration, whether every match has an event of it. scalars: (9,).
    """

    code: npt.NDArray[np.int32]
    bounds: npt.NDArray[np.int32]
    constants: npt.NDArray[np.float64]
    edges: npt.NDArray[np.int64]
    state_edges: npt.NDArray[np.int64]
    exits: npt.NDArray[np.int64]
    state_exits: npt.NDArray[np.int64]
    guards: npt.NDArray[np.int64]
    actions: npt.NDArray[np.int64]
    crossings: npt.NDArray[np.int64]
    checks: npt.NDArray[np.int64]
    conditions: npt.NDArray[np.int64]
    contexts: npt.NDArray[np.int64]
    terms: npt.NDArray[np.int64]
    paths: npt.NDArray[np.int64]
    path_bounds: npt.NDArray[np.int64]
    in_context: npt.NDArray[np.bool_]
    negations: npt.NDArray[np.int64]
    beside: npt.NDArray[np.int64]
    parallel: npt.NDArray[np.int64]
    returns: npt.NDArray[np.int64]
    naming: npt.NDArray[np.int64]
    scalars: npt.NDArray[np.int64]


class Rows(NamedTuple):
    """The store of a query: t_ms, partition int64 (n,); columns float64 (n_columns, n); masks bool: begin
    (n_positive, n), negated (n_negated, n). Members of partition p (BROADCAST is -1), in order:
    members[starts[p + 1]:starts[p + 2]]."""

    t_ms: npt.NDArray[np.int64]
    partition: npt.NDArray[np.int64]
    columns: npt.NDArray[np.float64]
    begin: npt.NDArray[np.bool_]
    negated: npt.NDArray[np.bool_]
    members: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]


class Chain(NamedTuple):
    """The events of a run in order, and scratch: rows, edges, variables int64 (capacity,); iterations int64 (room,
    depth), the counters of the groups around each event; counters int64 (room + 1, n_counters), before each event and
    after the last; term_rows, term_values: of the terms of a condition; context: iterations; stack: of programs."""

    rows: npt.NDArray[np.int64]
    edges: npt.NDArray[np.int64]
    variables: npt.NDArray[np.int64]
    iterations: npt.NDArray[np.int64]
    counters: npt.NDArray[np.int64]
    term_rows: npt.NDArray[np.int64]
    term_values: npt.NDArray[np.float64]
    context: npt.NDArray[np.int64]
    stack: npt.NDArray[np.float64]


@kernel
def new_chain(tables, capacity):
    """An empty chain with room for so many events."""
    n_terms = 1
    for k in range(tables.conditions.shape[0]):
        n_terms = max(n_terms, tables.conditions[k, TERMS_END] - tables.conditions[k, TERMS])
    depth = tables.scalars[N_DEPTH]
    return Chain(
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.zeros((capacity, depth), np.int64),
        np.zeros((capacity + 1, tables.scalars[N_COUNTERS]), np.int64),
        np.empty(n_terms, np.int64),
        np.empty(n_terms, np.float64),
        np.empty(depth + 1, np.int64),
        np.empty(64, np.float64),
    )


@kernel
def longer_chain(tables, chain, n):
    """The first n events of a chain, with twice the room."""
    longer = new_chain(tables, 2 * chain.rows.shape[0] + 16)
    longer.rows[:n] = chain.rows[:n]
    longer.edges[:n] = chain.edges[:n]
    longer.variables[:n] = chain.variables[:n]
    longer.iterations[:n] = chain.iterations[:n]
    longer.counters[: n + 1] = chain.counters[: n + 1]
    return longer
