"""Growing arrays of the baseline kernels: offers, and the matches found so far."""

from __future__ import annotations

import numpy as np

from engine.events import Int64Array
from engine.matching.output.listed import ListedMatches

_LEAST_MATCHES = 4096


class MatchArrays:
    """Where a kernel writes complete matches until they are taken away; see `engine.kernels.baselines.runs`."""

    def __init__(self) -> None:
        self.partition: Int64Array = np.empty(_LEAST_MATCHES, np.int64)
        self.offsets: Int64Array = np.zeros(_LEAST_MATCHES + 1, np.int64)
        self.cells: Int64Array = np.empty((16 * _LEAST_MATCHES, 2), np.int64)

    def grow(self, n_matches: int, n_cells: int) -> None:
        """Make room for so many; what is there is lost."""
        if n_matches > len(self.partition):
            self.partition = np.empty(2 * n_matches, np.int64)
            self.offsets = np.zeros(2 * n_matches + 1, np.int64)
        if n_cells > len(self.cells):
            self.cells = np.empty((2 * n_cells, 2), np.int64)

    def taken(self, n_matches: int) -> ListedMatches:
        """Copies of the first `n_matches`, without values."""
        offsets = self.offsets[: n_matches + 1].copy()
        cells = self.cells[: offsets[-1]]
        return ListedMatches(
            partition=self.partition[:n_matches].copy(),
            offsets=offsets,
            rows=cells[:, 0].copy(),
            components=cells[:, 1].copy(),
            iterations=None,
            confidence=np.ones(n_matches, np.float64),
            values=np.empty((n_matches, 0), np.float64),
        )


def widened(array: Int64Array, n: int, fill: int = -1) -> Int64Array:
    """The array with at least `n` entries along its first axis, new ones set to `fill`."""
    if n <= len(array):
        return array
    grown: Int64Array = np.full((max(n, 2 * len(array)), *array.shape[1:]), fill, np.int64)
    grown[: len(array)] = array
    return grown


__all__ = ["MatchArrays", "widened"]
