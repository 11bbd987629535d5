"""A plan as the arrays of the run-based kernel, and the scratch that it takes to follow it."""

from __future__ import annotations

import numpy as np

from engine.events import BoolArray, Int64Array
from engine.kernels.programs.opcodes import MAX_STACK
from engine.kernels.runs import arrays as nfa_arrays
from engine.kernels.runs.arrays import EDGES, IS_KLEENE, PROCEED, TAKE, PlanArrays, Scratch
from engine.matching.work_account import WorkAccount
from engine.plan.programs import strategy_number
from engine.plan.sequence.live_variables import LiveVariables, live_variables
from engine.plan.sequence.model import SequencePlan
from engine.stream.interner import Interner


def plan_arrays(plan: SequencePlan, interner: Interner, work: WorkAccount, *, merges: bool) -> PlanArrays:
    """The arrays of `plan` with strings coded as `interner` does; `merges`: equivalent runs are merged."""
    programs = plan.programs
    negations = [[n.after, n.decided_at, n.edge.rest, n.edge.last] for n in plan.negations]
    entries, states = _live_arrays(live_variables(plan))
    kinds, owners, slot_columns, bases = programs.slot_arrays()
    steps = plan.edges(local=False)  # the early filter decides the others
    return PlanArrays(
        code=programs.code,
        bounds=programs.bounds,
        constants=programs.with_strings(interner.constant),
        kinds=kinds,
        owners=owners,
        slot_columns=slot_columns,
        bases=bases,
        steps=steps,
        only_takes=_only_takes(steps),
        loops=plan.loops,
        negations=np.array(negations, np.int64).reshape(-1, 4),
        returns=plan.return_programs,
        live=entries,
        live_states=states,
        scalars=np.array(
            [
                plan.having_program,
                programs.n_registers,
                plan.within_ms,
                plan.strict_ties,
                strategy_number(plan.strategy),
                bool(plan.broadcast),
                merges,
                *work.terms[1:],
            ],
            np.int64,
        ),
    )


def new_scratch(arrays: PlanArrays) -> Scratch:
    """Scratch for one runtime of a plan."""
    number = np.empty(1, np.float64)
    return Scratch(
        rows=np.empty(arrays.scalars[nfa_arrays.N_REGISTERS], np.int64),
        aggregates=np.empty(len(arrays.kinds), np.float64),
        stack=np.empty(MAX_STACK, np.float64),
        number=number,
        bits=number.view(np.int64),
    )


def _only_takes(steps: Int64Array) -> BoolArray:
    take, leave = EDGES + 3 * TAKE, EDGES + 3 * PROCEED
    plain: BoolArray = (steps[:, IS_KLEENE] != 0) & (steps[:, take] == steps[:, take + 2])
    plain[-1] &= steps[-1, leave + 1] == steps[-1, leave + 2]
    return plain


def _live_arrays(states: tuple[LiveVariables, ...]) -> tuple[Int64Array, Int64Array]:
    entries: list[tuple[int, int, int]] = []
    bounds: list[tuple[int, int, int]] = []
    for state in states:
        first = len(entries)
        entries += [(nfa_arrays.VALUE, register, column) for register, column in state.values]
        entries += [(nfa_arrays.SLOT, slot, -1) for slot in state.slots]
        entries += [(nfa_arrays.POSITION, register, -1) for register in state.events]
        bounds.append((first, len(entries), int(state.mergeable)))
    return np.array(entries, np.int64).reshape(-1, 3), np.array(bounds, np.int64)
