"""Events of matches as Arrow has them: codes of a dictionary, in one list per match and component."""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import leaf

_WHOLE = 2.0**63


@leaf
def number_rows(rows, low, number_of, codes, distinct, n_distinct):
    """A number for each distinct row, in the order in which they come; returns how many there are now.

    rows: int64 (m,), each >= low. number_of: int32 (span,), -1 where row low + k has none yet; codes: int32 (m,),
    filled with the numbers of the rows; distinct: int64, filled from n_distinct on.

    distinct: int64 (k,).
    """
    for k in range(rows.shape[0]):
        at = rows[k] - low
        number = number_of[at]
        if number < 0:
            number = n_distinct
            number_of[at] = number
            distinct[number] = rows[k]
            n_distinct += 1
        codes[k] = number
    return n_distinct


@leaf
def number_both(rows, others, low, number_of, codes, other_codes, distinct):
    """As `number_rows`, of two groups, none of which has a number yet: int64 (m,) each, codes int32 (m,)."""
    n_distinct = number_rows(rows, low, number_of, codes, distinct, 0)
    return number_rows(others, low, number_of, other_codes, distinct, n_distinct)


@leaf
def span_of(rows, others):
    """The least and the greatest of two groups of rows; 0 and -1 where both are empty.

    rows, others: int64 (m,) each.
    """
    if rows.shape[0] == 0 and others.shape[0] == 0:
        return 0, -1
    low = high = rows[0] if rows.shape[0] > 0 else others[0]
    for k in range(rows.shape[0]):
        low = min(low, rows[k])
        high = max(high, rows[k])
    for k in range(others.shape[0]):
        low = min(low, others[k])
        high = max(high, others[k])
    return low, high


@leaf
def whole_numbers(numbers, rows, column, ints):
    """Whether all of numbers[rows, column], float64, are whole numbers that int64 holds: ints, int64 (n,), are filled.

    rows: int64 (n,); a negative one has none.
    """
    for k in range(rows.shape[0]):
        if rows[k] < 0:
            return False
        number = numbers[rows[k], column]
        if not -_WHOLE <= number < _WHOLE:
            return False
        ints[k] = np.int64(number)
    return True


@leaf
def count_by_step(bounds, steps, offsets):
    """Where the lists of each component begin: offsets int64 (n_steps, n + 1), filled.

    bounds: int64 (n + 1,), the events of match k are those of bounds[k] : bounds[k + 1]; steps: int64 (m,).
    """
    n_steps, n = offsets.shape[0], bounds.shape[0] - 1
    for step in range(n_steps):
        offsets[step, 0] = 0
    for k in range(n):
        for step in range(n_steps):
            offsets[step, k + 1] = offsets[step, k]
        for m in range(bounds[k], bounds[k + 1]):
            offsets[steps[m], k + 1] += 1


@leaf
def split_by_step(bounds, steps, codes, offsets, starts, position, split):
    """The codes of the events, component by component: split int32 (m,), those of a component from starts[step] on.

    codes: int32 (m,); offsets as `count_by_step` fills it; position: int64 (n_steps,), scratch.

    bounds: int64 (n + 1,). steps: int64 (m,). starts: int64 (n_steps,).
    """
    n_steps = starts.shape[0]
    for k in range(bounds.shape[0] - 1):
        for step in range(n_steps):
            position[step] = starts[step] + offsets[step, k]
        for m in range(bounds[k], bounds[k + 1]):
            step = steps[m]
            split[position[step]] = codes[m]
            position[step] += 1


__all__ = ["count_by_step", "number_both", "number_rows", "span_of", "split_by_step", "whole_numbers"]
