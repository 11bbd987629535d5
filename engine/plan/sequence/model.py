"""The plan of a plain SEQ: an NFAb in columnar form (SASE+ section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.events import Int64Array
from engine.plan.model import BoundVariable, Plan, PlanForm


@dataclass(frozen=True)
class SequencePlan(Plan):
    """A plan whose `steps` are matched one after the other, and whose `negations` stand between them."""

    @property
    def form(self) -> PlanForm:
        """A sequence."""
        return PlanForm.SEQUENCE

    @property
    def starts(self) -> tuple[int, ...]:
        """The first component."""
        return (0,)

    @property
    def bound_variables(self) -> tuple[BoundVariable, ...]:
        """See `Plan`: one for each component."""
        return tuple(BoundVariable(step.variable, step.kleene) for step in self.steps)

    @property
    def shape(self) -> tuple[str, ...]:
        """See `Plan`."""
        return self.variables

    @property
    def loops(self) -> Int64Array:
        """For each program, the earlier Kleene component over whose events it loops, -1 where over none, and which of
        them (`PlacedPredicate.over_which`): int64 (n_programs, 2)."""
        loops = np.tile(np.array([-1, 0], np.int64), (len(self.programs.bounds) - 1, 1))
        for step in self.steps:
            for edge in (step.begin, step.take, step.proceed):
                for loop in edge.loops:
                    loops[loop.program] = loop.over, loop.over_which
        return loops

    def edges(self, *, local: bool) -> Int64Array:
        """For each step whether it is a Kleene component, and `EdgePredicates.bounds` of BEGIN, TAKE and PROCEED:
        int64 (n_steps, 10)."""
        return np.array(
            [
                [int(s.kleene), *(bound for edge in (s.begin, s.take, s.proceed) for bound in edge.bounds(local=local))]
                for s in self.steps
            ],
            np.int64,
        )

    @property
    def is_trailing(self) -> bool:
        """See `Plan`."""
        return any(negation.after == self.n_steps - 1 for negation in self.negations)

    @property
    def looks_back(self) -> bool:
        """See `Plan`: a negation stands before the first component."""
        return any(negation.after < 0 for negation in self.negations)

    @property
    def ties_by_partition(self) -> bool:
        """See `Plan`: the first and the last event may be broadcast."""
        if self.has_partial_keys:
            return True
        return bool(self.key) and {self.steps[0].event_type, self.steps[-1].event_type} <= self.broadcast


__all__ = ["SequencePlan"]
