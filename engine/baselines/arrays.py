"""A plan as the arrays of the baseline kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.events import Float64Array, Int64Array
from engine.kernels.compile.types import Int32Array
from engine.plan.sequence.model import SequencePlan
from engine.stream.interner import Interner


class MatchingArrays(NamedTuple):
    """What decides on edges; see `engine.kernels.baselines.edges`."""

    code: Int32Array
    bounds: Int32Array
    constants: Float64Array
    slots: Int32Array
    loops: Int64Array
    edges: Int64Array


class ConstructionArrays(NamedTuple):
    """What decides on complete matches; see `engine.kernels.baselines.results`."""

    negations: Int64Array
    returns: Int64Array
    having: int


def matching_arrays(plan: SequencePlan, interner: Interner, *, local: bool) -> MatchingArrays:
    """The arrays of a plan; `local`: with the predicates on one event alone, which early filters decide otherwise."""
    programs = plan.programs
    return MatchingArrays(
        code=programs.code,
        bounds=programs.bounds,
        constants=programs.with_strings(interner.constant),
        slots=np.stack(programs.slot_arrays(), axis=1),
        loops=plan.loops,
        edges=plan.edges(local=local),
    )


def construction_arrays(plan: SequencePlan) -> ConstructionArrays:
    """The arrays of a plan; a negated event's local predicates are not among them, the early filter decides those."""
    negations = [[n.after, n.edge.rest, n.edge.last] for n in plan.negations]
    return ConstructionArrays(
        negations=np.array(negations, np.int64).reshape(-1, 3),
        returns=plan.return_programs,
        having=plan.having_program,
    )


__all__ = ["ConstructionArrays", "MatchingArrays", "construction_arrays", "matching_arrays"]
