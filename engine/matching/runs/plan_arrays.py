"""A plan as the arrays of the run-based kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.events import Float64Array, Int64Array
from engine.kernels.compile.types import Int32Array
from engine.kernels.runs import arrays as nfa_arrays
from engine.language import ast
from engine.matching.work_account import WorkAccount
from engine.plan.model import EdgePredicates
from engine.plan.programs import strategy_number
from engine.plan.sequence.live_variables import LiveVariables, live_variables
from engine.plan.sequence.model import SequencePlan
from engine.stream.interner import Interner


class PlanArrays(NamedTuple):
    """In the order in which the kernel takes them; see `engine.kernels.runs.arrays`."""

    code: Int32Array
    bounds: Int32Array
    constants: Float64Array
    slots: Int32Array
    steps: Int64Array
    loops: Int64Array
    negations: Int64Array
    returns: Int64Array
    live_variables: Int64Array
    live_states: Int64Array
    scalars: Int64Array


def plan_arrays(plan: SequencePlan, interner: Interner, work: WorkAccount, *, merges: bool) -> PlanArrays:
    """The arrays of `plan` with strings coded as `interner` does; `merges`: equivalent runs are merged."""
    programs = plan.programs
    loops = np.tile(np.array([-1, 0], np.int64), (len(programs.bounds) - 1, 1))
    for step in plan.steps:
        for edge in (step.begin, step.take, step.proceed):
            for loop in edge.loops:
                loops[loop.program] = loop.over, loop.over_which
    negations = [[n.after, n.decided_at, n.edge.rest, n.edge.last] for n in plan.negations]
    having = -1 if plan.having is None else plan.having
    ties = int(plan.ties is ast.Ties.STRICT)
    entries, states = _live_arrays(live_variables(plan))
    return PlanArrays(
        code=programs.code,
        bounds=programs.bounds,
        constants=programs.with_strings({text: interner.constant(text) for _, text in programs.string_constants}),
        slots=np.stack(programs.slot_arrays(), axis=1),
        steps=np.array([[int(s.kleene), *_edge(s.begin), *_edge(s.take), *_edge(s.proceed)] for s in plan.steps]),
        loops=loops,
        negations=np.array(negations, np.int64).reshape(-1, 4),
        returns=np.array([r.program for r in plan.returns], np.int64),
        live_variables=entries,
        live_states=states,
        scalars=np.array(
            [
                having,
                programs.n_registers,
                plan.within_ms,
                ties,
                strategy_number(plan.strategy),
                bool(plan.broadcast),
                merges,
                *work.terms[1:],
            ],
            np.int64,
        ),
    )


def _edge(edge: EdgePredicates) -> tuple[int, int, int]:
    """Local predicates are not among them: the early filter has evaluated them."""
    return edge.rest, edge.last, edge.last + len(edge.loops)


def _live_arrays(states: tuple[LiveVariables, ...]) -> tuple[Int64Array, Int64Array]:
    entries: list[tuple[int, int, int]] = []
    bounds: list[tuple[int, int, int]] = []
    for state in states:
        first = len(entries)
        entries += [(nfa_arrays.VALUE, register, column) for register, column in state.values]
        entries += [(nfa_arrays.SLOT, slot, -1) for slot in state.slots]
        entries += [(nfa_arrays.PLACE, register, -1) for register in state.events]
        bounds.append((first, len(entries), int(state.mergeable)))
    return np.array(entries, np.int64).reshape(-1, 3), np.array(bounds, np.int64)
