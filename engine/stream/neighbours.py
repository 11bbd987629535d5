"""Contiguity: where events stand in the stream, and which event of its partition precedes each (SASE+ section 3.1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.events import TIME_ATTRIBUTE, AttributeType, Int64Array
from engine.kernels.columns.neighbours import IN_EVERY, IN_NONE, KEYED, precede
from engine.plan.model import Plan
from engine.stream.columns import StreamColumns
from engine.stream.key_table import KeyTable


class Neighbours:
    """The order of a stream and of its partitions, whatever the types of events.

    Events of types without the key are in every partition; an event whose key is NULL is in none.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._n = 0
        self._keys = KeyTable(len(plan.key))
        self._last: Int64Array = np.full(64, -1, np.int64)
        self._last_broadcast = -1

    def __len__(self) -> int:
        """Partitions known."""
        return len(self._keys)

    def of(self, stream: StreamColumns) -> Int64Array:
        """Positions in the stream of the events before a batch's rows in their partitions, -1 for none, (n,)."""
        first = self._n
        self._n += len(stream)
        kind = self._kinds(stream)
        keyed = np.flatnonzero(kind == KEYED)
        columns = [stream.column(name, self._kind(name))[keyed] for name in self._plan.key]
        partitions = self._keys.numbers(np.stack(columns) if columns else np.empty((0, len(keyed)), np.float64))
        if len(self._keys) > len(self._last):
            grown = np.full(2 * len(self._keys), -1, np.int64)
            grown[: len(self._last)] = self._last
            self._last = grown
        previous: Int64Array = np.empty(len(stream), np.int64)
        self._last_broadcast = precede(kind, partitions, first, self._last, self._last_broadcast, previous)
        if stream.follows is not None:
            previous[~stream.follows] = -1
        return previous

    def forget_before(self, position: int) -> None:
        """Forget the partitions without an event since then: no run reaches back to it."""
        n = len(self._keys)
        kept = np.flatnonzero(self._last[:n] >= position)
        self._keys.keep(kept)
        last = np.full(max(64, 2 * len(kept)), -1, np.int64)
        last[: len(kept)] = self._last[kept]
        self._last = last

    def save(self) -> str:
        """State as JSON."""
        keys = self._keys.all()
        state = {
            "n": self._n,
            "broadcast": self._last_broadcast,
            "keys": keys,
            "last": self._last[: len(keys)].tolist(),
        }
        return json.dumps(state)

    def restore(self, text: str) -> None:
        """Take over what `save` returned."""
        state: Mapping[str, Any] = json.loads(text)
        self._n, self._last_broadcast = int(state["n"]), int(state["broadcast"])
        self._keys = KeyTable(len(self._plan.key), state["keys"])
        self._last = np.full(max(64, 2 * len(self._keys)), -1, np.int64)
        self._last[: len(self._keys)] = state["last"]

    def _kinds(self, stream: StreamColumns) -> npt.NDArray[np.int8]:
        kinds = np.full(len(stream), KEYED if not self._plan.key else IN_EVERY, np.int8)
        if self._plan.key:
            for name in self._plan.keyed_types:
                kinds[stream.rows_of_type(name)] = KEYED
            for name in self._plan.key:
                kinds[(kinds == KEYED) & np.isnan(stream.column(name, self._kind(name)))] = IN_NONE
        return kinds

    def _kind(self, name: str) -> AttributeType:
        return AttributeType.INT if name == TIME_ATTRIBUTE else self._plan.attribute_types[name]
