"""A plan as the arrays of the baseline kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.events import Float64Array, Int64Array
from engine.kernels.compile.types import Int32Array
from engine.language import ast
from engine.plan.model import EdgePredicates
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
    loops = np.tile(np.array([-1, 0], np.int64), (len(programs.bounds) - 1, 1))
    for step in plan.steps:
        for edge in (step.begin, step.take, step.proceed):
            for loop in edge.loops:
                loops[loop.program] = loop.over, loop.over_which

    def bounds_of(edge: EdgePredicates) -> tuple[int, int, int]:
        return edge.first if local else edge.rest, edge.last, edge.last + len(edge.loops)

    edges = [[int(s.kleene), *bounds_of(s.begin), *bounds_of(s.take), *bounds_of(s.proceed)] for s in plan.steps]
    return MatchingArrays(
        code=programs.code,
        bounds=programs.bounds,
        constants=programs.with_strings({text: interner.constant(text) for _, text in programs.string_constants}),
        slots=np.stack(programs.slot_arrays(), axis=1),
        loops=loops,
        edges=np.array(edges, np.int64),
    )


def construction_arrays(plan: SequencePlan) -> ConstructionArrays:
    """The arrays of a plan; a negated event's local predicates are not among them, the early filter decides those."""
    negations = [[n.after, n.edge.rest, n.edge.last] for n in plan.negations]
    return ConstructionArrays(
        negations=np.array(negations, np.int64).reshape(-1, 3),
        returns=np.array([r.program for r in plan.returns], np.int64),
        having=-1 if plan.having is None else plan.having,
    )


def strict_ties(plan: SequencePlan) -> int:
    """1 when equal timestamps are not ordered."""
    return int(plan.ties is ast.Ties.STRICT)


__all__ = ["ConstructionArrays", "MatchingArrays", "construction_arrays", "matching_arrays", "strict_ties"]
