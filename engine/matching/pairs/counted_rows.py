"""Rows of pairs (first, last) that one kernel call counted, as columns: a row is made when it is asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from engine.events import BoolArray, Float64Array, Int64Array
from engine.matching.output.match_row import Binding, MatchRow
from engine.matching.output.reading.arrow import coded, lists_by_step, steps_around, table_of
from engine.matching.output.reading.match_blocks import bound_ids_of, values_of
from engine.matching.output.rows import ChunkedRows
from engine.matching.pairs.context import Context
from engine.matching.pairs.counting import Counted
from engine.plan.sequence.model import SequencePlan
from engine.stream.store import StoredEvents
from engine.stream.values import column_of


class PairColumns(Protocol):
    """What is known of n pairs.

    pairs: int64 (n, 3): first, last, partition. first_lo_ms, last_lo_ms, last_hi_ms: int64 (n,). counts: int64 (n,),
    lower bounds unless complete, bool (n,). confidences: float64 (n,). values: float64 (n, n_returns).
    """

    @property
    def pairs(self) -> Int64Array: ...
    @property
    def first_lo_ms(self) -> Int64Array: ...
    @property
    def last_lo_ms(self) -> Int64Array: ...
    @property
    def last_hi_ms(self) -> Int64Array: ...
    @property
    def counts(self) -> Int64Array: ...
    @property
    def complete(self) -> BoolArray: ...
    @property
    def confidences(self) -> Float64Array: ...
    @property
    def values(self) -> Float64Array: ...


C = TypeVar("C", bound=PairColumns)


@dataclass(eq=False)
class PairBlock(ChunkedRows, Generic[C]):
    """Rows of COLLAPSED or COUNT; `order`: int64 (n,), the pairs that are its rows."""

    plan: SequencePlan
    source: StoredEvents
    columns: C
    collapsed: bool
    order: Int64Array

    @abstractmethod
    def _events(self, k: int) -> Sequence[Int64Array]:
        """All events of pair k but its ends."""

    @abstractmethod
    def _bindings(self, k: int, texts: Mapping[int, str]) -> Mapping[str, Binding]:
        """The match that is shown for pair k; `texts`: the ids of events."""

    @abstractmethod
    def _candidates(self, k: int, texts: Mapping[int, str]) -> Mapping[str, tuple[str, ...]]:
        """The events in matches of pair k by component, its ends among them."""

    def compact(self) -> Self:
        """The same rows without what is known of other pairs."""
        return self

    @property
    def _exact(self) -> BoolArray | None:
        """By pair whether each of the candidates is in a match; None: of all."""
        return None

    def __len__(self) -> int:
        return len(self.order)

    def _rows(self, start: int) -> list[MatchRow]:
        numbers = self.order[start : start + self.CHUNK]
        ends = self.columns.pairs[numbers, :2].ravel()
        between = [rows for k in numbers.tolist() for rows in self._events(k)]
        texts = self.source.texts(np.concatenate([ends, *between]))
        return [self._row(k, texts) for k in numbers.tolist()]

    def _part(self, start: int, stop: int) -> Self:
        return replace(self, order=self.order[start:stop])

    @property
    def n_matches(self) -> int:
        """Matches behind all rows (at least, where one of them is a lower bound)."""
        return sum(self.columns.counts[self.order].tolist())

    @abstractmethod
    def _shown(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The matches that are shown for these pairs, event by event: bounds int64 (n + 1,), rows and steps (m,)."""

    @abstractmethod
    def _used(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """As `_shown`: the candidates, their ends among them, in the order of `_candidates`."""

    @property
    def is_bulk(self) -> bool:
        """Yes."""
        return True

    def to_arrow(self) -> pa.Table:
        """See `rows.rows_table`."""
        c, order, source = self.columns, self.order, self.source
        bounds, rows, steps = self._shown(order)
        used_bounds, used, used_steps = self._used(order) if self.collapsed else (bounds, rows[:0], steps[:0])
        dictionary, codes, used_codes = coded(source.known, rows, used)
        names = [step.variable for step in self.plan.steps]
        columns = {
            "key": source.keys_as_arrow(c.pairs[order, 2]),
            "first_lo_ms": column_of(c.first_lo_ms[order]),
            "last_hi_ms": column_of(c.last_hi_ms[order]),
            "bindings": lists_by_step(dictionary, names, bounds, steps, codes),
            "confidence": column_of(c.confidences[order]),
            "values": source.values_as_arrow(self.plan.returns, c.values[order]),
        }
        candidates = None
        if self.collapsed:
            candidates = lists_by_step(dictionary, names, used_bounds, used_steps, used_codes)
        exact = np.ones(len(order), np.bool_) if self._exact is None else self._exact[order]
        return table_of(columns, counts=c.counts[order], complete=c.complete[order], candidates=candidates, exact=exact)

    def _row(self, k: int, texts: Mapping[int, str]) -> MatchRow:
        c = self.columns
        lo_ms, hi_ms, complete = int(c.last_lo_ms[k]), int(c.last_hi_ms[k]), bool(c.complete[k])
        return MatchRow(
            query=self.plan.name,
            key=self.source.key_of(int(c.pairs[k, 2])),
            first_lo_ms=int(c.first_lo_ms[k]),
            last_hi_ms=hi_ms,
            last_lo_ms=None if lo_ms == hi_ms else lo_ms,
            bindings=self._bindings(k, texts),
            confidence=float(c.confidences[k]),
            values=values_of(self.plan, self.source, c.values[k]),
            count=int(c.counts[k]),
            count_exact=complete,
            candidates=self._candidates(k, texts) if self.collapsed else None,
            exact=not self.collapsed or self._exact is None or bool(self._exact[k]),
            capped=not complete,
        )


@dataclass(eq=False)
class OneKleeneBlock(PairBlock[C]):
    """Rows of pairs whose matches have several events of one component alone, `kleene`."""

    kleene: int

    def _bound(self, rows: Sequence[int], texts: Mapping[int, str]) -> dict[str, tuple[str, ...]]:
        ids = tuple([texts[row] for row in rows])
        return bound_ids_of(self.plan, self.kleene, ids, self.plan.n_steps - 1 - self.kleene)

    def _with_steps(self, bounds: Int64Array, rows: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        return bounds, rows, steps_around(bounds, self.kleene, self.plan.n_steps)


class RowsOfPairs(Protocol):
    """Rows of pairs that were counted together; `order`: see `PairBlock`."""

    @property
    def order(self) -> Int64Array: ...
    def __getitem__(self, index: slice) -> Sequence[MatchRow]: ...
    def compact(self) -> Sequence[MatchRow]:
        """See `PairBlock`."""
        ...

    def counted(self, context: Context, k: int) -> Counted:
        """What is known of pair k, as one that is counted by itself has it."""
        ...


class CountsTogether(Protocol):
    """Counts the pairs of a step together; made for one plan."""

    def counted(
        self, context: Context, pairs: Int64Array, most: int, /, *, collapsed: bool
    ) -> tuple[RowsOfPairs, Int64Array, int]:
        """A row for each of the first `most` pairs, int64 (n, 3), that have matches, by their numbers, ascending; the
        numbers of the pairs that are to be counted by themselves; for how many the work was not paid."""
        ...


__all__ = ["CountsTogether", "OneKleeneBlock", "PairBlock", "PairColumns", "RowsOfPairs"]
