"""Queries whose matches are chains: SEQ([a,] b+ [, c]) where of the events of b only neighbours are compared.

Then `kernels.pairs.chains` counts them without listing, whatever order their events come in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.kernels.programs import opcodes as op
from engine.plan.programs import first_register, last_register
from engine.plan.sequence.independent import OtherForm
from engine.plan.sequence.links import Link, LinkAnalysis
from engine.plan.sequence.model import SequencePlan
from engine.plan.sequence.reads import PlanReads, Reads


@dataclass(frozen=True)
class ChainForm:
    """A plan of this form; see `engine.kernels.pairs.links.LinkTables`.

    reads_first, reads_last: whether conditions on b's events and neighbours read the first event of the match, or the
    single one after b: chains are not the same for several of these.
    """

    kleene: int
    alone: tuple[int, ...]
    links: tuple[Link, ...]
    ordered: bool
    count_slot: int
    most_counted: int
    reads_start: bool
    reads_end: bool
    reads_first: bool
    reads_last: bool

    @property
    def note(self) -> str:
        """One line for `explain`: how matches are counted, and the cost in b's events n between two others."""
        passes = "first event"
        if self.reads_start and self.kleene:
            passes += " and first Kleene event"
        if self.reads_last:
            passes += " and last event"
        bound = f"{self.most_counted} " if self.most_counted > 1 else ""
        if not self.ordered:
            return f"counted as chains of neighbours, pair by pair: {bound}n^2 per {passes}"
        order = " in the order of what they are compared by" if self.links else ""
        return f"counted as chains of neighbours{order}: {bound}n log n per {passes}"


def chain_form(plan: SequencePlan) -> ChainForm | OtherForm:
    """The form of a plan, or why it has another."""
    kleene = [step.position for step in plan.steps if step.kleene]
    if len(kleene) != 1:
        return OtherForm(f"the pattern has {len(kleene)} Kleene components, not one")
    if kleene[0] > 1 or plan.n_steps - kleene[0] > 2:
        return OtherForm("more than one single component before or after the Kleene component")
    if plan.negations:
        return OtherForm("the pattern has a negation")
    return _form(plan, kleene[0])


def _form(plan: SequencePlan, kleene: int) -> ChainForm | OtherForm:
    reads, step = PlanReads(plan), plan.steps[kleene]
    hoisted = [predicate.program for predicate in reads.hoisted]
    requested = [*range(step.take.rest, step.take.last), *hoisted]
    known = reads.known_from_start() | {last_register(kleene)}
    between = reads.of(requested)
    if reads.kept_loops or not between.registers <= known:
        return OtherForm("a Kleene event is compared with others than its neighbours")
    if between.slots or reads.of_edge(step.begin).slots:
        return OtherForm("a Kleene event is compared with an aggregate of those before it")
    slots, caps = reads.read_after(kleene).slots, reads.caps()
    if any(plan.programs.slots[slot].kind != op.AGG_COUNT_EVENTS or np.isinf(caps[slot]) for slot in slots):
        return OtherForm("an aggregate of all Kleene events is compared")
    follows = [program for program in requested if last_register(kleene) in reads.of([program]).registers]
    links = LinkAnalysis(plan.programs, last_register(kleene)).of(follows)
    start = reads.of([*range(step.begin.rest, step.begin.last), *requested])
    first = {first_register(0)} if kleene == 0 else {first_register(0), last_register(0)}
    closing = _closing(plan, reads, kleene)
    end = plan.n_steps - 1
    return ChainForm(
        kleene=kleene,
        alone=tuple(program for program in requested if program not in follows),
        links=links.links,
        ordered=links.ordered,
        count_slot=max(slots, default=-1),
        most_counted=int(max((caps[slot] for slot in slots), default=1.0)),
        reads_start=first_register(kleene) in closing.registers,
        reads_end=last_register(kleene) in closing.registers,
        reads_first=bool((start if kleene else between).registers & first),
        reads_last=kleene < end and bool(start.registers & {first_register(end), last_register(end)}),
    )


def _closing(plan: SequencePlan, reads: PlanReads, kleene: int) -> Reads:
    """What is read once the Kleene component is complete."""
    closing = reads.of(reads.finals) | reads.of_edge(plan.steps[kleene].proceed)
    for step in plan.steps[kleene + 1 :]:
        closing |= reads.of_edge(step.begin) | reads.of_edge(step.proceed)
    return closing


__all__ = ["ChainForm", "chain_form"]
