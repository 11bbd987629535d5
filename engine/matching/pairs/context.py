"""What the evaluation of pairs shares during one `advance`: columns as kernels take them, masks, groups of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.errors import UnsupportedQueryError
from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.confidence.ordering import search_order
from engine.kernels.confidence.skew import MAX_EVALUATIONS
from engine.kernels.pairs.pairs import around, inside, replay
from engine.kernels.programs.opcodes import MAX_STACK
from engine.matching.pairs.plan_arrays import PostponedTables
from engine.plan.sequence.model import SequencePlan
from engine.stream.early_filter import Masks
from engine.stream.intervals import events_of
from engine.stream.store import EventStore


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

    def n_within(self, groups: Int64Array, low: Int64Array, high: Int64Array) -> Int64Array:
        """How many rows >= low and < high each of these groups has: all int64 (n,)."""
        if not len(self.rows):
            return np.zeros(len(groups), np.int64)
        span = int(max(self.rows.max(), high.max(initial=0))) + 1
        codes = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts)) * span + self.rows
        begin, end = (np.searchsorted(codes, (groups + 1) * span + bound) for bound in (low, np.maximum(low, high)))
        found: Int64Array = end - begin
        return found

    def n_between(self, pairs: Int64Array) -> Int64Array:
        """How many rows lie between the first and the last one of each pair (first, last, partition): int64 (n,)."""
        first, last, partition = pairs.T
        common = np.where(partition == BROADCAST, 0, self.n_within(np.full_like(partition, BROADCAST), first + 1, last))
        return self.n_within(partition, first + 1, last) + common

    @classmethod
    def stacked(cls, masks: BoolArray, store: EventStore) -> tuple[Int64Array, Int64Array]:
        """The groups of several masks (n, n_rows): all rows, one mask after the other, and starts (n, n_groups)."""
        groups = [cls.of(mask, store) for mask in masks]
        starts = np.empty((len(groups), store.n_partitions + 2), np.int64)
        n_before = 0
        for group, into in zip(groups, starts, strict=True):
            into[:] = group.starts + n_before
            n_before += len(group.rows)
        return np.concatenate([group.rows for group in groups]) if groups else np.empty(0, np.int64), starts


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

    def __init__(self, plan: SequencePlan, store: EventStore, masks: Masks, compiled: PostponedTables) -> None:
        self.plan = plan
        self.store = store
        self.masks = masks
        self.compiled = compiled
        self.n_rows = len(store)
        n = self.n_rows
        self.longest_ms = int((store.t_hi_ms[:n] - store.t_lo_ms[:n]).max()) if n else 0
        self.events = events_of(store, strict=plan.strict_ties)
        self.has_skew = bool(store.skew_ms[:n].any())
        """Whether times depend on each other, by the offsets of clocks: only search judges such matches."""
        self.members = Groups.of(masks.middle(n), store)
        self.negated = Groups.of(np.any(masks.negated[:, :n], axis=0), store)
        self.denied = Groups.stacked(masks.negated[:, :n], store)
        self.replayed = compiled.tables._replace(caps=np.full_like(compiled.tables.caps, np.inf))
        self._looks_back = any(negation.after < 0 for negation in plan.negations)
        self._looks_ahead = any(negation.after == len(plan.steps) - 1 for negation in plan.negations)
        self._ids: dict[int, str] = {}
        self._programs = plan.return_programs

    def neighbourhood(self, first: int, last: int, partition: int) -> Neighbourhood:
        """Everything that a match of this pair could contain or must not have around it."""
        rows = around(
            self.events, self.members.rows, self.members.starts, partition, first, last, self.longest_ms, 0, 0
        )
        candidates, blocks, _ = search_order(self.events, inside(self.events, rows, first, last))
        lo, hi = self.store.t_lo_ms, self.store.t_hi_ms
        negated = np.empty(0, np.int64)
        if self.plan.negations:
            before_ms = after_ms = self.plan.within_ms
            if not self.has_skew:
                # Others than bear upon the pair may be there or not, as the stream came in; all are paid for.
                before_ms = max(before_ms - int(lo[last] - lo[first]), 0) if self._looks_back else 0
                after_ms = max(after_ms - int(hi[last] - hi[first]), 0) if self._looks_ahead else 0
            negated = around(
                self.events, self.negated.rows, self.negated.starts, partition, first, last, self.longest_ms,
                before_ms, after_ms,
            )  # fmt: skip
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
        values: Float64Array = replay(self.replayed, self.store.columns, chain, steps, self._programs, stack)
        return values


def refused_skew(plan: SequencePlan) -> UnsupportedQueryError:
    """The offsets of several clocks bear upon one match, in more combinations than are evaluated."""
    return UnsupportedQueryError(
        f"the confidence of a match takes more than {MAX_EVALUATIONS} combinations of its clocks' unknown offsets",
        plan.query.span,
        "fewer clocks with a skew bound in one match, or smaller bounds",
        "lower the skew bounds of clocks that are well synchronised, or shorten WITHIN",
    )


__all__ = ["Context", "Groups", "Neighbourhood", "refused_skew"]
