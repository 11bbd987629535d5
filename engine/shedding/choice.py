"""Which are dropped: the lowest utilities over all runtimes, shards and queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.events import Float64Array, Int64Array


def lowest(utilities: Sequence[Float64Array], n: int) -> list[Int64Array]:
    """The positions of the n lowest utilities, in each part ascending; of equal ones the first, part by part.

    utilities: float64 (n_part,), one for each runtime or shard. What has infinite utility is never chosen, so fewer may
    be. One pass and a partial sort: O(total).
    """
    every = np.concatenate([*utilities, np.empty(0)])
    n = min(n, int(np.count_nonzero(np.isfinite(every))))
    chosen = np.zeros(len(every), np.bool_)
    if n > 0:
        limit = np.partition(every, n - 1)[n - 1]
        chosen[every < limit] = True
        equal = np.flatnonzero(every == limit)
        chosen[equal[: n - int(np.count_nonzero(chosen))]] = True
    ends = np.cumsum([len(part) for part in utilities])
    return [np.flatnonzero(chosen[end - len(part) : end]) for part, end in zip(utilities, ends, strict=True)]


def at_random(utilities: Sequence[Float64Array], random: np.random.Generator) -> list[Float64Array]:
    """Utilities that say nothing in place of these (PM-BL drops partial matches at random); infinite ones stay."""
    return [np.where(np.isinf(part), part, random.random(len(part))) for part in utilities]


def relative(utilities: Sequence[Float64Array]) -> list[Float64Array]:
    """Each as its share of all of them together; infinite ones stay."""
    total = sum(float(part[np.isfinite(part)].sum()) for part in utilities)
    return [part / total if total > 0 else part for part in utilities]


__all__ = ["at_random", "lowest", "relative"]
