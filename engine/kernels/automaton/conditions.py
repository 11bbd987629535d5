"""Conditions over the chain of a run: every form of predicate of the language, in every iteration that it is about.

The value of a term is found by going through the chain: one pass per term, so that an evaluation costs
O(terms * events of the chain).
"""

from __future__ import annotations

import math

import numpy as np

from engine.kernels.automaton.tables import (
    AVG,
    CHECKED,
    CONTEXT,
    CONTEXT_END,
    COUNT,
    COUNT_EVENTS,
    CURRENT_OF,
    DEPTH,
    FIRST_I,
    FIRST_OF,
    LAST_OF,
    MAX,
    MIN,
    NEWEST,
    ONLY,
    PREVIOUS_OF,
    PROGRAM,
    REPEATS,
    STDDEV,
    STEPPING,
    TERM_COLUMN,
    TERM_DEPTH,
    TERM_KIND,
    TERM_RANGE,
    TERM_VARIABLE,
    TERMS,
    TERMS_END,
    UNBOUNDED,
    UP_TO_CURRENT,
    UP_TO_LAST,
    VALUE_OF_FIRST,
    VALUE_OF_LAST,
    WHOLE,
)
from engine.kernels.compile.ways import leaf
from engine.kernels.programs.opcodes import TRUE
from engine.kernels.programs.predicates import evaluate

VISITS_PER_VALUE = 256
"""Looks at events in the time that a value takes whose terms are known."""


@leaf
def _is_in(iterations, context, at, depth):
    """Whether event `at` of the chain is in the context at hand: to be asked of events of the list's variable.

    It takes what it looks at, not the chain: handing that over would take longer than looking.
    """
    same = True
    for d in range(depth):
        same = same and iterations[at, d] == context[d]
    return same


@leaf
def _n_listed(chain, n, variable, depth):
    variables, count = chain.variables, 0
    for at in range(n):
        if variables[at] == variable and (depth == 0 or _is_in(chain.iterations, chain.context, at, depth)):
            count += 1
    return count


@leaf
def _aggregate(columns, chain, n, kind, variable, column, depth, most):
    """An aggregate of the first `most` events of a list; NULL values are left out, but by first and last."""
    variables, rows = chain.variables, chain.rows
    n_events, n_values = 0, 0
    value = np.nan
    mean, squares = 0.0, 0.0
    for at in range(n):
        if n_events >= most:
            break
        if variables[at] != variable or (depth > 0 and not _is_in(chain.iterations, chain.context, at, depth)):
            continue
        n_events += 1
        if column < 0:
            continue
        x = columns[column, rows[at]]
        if kind == VALUE_OF_LAST or (kind == VALUE_OF_FIRST and n_events == 1):
            value = x
        if math.isnan(x) or kind in (VALUE_OF_FIRST, VALUE_OF_LAST):
            continue
        n_values += 1
        if kind == STDDEV:
            step = x - mean
            mean += step / n_values
            squares += step * (x - mean)
        elif n_values == 1:
            value = x
        elif kind == MIN:
            value = min(value, x)
        elif kind == MAX:
            value = max(value, x)
        else:
            value += x
    if kind == COUNT_EVENTS:
        return float(n_events)
    if kind == COUNT:
        return float(n_values)
    if kind == AVG:
        return value / n_values if n_values else np.nan
    if kind == STDDEV:
        return math.sqrt(squares / n_values) if n_values else np.nan
    return value


@leaf
def _nth(chain, n, variable, depth, number):
    """The row of event `number` (from 1) of a list; -1 without one."""
    variables, count = chain.variables, 0
    for at in range(n):
        if variables[at] == variable and (depth == 0 or _is_in(chain.iterations, chain.context, at, depth)):
            count += 1
            if count == number:
                return chain.rows[at]
    return -1


@leaf
def _repeats(columns, chain, n, variable, column, depth, i):
    """How many of the first i - 1 events of a list have the value of event i; NaN where it has none."""
    variables, rows = chain.variables, chain.rows
    value = columns[column, _nth(chain, n, variable, depth, i)]
    if math.isnan(value):
        return np.nan
    n_events, n_equal = 1, 0
    for at in range(n):
        if n_events >= i:
            break
        if variables[at] == variable and (depth == 0 or _is_in(chain.iterations, chain.context, at, depth)):
            n_events += 1
            if columns[column, rows[at]] == value:
                n_equal += 1
    return float(n_equal)


@leaf
def _load_terms(tables, columns, chain, n, condition, i):
    """Find the terms for this i; False when one is about a variable without an event, and not a count."""
    first = tables.conditions[condition, TERMS]
    for t in range(first, tables.conditions[condition, TERMS_END]):
        kind = tables.terms[t, TERM_KIND]
        variable = tables.terms[t, TERM_VARIABLE]
        depth = tables.terms[t, TERM_DEPTH]
        n_events = _n_listed(chain, n, variable, depth)
        is_counted = kind in (COUNT_EVENTS, COUNT) and tables.terms[t, TERM_RANGE] == WHOLE
        if n_events == 0 and not is_counted:
            return False
        if kind in (ONLY, FIRST_OF):
            chain.term_rows[t - first] = _nth(chain, n, variable, depth, np.int64(1))
        elif kind == LAST_OF:
            chain.term_rows[t - first] = _nth(chain, n, variable, depth, n_events)
        elif kind == CURRENT_OF:
            chain.term_rows[t - first] = _nth(chain, n, variable, depth, i)
        elif kind == PREVIOUS_OF:
            chain.term_rows[t - first] = _nth(chain, n, variable, depth, i - 1)
        elif kind == REPEATS:
            column = tables.terms[t, TERM_COLUMN]
            chain.term_values[t - first] = _repeats(columns, chain, n, variable, column, depth, i)
        else:
            most = UNBOUNDED
            if tables.terms[t, TERM_RANGE] == UP_TO_CURRENT:
                most = i - 1
            elif tables.terms[t, TERM_RANGE] == UP_TO_LAST:
                most = n_events - 1
            chain.term_values[t - first] = _aggregate(
                columns, chain, n, kind, variable, tables.terms[t, TERM_COLUMN], depth, most
            )
    return True


@leaf
def value_of(tables, columns, chain, n, condition, i):
    """The value of a condition's program for this i in the context at hand; NaN where it does not apply."""
    if not _load_terms(tables, columns, chain, n, condition, i):
        return np.nan
    return _run(tables, columns, chain, condition)


@leaf
def _run(tables, columns, chain, condition):
    program = tables.conditions[condition, PROGRAM]
    return evaluate(
        tables.code, tables.bounds[program], tables.bounds[program + 1], tables.constants, columns, chain.term_rows,
        chain.term_values, chain.stack,
    )  # fmt: skip


@leaf
def _holds_here(tables, columns, chain, n, condition, newest):
    """In the context at hand, for every i or the newest: true, or not applicable."""
    stepping = tables.conditions[condition, STEPPING]
    if stepping < 0:
        return (
            not _load_terms(tables, columns, chain, n, condition, np.int64(0))
            or _run(tables, columns, chain, condition) == TRUE
        )
    depth = np.int64(0)
    for t in range(tables.conditions[condition, TERMS], tables.conditions[condition, TERMS_END]):
        if tables.terms[t, TERM_VARIABLE] == stepping:
            depth = tables.terms[t, TERM_DEPTH]
    last = _n_listed(chain, n, stepping, depth)
    first = tables.conditions[condition, FIRST_I]
    for i in range(max(first, last) if newest else first, last + 1):
        if _load_terms(tables, columns, chain, n, condition, i) and _run(tables, columns, chain, condition) != TRUE:
            return False
    return True


@leaf
def holds(tables, columns, chain, n, condition, depth, newest, counters):
    """Whether a condition is true in every iteration of its context that agrees with `counters` in `depth` groups.

    Of the first n events of the chain. An iteration without an event of one of the variables does not count, unless
    these are only counted.
    """
    context = tables.conditions[condition, CONTEXT]
    n_groups = tables.conditions[condition, CONTEXT_END] - context
    if depth >= n_groups:
        for d in range(n_groups):
            chain.context[d] = counters[tables.contexts[context + d]]
        return _holds_here(tables, columns, chain, n, condition, newest)
    for at in range(n):
        if not tables.in_context[condition, chain.variables[at]]:
            continue
        agrees = True
        for d in range(depth):
            agrees = agrees and chain.iterations[at, d] == counters[tables.contexts[context + d]]
        if not agrees or _is_repeated(tables, chain, condition, at, n_groups):
            continue
        for d in range(n_groups):
            chain.context[d] = chain.iterations[at, d]
        if not _holds_here(tables, columns, chain, n, condition, newest):
            return False
    return True


@leaf
def _is_repeated(tables, chain, condition, at, n_groups):
    """Whether an earlier event of the chain is in the same iteration of the context."""
    for other in range(at):
        if tables.in_context[condition, chain.variables[other]]:
            same = True
            for d in range(n_groups):
                same = same and chain.iterations[at, d] == chain.iterations[other, d]
            if same:
                return True
    return False


@leaf
def add_visits(tables, first, end, visits):
    """Add to looks, int64 (3,), what checks first to end - 1 cost at most: looks[0] + n * looks[1] + n * n * looks[2]
    looks at events, of a chain of n events."""
    for k in range(first, end):
        condition, newest = tables.checks[k, CHECKED], tables.checks[k, NEWEST] != 0
        n_groups = tables.conditions[condition, CONTEXT_END] - tables.conditions[condition, CONTEXT]
        add_visits_of(tables, condition, visits)
        if (tables.conditions[condition, STEPPING] >= 0 and not newest) or tables.checks[k, DEPTH] < n_groups:
            visits[2] += _passes(tables, condition)


@leaf
def add_visits_of(tables, condition, visits):
    """The same for the value of one condition's program."""
    visits[0] += VISITS_PER_VALUE
    visits[1] += _passes(tables, condition)


@leaf
def _passes(tables, condition):
    """How often the terms of a condition go through the chain at most."""
    n = 0
    for t in range(tables.conditions[condition, TERMS], tables.conditions[condition, TERMS_END]):
        n += 3 if tables.terms[t, TERM_KIND] == REPEATS else 2
    return n
