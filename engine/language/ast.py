"""The immutable syntax tree of SASE+ queries (SASE+ section 3, SASE++ section 2.1, with GRETA's clauses).

Nodes are frozen and compare by meaning: spans take no part, so that parse(print(query)) == query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum

from engine.errors import Span

# ---------------------------------------------------------------- patterns


@dataclass(frozen=True, slots=True)
class Component:
    """`Type v`, `Type+ v[]` or `Type v+`: one event of the type, or with `kleene` one or more."""

    event_type: str
    variable: str
    kleene: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """`!P` or `~P`: no match of P between its neighbours (SASE+ section 3)."""

    pattern: Pattern
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Sequence:
    """`SEQ(P1, ..., Pn)`: the parts in temporal order; n >= 1."""

    parts: tuple[Pattern, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Repeat:
    """`(P)+`, `P?`, `P*`, `P{n,m}`: between `at_least` and `at_most` (None: unbounded) matches of P in sequence."""

    pattern: Pattern
    at_least: int
    at_most: int | None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Alternative:
    """`OR(P, Q, ...)`, also written `P OR Q`: a match of any part."""

    parts: tuple[Pattern, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Conjunction:
    """`AND(P, Q, ...)`, also written `P AND Q`: a match of every part, in any order, no event twice."""

    parts: tuple[Pattern, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """`ANY(n, T1 v1, T2 v2, ...)`: n events of different components among these, in any order."""

    count: int
    parts: tuple[Component, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


Pattern = Component | Negation | Sequence | Repeat | Alternative | Conjunction | AnyOf

# ------------------------------------------------------------- expressions


class Index(Enum):
    """Which event of a variable an attribute reference means."""

    SINGLE = ""  # v.x, v a single component
    FIRST = "[1]"
    CURRENT = "[i]"
    PREVIOUS = "[i-1]"
    LAST = "[v.len]"  # printed with the variable's own name
    NEXT = "NEXT(v)"  # of trends: the event after that of the predicate's other variable (GRETA, Definition 2)


class Range(Enum):
    """Which events of a Kleene variable an aggregate covers."""

    ALL = "[]"
    BEFORE_CURRENT = "[..i-1]"
    BEFORE_LAST = "[..v.len-1]"


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a string or NULL; durations are already milliseconds."""

    value: int | float | str | None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """`:name`: a value given in configuration, or by the query's PARAMETERS clause."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Attribute:
    """`a.x`, `b[1].x`, `b[i].x`, `b[i-1].x`, `b[b.len].x`, `NEXT(b).x`; a bare `x`, whose variable is "", in OPEN ON
    and where it names an attribute of GROUP BY."""

    variable: str
    index: Index
    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`avg(b[].x)` and so on, per match; `function` in lower case; `name` is None for `count(b[])` alone."""

    function: str
    variable: str
    range: Range
    name: str | None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TrendAggregate:
    """`COUNT(*)`, `COUNT(v)`, `SUM(v.x)` and so on, over all trends of a window and group (GRETA, Definition 2);
    `function` in lower case. `variable` is None for `COUNT(*)` alone, `name` for both counts."""

    function: str
    variable: str | None = None
    name: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negative:
    """`-x`."""

    operand: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`l op r`; op one of + - * / %; `/` is real division, `%` the truncating remainder."""

    op: str
    left: Expression
    right: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`l op r`; op one of = != < <= > >=; unknown when a side is NULL or NaN."""

    op: str
    left: Expression
    right: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Membership:
    """`x IN (l1, l2, ...)`."""

    operand: Expression
    options: tuple[Literal | Parameter, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AllOf:
    """`p AND q AND ...` (three-valued)."""

    operands: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OneOf:
    """`p OR q OR ...` (three-valued)."""

    operands: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT p` (three-valued)."""

    operand: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


Expression = (
    Literal
    | Parameter
    | Attribute
    | Aggregate
    | TrendAggregate
    | Negative
    | Arithmetic
    | Comparison
    | Membership
    | AllOf
    | OneOf
    | Not
)


@dataclass(frozen=True, slots=True)
class Equivalence:
    """`[x]`: equal x among all bound components whose type has x; `[v.x]` limits it to that variable."""

    attribute: str
    variable: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


# ------------------------------------------------------------------ clauses

EXACT_BITS = 4_096
"""Of `EXACT` alone."""

LEAST_EXACT_BITS, MOST_EXACT_BITS = 64, 14_000
"""Below this nothing is rounded; beyond it Python refuses to write a number in decimals (4,300 digits)."""


class Strategy(Enum):
    """Event selection strategies (SASE+ section 3.1); hyphens and underscores are both accepted in text."""

    STRICT_CONTIGUITY = "strict_contiguity"
    PARTITION_CONTIGUITY = "partition_contiguity"
    SKIP_TILL_NEXT_MATCH = "skip_till_next_match"
    SKIP_TILL_ANY_MATCH = "skip_till_any_match"


class Output(Enum):
    """Output forms (DESIGN 3)."""

    ALL = "ALL"
    SETS = "SETS"
    COLLAPSED = "COLLAPSED"
    COUNT = "COUNT"
    NON_OVERLAPPING = "NON_OVERLAPPING"
    TOP = "TOP"


class Ties(Enum):
    """How equal timestamps of precise events are ordered."""

    SOURCE = "SOURCE"
    STRICT = "STRICT"


class Severity(Enum):
    """What a match becomes: an alert of some severity, or a row of a report."""

    REPORT = "report"
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class ReturnItem:
    """One value of a match: an expression and the name it goes by."""

    expression: Expression
    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Default:
    """One entry of PARAMETERS: the value that holds unless configuration gives another."""

    name: str
    value: int | float | str
    is_duration: bool = field(default=False, compare=False)
    """Whether it is written with a unit of time; the value is milliseconds then."""
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Notice:
    """`ALERT severity 'summary' PER name, ...`, `INCIDENT severity 'summary' PER name, ...` or `REPORT 'summary'`.

    `{name}` in the summary stands for a RETURN value (`engine.language.templates`). PER names RETURN values that tell
    alerts of one partition apart: one alert per partition key and these values.
    """

    severity: Severity
    summary: str
    per: tuple[str, ...] = ()
    is_incident: bool = False
    """Whether the alerts of the matches that it binds are part of its own."""
    span: Span | None = field(default=None, compare=False, repr=False)


class Aspect(Enum):
    """Which of an episode's matches gives the value that its alert shows."""

    FIRST = "FIRST"
    LAST = "LAST"
    MAX = "MAX"
    MIN = "MIN"


@dataclass(frozen=True, slots=True)
class Shown:
    """`MAX x WITH (y, z)`: the alert shows the greatest x, and the y and z of the match that has it."""

    aspect: Aspect
    name: str
    beside: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


class HostRole(Enum):
    """What a host has to do with an alert: whether the fault is probably its own."""

    SUSPECT = "SUSPECT"
    AFFECTED = "AFFECTED"


@dataclass(frozen=True, slots=True)
class NamedHost:
    """`SUSPECT x (y)`: the RETURN value x names a host, the RETURN value y is shown beside it."""

    role: HostRole
    name: str
    value: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query as written; the resolver checks it against a schema and fills in parameters.

    `open_on` looks at one event of any type: its attributes stand without a variable, `type` is its type's name.
    In RETURN and HAVING of a trend query the attributes of `group_by` stand so. `exact_bits`: whole numbers of trends
    are not rounded up to this size, 0: without the clause.
    """

    pattern: Pattern
    strategy: Strategy | None
    predicates: tuple[Expression, ...] = ()
    equivalences: tuple[Equivalence, ...] = ()
    within_ms: int | Parameter | None = None
    within_events: int | None = None
    output: Output = Output.ALL
    top_k: int | None = None
    limit: int | None = None
    confidence: float | Parameter | None = None
    ties: Ties | None = None
    having: Expression | None = None
    returns: tuple[ReturnItem, ...] = ()
    parameters: tuple[Default, ...] = ()
    notice: Notice | None = None
    group_gap_ms: int | None = None
    shown: tuple[Shown, ...] = ()
    hosts: tuple[NamedHost, ...] = ()
    onset: str | None = None
    slide_ms: int | Parameter | None = None
    open_on: Expression | None = None
    certain_above: float | Parameter | None = None
    select_first: bool = False
    consume: tuple[str, ...] = ()
    weight: float | None = None
    group_by: tuple[str, ...] = ()
    exact_bits: int = 0
    span: Span | None = field(default=None, compare=False, repr=False)
    clause_spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False)

    def clause_span(self, keyword: str) -> Span | None:
        """The place of a clause by its keyword (`"OPEN ON"`); that of the query when it has none."""
        return dict(self.clause_spans).get(keyword, self.span)

    @property
    def is_trend(self) -> bool:
        """Whether it aggregates trends: RETURN or HAVING has an aggregate over all of them (DESIGN 3)."""
        asked = (*(item.expression for item in self.returns), self.having)
        return any(isinstance(node, TrendAggregate) for part in asked for node in walk(part))


Node = Pattern | Expression | Equivalence | ReturnItem | Default | Notice | Shown | NamedHost | Query


def walk(node: object) -> Iterator[object]:
    """The node and everything below it, parents first, in textual order."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        below: list[object] = []
        for name in _fields_of(type(node)):
            value = getattr(node, name)
            for child in value if isinstance(value, tuple) else (value,):
                if _fields_of(type(child)):
                    below.append(child)
        pending.extend(reversed(below))


_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields_of(kind: type) -> tuple[str, ...]:
    """The fields of a node that take part in its meaning; () for what is no node."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(item.name for item in fields(kind) if item.compare) if is_dataclass(kind) else ()
    return _FIELDS[kind]


def components(pattern: Pattern) -> Iterator[tuple[Component, bool]]:
    """Every component in textual order with True where it stands below a negation."""
    if isinstance(pattern, Component):
        yield pattern, False
    elif isinstance(pattern, Negation):
        for component, _ in components(pattern.pattern):
            yield component, True
    elif isinstance(pattern, Repeat):
        yield from components(pattern.pattern)
    else:
        for part in pattern.parts:
            yield from components(part)
