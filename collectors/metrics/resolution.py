"""Samples of one series at several resolutions: where a finer one is, a coarser one tells the same time once more."""

from __future__ import annotations

import numpy as np

from engine.events import BoolArray, Int64Array


def overlapped(
    series: Int64Array, t_lo_ms: Int64Array, t_hi_ms: Int64Array, resolution_ms: Int64Array, among: BoolArray
) -> BoolArray:
    """Which samples touch a finer one of their series; all of shape (n,), intervals closed, in any order.

    `series`: numbers from 0. `among`: which of them count as the finer one.
    """
    found = np.zeros(len(series), np.bool_)
    levels = np.unique(resolution_ms)
    if len(levels) < 2:
        return found
    # Places instead of times: a series and a time are one number, however many of each there are.
    times = np.unique(np.concatenate([t_lo_ms, t_hi_ms]))
    from_place = series * len(times) + np.searchsorted(times, t_lo_ms)
    to_place = series * len(times) + np.searchsorted(times, t_hi_ms)
    for level in levels[1:]:
        finer, mine = among & (resolution_ms < level), resolution_ms == level
        # Of those that begin before its end all touch it but those that end before it begins. Of other series all
        # or none do both.
        begun = np.searchsorted(np.sort(from_place[finer]), to_place[mine], "right")
        ended = np.searchsorted(np.sort(to_place[finer]), from_place[mine], "left")
        found[mine] = begun > ended
    return found


__all__ = ["overlapped"]
