"""Rows of output as columns: a `MatchRow` is made when one is asked for, and an Arrow table without any.

A block keeps the ids of the events that it may need (Arrow, shared with the store that it came from), so that it stays
valid whatever the runtime does next.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.events import BoolArray, Float64Array, Int64Array, Value
from engine.kernels.pairs.independent_listing import spell_out
from engine.kernels.pairs.reading import fill_lists, list_lengths
from engine.matching.output.arrow import Int32Array, coded, id_lists, lists_by_step, steps_around, table_of, with_ends
from engine.matching.output.rows import MatchRow, RowBlock
from engine.plan.sequence.model import Plan
from engine.stream.store import StoredEvents

_NO_ROWS: Int64Array = np.empty(0, np.int64)


class PairColumns(NamedTuple):
    """n rows that stand for all matches of a pair each.

    rows: int64 (n, 7), offsets: int64 (2, n + 1), longest, used: int64, see `kernels.independent_counting.count_pairs`.
    values: float64 (n, n_returns).
    """

    rows: Int64Array
    offsets: Int64Array
    longest: Int64Array
    used: Int64Array
    values: Float64Array


@dataclass(frozen=True, eq=False)
class PairBlock(RowBlock):
    """Rows of COLLAPSED or COUNT; `most`: a number of matches from which it is a lower bound."""

    plan: Plan
    source: StoredEvents
    kleene: int
    columns: PairColumns
    collapsed: bool
    most: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    @overload
    def __getitem__(self, at: int) -> MatchRow: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[MatchRow]: ...

    def __getitem__(self, at: int | slice) -> MatchRow | Sequence[MatchRow]:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            if step == 1:
                return replace(self, start=self.start + start, end=self.start + max(start, stop))
            return [self[number] for number in range(start, stop, step)]
        return self._row(self.start + place_of(at, len(self)))

    @property
    def n_matches(self) -> int:
        """Matches behind all rows (at least, where one of them is a lower bound)."""
        return sum(self.columns.rows[self.start : self.end, 3].tolist())

    @property
    def is_bulk(self) -> bool:
        """Yes."""
        return True

    def to_arrow(self) -> pa.Table:
        """See `rows.rows_table`."""
        c, own = self.columns, slice(self.start, self.end)
        rows, plan = c.rows[own], self.plan
        first, last, partition, counts, exact, first_ms, last_ms = rows.T
        shown = c.offsets[0, self.start : self.end + 1]
        used = c.offsets[1, self.start : self.end + 1]
        dictionary, (first_code, last_code, longest, between) = coded(
            self.source.ids, first, last, c.longest[shown[0] : shown[-1]], c.used[used[0] : used[-1]]
        )
        candidates = None
        if self.collapsed:
            bounds, codes = with_ends(first_code, last_code, first == last, used - used[0], between)
            candidates = self._lists(dictionary, bounds, codes)
        columns = {
            "key": self.source.keys_as_arrow(np.ascontiguousarray(partition)),
            "first_lo_ms": pa.array(first_ms),
            "last_hi_ms": pa.array(last_ms),
            "bindings": self._lists(dictionary, shown - shown[0], longest),
            "confidence": pa.array(np.ones(len(rows))),
            "values": self.source.values_as_arrow(plan.returns, c.values[own]),
        }
        complete = counts < self.most
        return table_of(columns, counts=counts, complete=complete, candidates=candidates, exact=exact.astype(np.bool_))

    def _lists(self, dictionary: pa.Array, bounds: Int64Array, codes: Int32Array) -> pa.Array:
        steps = steps_around(bounds, self.kleene, self.plan.n_steps)
        return lists_by_step(dictionary, [step.variable for step in self.plan.steps], bounds, steps, codes)

    def _row(self, k: int) -> MatchRow:
        c, source, n_after = self.columns, self.source, self.plan.n_steps - 1 - self.kleene
        first, last, partition, count, exact, first_ms, last_ms = c.rows[k].tolist()
        longest = self._ids(c.longest[c.offsets[0, k] : c.offsets[0, k + 1]])
        candidates = None
        if self.collapsed:
            used = c.used[c.offsets[1, k] : c.offsets[1, k + 1]]
            ends = [first] if first == last else [first, last]
            candidates = bound_ids_of(self.plan, self.kleene, self._ids(np.array([ends[0], *used, *ends[1:]])), n_after)
        return MatchRow(
            query=self.plan.name,
            key=source.key_of(partition),
            first_lo_ms=first_ms,
            last_hi_ms=last_ms,
            bindings=bound_ids_of(self.plan, self.kleene, longest, n_after),
            confidence=1.0,
            values=values_of(self.plan, source, c.values[k]),
            count=count,
            count_exact=count < self.most,
            candidates=candidates,
            exact=bool(exact) if self.collapsed else True,
            capped=count >= self.most,
        )

    def _ids(self, rows: Int64Array) -> tuple[str, ...]:
        return tuple([self._texts[row] for row in rows.tolist()])

    @cached_property
    def _texts(self) -> dict[int, str]:
        """The ids of all events of the block."""
        c, own = self.columns, slice(self.start, self.end)
        longest = c.longest[c.offsets[0, self.start] : c.offsets[0, self.end]]
        used = c.used[c.offsets[1, self.start] : c.offsets[1, self.end]]
        return self.source.texts(np.concatenate((c.rows[own, 0], c.rows[own, 1], longest, used)))


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
            return self._row(place_of(at, len(self)))
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
        lasts = np.where(self._ends_apart, self.pairs[:, 1], -1)
        found: Int64Array = lasts[self.match_pair]
        return found

    @cached_property
    def _ends_apart(self) -> BoolArray:
        """Of which pairs the last event is another one than the first: bool (n_pairs,)."""
        found: BoolArray = self.pairs[:, 0] != self.pairs[:, 1]
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
        columns = {
            "key": self.source.keys_as_arrow(self.pairs[self.match_pair, 2]),
            "first_lo_ms": pa.array(self.pair_lo_ms[self.match_pair]),
            "last_hi_ms": pa.array(self.pair_hi_ms[self.match_pair]),
            "bindings": self._bindings(),
            "confidence": pa.array(np.ones(len(self))),
            "values": self.source.values_as_arrow(self.plan.returns, self.values),
        }
        return pa.table(columns)

    def _bindings(self) -> pa.Array:
        """The ids by variable, as a struct of lists."""
        n, n_steps, kleene = len(self), self.plan.n_steps, self.kleene
        dictionary, (node_code, last_code) = coded(self.source.ids, self.node_row, self.pairs[:, 1])
        depth, offsets = np.empty(len(self.node_parent), np.int32), np.empty(n + 1, np.int64)
        paths = self.node_parent, self.match_node, self.match_pair, self._ends_apart
        longest = list_lengths(*paths, n_steps - 1, depth, offsets)
        path, codes = np.empty((2, longest + 2), np.int32)
        members, singles = np.empty(offsets[-1], np.int32), np.empty((n_steps, n), np.int32)
        fill_lists(
            self.node_parent, node_code, depth, self.match_node, self.match_pair, self._ends_apart, last_code, kleene,
            n_steps - 1 - kleene, offsets, path, codes, members, singles,
        )  # fmt: skip
        ones = np.arange(n + 1)
        arrays = [
            id_lists(dictionary, *((offsets, members) if position == kleene else (ones, singles[position])))
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


def place_of(at: int, n: int) -> int:
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


__all__ = ["MatchBlock", "OneByOne", "PairBlock", "PairColumns", "bound_ids_of", "place_of", "values_of"]
