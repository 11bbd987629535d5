"""Queries whose Kleene events are selected independently of each other between single events.

The pattern is SEQ(S, ..., S, K, S, ..., S): one Kleene component K, at least one single component S on either side of
it. Once the single events are chosen, any selection of at least so many of K's candidates is a match; only its first
and its last event stand next to single ones. So all matches of one choice are counted by these two, without listing
them and whatever their confidence (`kernels.pairs.single_kleene`).
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.plan.model import Step
from engine.plan.sequence.independent import (
    Analysis,
    IndependentForm,
    NotIndependentError,
    OtherForm,
)
from engine.plan.sequence.model import SequencePlan


@dataclass(frozen=True)
class SingleKleeneForm:
    """A plan of the form S+ K S+.

    each: what a Kleene event must fulfil by itself, as `independent.IndependentForm` says it; nothing else of it is of
    use here. on: for each component the programs that must hold of the single events up to it, with its own as CURRENT
    and the last event known; () for K. least: the number of events from which on a selection may be a match.
    """

    each: IndependentForm
    on: tuple[tuple[int, ...], ...]
    least: int

    note = "each Kleene event by itself between the single events: counted without listing"
    """One line for `explain`."""


def single_kleene_form(plan: SequencePlan) -> SingleKleeneForm | OtherForm:
    """The form of a plan with OUTPUT COLLAPSED or COUNT, or why it has another."""
    try:
        return _SingleKleene(plan).single_kleene()
    except NotIndependentError as error:
        return OtherForm(str(error))


class _SingleKleene(Analysis):
    def single_kleene(self) -> SingleKleeneForm:
        plan = self.plan
        kleene = self._kleene()
        on = [
            () if step is kleene else tuple(self._plain((*step.begin.predicates, *step.proceed.predicates), step))
            for step in plan.steps
        ]
        on[-1] += tuple(self._plain(kleene.proceed.predicates, kleene))
        begin, take, loops = self._on_elements(kleene)
        if self.properties:
            raise NotIndependentError("a selection is compared by its least or greatest value")
        sizes = self._sizes(kleene)
        if True not in sizes or False in sizes[sizes.index(True) :]:
            raise NotIndependentError("the number of selected events has an upper bound")
        each = IndependentForm(
            kleene=kleene.position,
            n_steps=plan.n_steps,
            code=self.programs.code,
            bounds=self.programs.bounds,
            on_first=(),
            on_last=(),
            begin=tuple(begin),
            take=tuple(take),
            each=tuple(loops),
            properties=(),
            sizes=sizes,
            varies=True,
            reads_last=True,
        )
        return SingleKleeneForm(each, tuple(on), sizes.index(True))

    def _kleene(self) -> Step:
        plan = self.plan
        if not plan.is_counted:
            raise NotIndependentError(f"OUTPUT {plan.output.value}")
        kleene = self._only_kleene()
        if not 0 < kleene.position < plan.n_steps - 1:
            raise NotIndependentError("the Kleene component is the first or the last one")
        return kleene


__all__ = ["SingleKleeneForm", "single_kleene_form"]
