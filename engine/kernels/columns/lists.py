"""Events of matches as Arrow has them: codes of a dictionary, in one list per match and component."""

from __future__ import annotations

from engine.kernels.compile.ways import leaf


@leaf
def number_rows(rows, low, number_of, codes, distinct, n_distinct):
    """A number for each distinct row, in the order in which they come; returns how many there are now.

    rows: int64 (m,), each >= low. number_of: int32 (span,), -1 where row low + k has none yet; codes: int32 (m,),
    filled with the numbers of the rows; distinct: int64, filled from n_distinct on.
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
def split_by_step(bounds, steps, codes, offsets, starts, place, split):
    """The codes of the events, component by component: split int32 (m,), those of a component from starts[step] on.

    codes: int32 (m,); offsets as `count_by_step` fills it; place: int64 (n_steps,), scratch.
    """
    n_steps = starts.shape[0]
    for k in range(bounds.shape[0] - 1):
        for step in range(n_steps):
            place[step] = starts[step] + offsets[step, k]
        for m in range(bounds[k], bounds[k + 1]):
            step = steps[m]
            split[place[step]] = codes[m]
            place[step] += 1


__all__ = ["count_by_step", "number_rows", "split_by_step"]
