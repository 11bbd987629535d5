"""What an engine needs of any query, and the components of its pattern with their predicates; shared by run states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from engine.events import AttributeType, Int64Array
from engine.kernels.programs.opcodes import OVER_ALL
from engine.language import ast
from engine.plan.programs import Programs


class Edge(Enum):
    """The edge of the NFAb on which a predicate is evaluated."""

    BEGIN = "begin"  # the event becomes v, or v[1]
    TAKE = "take"  # the event becomes v[i], i > 1
    PROCEED = "proceed"  # v is complete: the next component begins, or the match ends
    NEGATION = "negation"  # the event would be one of a negated component


class Consistency(Enum):
    """The classes of SASE++ section 5.2: whether a result on all selected events holds on every subset of them."""

    TRUE_FALSE = "true-false-value consistent"
    TRUE = "true-value consistent"
    FALSE = "false-value consistent"
    INCONSISTENT = "inconsistent"


@dataclass(frozen=True, slots=True)
class PlacedPredicate:
    """A conjunct on the earliest edge where all it refers to is bound.

    `program` is its number in Plan.programs. `local`: it refers to the event under consideration alone. `over`: it must
    hold for CURRENT = each event of that earlier Kleene component, or those that `over_which` names (`opcodes.OVER_ALL`
    and so on), -1 otherwise.
    """

    conjunct: ast.Expression
    edge: Edge
    program: int
    local: bool
    consistency: Consistency
    over: int = -1
    over_which: int = OVER_ALL


@dataclass(frozen=True, slots=True)
class EdgePredicates:
    """The predicates of one edge; programs [first, rest) are local, [rest, last) are not; `loops` are beyond `last`."""

    predicates: tuple[PlacedPredicate, ...]
    first: int
    rest: int
    last: int
    loops: tuple[PlacedPredicate, ...] = ()

    def bounds(self, *, local: bool) -> tuple[int, int, int]:
        """(first, end, end of loops): programs [first, end) are asked of the event, [end, end of loops) loop.

        `local`: with those that an early filter decides otherwise.
        """
        return self.first if local else self.rest, self.last, self.last + len(self.loops)


@dataclass(frozen=True, slots=True)
class NegatedStep:
    """A negated component between positive `after` and `after + 1` (-1: before the first; n - 1: after the last).

    `decided_at`: the position whose binding decides it; for a trailing negation the number of steps.
    """

    variable: str
    event_type: str
    after: int
    decided_at: int
    keyed: bool
    edge: EdgePredicates


@dataclass(frozen=True, slots=True)
class Step:
    """A positive component: its position among the positives and the predicates of its edges."""

    position: int
    variable: str
    event_type: str
    kleene: bool
    keyed: bool
    begin: EdgePredicates
    take: EdgePredicates
    proceed: EdgePredicates


@dataclass(frozen=True, slots=True)
class ReturnValue:
    """A value of a match: a program, and the type that its result has."""

    name: str
    program: int
    type: AttributeType
    exact_collapsed: bool


@dataclass(frozen=True, slots=True)
class LaterCondition:
    """A conjunct that is applied to listed matches: once (`first` 0), or for every i of `variable` from `first` on; in
    every iteration of the repeated groups `context`."""

    expression: ast.Expression
    variable: str | None
    first: int
    context: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AfterListing:
    """What is applied to listed matches alone (`engine.plan.after_listing`); `returns` by number of the value; `paths`:
    the repeated groups around each variable, outermost first."""

    conditions: tuple[LaterCondition, ...]
    having: ast.Expression | None
    returns: Mapping[int, ast.Expression]
    paths: Mapping[str, tuple[int, ...]]

    @property
    def expressions(self) -> tuple[ast.Expression, ...]:
        """All of them."""
        having = () if self.having is None else (self.having,)
        return (*(condition.expression for condition in self.conditions), *having, *self.returns.values())


@dataclass(frozen=True, slots=True)
class PartialKey:
    """A key attribute that only some keyed components have, and the positive variables that do."""

    attribute: str
    variables: frozenset[str]


@dataclass(frozen=True, slots=True)
class BoundVariable:
    """A positive variable as bindings have it: `path` are the repeated groups around it, outermost first; `kleene`: its
    component takes several events by itself."""

    name: str
    kleene: bool
    path: tuple[int, ...] = ()


class PlanForm(Enum):
    """What a plan describes its pattern by."""

    SEQUENCE = "sequence"
    AUTOMATON = "automaton"
    TREND = "template"
    TREND_PAIRS = "templates of two parts"


@dataclass(frozen=True)
class Plan(ABC):
    """Everything static about a query, or about one branch of a union; `engine.plan.sequence.model.SequencePlan` and
    `engine.plan.automaton.model.AutomatonPlan` say how its pattern is matched.

    `steps` and `negations` are the positive and the negated components with their predicates. `key` are the attributes
    that partition the stream; events of broadcast types enter every partition. `keyed_types` are all types of the
    schema that have it, whether the query names them or not; `key_of_type` says which attributes of `[x]` each type
    has. `partial_key` completes the key of a match by attributes that only some of its events have: `[x]` that is
    checked as a predicate. `columns` of `programs` name the attributes to decode; `string_columns` those that hold
    codes.
    """

    name: str
    query: ast.Query
    strategy: ast.Strategy
    steps: tuple[Step, ...]
    negations: tuple[NegatedStep, ...]
    programs: Programs
    key: tuple[str, ...]
    broadcast: frozenset[str]
    within_ms: int
    confidence: float | None
    output: ast.Output
    limit: int | None
    ties: ast.Ties
    returns: tuple[ReturnValue, ...]
    having: int | None
    types: frozenset[str]
    keyed_types: frozenset[str]
    attribute_types: Mapping[str, AttributeType]
    notes: tuple[str, ...] = ()
    key_of_type: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    later: AfterListing | None = None
    partial_key: tuple[PartialKey, ...] = ()
    has_partial_keys: bool = False
    """Runs stay within the partition by all of `match_key`, of which some keyed types have a part: see
    `engine.matching.partial_keys`."""

    # ------------------------------------------------------------- the pattern

    @property
    @abstractmethod
    def form(self) -> PlanForm:
        """What the pattern is described by."""

    @property
    @abstractmethod
    def starts(self) -> tuple[int, ...]:
        """Positions of the components whose event can be the first of a match."""

    @property
    @abstractmethod
    def bound_variables(self) -> tuple[BoundVariable, ...]:
        """The variables that matches bind, as these number them."""

    @property
    @abstractmethod
    def shape(self) -> tuple[str, ...] | None:
        """The variables of every match in the order of their events, None where matches differ in it."""

    @property
    @abstractmethod
    def is_trailing(self) -> bool:
        """Whether the pattern ends in a negation, so that the watermark decides its matches."""

    @property
    @abstractmethod
    def looks_back(self) -> bool:
        """Whether events before the first one of a match may deny it."""

    @property
    @abstractmethod
    def ties_by_partition(self) -> bool:
        """Whether matches of several partitions may have one first and one last event: the rows of a step have them in
        the order of the partitions then, not of the ids."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the positive components in pattern order."""
        return tuple(step.variable for step in self.steps)

    @property
    def n_steps(self) -> int:
        """Number of positive components."""
        return len(self.steps)

    # --------------------------------------------------------------- its matches

    @property
    def match_key(self) -> tuple[str, ...]:
        """The attributes that the key of a match may have, in the order in which the query names them."""
        attributes = {*self.key, *(partial.attribute for partial in self.partial_key)}
        named = (equivalence.attribute for equivalence in self.query.equivalences if equivalence.variable is None)
        return tuple(name for name in dict.fromkeys(named) if name in attributes)

    @property
    def has_windows(self) -> bool:
        """Whether the query has windows of its own, beside the one that bounds a match."""
        return self.query.slide_ms is not None or self.query.open_on is not None

    @property
    def selects(self) -> bool:
        """Whether matches are chosen by what else is matched: windows of the query's own, SELECT FIRST or CONSUME."""
        return self.has_windows or self.query.select_first or bool(self.query.consume)

    @property
    def forms_from_listed(self) -> bool:
        """Whether matches are looked at one by one: what selects, user-defined aggregates, and keys that only the
        events of a match complete."""
        return self.selects or self.later is not None or bool(self.partial_key)

    @property
    def is_counted(self) -> bool:
        """Whether a row stands for all matches of one first and one last event."""
        return self.output in COUNTED_OUTPUTS

    @property
    def strict_ties(self) -> bool:
        """Whether events of one millisecond are in no order: TIES STRICT."""
        return self.ties is ast.Ties.STRICT

    @property
    def having_program(self) -> int:
        """The program of HAVING; -1 where there is none."""
        return -1 if self.having is None else self.having

    @property
    def return_programs(self) -> Int64Array:
        """The programs of RETURN: int64 (n_returns,)."""
        return np.array([value.program for value in self.returns], np.int64)

    @property
    def lists_all(self) -> bool:
        """Whether every selection of relevant events is a match: skip till any match."""
        return self.strategy is ast.Strategy.SKIP_TILL_ANY_MATCH


COUNTED_OUTPUTS = frozenset({ast.Output.COLLAPSED, ast.Output.COUNT})


__all__ = [
    "COUNTED_OUTPUTS",
    "AfterListing",
    "BoundVariable",
    "Consistency",
    "Edge",
    "EdgePredicates",
    "LaterCondition",
    "NegatedStep",
    "PartialKey",
    "PlacedPredicate",
    "Plan",
    "PlanForm",
    "ReturnValue",
    "Step",
]
