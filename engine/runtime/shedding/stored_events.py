"""Kept events dropped over all queries that postpone: those first that can be in the fewest matches to come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.events import Float64Array
from engine.matching.shedding import DropsStored
from engine.shedding.choice import lowest


@dataclass
class _Store:
    runtime: DropsStored
    weight: float = 0.0
    names: list[str] = field(default_factory=list)


class StoredEvents:
    """The stores of an engine; one that several queries share is worth what it is to all of them together."""

    def __init__(self) -> None:
        self._stores: list[_Store] = []

    def attach(self, parts: Iterable[tuple[str, float, DropsStored]]) -> None:
        """The runtimes as they are now, with the names and weights of their queries."""
        by_store: dict[int, _Store] = {}
        for name, weight, runtime in parts:
            store = by_store.setdefault(id(runtime.stored), _Store(runtime))
            store.weight += weight
            store.names.append(name)
        self._stores = list(by_store.values())

    @property
    def n_events(self) -> int:
        """Events kept, each once."""
        return sum(store.runtime.n_stored for store in self._stores)

    def worth(self, now_ms: int) -> list[Float64Array]:
        """What the kept events of each store are worth at a time of the stream."""
        return [store.weight * store.runtime.stored_worth(now_ms) for store in self._stores]

    def drop(
        self, n: int, now_ms: int, instead: Callable[[Sequence[Float64Array]], Sequence[Float64Array]] | None = None
    ) -> dict[str, int]:
        """Drop the n events that are worth least at a time of the stream; returns how many of each query.

        `instead`: utilities to go by in place of these.
        """
        if n <= 0:
            return {}
        worth = self.worth(now_ms)
        chosen = lowest(worth if instead is None else instead(worth), n)
        dropped: dict[str, int] = {}
        for store, of_it, rows in zip(self._stores, worth, chosen, strict=True):
            if not len(rows):
                continue
            n_missed = int(np.count_nonzero(of_it[rows] > 0.0))  # of the others no match to come can have any
            for name in dict.fromkeys(store.names):
                dropped[name] = dropped.get(name, 0) + n_missed
            store.runtime.drop_stored(rows)
        return dropped


__all__ = ["StoredEvents"]
