"""What the predicates still to come read of a run (SASE+ section 5.3, the masks over the value vector).

Two runs in one state that have selected the same event last and agree on all of it select the same events from then on
and return the same values: they are equivalent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.kernels.programs import opcodes as op
from engine.plan.model import EdgePredicates
from engine.plan.programs import first_register, last_register
from engine.plan.sequence.model import SequencePlan


@dataclass(frozen=True, slots=True)
class LiveVariables:
    """What is live in a run whose last event is one of component `state`.

    `values`: (register, column) pairs whose value matters; `slots`: running aggregates; `events`: registers whose event
    itself matters, as the border of the position of a negated component. `mergeable` is False where a predicate to come
    ranges over events that have been selected one by one: the values of a few registers do not tell their runs apart.
    """

    state: int
    values: tuple[tuple[int, int], ...]
    slots: tuple[int, ...]
    events: tuple[int, ...]
    mergeable: bool


def live_variables(plan: SequencePlan) -> tuple[LiveVariables, ...]:
    """What is live in each state of the plan, by state."""
    return tuple(_live(plan, state) for state in range(plan.n_steps))


def _live(plan: SequencePlan, state: int) -> LiveVariables:
    values: set[tuple[int, int]] = set()
    slots: set[int] = set()
    code, bounds = plan.programs.code, plan.programs.bounds
    bound = first_register(state + 1)  # registers below belong to components that have events
    for program in _programs_to_come(plan, state):
        for operation, of, column in code[bounds[program] : bounds[program + 1]].tolist():
            if operation == op.COLUMN and of < bound:
                values.add((of, column))
            elif operation == op.AGGREGATE and plan.programs.slots[of].component <= state:
                slots |= plan.programs.upkeep_of(of)
    loops = [loop for edge in _edges_to_come(plan, state) for loop in edge.loops]
    return LiveVariables(
        state,
        tuple(sorted(values)),
        tuple(sorted(slots)),
        tuple(sorted({position for position in _events_to_come(plan, state) if position < bound})),
        all(loop.over > state for loop in loops),
    )


def _edges_to_come(plan: SequencePlan, state: int) -> Iterator[EdgePredicates]:
    yield plan.steps[state].take
    yield plan.steps[state].proceed
    for step in plan.steps[state + 1 :]:
        yield from (step.begin, step.take, step.proceed)


def _programs_to_come(plan: SequencePlan, state: int) -> Iterator[int]:
    for edge in _edges_to_come(plan, state):
        yield from range(edge.first, edge.last + len(edge.loops))
    for negation in plan.negations:
        if negation.decided_at > state:
            yield from range(negation.edge.first, negation.edge.last)
    yield from (item.program for item in plan.returns)
    if plan.having is not None:
        yield plan.having


def _events_to_come(plan: SequencePlan, state: int) -> Iterator[int]:
    """Registers of the events between which a negated component must not stand."""
    last = plan.n_steps - 1
    for negation in plan.negations:
        if negation.decided_at <= state:
            continue
        if negation.after in (-1, last):
            yield first_register(0)  # the window of a trailing one starts here; a leading one ends here
        if negation.after >= 0:
            yield last_register(negation.after)
        if negation.after < last:
            yield first_register(negation.after + 1)


__all__ = ["LiveVariables", "live_variables"]
