"""Checked trend query -> plan: predicates on the vertices and edges of the template (GRETA, section 6), what is
propagated for RETURN and HAVING (Theorem 9.1), and how each transition is followed."""

from __future__ import annotations

from collections.abc import Iterable

from engine.errors import QueryTypeError, UnsupportedQueryError
from engine.events import TIME_ATTRIBUTE, AttributeType
from engine.language import ast
from engine.language.printer import print_expression
from engine.language.resolver import ResolvedQuery
from engine.language.trend_checks import trend_aggregates, variables_of
from engine.plan.programs import ProgramBuilder
from engine.plan.trends.model import (
    Compared,
    Join,
    JoinWay,
    KeyComponent,
    Number,
    NumberKind,
    TrendPlan,
    VariableReads,
)
from engine.plan.trends.returning import returning_states
from engine.plan.trends.template import Cuts, Template, Templates, templates_of

MAX_WINDOWS = 4_096
"""Windows that an event may be in: it costs as many times what it costs in one, in time and memory."""

MAX_NUMBERS = 2**18
"""Numbers that a partition has at least: states, times the windows of an event, times what is propagated in each."""

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_INEQUALITIES = frozenset({"<", "<=", ">", ">="})
_KINDS = {
    "sum": (NumberKind.SUM,),
    "avg": (NumberKind.SUM, NumberKind.KNOWN),
    "min": (NumberKind.LEAST,),
    "max": (NumberKind.GREATEST,),
}


class _EdgePrograms(ProgramBuilder):
    """Programs on one event, or on two neighbours: register 0 is the earlier one, register 1 the later one."""

    def _register(self, node: ast.Attribute) -> int:
        return 1 if node.index is ast.Index.NEXT else 0


def trend_plan(resolved: ResolvedQuery) -> TrendPlan:
    """The plan of a query about trends of one pattern; raises QueryError for what is not evaluated over trends."""
    planner = TrendPlanner(resolved, components_of(resolved))
    templates = planner.templates()
    check_edges(resolved, (templates,))
    return planner.plan(templates)


def components_of(resolved: ResolvedQuery) -> tuple[KeyComponent, ...]:
    """What events agree in: `[x]`, `[v.x]` and GROUP BY x."""
    named = [(each.attribute, each.variable) for each in resolved.query.equivalences]
    named += [(name, None) for name in resolved.query.group_by]
    return tuple(dict.fromkeys(_component(resolved, name, only) for name, only in named))


def groups_of(resolved: ResolvedQuery, components: tuple[KeyComponent, ...]) -> tuple[int, ...]:
    """The numbers of those of GROUP BY."""
    return tuple(components.index(_component(resolved, name, None)) for name in resolved.query.group_by)


def _component(resolved: ResolvedQuery, name: str, only: str | None) -> KeyComponent:
    types = resolved.schema.types
    having = (v.name for v in resolved.variables.values() if name in types[v.event_type])
    return KeyComponent(name, frozenset(having if only is None else (only,)))


def check_edges(resolved: ResolvedQuery, parts: Iterable[Templates]) -> None:
    """Every edge predicate must be about two variables that can be adjacent in one of the parts."""
    adjacent = {
        (template.states[one].variable, template.states[other].variable)
        for templates in parts
        for template in (templates.positive, *templates.negated)
        for one, other in template.transitions
    }
    for predicate in resolved.query.predicates:
        here, following = variables_of(predicate)
        if following and (here[0], following[0]) not in adjacent:
            known = ", ".join(f"{one} before {other}" for one, other in sorted(adjacent)) or "none"
            raise QueryTypeError(
                f"no event of {following[0]} comes right after one of {here[0]} in a trend, so "
                f"{print_expression(predicate)} would never be asked",
                predicate.span,
                f"neighbours: {known}",
                "exchange the two, or name the variables that are neighbours",
            )


class TrendPlanner:
    """Plans the trends of one pattern: that of a query, or a part of it with the key of the whole."""

    def __init__(self, resolved: ResolvedQuery, components: tuple[KeyComponent, ...]) -> None:
        self.resolved = resolved
        self.query = resolved.query
        self.builder = _EdgePrograms({"": 0}, frozenset(), frozenset())
        self.components = components
        self.derived: dict[str, int] = {}

    def templates(self) -> Templates:
        """Of the pattern; raises QueryError for trends that are read in ways that the query tells apart, for trends
        without the key, and for clauses that no plan has."""
        self._check_clauses()
        takes_next = self.query.strategy is ast.Strategy.SKIP_TILL_NEXT_MATCH
        found = templates_of(self.query.pattern, self._is_distinguished, takes_next=takes_next)
        self._check_keys(found.positive)
        return found

    def plan(self, templates: Templates, groups: tuple[int, ...] | None = None) -> TrendPlan:
        """The plan with these templates; `groups`: components, those of GROUP BY where nothing is said."""
        query, resolved = self.query, self.resolved
        instant = frozenset(
            number for number, each in enumerate(templates.negated) if set(each.ends) <= set(each.starts)
        )
        reads = tuple(self._reads(name) for name in resolved.variables)
        joins = tuple(
            self._join(templates.positive, source, target, cuts, instant)
            for (source, target), cuts in templates.positive.transitions.items()
        )
        negated_joins = tuple(
            self._negated_joins(templates, number, instant) for number in range(len(templates.negated))
        )
        n_read_columns = self.builder.n_columns
        numbers = self._numbers()
        end_cuts = frozenset[int]().union(*templates.positive.ends.values())
        self._check_ends(end_cuts, instant)
        assert query.strategy is not None
        assert query.ties is not None
        assert isinstance(query.slide_ms, int)
        assert isinstance(query.within_ms, int)
        plan = TrendPlan(
            name=resolved.name,
            query=query,
            strategy=query.strategy,
            steps=(),
            negations=(),
            programs=self.builder.build(),
            key=(),
            broadcast=frozenset(),
            within_ms=query.within_ms,
            confidence=None,
            output=query.output,
            limit=None,
            ties=query.ties,
            returns=(),
            having=None,
            types=frozenset(variable.event_type for variable in resolved.variables.values()),
            keyed_types=frozenset(),
            attribute_types={**resolved.schema.attributes, TIME_ATTRIBUTE: AttributeType.INT},
            templates=templates,
            slide_ms=query.slide_ms,
            components=self.components,
            groups=groups_of(resolved, self.components) if groups is None else groups,
            reads=reads,
            numbers=numbers,
            joins=joins,
            end_way=JoinWay.SUM if end_cuts <= instant else JoinWay.SCAN,
            instant=instant,
            negated_joins=negated_joins,
            derived=tuple(self.derived.values()),
            n_read_columns=n_read_columns,
            returning=returning_states(templates.positive, joins),
            breaking=self._breaking(),
        )
        self._check_size(len(templates.positive.states), plan.n_numbers)
        return plan

    def _check_clauses(self) -> None:
        query = self.query
        for equivalence in query.equivalences:
            if equivalence.variable is not None and query.strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH:
                assert query.strategy is not None
                raise UnsupportedQueryError(
                    f"[{equivalence.variable}.{equivalence.attribute}] in trends under {query.strategy.value}: it "
                    f"makes no partition of the events, so that one of {equivalence.variable} with another value "
                    "would be skipped by some trends alone",
                    query.clause_span("WHERE"),
                    f"[{equivalence.attribute}], in which all events agree",
                    f"write {equivalence.variable}.{equivalence.attribute} = "
                    f"NEXT({equivalence.variable}).{equivalence.attribute}, or use skip_till_any_match",
                )
        n_windows = self._n_windows
        if n_windows > MAX_WINDOWS:
            raise UnsupportedQueryError(
                f"an event would be in {n_windows} windows at once, and has its numbers in each",
                query.clause_span("SLIDE"),
                f"at most {MAX_WINDOWS}",
                "let windows begin further apart, or make them shorter",
            )

    def _check_ends(self, cuts: Cuts, instant: frozenset[int]) -> None:
        """What is absent at the end is looked for beside what later events have taken."""
        strategy = self.query.strategy
        if strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH and not cuts <= instant:
            assert strategy is not None
            raise UnsupportedQueryError(
                f"under {strategy.value} only the absence of single events at the end of trends is evaluated by this "
                "version",
                self.query.pattern.span,
                "NOT E of one type there",
                "negate a single component at the end, or use skip_till_any_match",
            )

    @property
    def _n_windows(self) -> int:
        """Windows that an event is in, at most."""
        within_ms, slide_ms = self.query.within_ms, self.query.slide_ms
        assert isinstance(within_ms, int)
        assert isinstance(slide_ms, int)
        return -(-within_ms // slide_ms)

    def _check_size(self, n_states: int, n_numbers: int) -> None:
        size = n_states * self._n_windows * n_numbers
        if size > MAX_NUMBERS:
            raise UnsupportedQueryError(
                f"{n_states} states, each with {n_numbers} numbers in {self._n_windows} windows at once, are "
                f"{size:,} numbers for each partition",
                self.query.clause_span("SLIDE"),
                f"at most {MAX_NUMBERS:,}",
                "let windows begin further apart, return fewer aggregates, lower the bounds of {n,m}"
                + (", or ask for fewer bits, as in EXACT 1024 BITS" if self.query.exact_bits else ""),
            )

    # ------------------------------------------------------------------- keys

    def _check_keys(self, template: Template) -> None:
        """Every trend must say of which partition it is: one of its events has all of the key."""
        whole = {
            number
            for number, state in enumerate(template.states)
            if all(state.variable in component.variables for component in self.components)
        }
        seen = {state for state in template.starts if state not in whole}
        todo = list(seen)
        while todo:
            one = todo.pop()
            if one in template.ends:
                names = ", ".join(component.attribute for component in self.components)
                raise UnsupportedQueryError(
                    f"a trend may be without an event that has all of its key ({names})",
                    self.query.pattern.span,
                    "a component in every trend whose type has all attributes of [x] and GROUP BY",
                    "leave attributes out of the key, or split the query",
                )
            after = {b for a, b in template.transitions if a == one and b not in whole and b not in seen}
            seen |= after
            todo += after

    def _breaking(self) -> tuple[tuple[str, frozenset[int]], ...]:
        """See `TrendPlan`."""
        if self.query.strategy is not ast.Strategy.PARTITION_CONTIGUITY:
            return ()
        return tuple(
            (name, frozenset(k for k, component in enumerate(self.components) if component.attribute in has))
            for name, has in sorted(self.resolved.schema.types.items())
        )

    # ------------------------------------------------------------- predicates

    def _reads(self, variable: str) -> VariableReads:
        programs = tuple(
            self.builder.add(predicate)
            for predicate in self.query.predicates
            if variables_of(predicate) in (((variable,), ()), ((), ()))
        )
        components = frozenset(
            number for number, component in enumerate(self.components) if variable in component.variables
        )
        return VariableReads(variable, self.resolved.variables[variable].event_type, programs, components)

    def _edge_predicates(self, one: str, other: str) -> tuple[ast.Expression, ...]:
        return tuple(p for p in self.query.predicates if variables_of(p) == ((one,), (other,)))

    def _join(self, template: Template, source: int, target: int, cuts: Cuts, instant: frozenset[int]) -> Join:
        predicates = self._edge_predicates(template.states[source].variable, template.states[target].variable)
        compared, programs = self._requested(predicates)
        if self.query.strategy is ast.Strategy.SKIP_TILL_NEXT_MATCH:
            way = JoinWay.NEXT
        elif self.query.strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH:
            way = JoinWay.ADJACENT
        elif not predicates and cuts <= instant:
            way = JoinWay.SUM
        elif 1 <= len(compared) <= 2 and not programs and not cuts and {each.op for each in compared} <= _INEQUALITIES:
            way = JoinWay.INDEX if len(compared) == 1 else JoinWay.DOMINANCE
        else:
            way = JoinWay.SCAN
        return Join(source, target, way, compared, programs, cuts, predicates)

    def _negated_joins(self, templates: Templates, number: int, instant: frozenset[int]) -> tuple[Join, ...]:
        """Those of a negated template, whatever the strategy: of its trends the latest start is looked for. Of an
        instant template each last event is a trend by itself, so that no predicate on neighbours matters."""
        template = templates.negated[number]
        predicates = {
            (one, other): self._edge_predicates(template.states[one].variable, template.states[other].variable)
            for one, other in template.transitions
        }
        free = {
            (one, other): not predicates[one, other] and cuts <= instant
            for (one, other), cuts in template.transitions.items()
        }
        related = {one for one, other in template.transitions if predicates[one, other]}
        found: list[Join] = []
        for (one, other), cuts in template.transitions.items():
            if free[one, other]:
                found.append(Join(one, other, JoinWay.SUM, cuts=cuts))
            elif number not in instant:
                compared, programs = self._requested(predicates[one, other])
                way = JoinWay.LATEST if one in related else JoinWay.BEST
                found.append(Join(one, other, way, compared, programs, cuts, predicates[one, other]))
        return tuple(found)

    def _requested(self, predicates: Iterable[ast.Expression]) -> tuple[tuple[Compared, ...], tuple[int, ...]]:
        """Predicates on two neighbours: comparisons of a value of each, and programs."""
        compared: list[Compared] = []
        programs: list[int] = []
        for predicate in predicates:
            found = self._compared(predicate)
            if found is None:
                programs.append(self.builder.add(predicate))
            else:
                compared.append(found)
        return tuple(compared), tuple(programs)

    def _compared(self, predicate: ast.Expression) -> Compared | None:
        """A comparison of a value of the earlier event with one of the later event, each known by itself."""
        if not isinstance(predicate, ast.Comparison):
            return None
        left, right = variables_of(predicate.left), variables_of(predicate.right)
        if left[0] and not left[1] and right[1] and not right[0]:
            return Compared(predicate.op, self._derived(predicate.left), self._derived(predicate.right))
        if left[1] and not left[0] and right[0] and not right[1]:
            op = _MIRRORED[predicate.op]
            return Compared(op, self._derived(predicate.right), self._derived(predicate.left))
        return None

    def _derived(self, expression: ast.Expression) -> int:
        """The number of a value among `derived`, one for each expression."""
        text = print_expression(expression)
        if text not in self.derived:
            self.derived[text] = self.builder.add(expression)
        return list(self.derived).index(text)

    # -------------------------------------------------------------- aggregates

    def _is_distinguished(self, variable: str) -> bool:
        """Whether the query asks anything of the events of one variable alone."""
        if any(each.variable == variable for each in aggregates_of(self.query)):
            return True
        if any(each.variable == variable for each in self.query.equivalences):
            return True
        return any(variable in {*here, *following} for here, following in map(variables_of, self.query.predicates))

    def _numbers(self) -> tuple[Number, ...]:
        numbers = numbers_of(self.resolved)
        for number in numbers:
            if number.attribute is not None:
                self.builder.column(number.attribute)
        return numbers


def aggregates_of(query: ast.Query) -> tuple[ast.TrendAggregate, ...]:
    """What RETURN and HAVING ask of trends."""
    return trend_aggregates((*(item.expression for item in query.returns), query.having))


def numbers_of(resolved: ResolvedQuery) -> tuple[Number, ...]:
    """What must be known of trends for RETURN and HAVING, of the variables that there are."""
    found: dict[Number, None] = {}
    for each in aggregates_of(resolved.query):
        if each.variable is None or each.variable not in resolved.variables:
            continue
        if each.name is None:
            found[Number(NumberKind.EVENTS, each.variable)] = None
            continue
        kind = resolved.schema.types[resolved.variables[each.variable].event_type].get(each.name, AttributeType.INT)
        for number in _KINDS[each.function]:
            is_sum = number is NumberKind.SUM
            found[Number(number, each.variable, each.name, is_sum and kind is AttributeType.INT)] = None
    return tuple(found)


__all__ = [
    "MAX_NUMBERS",
    "MAX_WINDOWS",
    "TrendPlanner",
    "aggregates_of",
    "check_edges",
    "components_of",
    "groups_of",
    "numbers_of",
    "trend_plan",
]
