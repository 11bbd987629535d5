"""Plans and stores as the arrays that kernels take."""

from __future__ import annotations

import numpy as np

from engine.kernels.nfa_arrays import PlanArrays, StoreArrays
from engine.language import ast
from engine.matching.store import EventStore
from engine.plan.model import EdgePredicates, Plan


def plan_arrays(plan: Plan, store: EventStore) -> PlanArrays:
    """The arrays of `plan` with types and strings coded as in `store`."""
    programs = plan.programs
    constants = programs.with_strings({text: store.interner.code(text) for _, text in programs.string_constants})
    type_codes = {name: number for number, name in enumerate(store.types)}
    loops = np.tile(np.array([-1, 0], np.int64), (len(programs.bounds) - 1, 1))
    for step in plan.steps:
        for edge in (step.begin, step.take, step.proceed):
            for loop in edge.loops:
                loops[loop.program] = loop.over, loop.over_pairs
    kinds, components, columns, bases = programs.slot_arrays()
    return PlanArrays(
        step_type=np.array([type_codes[s.event_type] for s in plan.steps], np.int64),
        kleene=np.array([s.kleene for s in plan.steps], np.bool_),
        edges=np.array([[_edge(e) for e in (s.begin, s.take, s.proceed)] for s in plan.steps], np.int64),
        code=programs.code,
        bounds=programs.bounds,
        constants=constants,
        loops=loops,
        slot_kind=kinds,
        slot_component=components,
        slot_column=columns,
        slot_base=bases,
        negations=np.array(
            [[type_codes[n.event_type], n.after, n.decided_at, n.edge.first, n.edge.last] for n in plan.negations],
            np.int64,
        ).reshape(-1, 5),
        returns=np.array([r.program for r in plan.returns], np.int64),
        having=-1 if plan.having is None else plan.having,
        n_registers=programs.n_registers,
        within_ms=plan.within_ms,
        strict_ties=plan.ties is ast.Ties.STRICT,
    )


def store_arrays(store: EventStore) -> StoreArrays:
    """The arrays of `store`; precise events only, so that one time is enough."""
    return StoreArrays(store.t_lo_ms, store.partition, store.type_index, store.columns)


def _edge(edge: EdgePredicates) -> tuple[int, int, int]:
    return edge.first, edge.last, edge.last + len(edge.loops)
