"""What the evaluation of pairs shares during one `advance`: columns as kernels take them, masks, groups of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.errors import EventError, UnsupportedQueryError
from engine.events import BoolArray, EventBatch, Float64Array, Int64Array
from engine.kernels.opcodes import MAX_STACK
from engine.kernels.ordering import Events, search_order
from engine.kernels.postponed_pairs import around, inside, replay
from engine.kernels.postponed_state import Tables
from engine.kernels.predicates import local_mask
from engine.language import ast
from engine.matching.postponed_tables import PostponedTables
from engine.matching.store import BROADCAST, EventStore
from engine.plan.model import EdgePredicates, Plan
from engine.plan.programs import first_register


class Masks:
    """Early filters (SASE++ 5.2): which rows have the type and satisfy the local predicates of which edge.

    begin, take: bool (n_steps, capacity); negated: bool (n_negations, capacity).
    """

    def __init__(self, plan: Plan, capacity: int) -> None:
        self.plan = plan
        self.begin: BoolArray = np.zeros((len(plan.steps), capacity), np.bool_)
        self.take: BoolArray = np.zeros((len(plan.steps), capacity), np.bool_)
        self.negated: BoolArray = np.zeros((len(plan.negations), capacity), np.bool_)

    def add(self, store: EventStore, tables: Tables, start: int, end: int) -> None:
        """Evaluate the rows [start, end)."""
        self._reserve(len(store.t_lo_ms))
        types = store.type_index[start:end]
        n_registers = self.plan.programs.n_registers
        for step in self.plan.steps:
            rows = start + np.flatnonzero(types == store.types.index(step.event_type))
            k = step.position
            self.begin[k, start:end] = False
            self.begin[k, rows] = _holds(store, tables, step.begin, first_register(k), n_registers, rows)
            self.take[k, start:end] = False
            if step.kleene:
                self.take[k, rows] = _holds(store, tables, step.take, n_registers - 1, n_registers, rows)
        for number, negation in enumerate(self.plan.negations):
            rows = start + np.flatnonzero(types == store.types.index(negation.event_type))
            self.negated[number, start:end] = False
            self.negated[number, rows] = _holds(store, tables, negation.edge, n_registers - 1, n_registers, rows)

    def middle(self, n_rows: int) -> BoolArray:
        """Rows that may stand between the first and the last event of a match."""
        found: BoolArray = np.any(self.take[:, :n_rows], axis=0)
        for step in self.plan.steps[1:]:
            if step.position < len(self.plan.steps) - 1 or step.kleene:
                found |= self.begin[step.position, :n_rows]
        return found

    def ends(self, n_rows: int) -> BoolArray:
        """Rows that may be the last event of a match."""
        return self.begin[-1, :n_rows] | self.take[-1, :n_rows]

    def wanted(self, n_rows: int) -> BoolArray:
        """Rows that some edge accepts."""
        found: BoolArray = np.any(self.begin[:, :n_rows], axis=0)
        for more in (self.take, self.negated):
            found = found | np.any(more[:, :n_rows], axis=0)
        return found

    def keep(self, kept: BoolArray) -> None:
        """Drop the rows whose mask is False."""
        n = len(kept)
        rows = np.flatnonzero(kept)
        for name in ("begin", "take", "negated"):
            array = getattr(self, name)
            array[:, : len(rows)] = array[:, :n][:, rows]

    def _reserve(self, capacity: int) -> None:
        if self.begin.shape[1] >= capacity:
            return
        for name in ("begin", "take", "negated"):
            old = getattr(self, name)
            grown = np.zeros((old.shape[0], capacity), np.bool_)
            grown[:, : old.shape[1]] = old
            setattr(self, name, grown)


def _holds(
    store: EventStore, tables: Tables, edge: EdgePredicates, register: int, n_registers: int, rows: Int64Array
) -> BoolArray:
    mask = np.ones(len(rows), np.bool_)
    if edge.first < edge.rest and len(rows):
        local_mask(
            tables.code, tables.bounds, edge.first, edge.rest, tables.constants, store.columns, register, n_registers,
            rows, mask,
        )  # fmt: skip
    return mask


@dataclass(frozen=True)
class Groups:
    """Rows grouped by partition, in stream order; group p is rows[starts[p + 1] : starts[p + 2]], BROADCAST is -1."""

    rows: Int64Array
    starts: Int64Array

    @classmethod
    def of(cls, mask: BoolArray, store: EventStore) -> Groups:
        """The rows whose mask (n_rows,) is True."""
        rows = np.flatnonzero(mask).astype(np.int64)
        partitions = store.partition[rows]
        order = np.argsort(partitions, kind="stable")
        bounds = np.arange(BROADCAST, store.n_partitions + 1)
        return cls(rows[order], np.searchsorted(partitions[order], bounds).astype(np.int64))


@dataclass(frozen=True)
class Neighbourhood:
    """One pair and what lies around it; candidates and blocks as `search_order` returns them."""

    first: int
    last: int
    partition: int
    candidates: Int64Array
    blocks: Int64Array
    negated: Int64Array
    precise: bool


class Context:
    """The store of one query as the kernels see it at one watermark."""

    def __init__(self, plan: Plan, store: EventStore, masks: Masks, compiled: PostponedTables) -> None:
        self.plan = plan
        self.store = store
        self.masks = masks
        self.compiled = compiled
        self.n_rows = len(store)
        n = self.n_rows
        self.longest_ms = int((store.t_hi_ms[:n] - store.t_lo_ms[:n]).max()) if n else 0
        self.events = self._events()
        self.members = Groups.of(masks.middle(n), store)
        self.negated = Groups.of(np.any(masks.negated[:, :n], axis=0), store)
        self._replay = compiled.tables._replace(caps=np.full_like(compiled.tables.caps, np.inf))
        self._ids: dict[int, str] = {}
        self._programs = np.array([value.program for value in plan.returns], np.int64)

    def _events(self) -> Events:
        store = self.store
        weight_at = np.full(len(store.t_lo_ms), -1, np.int64)
        parts: list[Float64Array] = []
        n_points = 0
        for row, weights in store.weights.items():
            weight_at[row] = n_points
            parts.append(weights / weights.sum())
            n_points += len(weights)
        return Events(
            lo_ms=store.t_lo_ms,
            hi_ms=store.t_hi_ms,
            clock=store.clock,
            source_seq=store.source_seq,
            weight_at=weight_at,
            weights=np.concatenate(parts) if parts else np.empty(0, np.float64),
            columns=store.columns,
            strict=self.plan.ties is ast.Ties.STRICT,
        )

    def neighbourhood(self, first: int, last: int, partition: int) -> Neighbourhood:
        """Everything that a match of this pair could contain or must not have around it."""
        rows = around(
            self.events, self.members.rows, self.members.starts, partition, first, last, self.longest_ms, 0, 0
        )
        candidates, blocks, _ = search_order(self.events, inside(self.events, rows, first, last))
        negated = np.empty(0, np.int64)
        if self.plan.negations:
            within = self.plan.within_ms
            negated = around(
                self.events, self.negated.rows, self.negated.starts, partition, first, last, self.longest_ms,
                within, within,
            )  # fmt: skip
        lo, hi = self.store.t_lo_ms, self.store.t_hi_ms
        precise = lo[first] == hi[first] and lo[last] == hi[last] and bool((lo[candidates] == hi[candidates]).all())
        return Neighbourhood(first, last, partition, candidates, blocks, negated, bool(precise))

    def event_id(self, row: int) -> str:
        """The id of an event; events of many matches are looked up once."""
        found = self._ids.get(row)
        if found is None:
            found = self._ids[row] = self.store.ids[row]
        return found

    def returned(self, chain: Int64Array, steps: Int64Array) -> Float64Array:
        """The results of the RETURN programs for one match, (n_returns,)."""
        stack = np.empty(MAX_STACK, np.float64)
        values: Float64Array = replay(self._replay, self.store.columns, chain, steps, self._programs, stack)
        return values


def check_weights(batch: EventBatch) -> None:
    """Raise EventError for the first event whose `weights` do not fit its interval."""
    column = batch.table.column("weights")
    if column.null_count == len(batch):
        return
    lo, hi = batch.t_lo_ms, batch.t_hi_ms
    for row, weights in enumerate(column.to_pylist()):
        if weights is None:
            continue
        given = np.array([np.nan if w is None else w for w in weights], np.float64)
        n_points = hi[row] - lo[row] + 1
        if len(given) != n_points or not (np.isfinite(given) & (given >= 0)).all() or not given.any():
            raise EventError(
                f"event {batch.table.column('event_id')[row]}: its {len(given)} weights do not fit the {n_points} ms "
                f"of [{lo[row]}, {hi[row]}]; expected one finite number >= 0 per millisecond, not all 0"
            )


def refused_negation(plan: Plan) -> UnsupportedQueryError:
    """One imprecise event is negated in two places of one match, which this runtime does not compute."""
    return UnsupportedQueryError(
        "an imprecise event may stand in two negated places of one match",
        plan.query.span,
        "negated events that are precise, or that can be in one place only",
        "split the query, or evaluate it with --runtime oracle",
    )


__all__ = ["Context", "Groups", "Masks", "Neighbourhood", "check_weights", "refused_negation"]
