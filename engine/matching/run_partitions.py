"""Which partition each event of a batch is offered to by the run-based runtime."""

from __future__ import annotations

import numpy as np

from engine.events import TIME_ATTRIBUTE, AttributeType, BoolArray, Int64Array
from engine.kernels.nfa_arrays import BROADCAST, NOWHERE
from engine.language import ast
from engine.matching.key_table import KeyTable
from engine.matching.stream import StreamColumns
from engine.plan.model import Plan


class RunPartitions:
    """Numbers for the partitions of one plan by `key`: its own, or one that it implies.

    Without broadcast types an event that neither begins the pattern nor is negated gets no new number: it is for runs
    that are there, so that the table is as large as the partitions at work, not as all keys of the stream.
    """

    def __init__(self, plan: Plan, key: tuple[str, ...]) -> None:
        self._plan = plan
        self._key = key
        self._keyed = tuple(sorted(plan.types - plan.broadcast))
        contiguous = plan.strategy is ast.Strategy.PARTITION_CONTIGUITY
        # Whether a broadcast event follows at once is told by the newest event of each partition.
        self._also = tuple(sorted(plan.keyed_types)) if contiguous and plan.broadcast else ()

    def of(self, stream: StreamColumns, roles: BoolArray, imprecise: BoolArray, keys: KeyTable) -> Int64Array:
        """The partitions (n,) of a batch's rows; roles: see `engine.kernels.nfa_arrays`.

        NOWHERE: imprecise, accepted by no edge, without the key, or of a partition where no run can be.
        """
        plan = self._plan
        accepted: BoolArray = np.any(roles, axis=0)
        keyed = accepted
        numbers: Int64Array = np.full(len(stream), NOWHERE, np.int64)
        if plan.broadcast:
            of_all = np.zeros(len(stream), np.bool_)
            for name in plan.broadcast:
                of_all[stream.rows_of_type(name)] = True
            numbers[accepted & of_all] = BROADCAST
            keyed = accepted & ~of_all
        for name in self._also:
            keyed[stream.rows_of_type(name)] = True
        if imprecise.any():
            numbers[imprecise] = NOWHERE
            keyed = keyed & ~imprecise
        columns = [stream.column(name, self._kind(name)) for name in self._key]
        for column in columns:
            absent = np.isnan(column)
            if absent.any():
                keyed = keyed & ~absent
        rows = None if keyed.all() else np.flatnonzero(keyed)
        if rows is not None:
            columns = [column[rows] for column in columns]
        n = len(stream) if rows is None else len(rows)
        if plan.broadcast:
            found = keys.numbers(np.stack(columns))
        elif columns:
            may_add = roles[0] | np.any(roles[2 * plan.n_steps :], axis=0)
            found = keys.numbers_where(np.stack(columns), may_add if rows is None else may_add[rows], NOWHERE)
        else:
            found = keys.numbers(np.empty((0, min(n, 1)), np.float64)).repeat(n) if n else np.empty(0, np.int64)
        if rows is None:
            return found
        numbers[rows] = found
        return numbers

    def _kind(self, name: str) -> AttributeType:
        return AttributeType.INT if name == TIME_ATTRIBUTE else self._plan.attribute_types[name]
