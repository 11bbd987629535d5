"""The plan of a trend query: its templates, how transitions are followed, and what is propagated along them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from engine.kernels.trends.numbers import LIMB_BITS
from engine.language import ast
from engine.plan.model import BoundVariable, Plan, PlanForm
from engine.plan.trends.template import Cuts, Templates


class JoinWay(Enum):
    """How an event finds what the events before it pass on (GRETA, Algorithm 2, line 4), and what that costs it."""

    SUM = ("a running sum", "O(1)")
    INDEX = ("an index of prefix aggregates by value", "O(log n)")
    DOMINANCE = ("halves of halves of each batch by two values", "O(log^2 n), O(n) in small batches")
    SCAN = ("earlier events one by one", "O(n)")
    NEXT = ("earlier events from which none was taken yet, one by one", "O(m)")
    ADJACENT = ("the event directly before", "O(1)")
    LATEST = ("earlier events one by one, the newest first, until none can have begun later", "O(n)")
    BEST = ("earlier events of which none after them has begun later, by halves", "O(log n)")

    def __init__(self, summary: str, cost: str) -> None:
        self.summary = summary
        self.cost = cost


class NumberKind(Enum):
    """What is propagated beside the number of trends."""

    EVENTS = "count"
    KNOWN = "values that are not NULL"
    SUM = "sum"
    LEAST = "min"
    GREATEST = "max"


@dataclass(frozen=True, slots=True)
class KeyComponent:
    """An attribute in which the events of some variables agree."""

    attribute: str
    variables: frozenset[str]


@dataclass(frozen=True, slots=True)
class Number:
    """An aggregate that is propagated; `attribute` is None for EVENTS."""

    kind: NumberKind
    variable: str
    attribute: str | None = None
    is_whole: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether it is a whole number for whole trends."""
        return self.is_whole or self.kind in (NumberKind.EVENTS, NumberKind.KNOWN)


@dataclass(frozen=True, slots=True)
class Compared:
    """A value of the earlier event compared with one of the later event: numbers of `TrendPlan.derived`."""

    op: str
    earlier: int
    later: int


@dataclass(frozen=True, slots=True)
class Join:
    """A transition with the predicates of its edges: comparisons of two values, and `programs` on both events; `cuts`:
    the negated templates that must have no trend between them. In a negated template it is a SUM, a LATEST or, where
    no event is looked at for itself, a BEST."""

    source: int
    target: int
    way: JoinWay
    compared: tuple[Compared, ...] = ()
    programs: tuple[int, ...] = ()
    cuts: Cuts = frozenset()
    predicates: tuple[ast.Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class VariableReads:
    """When a variable reads an event: local predicates as programs, and the key components (their numbers) that its
    events have."""

    variable: str
    event_type: str
    programs: tuple[int, ...]
    components: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class TrendRowPlan(Plan):
    """What rows about trends are made of. `groups`: the key components of GROUP BY; `numbers`: what is known of trends
    beside how many there are."""

    slide_ms: int
    components: tuple[KeyComponent, ...]
    groups: tuple[int, ...]
    numbers: tuple[Number, ...]

    @property
    def bound_variables(self) -> tuple[BoundVariable, ...]:
        """See `Plan`: rows of trends bind none."""
        return ()

    @property
    def shape(self) -> tuple[str, ...] | None:
        """See `Plan`."""
        return None

    @property
    def is_trailing(self) -> bool:
        """See `Plan`: the watermark closes windows."""
        return True

    @property
    def ties_by_partition(self) -> bool:
        """See `Plan`."""
        return False

    @property
    def has_notice(self) -> bool:
        """Whether people are told of its rows, and want to see of which events they are."""
        return self.query.notice is not None and self.query.notice.severity is not ast.Severity.REPORT

    @property
    def n_limbs(self) -> int:
        """Of each whole number that EXACT asks for; 0 without it. A sum is below the number of trends, of which there
        may be four times as many, times that of events (2^40), times a value (2^53), and has a sign."""
        n_bits = self.query.exact_bits
        return -(-(n_bits + 96) // LIMB_BITS) if n_bits else 0

    @property
    def n_windows(self) -> int:
        """Windows that an event is in, at most."""
        return -(-self.within_ms // self.slide_ms)


@dataclass(frozen=True, kw_only=True)
class TrendPlan(TrendRowPlan):
    """`joins`: of the positive template; `end_way`: how the last events are summed up that nothing negated follows.
    `instant`: negated templates whose trends' latest start is their end; `negated_joins`: of each negated template the
    transitions that are followed, of an instant one those that cost nothing. `numbers`: propagated along the template.
    `derived`: programs of values that are compared, each of one event. `n_read_columns`: the first columns of programs,
    those that predicates read; the others are aggregated. `returning`: states of the positive template
    whose events may be read once more on the way on, where the order of events is not known. `breaking`: under
    partition contiguity all types of the schema, whose events end what goes on in their partition, with the key
    components that they have. `windows`: of a graph of queries with several windows these, WITHIN and SLIDE in ms; its
    own are then as long as the longest and begin at each multiple of what divides all of them."""

    templates: Templates
    reads: tuple[VariableReads, ...]
    joins: tuple[Join, ...]
    end_way: JoinWay
    instant: frozenset[int]
    negated_joins: tuple[tuple[Join, ...], ...]
    derived: tuple[int, ...]
    n_read_columns: int
    returning: frozenset[int]
    breaking: tuple[tuple[str, frozenset[int]], ...] = ()
    windows: tuple[tuple[int, int], ...] = ()

    @property
    def selects(self) -> bool:
        """Whether an event may be followed by some of the later ones only: under another strategy than skip till any
        match."""
        return self.strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH

    @property
    def keeps_negated(self) -> bool:
        """Whether events of negated patterns are kept, since later ones are related to single ones of them."""
        return any(join.way is not JoinWay.SUM for joins in self.negated_joins for join in joins)

    @property
    def is_contiguous(self) -> bool:
        """Whether none of the stream, or of a partition, may be skipped."""
        return self.strategy in (ast.Strategy.STRICT_CONTIGUITY, ast.Strategy.PARTITION_CONTIGUITY)

    @property
    def counts_positions(self) -> bool:
        """Whether events know their place in the stream: under strict contiguity."""
        return self.strategy is ast.Strategy.STRICT_CONTIGUITY

    @property
    def form(self) -> PlanForm:
        """A template."""
        return PlanForm.TREND

    @property
    def starts(self) -> tuple[int, ...]:
        """See `Plan`."""
        return tuple(self.templates.positive.starts)

    @property
    def looks_back(self) -> bool:
        """See `Plan`."""
        return any(self.templates.positive.starts.values())

    @property
    def first_limbs(self) -> tuple[int, ...]:
        """Of COUNT(*), then of each of `numbers`: where its limbs begin among what is propagated, 0 without any."""
        found, at = list[int](), 1 + len(self.numbers)
        for is_exact in (True, *(number.is_exact for number in self.numbers)):
            has_limbs = is_exact and self.n_limbs > 0
            found.append(at if has_limbs else 0)
            at += self.n_limbs if has_limbs else 0
        return tuple(found)

    @property
    def n_numbers(self) -> int:
        """Numbers of an event in each of its windows."""
        n_whole = 1 + sum(number.is_exact for number in self.numbers)
        return 1 + len(self.numbers) + n_whole * self.n_limbs

    def join(self, source: int, target: int) -> Join:
        """The transition between two states."""
        return next(each for each in self.joins if (each.source, each.target) == (source, target))


@dataclass(frozen=True, kw_only=True)
class TrendPairPlan(TrendRowPlan):
    """`P AND Q`: a plan for the trends of each part, and for those that both match, None where there are none. What
    they count they count by partition: their groups are all components of the key."""

    one: TrendPlan
    other: TrendPlan
    both: TrendPlan | None

    @property
    def parts(self) -> tuple[TrendPlan, ...]:
        """All graphs."""
        return (self.one, self.other) if self.both is None else (self.one, self.other, self.both)

    @property
    def form(self) -> PlanForm:
        """Several templates."""
        return PlanForm.TREND_PAIRS

    @property
    def starts(self) -> tuple[int, ...]:
        """See `Plan`: of the first part."""
        return self.one.starts

    @property
    def looks_back(self) -> bool:
        """See `Plan`."""
        return any(part.looks_back for part in self.parts)


__all__ = [
    "Compared",
    "Join",
    "JoinWay",
    "KeyComponent",
    "Number",
    "NumberKind",
    "TrendPairPlan",
    "TrendPlan",
    "TrendRowPlan",
    "VariableReads",
]
