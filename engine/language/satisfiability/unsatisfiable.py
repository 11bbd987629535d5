"""Predicates that no match can satisfy: constant, against NULL, contradictory bounds, against the pattern or WITHIN.

The conjuncts of WHERE and HAVING are read for one event of each Kleene variable: the first, one after the first, the
last. Conditions that contradict each other there have no match. Times are those of precise events, numbers are finite.
What is not found is no promise: the analysis knows linear conditions, lists of values and the forms named here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

from engine.events import TIME_ATTRIBUTE, EventSchema
from engine.language.ast import (
    Aggregate,
    AllOf,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    Index,
    Literal,
    Membership,
    OneOf,
    Query,
    Range,
    walk,
)
from engine.language.pattern_facts import facts_of
from engine.language.printer import print_expression
from engine.language.reading import Reading, Start
from engine.language.satisfiability.bounds import Numbers, Reasons, Texts
from engine.language.satisfiability.linear import conditions
from engine.language.satisfiability.system import Marked, System, Terms
from engine.language.satisfiability.term_facts import TermFacts, iterations, list_name, variable_of
from engine.language.scopes import Checked, Scope
from engine.language.types import TYPE_NAME, TypeChecker

MAX_WARNINGS = 10
MAX_CONJUNCTS = 1_000
"""The conjuncts that are looked at: the first ones."""


class _Instance(Enum):
    """Which event b[i] stands for."""

    FIRST = Index.FIRST
    INNER = Index.CURRENT
    LAST = Index.LAST


@dataclass(frozen=True)
class _Conjunct:
    expression: Expression
    reading: Reading

    @cached_property
    def references(self) -> list[Attribute | Aggregate]:
        return [node for node in walk(self.expression) if isinstance(node, (Attribute, Aggregate))]

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(node.variable for node in self.references)


_ONCE = Reading(Start.PER_MATCH, None, "")


def unsatisfiable_predicates(
    query: Query,
    scope: Scope,
    schema: EventSchema,
    readings: tuple[Reading, ...],
    checked: Checked,
    aggregates: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """One text for each contradiction, with its place, the conjuncts and the reason; () when none is found.

    The query has passed all checks and has no parameters left.
    """
    analysis = _Analysis(query, scope, schema, readings, checked, aggregates)
    return (*analysis.window(), *analysis.opening(), *analysis.predicates())


class _Analysis:
    def __init__(
        self,
        query: Query,
        scope: Scope,
        schema: EventSchema,
        readings: tuple[Reading, ...],
        checked: Checked,
        aggregates: tuple[str, ...],
    ) -> None:
        self.query = query
        self.schema = schema
        self.checked = checked
        self.facts = facts_of(query.pattern, scope)
        self.scope = dict(scope)  # grows by the lists of iterations
        self.term_facts = TermFacts(query, self.scope, self.facts)
        self.checker = TypeChecker(self.scope, schema, checked, per_match=False, registered=aggregates)
        having = () if query.having is None else _operands(query.having)
        present = self.facts.mandatory | {v for part in having for v in _named(part)}
        conjuncts = [_Conjunct(*pair) for pair in zip(query.predicates, readings, strict=True)]
        absent = {variable.name for variable in scope.values() if variable.negated}
        conjuncts = [c for c in conjuncts if _named(c.expression) <= present and c.variables.isdisjoint(absent)]
        self.conjuncts = [*conjuncts, *(_Conjunct(part, _ONCE) for part in having)][:MAX_CONJUNCTS]

    # ------------------------------------------------------------ messages

    def _warning(self, span: Any, message: str) -> str:
        return str(self.checked.error(span, message))

    def window(self) -> Iterator[str]:
        """A window of fewer events than a match has."""
        n_events, n_least = self.query.within_events, self.facts.n_least
        if n_events is not None and n_events < n_least:
            yield self._warning(
                self.query.clause_span("WITHIN"),
                f"no match fits into WITHIN {n_events} EVENTS: each has at least {n_least} events",
            )

    def opening(self) -> Iterator[str]:
        """An OPEN ON that no event satisfies."""
        if self.query.open_on is None:
            return
        conjuncts = [_Conjunct(part, _ONCE) for part in _operands(self.query.open_on)]
        terms = self._terms({}, _no_facts)
        marked = [(c, frozenset({k})) for k, conjunct in enumerate(conjuncts) for c in conditions(conjunct.expression)]
        found = System(terms).conflict(marked) or self._absent_attribute(conjuncts, System(terms).bounds(marked).texts)
        if found is not None:
            yield self._contradiction("no event", conjuncts, found)

    def _absent_attribute(self, conjuncts: list[_Conjunct], texts: Texts) -> Reasons | None:
        """A condition on an attribute that no event of the types in question has: NULL, hence never true."""
        possible = texts.values(TYPE_NAME)
        if possible is None:
            return None
        types, reasons = possible
        for k, conjunct in enumerate(conjuncts):
            if isinstance(conjunct.expression, (Comparison, Membership)):
                for node in conjunct.references:
                    if node.name not in (TYPE_NAME, TIME_ATTRIBUTE) and not any(
                        node.name in self.schema.types[name] for name in types
                    ):
                        return reasons | {
                            k,
                            f"{' and '.join(sorted(types))} {'has' if len(types) == 1 else 'have'} no {node.name}",
                        }
        return None

    def predicates(self) -> Iterator[str]:
        """Contradictions among the conjuncts; each is told once, and its last conjunct then left out."""
        left = list(self.conjuncts)
        for _ in range(MAX_WARNINGS):
            found = self._conflict(left)
            if found is None:
                return
            yield self._contradiction("no match", left, found)
            indices = [mark for mark in found if isinstance(mark, int)]
            if not indices:
                return
            del left[max(indices)]

    def _contradiction(self, what: str, conjuncts: list[_Conjunct], found: Reasons) -> str:
        indices = sorted(mark for mark in found if isinstance(mark, int))
        parts = [conjuncts[k].expression for k in indices]
        facts = sorted(mark for mark in found if isinstance(mark, str))
        facts += self._equalities(parts)
        if any(isinstance(node, Literal) and node.value is None for part in parts for node in walk(part)):
            facts.append("a comparison with NULL is never true")
        several = len(parts) > 1
        texts = [f"({print_expression(p)})" if several and isinstance(p, OneOf) else print_expression(p) for p in parts]
        message = f"{what} can satisfy {' and '.join(texts)}" + (" together" if several else "")
        return self._warning(parts[-1].span if parts else None, message + (f": {'; '.join(facts)}" if facts else ""))

    def _equalities(self, parts: list[Expression]) -> list[str]:
        """The equivalences that make terms of these conjuncts equal."""
        terms: dict[str, set[str]] = {}
        for part in parts:
            for node in walk(part):
                if isinstance(node, Attribute) and (name := self._equivalence(node)) is not None:
                    terms.setdefault(name, set()).add(print_expression(node))
        return [f"{name} makes {' and '.join(sorted(equal))} equal" for name, equal in terms.items() if len(equal) > 1]

    # ------------------------------------------------------------ analysis

    def _conflict(self, conjuncts: list[_Conjunct]) -> Reasons | None:
        singles, several = self._lengths(conjuncts)
        for instance in _Instance:
            if instance is not _Instance.FIRST and not any(c.reading.variable for c in conjuncts):
                break
            terms = self._terms(singles, self.term_facts.add)
            found = System(terms).conflict(self._marked(conjuncts, instance, several))
            if found is not None:
                return found
        return None

    def _marked(self, conjuncts: list[_Conjunct], instance: _Instance, several: set[str]) -> list[Marked]:
        marked: list[Marked] = []
        for k, conjunct in enumerate(conjuncts):
            if conjunct.reading.start is Start.FROM_SECOND:
                variable = self._list_name(conjunct.reading.variable or "", conjunct.reading.context)
                if instance is _Instance.FIRST or variable not in several:
                    continue
            expression = self._instantiated(conjunct, instance)
            marked += [(condition, frozenset({k})) for condition in conditions(expression)]
        return marked

    def _lengths(self, conjuncts: list[_Conjunct]) -> tuple[dict[str, Reasons], set[str]]:
        """Lists that have at most one event, with the reason, and those that have at least two."""
        lists = {
            self._list_name(node.variable, conjunct.reading.context)
            for conjunct in conjuncts
            for node in conjunct.references
            if isinstance(node, Aggregate) or node.index is not Index.SINGLE
        }
        if not lists:
            return {}, set()
        plain = [conjunct for conjunct in conjuncts if conjunct.reading.start is Start.PER_MATCH]
        system = System(self._terms({}, self.term_facts.add))
        numbers = system.bounds(self._marked(plain, _Instance.FIRST, set())).numbers
        singles: dict[str, Reasons] = {}
        several: set[str] = set()
        for name in lists:
            variable, context = self.scope[name], iterations(name)
            least, most = self.facts.count_bounds(variable, context)
            bound = numbers.most(f"count({name}[])")
            if most is not None and most <= 1:
                singles[name] = frozenset({f"{variable.name} has at most 1 event"})
            elif bound is not None and bound[0] <= 1:
                singles[name] = bound[1]
            if max(least, numbers.least(f"count({name}[])") or 0) >= 2:
                several.add(name)
        return singles, several

    def _instantiated(self, conjunct: _Conjunct, instance: _Instance) -> Expression:
        """The conjunct for one event of its stepping variable, its lists named by their iterations."""

        def changed(node: Attribute | Aggregate) -> Expression:
            if isinstance(node, Attribute):
                if node.index is Index.SINGLE:
                    return node
                index = instance.value if node.index is Index.CURRENT else node.index
                return replace(node, variable=self._list_name(node.variable, conjunct.reading.context), index=index)
            name = self._list_name(node.variable, conjunct.reading.context)
            if node.function == "count" and node.name is None and node.range is Range.BEFORE_LAST:
                return Arithmetic("-", Aggregate("count", name, Range.ALL, None), Literal(1))
            return replace(node, variable=name)

        expression: Expression = _mapped(conjunct.expression, changed)
        return expression

    def _list_name(self, variable: str, context: tuple[int, ...]) -> str:
        if not context or not variable:
            return variable
        name = list_name(variable, context)
        self.scope.setdefault(name, self.scope[variable])
        return name

    # --------------------------------------------------------------- terms

    def _terms(
        self, singles: Mapping[str, Reasons], add_facts: Callable[[dict[str, Expression], Numbers], None]
    ) -> Terms:
        def null_reasons(expression: Expression) -> Reasons:
            found: Reasons = frozenset()
            for node in walk(expression):
                if isinstance(node, Aggregate) and _is_null(node, singles):
                    found |= singles[node.variable] | {f"{print_expression(_plain(node))} is then NULL"}
            return found

        def name_term(expression: Expression) -> str | None:
            if isinstance(expression, Aggregate) and _is_null(expression, singles):
                return None
            if isinstance(expression, Attribute) and (name := self._equivalence(expression)) is not None:
                return name
            return print_expression(expression)

        return Terms(name_term, self.checker.kind, null_reasons, add_facts)

    def _equivalence(self, node: Attribute) -> str | None:
        """The equivalence that makes this attribute the same for all events."""
        variable = self.scope.get(node.variable)
        if variable is None or variable.negated:
            return None
        for equivalence in self.query.equivalences:
            if equivalence.attribute == node.name and equivalence.variable in (None, variable.name):
                owner = "" if equivalence.variable is None else f"{variable.name}."
                return f"[{owner}{node.name}]"
        return None


def _no_facts(named: dict[str, Expression], numbers: Numbers) -> None:
    """Of a single event nothing is known."""


def _operands(condition: Expression) -> tuple[Expression, ...]:
    return condition.operands if isinstance(condition, AllOf) else (condition,)


def _named(expression: Expression) -> frozenset[str]:
    """The variables that must be bound for `expression` to be looked at: `count(v[])` of an absent v is 0."""
    return frozenset(
        node.variable
        for node in walk(expression)
        if isinstance(node, (Attribute, Aggregate))
        and not (isinstance(node, Aggregate) and node.function == "count" and node.name is None)
    )


def _plain(node: Aggregate) -> Aggregate:
    return replace(node, variable=variable_of(node.variable))


def _is_null(node: Aggregate, singles: Mapping[str, Reasons]) -> bool:
    return node.range is Range.BEFORE_LAST and node.function != "count" and node.variable in singles


def _mapped(node: Any, change: Callable[[Attribute | Aggregate], Expression]) -> Any:
    """`node` with every attribute and aggregate below it replaced."""
    if isinstance(node, (Attribute, Aggregate)):
        return change(node)
    if isinstance(node, tuple):
        return tuple(_mapped(child, change) for child in node)
    if not is_dataclass(node) or isinstance(node, (type, Literal)):
        return node
    values = {item.name: _mapped(getattr(node, item.name), change) for item in fields(node) if item.compare}
    return replace(node, **values)


__all__ = ["unsatisfiable_predicates"]
