"""How likely a run completes, what it still costs, and the utility of both (pSPICE, sections III-B and III-C).

Tables have a row for each state and a column for every `bin_events` events that are left in the window. Values between
two columns are interpolated linearly; beyond the last one it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from engine.errors import StateError
from engine.events import Float64Array
from engine.shedding.partial_matches.transitions import Transitions

MOST_BINS = 256
"""Columns of a table beside that for no event left."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is to be expected of a run: `completions` and `seconds`, float64 (n_states, n_bins + 1)."""

    completions: Float64Array
    seconds: Float64Array
    bin_events: int

    @classmethod
    def of(
        cls, transitions: Transitions, seconds_per_offer: Float64Array, most_events: int, n_bins: int = MOST_BINS
    ) -> Self:
        """Value iteration up to `most_events` events left in the window.

        With v(R) the column for R events left: completions(R) = T completions(R - 1) + what completes at once, and
        seconds(R) = r + T seconds(R - 1), both 0 for no event left; r: `seconds_per_offer`, float64 (n_states,). A
        whole bin is one multiplication by a power of the matrix with its constant, so that the cost depends on the
        number of bins, not of events.
        """
        if most_events < 1 or n_bins < 1:
            raise ValueError(f"expected at least one event and bin, found {most_events} and {n_bins}")
        bin_events = -(-most_events // n_bins)
        n_columns = -(-most_events // bin_events) + 1
        return cls(
            _iterated(transitions.onward, transitions.completed, bin_events, n_columns),
            _iterated(transitions.onward, seconds_per_offer, bin_events, n_columns),
            bin_events,
        )

    def completions_at(self, state: int, n_events: float) -> float:
        """Expected matches of a run in `state` with so many events left; a probability where runs do not branch."""
        return _interpolated(self.completions, self.bin_events, state, n_events)

    def seconds_at(self, state: int, n_events: float) -> float:
        """Expected processing time that such a run still takes."""
        return _interpolated(self.seconds, self.bin_events, state, n_events)


@dataclass(frozen=True, slots=True)
class UtilityTable:
    """Utility by state and events left, float64 (n_states, n_bins + 1), for look-up in constant time."""

    values: Float64Array
    bin_events: int

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] < 2 or self.bin_events < 1:
            raise StateError(
                f"a utility table has shape {self.values.shape} and bins of {self.bin_events} events; expected states "
                "by at least two columns, and bins of at least one event"
            )
        if not (np.isfinite(self.values).all() and (self.values >= 0).all()):
            raise StateError("a utility table has values that are no utilities (negative, infinite or none)")

    @classmethod
    def of(cls, outlook: Outlook, weight: float = 1.0, *, counts_time: bool = True) -> Self:
        """Utility = weight * completions / seconds (equation 1); with `counts_time` False the papers' "pSPICE--".

        The paper brings both to one scale first. Dividing all tables of an operator by one constant each changes no
        order between any two runs, and scaling each query by its own would lose that runs of one query cost more than
        those of another: so they are left as they are, matches per second. Nothing is left to gain from a run with no
        event left: 0.
        """
        values = np.array(outlook.completions)
        if counts_time:
            values = np.divide(values, outlook.seconds, out=np.zeros_like(values), where=outlook.seconds > 0)
        return cls(np.ascontiguousarray(weight * values), outlook.bin_events)

    def at(self, state: int, n_events: float) -> float:
        """The utility of a run in `state` with so many events left."""
        return _interpolated(self.values, self.bin_events, state, n_events)


def _iterated(onward: Float64Array, constant: Float64Array, n_events: int, n_columns: int) -> Float64Array:
    """v(0), v(n), v(2 n), ... of v(R) = onward v(R - 1) + constant, from v(0) = 0: a column each."""
    n = len(constant)
    step = np.zeros((n + 1, n + 1))
    step[:n, :n], step[:n, n], step[n, n] = onward, constant, 1.0
    bin_step = np.linalg.matrix_power(step, n_events)
    columns = np.zeros((n + 1, n_columns))
    columns[n, 0] = 1.0
    for column in range(1, n_columns):
        columns[:, column] = bin_step @ columns[:, column - 1]
    return columns[:n]


def _interpolated(table: Float64Array, bin_events: int, state: int, n_events: float) -> float:
    at = min(max(n_events, 0.0) / bin_events, table.shape[1] - 1.0)
    before = min(int(at), table.shape[1] - 2)
    share = at - before
    return float(table[state, before] * (1.0 - share) + table[state, before + 1] * share)


__all__ = ["MOST_BINS", "Outlook", "UtilityTable"]
