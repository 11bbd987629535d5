"""P(differences of independent times are as demanded), by eliminating one time after the other (exact).

A partial order of events, a window between several first and last ones, and the position of a negated event are all
demands `t_after - t_before >= least_ms` between times that are independent. The joint distribution is summed out time
by time (variable elimination): where a time has one neighbour that is a running sum over milliseconds, where it has k
neighbours a table of k axes. So the cost of a tree of demands is the sum of the intervals' lengths, that of a cycle the
product of two of them, and so on; `Budget` bounds it. Sums of positive terms throughout, accurate to about 1e-13.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from engine.events import Float64Array

MAX_CELLS = 4_000_000
"""Cells of one table; two intervals of 2,000 ms that depend on each other, or four of 40 ms."""
MAX_WORK = 60_000_000
"""Cells of all tables of one probability: about a second."""
PER_TABLE = 1_000
"""Cells in the time that any table takes."""


class TooMuchWorkError(Exception):
    """A probability would cost more than its budget."""


class Difference(NamedTuple):
    """The time `after` is at least `least_ms` later than `before`; both are numbers of times."""

    before: int
    after: int
    least_ms: int


class Time(NamedTuple):
    """An independent time: P(lo_ms + k) is shares[k]."""

    lo_ms: int
    shares: Float64Array

    @property
    def hi_ms(self) -> int:
        """The latest possible time."""
        return self.lo_ms + len(self.shares) - 1


class Table(NamedTuple):
    """A factor: one axis per time in `times` (ascending numbers), as long as its interval."""

    times: tuple[int, ...]
    values: Float64Array


@dataclass
class Budget:
    """Cells that may still be computed."""

    cells: int = MAX_WORK

    def spend(self, cells: int) -> None:
        """For one table. Raises TooMuchWorkError, and spends nothing, when it is too large, or all of them are."""
        if cells > MAX_CELLS or cells + PER_TABLE > self.cells:
            raise TooMuchWorkError
        self.cells -= cells + PER_TABLE


def undecided(differences: Iterable[Difference], times: Mapping[int, Time]) -> list[Difference] | None:
    """Those that hold in some worlds only; None when one holds in none."""
    left: list[Difference] = []
    for demand in dict.fromkeys(differences):
        before, after = times[demand.before], times[demand.after]
        if after.hi_ms - before.lo_ms < demand.least_ms:
            return None
        if after.lo_ms - before.hi_ms < demand.least_ms:
            left.append(demand)
    return left


def narrowed(times: Mapping[int, Time], demanded: Sequence[Difference]) -> dict[int, Time] | None:
    """The times without the milliseconds that the demands rule out; None when they cannot all hold."""
    lo = {number: time.lo_ms for number, time in times.items()}
    hi = {number: time.hi_ms for number, time in times.items()}
    for _ in range(len(times) + 1):
        changed = False
        for before, after, least_ms in demanded:
            if lo[before] + least_ms > lo[after]:
                lo[after], changed = lo[before] + least_ms, True
            if hi[after] - least_ms < hi[before]:
                hi[before], changed = hi[after] - least_ms, True
        if any(lo[number] > hi[number] for number in times):
            return None
        if not changed:
            return {
                number: Time(lo[number], time.shares[lo[number] - time.lo_ms : hi[number] - time.lo_ms + 1])
                for number, time in times.items()
            }
    return None  # the bounds move round a cycle of demands that contradict each other


@dataclass
class Elimination:
    """Times, demands and factors, of which times are summed out; `constant`: the product of what has no axis (left)."""

    times: Mapping[int, Time]
    differences: list[Difference]
    tables: list[Table]
    budget: Budget = field(default_factory=Budget)
    constant: float = 1.0

    def __post_init__(self) -> None:
        for table in self.tables:
            if not table.times:  # no time brings it in
                self.constant *= float(table.values)
        self.tables = [table for table in self.tables if table.times]

    def sum_out(self, numbers: Collection[int]) -> None:
        """Sum out these times, those with the smallest result first."""
        waiting = set(numbers)
        while waiting and self.constant:
            sizes = {number: self._n_cells(self._neighbours(number)) for number in waiting}
            number = min(waiting, key=lambda candidate: (sizes[candidate], candidate))
            waiting.remove(number)
            self._sum_out(number)

    def table(self) -> Table:
        """The product of what is left as one table; there is no demand left."""
        over = tuple(sorted({number for table in self.tables for number in table.times}))
        self.budget.spend(self._n_cells(over))
        values = np.full([len(self.times[number].shares) for number in over], self.constant)
        for table in self.tables:
            values = values * _aligned(table, over)
        return Table(over, values)

    def _neighbours(self, number: int) -> set[int]:
        found = {other for table in self.tables if number in table.times for other in table.times}
        found.update(d.after for d in self.differences if d.before == number)
        found.update(d.before for d in self.differences if d.after == number)
        return found - {number}

    def _n_cells(self, numbers: Iterable[int]) -> int:
        return math.prod(len(self.times[number].shares) for number in numbers)

    def _sum_out(self, number: int) -> None:
        time = self.times[number]
        own = [table for table in self.tables if number in table.times]
        lower = [d for d in self.differences if d.after == number]
        upper = [d for d in self.differences if d.before == number]
        inner = tuple(sorted({other for table in own for other in table.times} - {number}))
        outer = tuple(sorted(self._neighbours(number)))
        self.budget.spend(self._n_cells((number, *inner)))
        self.budget.spend(self._n_cells(outer))
        values = time.shares.reshape([-1] + [1] * len(inner))
        for table in own:
            values = values * _aligned(table, (number, *inner))
        self.tables = [table for table in self.tables if number not in table.times]
        self.differences = [d for d in self.differences if number not in (d.before, d.after)]
        values = _spread(values, inner, outer)
        n = len(time.shares)
        first, stop = None, None
        for before, _, least_ms in lower:
            bound = self._axis(before, outer) + (least_ms - time.lo_ms)
            first = bound if first is None else np.maximum(first, bound)
        for _, after, least_ms in upper:
            bound = self._axis(after, outer) + (1 - least_ms - time.lo_ms)
            stop = bound if stop is None else np.minimum(stop, bound)
        result = between(
            values, None if first is None else np.clip(first, 0, n), None if stop is None else np.clip(stop, 0, n)
        )
        if outer:
            shape = [len(self.times[other].shares) for other in outer]
            self.tables.append(Table(outer, np.broadcast_to(result, shape)))
        else:
            self.constant *= float(result)

    def _axis(self, number: int, over: tuple[int, ...]) -> Any:
        """The milliseconds of a time along its axis of a table over `over`."""
        time = self.times[number]
        shape = [1] * len(over)
        shape[over.index(number)] = -1
        return (time.lo_ms + np.arange(len(time.shares))).reshape(shape)


def between(values: Float64Array, first: Any, stop: Any) -> Any:
    """The sums of values[first:stop] along the first axis, `first` and `stop` (None: all) by the other axes."""
    if first is None and stop is None:
        return values.sum(axis=0)
    if stop is None:
        return _picked(_before(values[::-1])[::-1], first)
    running = _before(values)
    if first is None:
        return _picked(running, stop)
    return _picked(running, np.maximum(first, stop)) - _picked(running, first)


def _before(values: Float64Array) -> Float64Array:
    """sums[k] = values[0] + ... + values[k - 1] along the first axis."""
    sums = np.zeros((len(values) + 1, *values.shape[1:]))
    np.cumsum(values, axis=0, out=sums[1:])
    return sums


def _picked(sums: Float64Array, at: Any) -> Any:
    """sums[at[x, y, ...], x, y, ...], an axis of length one meaning every position of it."""
    axes = []
    for axis, length in enumerate(sums.shape[1:]):
        shape = [1] * (sums.ndim - 1)
        shape[axis] = -1
        axes.append(np.arange(length).reshape(shape))
    return sums[(at, *axes)]


def _aligned(table: Table, over: tuple[int, ...]) -> Any:
    """The values with an axis for each time in `over`, of length one where the table has none."""
    order = sorted(range(len(table.times)), key=lambda axis: over.index(table.times[axis]))
    values = np.transpose(table.values, order)
    return _spread(values, tuple(table.times[axis] for axis in order), over, n_kept=0)


def _spread(values: Any, inner: tuple[int, ...], outer: tuple[int, ...], n_kept: int = 1) -> Any:
    """The values with further axes of length one, for the times of `outer` that `inner` has not; the first `n_kept`
    axes stay where they are."""
    lengths = iter(values.shape[n_kept:])
    return values.reshape([*values.shape[:n_kept], *(next(lengths) if other in inner else 1 for other in outer)])


__all__ = [
    "MAX_CELLS",
    "MAX_WORK",
    "PER_TABLE",
    "Budget",
    "Difference",
    "Elimination",
    "Table",
    "Time",
    "TooMuchWorkError",
    "between",
    "narrowed",
    "undecided",
]
