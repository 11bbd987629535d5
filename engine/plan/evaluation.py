"""How a query is evaluated: decided once, as data, before the first event.

By which runtime, with which evaluators for its pairs of first and last events, merged how, divided among threads how.
`engine.runtime.factory` executes it, `explain` prints it; nothing else decides. What remains to be seen while it runs
is which events are kept: each evaluator says which ones it is for, and passes the rest to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.plan.automaton.model import AutomatonPlan
from engine.plan.automaton.run_states import run_states
from engine.plan.count_windows import keyed_by
from engine.plan.distribution import own_distribution
from engine.plan.model import Plan, PlanForm
from engine.plan.sequence.chain_form import ChainForm, chain_form
from engine.plan.sequence.independent import IndependentForm, OtherForm, independent_form
from engine.plan.sequence.model import SequencePlan
from engine.plan.sequence.reads import PlanReads
from engine.plan.sequence.single_kleene import SingleKleeneForm, single_kleene_form


class RuntimeKind(Enum):
    """The runtimes that follow the pattern of one plan: what each does, and what it costs."""

    POSTPONED = (
        "postponed: one shared pass, matches built per (first, last) pair (SASE++ 5.1, 5.2)",
        "O(1) per event and what the output form asks for per pair",
    )
    RUNS = (
        "run-based NFAb (SASE+ 4), precise events only",
        "linear in events times live runs of their partition; a run ends with its window",
    )
    AUTOMATON_SEARCH = (
        "automaton, depth first per last event; while imprecise ones are kept, along the pattern, a confidence per "
        "match",
        "per last event linear in the events of its window times edges, then linear in what is listed",
    )
    AUTOMATON_RUNS = (
        "automaton by runs, precise events only",
        "linear in events times live runs of their partition; conditions linear in the events of a run",
    )

    TRENDS = (
        "graph of events with propagated aggregates, shared by all windows (GRETA)",
        "per event and window what its dearest transition costs; a row when a window closes",
    )
    TREND_PAIRS = (
        "a graph of events with propagated aggregates (GRETA) for each part of AND, and one for the trends that both "
        "match, precise events only",
        "that of each graph, and a few products for each window and partition",
    )

    def __init__(self, summary: str, cost: str) -> None:
        self.summary = summary
        self.cost = cost


class Sheddable(Enum):
    """What load shedding may drop of a plan while it runs."""

    PARTIAL_MATCHES = "partial matches"
    STORED_EVENTS = "events kept for matches to come"
    NOTHING_KEPT = "nothing: a match is one event, so nothing is kept that could be dropped"
    MATCHES = "nothing: what it keeps are matches of other queries, few and found already"
    EXEMPT = "nothing: its runtime gives up no part of what it keeps"


_KINDS = {
    (PlanForm.SEQUENCE, True): RuntimeKind.POSTPONED,
    (PlanForm.SEQUENCE, False): RuntimeKind.RUNS,
    (PlanForm.AUTOMATON, True): RuntimeKind.AUTOMATON_SEARCH,
    (PlanForm.AUTOMATON, False): RuntimeKind.AUTOMATON_RUNS,
    (PlanForm.TREND, True): RuntimeKind.TRENDS,
    (PlanForm.TREND, False): RuntimeKind.TRENDS,
    (PlanForm.TREND_PAIRS, True): RuntimeKind.TREND_PAIRS,
}
"""By the form of a plan and whether every selection of events is a match."""


class PairMethod(Enum):
    """The ways to make the matches of pairs of a first and a last event."""

    INDEPENDENT = "independent"
    POSSIBLE = "possible"
    SINGLE_KLEENE = "single Kleene"
    CHAINS = "chains"
    CLASSES = "classes"
    SEARCH = "search"
    PRECISE_LISTING = "precise listing"
    LISTING = "listing"

    @property
    def takes(self) -> str:
        """Which pairs it is for; it leaves the others to the next one."""
        return _TAKES[self]


_TAKES = {
    PairMethod.INDEPENDENT: "while all kept events are precise",
    PairMethod.POSSIBLE: "while an imprecise one is kept, where the orders of events can be told apart",
    PairMethod.SINGLE_KLEENE: "where the orders of events can be told apart",
    PairMethod.CHAINS: "pairs whose events fit into one pass",
    PairMethod.CLASSES: "pairs whose events have independent times, or one certain order",
    PairMethod.SEARCH: "any other pair",
    PairMethod.PRECISE_LISTING: "while all kept events are precise",
    PairMethod.LISTING: "while an imprecise one is kept",
}


@dataclass(frozen=True)
class PairEvaluator:
    """One way to make the matches of pairs; `note`: how, in one line; `form`: what it knows of the plan."""

    method: PairMethod
    note: str
    form: IndependentForm | SingleKleeneForm | ChainForm | None = None


@dataclass(frozen=True)
class PairEvaluators:
    """The evaluators of a postponed plan, in the order in which they are asked.

    `makes_rows`: rows are made of them alone; otherwise matches are listed, and rows are made from these.
    """

    each: tuple[PairEvaluator, ...]
    makes_rows: bool

    @property
    def independent(self) -> IndependentForm | None:
        """What is known of precise events that are selected each by itself; None: there is no such evaluator."""
        return next((each.form for each in self.each if isinstance(each.form, IndependentForm)), None)

    @property
    def chains(self) -> ChainForm | None:
        """What is known of chains of neighbours; None: there is no such evaluator."""
        return next((each.form for each in self.each if isinstance(each.form, ChainForm)), None)

    @property
    def together(self) -> PairEvaluator | None:
        """The one that counts all pairs of a step together, whatever their events."""
        together = (PairMethod.POSSIBLE, PairMethod.SINGLE_KLEENE)
        return next((each for each in self.each if each.method in together), None)

    @property
    def one_by_one(self) -> tuple[PairMethod, ...]:
        """The methods that count single pairs."""
        single = (PairMethod.CHAINS, PairMethod.CLASSES, PairMethod.SEARCH)
        return tuple(each.method for each in self.each if each.method in single)

    def explain(self) -> list[str]:
        """For people, one fact per line."""
        lines = [f"{each.note}   [{each.method.takes}]" for each in self.each]
        return [f"{'' if number else 'selection':11}{line}" for number, line in enumerate(lines)]


@dataclass(frozen=True)
class BranchEvaluation:
    """How one plan is evaluated, alone or as a branch of a union.

    `plan`: as the runtime gets it. `pairs`: of a postponed plan. `inner`: of the plan within a partition by the whole
    key, where some types have a part of it; its matches are what rows are made from.
    """

    plan: Plan
    runtime: RuntimeKind
    pairs: PairEvaluators | None = None
    inner: BranchEvaluation | None = None

    @property
    def sheddable(self) -> Sheddable:
        """What of it is dropped under overload; see `engine.runtime.shedding`."""
        if self.inner is not None:
            return Sheddable.EXEMPT
        if self.runtime in (RuntimeKind.RUNS, RuntimeKind.AUTOMATON_RUNS):
            return Sheddable.PARTIAL_MATCHES
        if self.runtime is RuntimeKind.AUTOMATON_SEARCH and isinstance(self.plan, AutomatonPlan):
            # Without a negated event more would match.
            return Sheddable.EXEMPT if self.plan.states.negations else Sheddable.STORED_EVENTS
        if self.runtime is RuntimeKind.POSTPONED and isinstance(self.plan, SequencePlan):
            steps = self.plan.steps
            if len(steps) == 1 and not steps[0].kleene and not self.plan.negations:
                return Sheddable.NOTHING_KEPT
            if not self.plan.negations:
                return Sheddable.STORED_EVENTS
        return Sheddable.EXEMPT

    @property
    def n_run_states(self) -> int:
        """States that load shedding tells its runs apart by."""
        if isinstance(self.plan, AutomatonPlan):
            return run_states(self.plan.states).n
        return self.plan.n_steps

    def explain(self) -> list[str]:
        """For people, one fact per line."""
        lines = [f"runtime    {self.runtime.summary}", f"cost       {self.runtime.cost}"]
        pairs = self.pairs if self.inner is None else self.inner.pairs
        return lines if pairs is None else [*lines, *pairs.explain()]


class QueryRuntime(Enum):
    """What makes the rows of a query from its plans."""

    ONE_PLAN = "the runtime of its only plan"
    UNION = "a union of the runtimes of its plans"
    TRENDS = "the graph of its trends"
    TREND_PAIRS = "the graphs of the trends of both parts of AND"
    COUNT_WINDOWS = "windows of events, with a runtime for each plan and key"


_OF_TRENDS = {PlanForm.TREND: QueryRuntime.TRENDS, PlanForm.TREND_PAIRS: QueryRuntime.TREND_PAIRS}


@dataclass(frozen=True)
class QueryEvaluation:
    """How a query is evaluated.

    `plan`: the only one, or what several have in common. `variables`: the positive variables in textual order.
    `merges_rows`: the rows of the branches of a union are merged, not made from their matches. `is_divided_by_key`,
    `is_divided_by_time`: what threads may have parts of.
    """

    runtime: QueryRuntime
    plan: Plan
    branches: tuple[BranchEvaluation, ...]
    variables: tuple[str, ...]
    merges_rows: bool
    is_divided_by_key: bool
    is_divided_by_time: bool
    of_matches: bool = False
    """Whether it reads matches of other queries."""

    def explain_threads(self) -> str:
        """What threads have parts of, for people."""
        if not (self.is_divided_by_key or self.is_divided_by_time):
            return "side by side with other queries, in one piece"
        by_time = "slices of time where batches are long against the window" if self.is_divided_by_time else ""
        by_key = "partitions" if self.is_divided_by_key else "in one piece beside other queries"
        return ", else ".join(filter(None, (by_time, by_key)))

    @property
    def sheddable(self) -> tuple[Sheddable, ...]:
        """What load shedding may drop of each branch."""
        if self.runtime not in (QueryRuntime.ONE_PLAN, QueryRuntime.UNION):
            return (Sheddable.EXEMPT,)
        found = (branch.sheddable for branch in self.branches)
        return tuple(Sheddable.MATCHES if self.of_matches and s is Sheddable.STORED_EVENTS else s for s in found)

    @property
    def is_exempt(self) -> bool:
        """Whether load shedding takes what it costs as it is: nothing can be dropped of some of what it keeps."""
        return not {Sheddable.EXEMPT, Sheddable.MATCHES}.isdisjoint(self.sheddable)

    def explain_shedding(self) -> str:
        """What is dropped under overload, for people."""
        return "; ".join(dict.fromkeys(found.value for found in self.sheddable))

    @property
    def is_listed_in_blocks(self) -> bool:
        """Whether matches of precise events are handed to a sink as they are found, see `engine.RowSink`."""
        if self.runtime is not QueryRuntime.ONE_PLAN or self.plan.limit is not None:
            return False
        pairs = self.branches[0].pairs
        return pairs is not None and pairs.independent is not None


def evaluation_of(
    resolved: ResolvedQuery, plan: Plan, branches: Sequence[Plan], *, of_matches: bool = False
) -> QueryEvaluation:
    """How the query with these plans, and what they have in common, is evaluated; `of_matches`: over matches of
    others."""
    variables = tuple(name for name, variable in resolved.variables.items() if not variable.negated)
    merges_rows = False
    if resolved.query.within_events is not None:
        runtime = QueryRuntime.COUNT_WINDOWS
        own = [branch_evaluation(each, takes_matches=True) for each in branches]
    elif plan.form in _OF_TRENDS:
        runtime = _OF_TRENDS[plan.form]
        own = [branch_evaluation(plan)]
    elif len(branches) > 1 or branches[0].variables != variables:
        runtime = QueryRuntime.UNION
        merges_rows = _merges_rows(plan, branches)
        own = [branch_evaluation(each, takes_matches=not merges_rows) for each in branches]
    else:
        runtime = QueryRuntime.ONE_PLAN
        own = [branch_evaluation(plan)]
    return QueryEvaluation(
        runtime=runtime,
        plan=plan,
        branches=tuple(own),
        variables=variables,
        merges_rows=merges_rows,
        is_divided_by_key=_is_divided_by_key(plan, branches),
        is_divided_by_time=_is_divided_by_time(resolved, plan, branches),
        of_matches=of_matches,
    )


def branch_evaluation(plan: Plan, *, takes_matches: bool = False) -> BranchEvaluation:
    """How one plan is evaluated; `takes_matches`: its matches are handed on, rows are made from those of all branches,
    and what the query's clauses ask of rows is asked of these then."""
    alone = listed_plan(plan) if takes_matches else plan
    if not plan.has_partial_keys:
        return within_partition(alone, takes_matches=takes_matches)
    inner = within_partition(listed_plan(keyed_by(plan, plan.match_key)), takes_matches=True)
    return BranchEvaluation(alone, inner.runtime, inner=inner)


def within_partition(plan: Plan, *, takes_matches: bool) -> BranchEvaluation:
    """How a plan is evaluated over a stream in which every event of a keyed type has the key of the plan."""
    kind = _KINDS[plan.form, plan.lists_all]
    pairs = None
    if kind is RuntimeKind.POSTPONED and isinstance(plan, SequencePlan):
        pairs = pair_evaluators(plan, takes_matches=takes_matches)
    return BranchEvaluation(plan, kind, pairs)


def listed_plan(plan: Plan) -> Plan:
    """The plan whose matches, not rows, are asked for: what applies to those of all branches is not applied here."""
    return replace(plan, output=ast.Output.ALL, limit=None, confidence=None)


def pair_evaluators(plan: SequencePlan, *, takes_matches: bool = False) -> PairEvaluators:
    """How the matches of the pairs of a postponed plan are made; `takes_matches`: see `branch_evaluation`."""
    makes_rows = not (takes_matches or plan.forms_from_listed)
    return PairEvaluators(_evaluators(plan, makes_rows=makes_rows), makes_rows)


def _evaluators(plan: SequencePlan, *, makes_rows: bool) -> tuple[PairEvaluator, ...]:
    form = independent_form(plan)
    if not makes_rows or not (plan.is_counted or isinstance(form, IndependentForm)):
        reason = form.reason if isinstance(form, OtherForm) else "matches are looked at one by one"
        return _listing(f"step by step: {reason}")
    found: list[PairEvaluator] = []
    if isinstance(form, IndependentForm):
        found.append(PairEvaluator(PairMethod.INDEPENDENT, form.note, form))
        if not plan.is_counted:
            return (*found, *_listing("step by step")[1:])
    return (*found, *_counting(plan, form))


def _listing(note: str) -> tuple[PairEvaluator, PairEvaluator]:
    return (
        PairEvaluator(PairMethod.PRECISE_LISTING, note),
        PairEvaluator(PairMethod.LISTING, "step by step, with a confidence for each match"),
    )


def _counting(plan: SequencePlan, independent: IndependentForm | OtherForm) -> list[PairEvaluator]:
    """The evaluators of counted rows beside those of precise events that are selected independently."""
    found: list[PairEvaluator] = []
    if isinstance(independent, IndependentForm) and not plan.confidence:
        note = "each Kleene event by itself, with the orders that are possible"
        found.append(PairEvaluator(PairMethod.POSSIBLE, note, independent))
    elif isinstance(form := single_kleene_form(plan), SingleKleeneForm):
        found.append(PairEvaluator(PairMethod.SINGLE_KLEENE, form.note, form))
    if isinstance(chains := chain_form(plan), ChainForm):
        found.append(PairEvaluator(PairMethod.CHAINS, chains.note, chains))
    reason = f": {independent.reason}" if isinstance(independent, OtherForm) and not found else ""
    if not PlanReads(plan).kept_loops:
        found.append(PairEvaluator(PairMethod.CLASSES, f"step by step, prefixes that go on alike together{reason}"))
        reason = ""
    return [*found, PairEvaluator(PairMethod.SEARCH, f"step by step{reason}")]


def _merges_rows(plan: Plan, branches: Sequence[Plan]) -> bool:
    """COUNT and COLLAPSED of plain sequences that bind different variables, and are decided together."""
    if not plan.is_counted or plan.forms_from_listed:
        return False
    if any(branch.form is not PlanForm.SEQUENCE for branch in branches):
        return False
    if len({branch.is_trailing for branch in branches}) > 1:
        return False
    return len({frozenset(branch.variables) for branch in branches}) == len(branches)


def _is_divided_by_key(plan: Plan, branches: Sequence[Plan]) -> bool:
    """Whether partitions can be evaluated apart: there is a key, no bound over all of them, no order across them."""
    return (
        bool(plan.key)
        and all(branch.key == plan.key for branch in branches)
        and plan.limit is None
        and plan.output is not ast.Output.TOP
        and plan.strategy is not ast.Strategy.STRICT_CONTIGUITY
        and plan.query.within_events is None
        and not any(branch.has_partial_keys for branch in branches)
    )


def _is_divided_by_time(resolved: ResolvedQuery, plan: Plan, branches: Sequence[Plan]) -> bool:
    """Whether a match is decided by the events of the window after its first one, and its row is its own: nothing
    before it, no other match, and no bound over all of them has a say."""
    return (
        own_distribution(resolved, branches).slice_obstacle is None
        and len(branches) == 1
        and plan.form is PlanForm.SEQUENCE
        and not plan.has_partial_keys
        and not plan.forms_from_listed
        and not plan.looks_back
        and plan.limit is None
        and (plan.is_counted or plan.output is ast.Output.ALL)
    )


__all__ = [
    "BranchEvaluation",
    "PairEvaluator",
    "PairEvaluators",
    "PairMethod",
    "QueryEvaluation",
    "QueryRuntime",
    "RuntimeKind",
    "Sheddable",
    "branch_evaluation",
    "evaluation_of",
    "listed_plan",
    "pair_evaluators",
    "within_partition",
]
