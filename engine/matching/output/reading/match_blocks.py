"""Rows of output as columns: a `MatchRow` is made when one is asked for, and an Arrow table without any.

A block keeps the ids of the events that it may need (Arrow, shared with the store that it came from), so that it stays
valid whatever the runtime does next.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.events import Float64Array, Int64Array, Value
from engine.kernels.pairs.independent_listing import spell_out
from engine.kernels.pairs.reading import fill_lists, list_lengths
from engine.matching.output.match_row import MatchRow
from engine.matching.output.reading.arrow import (
    MOST_IN_LIST,
    Int32Array,
    capacity_for,
    certainty,
    coded,
    id_each,
    id_lists,
)
from engine.matching.output.rows import RowBlock
from engine.plan.model import Plan
from engine.stream.store import StoredEvents
from engine.stream.values import column_of

_NO_ROWS: Int64Array = np.empty(0, np.int64)


class OneByOne(RowBlock):
    """Matches whose rows are made one at a time."""

    @abstractmethod
    def chosen(self, numbers: slice | Int64Array) -> OneByOne:
        """The matches of these numbers, in that order; a slice has step 1."""

    @abstractmethod
    def _row(self, k: int) -> MatchRow: ...

    def __iter__(self) -> Iterator[MatchRow]:
        return (self._row(k) for k in range(len(self)))

    @overload
    def __getitem__(self, at: int) -> MatchRow: ...

    @overload
    def __getitem__(self, at: slice) -> OneByOne: ...

    def __getitem__(self, at: int | slice) -> MatchRow | OneByOne:
        if not isinstance(at, slice):
            return self._row(position_of(at, len(self)))
        start, stop, step = at.indices(len(self))
        return self.chosen(slice(start, max(start, stop)) if step == 1 else np.arange(start, stop, step))

    @property
    def n_matches(self) -> int:
        """Each row is one."""
        return len(self)


@dataclass(frozen=True, eq=False)
class MatchBlock(OneByOne):
    """Matches of one query that share what they have in common: the paths of a trie.

    node_parent: int32 (n_nodes,), the node before each, -1 for none; node_row: int64 (n_nodes,), its event, a number
    that `source` knows. Match k is the path to the node match_node[k] (int32) and the last event of its pair,
    pairs[match_pair[k]] (int32), unless that is the first one too. pairs: int64 (n_pairs, >= 3): first event, last
    event, partition (see `source.key_of`); pair_lo_ms, pair_hi_ms: int64 (n_pairs,), their times. values: float64
    (n, n_returns), NaN for NULL, strings as codes.
    """

    plan: Plan
    source: StoredEvents
    kleene: int
    node_parent: npt.NDArray[np.int32]
    node_row: Int64Array
    match_node: npt.NDArray[np.int32]
    match_pair: npt.NDArray[np.int32]
    pairs: Int64Array
    pair_lo_ms: Int64Array
    pair_hi_ms: Int64Array
    values: Float64Array

    def __len__(self) -> int:
        return len(self.match_node)

    def chosen(self, numbers: slice | Int64Array) -> MatchBlock:
        """See `OneByOne`."""
        return replace(
            self,
            match_node=self.match_node[numbers],
            match_pair=self.match_pair[numbers],
            values=self.values[numbers],
        )

    @cached_property
    def match_last(self) -> Int64Array:
        """The last event of each match, int64 (n,); -1 where the path to its node ends in it."""
        lasts = np.where(self.pairs[:, 0] != self.pairs[:, 1], self.pairs[:, 1], -1)
        found: Int64Array = lasts[self.match_pair]
        return found

    @cached_property
    def chains(self) -> tuple[Int64Array, Int64Array]:
        """offsets int64 (n + 1,) and rows int64 (m,): the events of match k are rows[offsets[k] : offsets[k + 1]]."""
        offsets = np.empty(len(self) + 1, np.int64)
        spell_out(self.node_parent, self.node_row, self.match_node, self.match_last, offsets, _NO_ROWS)
        rows = np.empty(offsets[-1], np.int64)
        spell_out(self.node_parent, self.node_row, self.match_node, self.match_last, offsets, rows)
        return offsets, rows

    @property
    def is_columnar(self) -> bool:
        """Yes."""
        return True

    def to_arrow(self) -> pa.Table:
        """key, first_lo_ms, last_hi_ms, bindings, confidence, values: one row per match; see `rows.rows_table`."""
        n = len(self)
        depth, offsets = np.empty(len(self.node_parent), np.int32), capacity_for(np.int32, n + 1)
        partition, times_ms = capacity_for(np.int64, n), capacity_for(np.int64, 2, n)
        longest, n_members = list_lengths(
            self.node_parent, self.match_node, self.match_pair, self.pairs, self.pair_lo_ms, self.pair_hi_ms,
            self.plan.n_steps - 1, MOST_IN_LIST, depth, offsets, partition, times_ms,
        )  # fmt: skip
        if n_members > MOST_IN_LIST:
            return pa.concat_tables([self.chosen(slice(n // 2)).to_arrow(), self.chosen(slice(n // 2, n)).to_arrow()])
        columns = {
            "key": self.source.keys_as_arrow(partition),
            "first_lo_ms": column_of(times_ms[0]),
            "last_hi_ms": column_of(times_ms[1]),
            "bindings": self._bindings(depth, longest, offsets),
            "confidence": certainty(n),
            "values": self.source.values_as_arrow(self.plan.returns, self.values),
        }
        return pa.Table.from_arrays(list(columns.values()), names=list(columns))

    def _bindings(self, depth: Int32Array, longest: int, offsets: Int32Array) -> pa.Array:
        """The ids by variable, as a struct of lists; the others as `list_lengths` has them."""
        n, n_steps, kleene = len(self), self.plan.n_steps, self.kleene
        lasts = np.ascontiguousarray(self.pairs[:, 1])
        dictionary, node_code, last_code = coded(self.source.known, self.node_row, lasts)
        path, codes = np.empty((2, longest + 2), np.int32)
        members, singles = capacity_for(np.int32, int(offsets[-1])), capacity_for(np.int32, n_steps, n)
        fill_lists(
            self.node_parent, node_code, depth, self.match_node, self.match_pair, self.pairs, last_code, kleene,
            n_steps - 1 - kleene, offsets, path, codes, members, singles,
        )  # fmt: skip
        arrays = [
            id_lists(dictionary, offsets, members) if position == kleene else id_each(dictionary, singles[position])
            for position in range(n_steps)
        ]
        return pa.StructArray.from_arrays(arrays, [step.variable for step in self.plan.steps])

    def _row(self, k: int) -> MatchRow:
        pair = int(self.match_pair[k])
        first, last, partition = self.pairs[pair, :3].tolist()
        chain = [] if first == last else [last]
        node = int(self.match_node[k])
        while node >= 0:
            chain.append(int(self.node_row[node]))
            node = int(self.node_parent[node])
        texts = self._texts
        ids = tuple(texts[row] for row in reversed(chain))
        return MatchRow(
            query=self.plan.name,
            key=self.source.key_of(partition),
            first_lo_ms=int(self.pair_lo_ms[pair]),
            last_hi_ms=int(self.pair_hi_ms[pair]),
            bindings=bound_ids_of(self.plan, self.kleene, ids, self.plan.n_steps - 1 - self.kleene),
            confidence=1.0,
            values=values_of(self.plan, self.source, self.values[k]),
        )

    @cached_property
    def _texts(self) -> dict[int, str]:
        """The ids of all events of the block."""
        lasts = self.pairs[np.unique(self.match_pair), 1]
        return self.source.texts(np.concatenate((self.node_row, lasts)))


def position_of(at: int, n: int) -> int:
    """A row's number from 0 on, negative ones counted from the end; raises IndexError beyond them."""
    number = at + n if at < 0 else at
    if not 0 <= number < n:
        raise IndexError(f"row {at} of {n}")
    return number


def bound_ids_of(plan: Plan, kleene: int, ids: tuple[str, ...], n_after: int) -> dict[str, tuple[str, ...]]:
    """Ids by variable, of a match whose other components are single."""
    bound: dict[str, tuple[str, ...]] = {}
    for step in plan.steps:
        k = step.position
        if k == kleene:
            bound[step.variable] = ids[kleene : len(ids) - n_after]
        else:
            at = k if k < kleene else len(ids) - (plan.n_steps - k)
            bound[step.variable] = ids[at : at + 1]
    return bound


def values_of(plan: Plan, source: StoredEvents, numbers: Float64Array) -> dict[str, Value]:
    """RETURN values by name, from their doubles, float64 (n_returns,)."""
    return {r.name: source.value(float(v), r.type) for r, v in zip(plan.returns, numbers, strict=True)}


__all__ = ["MatchBlock", "OneByOne", "bound_ids_of", "position_of", "values_of"]
