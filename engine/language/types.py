"""Types of expressions, and where each form of reference may stand (SASE+ section 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum

from engine.errors import QueryTypeError
from engine.events import TIME_ATTRIBUTE, AttributeType, EventSchema
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
    Negative,
    Not,
    OneOf,
    Parameter,
    Range,
    walk,
)
from engine.language.build_expression import AGGREGATES
from engine.language.printer import print_expression
from engine.language.scopes import Checked, Scope, Variable
from engine.language.source import did_you_mean, listed

TYPE_NAME = "type"
"""In OPEN ON: the name of the event's type."""

_ANY_ATTRIBUTE = frozenset({"count", "first", "last", "repeats"})


class Kind(Enum):
    """What an expression's value is."""

    INT = "a whole number"
    FLOAT = "a real number"
    STRING = "text"
    CONDITION = "a condition"
    NULL = "NULL"

    @property
    def is_number(self) -> bool:
        """True where arithmetic and order are defined; NULL is a number of unknown value."""
        return self in (Kind.INT, Kind.FLOAT, Kind.NULL)


_KINDS = {AttributeType.INT: Kind.INT, AttributeType.FLOAT: Kind.FLOAT, AttributeType.STRING: Kind.STRING}
_RESULTS = {"count": Kind.INT, "repeats": Kind.INT, "avg": Kind.FLOAT, "stddev": Kind.FLOAT}
"""Of those whose result is of another kind than the attribute."""


def kind_of(attribute: AttributeType) -> Kind:
    """What an attribute of events is in an expression."""
    return _KINDS[attribute]


@dataclass(frozen=True)
class TypeChecker:
    """Checks expressions against the variables of a pattern and the schema.

    `per_match`: for RETURN and HAVING, which see a whole match: b[i] and what depends on it have no meaning there,
    nor have negated variables. `registered` are the names of user-defined aggregates.
    """

    scope: Scope
    schema: EventSchema
    checked: Checked
    per_match: bool
    registered: Collection[str] = ()

    def condition(self, expression: Expression) -> None:
        """Check a predicate; raises QueryTypeError unless it is a condition."""
        kind = self.kind(expression)
        if kind not in (Kind.CONDITION, Kind.NULL):
            raise self._mismatch(expression, kind, "a condition", "compare it to something")
        self._check_one_current(expression)
        self._check_one_iteration(expression)
        self._check_one_negation(expression)

    def value(self, expression: Expression) -> Kind:
        """Check a value of RETURN and give its kind."""
        kind = self.kind(expression)
        if kind is Kind.CONDITION:
            raise self._mismatch(expression, kind, "a number or text", "return the values that it compares")
        return kind

    def kind(self, expression: Expression) -> Kind:
        """The kind of an expression whose parts are checked on the way."""
        return _CHECKS[type(expression)](self, expression)

    def variable(self, node: Attribute | Aggregate) -> Variable:
        """The variable that `node` names."""
        variable = self.scope.get(node.variable)
        if variable is None:
            raise self.checked.error(
                node.span,
                f"the pattern has no variable {node.variable}",
                f"one of {', '.join(self.scope)}",
                did_you_mean(node.variable, self.scope),
            )
        if self.per_match and variable.negated:
            raise self.checked.error(
                node.span,
                f"{node.variable} is negated: a match has no such event",
                "a variable of a component that is not negated",
            )
        return variable

    def attribute_kind(self, variable: Variable, name: str, node: Attribute | Aggregate) -> Kind:
        """The kind of the attribute `name` of `variable`'s event type."""
        if name == TIME_ATTRIBUTE:
            return Kind.INT
        attributes = self.schema.types[variable.event_type]
        if name not in attributes:
            owners = sorted(self.schema.types_with(name))
            remedy = did_you_mean(name, [*attributes, TIME_ATTRIBUTE])
            if remedy is None and owners:
                remedy = f"{', '.join(owners[:5])} {'have' if len(owners) > 1 else 'has'} it"
            raise self.checked.error(
                node.span,
                f"events of type {variable.event_type} have no attribute {name}",
                f"one of {', '.join([*attributes, TIME_ATTRIBUTE])}",
                remedy,
            )
        return _KINDS[attributes[name]]

    def _attribute(self, node: Attribute) -> Kind:
        if not node.variable:
            return self._own_attribute(node)
        variable = self.variable(node)
        v = variable.name
        if node.index is Index.SINGLE and (variable.closure or (self.per_match and variable.path)):
            choices = f"{v}[1].{node.name}, {v}[{v}.len].{node.name} or an aggregate such as max({v}[].{node.name})"
            if not self.per_match:
                choices = f"{v}[i].{node.name} (each event), {choices}"
            raise self.checked.error(
                node.span,
                f"{v} stands for several events, so {v}.{node.name} is not one value",
                choices,
                f"write count({v}[]) for their number" if node.name.lower() == "len" else None,
            )
        if not variable.kleene and node.index is not Index.SINGLE:
            raise self.checked.error(
                node.span,
                f"{v} is a single event and has no index",
                f"{v}.{node.name}",
                f"write {variable.event_type}+ {v}[] in the pattern if several events are meant",
            )
        if self.per_match and node.index in (Index.CURRENT, Index.PREVIOUS):
            raise self.checked.error(
                node.span,
                f"{print_expression(node)} stands for each event in turn, but a match has one value here",
                f"{v}[1].{node.name}, {v}[{v}.len].{node.name} or an aggregate such as max({v}[].{node.name})",
            )
        return self.attribute_kind(variable, node.name, node)

    def _own_attribute(self, node: Attribute) -> Kind:
        """An attribute of the event that OPEN ON looks at, which may be of any type."""
        known = self.schema.attributes
        if node.name == TIME_ATTRIBUTE:
            return Kind.INT
        if node.name == TYPE_NAME:
            return Kind.STRING
        if node.name not in known:
            names = [*known, TIME_ATTRIBUTE, TYPE_NAME]
            raise self.checked.error(
                node.span,
                f"no event has an attribute {node.name}",
                f"one of {listed(names)}",
                did_you_mean(node.name, names),
            )
        return _KINDS[known[node.name]]

    def _aggregate(self, node: Aggregate) -> Kind:
        variable = self.variable(node)
        v = variable.name
        if node.function not in AGGREGATES and node.function not in self.registered:
            known = [*AGGREGATES, *sorted(self.registered)]
            raise self.checked.error(
                node.span,
                f"no aggregate is called {node.function}",
                f"one of {listed(known)}",
                did_you_mean(node.function, known) or "register it with engine.register_aggregate",
            )
        if not variable.kleene:
            raise self.checked.error(
                node.span,
                f"{v} is a single event; {node.function} aggregates several",
                f"{v}.{node.name}" if node.name else f"{v}.attribute",
                f"write {variable.event_type}+ {v}[] in the pattern if several events are meant",
            )
        if self.per_match and node.range is Range.BEFORE_CURRENT:
            raise self.checked.error(
                node.span,
                f"{print_expression(node)} depends on i, but a match has one value here",
                f"{v}[] or {v}[..{v}.len-1]",
            )
        if node.function == "repeats" and node.range is not Range.BEFORE_CURRENT:
            raise self.checked.error(
                node.span,
                f"{print_expression(node)} has no event to compare with: repeats counts the events before {v}[i] that "
                f"have its {node.name}",
                f"repeats({v}[..i-1].{node.name})",
                f"repeats({v}[..i-1].{node.name}) = 0 where no two events of {v} may have the same {node.name}",
            )
        kind = self.attribute_kind(variable, node.name, node) if node.name else Kind.INT
        if node.function not in _ANY_ATTRIBUTE and not kind.is_number:
            raise self.checked.error(
                node.span, f"{node.function} of {v}'s {node.name}, which is {kind.value}", "a numeric attribute"
            )
        if node.function not in AGGREGATES:
            return Kind.FLOAT
        return _RESULTS.get(node.function, kind)

    def _literal(self, node: Literal) -> Kind:
        match node.value:
            case None:
                return Kind.NULL
            case str():
                return Kind.STRING
            case int():
                return Kind.INT
            case float():
                return Kind.FLOAT

    def _parameter(self, node: Parameter) -> Kind:
        raise AssertionError(f"the parameter {node.name} was not substituted")

    def _negative(self, node: Negative) -> Kind:
        return self._number(node.operand, "the sign")

    def _arithmetic(self, node: Arithmetic) -> Kind:
        kinds = {self._number(side, node.op) for side in (node.left, node.right)}
        return Kind.FLOAT if node.op == "/" or Kind.FLOAT in kinds else Kind.INT

    def _number(self, operand: Expression, op: str) -> Kind:
        kind = self.kind(operand)
        if not kind.is_number:
            raise self._mismatch(operand, kind, f"a number for {op}", None)
        return kind

    def _comparison(self, node: Comparison) -> Kind:
        left, right = self.kind(node.left), self.kind(node.right)
        for side, kind in ((node.left, left), (node.right, right)):
            if kind is Kind.CONDITION:
                raise self._mismatch(side, kind, "a number or text to compare", "join conditions with AND, OR, NOT")
        if Kind.STRING in (left, right):
            self._check_text(node, left, right)
        return Kind.CONDITION

    def _check_text(self, node: Comparison, left: Kind, right: Kind) -> None:
        other = right if left is Kind.STRING else left
        if other not in (Kind.STRING, Kind.NULL):
            raise self.checked.error(
                node.span,
                f"{print_expression(node)} compares text with {other.value}",
                "two numbers or two texts",
                "write text in single quotes, numbers without",
            )
        if node.op not in ("=", "!="):
            raise self.checked.error(node.span, f"text has no order for {node.op}", "= or != or IN for text")

    def _membership(self, node: Membership) -> Kind:
        kind = self.kind(node.operand)
        if kind is Kind.CONDITION:
            raise self._mismatch(node.operand, kind, "a number or text before IN", None)
        for option in node.options:
            option_kind = self.kind(option)
            if Kind.NULL not in (kind, option_kind) and (kind is Kind.STRING) is not (option_kind is Kind.STRING):
                raise self._mismatch(option, option_kind, f"{kind.value}, as {print_expression(node.operand)}", None)
        return Kind.CONDITION

    def _connective(self, node: AllOf | OneOf | Not) -> Kind:
        for operand in (node.operand,) if isinstance(node, Not) else node.operands:
            kind = self.kind(operand)
            if kind not in (Kind.CONDITION, Kind.NULL):
                raise self._mismatch(operand, kind, "a condition", "compare it to something")
        return Kind.CONDITION

    def _mismatch(self, node: Expression, kind: Kind, expected: str, remedy: str | None) -> QueryTypeError:
        return self.checked.error(node.span, f"{print_expression(node)} is {kind.value}", expected, remedy)

    def _check_one_current(self, predicate: Expression) -> None:
        """`i` counts the events of one variable: a predicate cannot step through two of them."""
        first: Attribute | Aggregate | None = None
        for node in walk(predicate):
            if not is_stepping(node):
                continue
            assert isinstance(node, (Attribute, Aggregate))
            if first is None:
                first = node
            elif node.variable != first.variable:
                raise self.checked.error(
                    node.span,
                    f"{print_expression(first)} and {print_expression(node)} step through two variables at once",
                    f"i for one variable, here {first.variable}",
                    f"refer to {node.variable}[1], {node.variable}[{node.variable}.len] or an aggregate over "
                    f"{node.variable}[], or put the conditions into predicates of their own",
                )

    def _check_one_iteration(self, predicate: Expression) -> None:
        """Plain references mean the iteration at hand: their groups must lie inside each other."""
        plain = [n for n in walk(predicate) if isinstance(n, Attribute) and n.variable and n.index is Index.SINGLE]
        if not plain:
            return
        deepest = max(plain, key=lambda node: len(self.scope[node.variable].path))
        around = self.scope[deepest.variable].path
        for node in plain:
            path = self.scope[node.variable].path
            if around[: len(path)] != path:
                a, b = deepest.variable, node.variable
                raise self.checked.error(
                    node.span,
                    f"{print_expression(deepest)} and {print_expression(node)} stand in different repeated groups: no "
                    "iteration has both",
                    f"plain references inside one repeated group; {a} is in {self._group(a)}, {b} in {self._group(b)}",
                    f"refer to the events of one of them as a list: {b}[1], {b}[{b}.len] or an aggregate over {b}[]",
                )

    def _check_one_negation(self, predicate: Expression) -> None:
        """Negated patterns filter independently of each other: no predicate can relate two of them."""
        first: Attribute | Aggregate | None = None
        for node in walk(predicate):
            if not isinstance(node, (Attribute, Aggregate)) or not node.variable:
                continue
            if not self.scope[node.variable].negated:
                continue
            if first is None:
                first = node
            elif self.scope[node.variable].negation != self.scope[first.variable].negation:
                raise self.checked.error(
                    node.span,
                    f"{print_expression(first)} and {print_expression(node)} belong to two negated patterns, which are "
                    "absent independently of each other",
                    "components of one negated pattern beside those that are not negated",
                    "negate them together, as in !SEQ(B b, C c), or relate each to a component that is not negated",
                )

    def _group(self, variable: str) -> str:
        """The innermost repeated group around `variable`, by the variables it has."""
        path = self.scope[variable].path
        members = [other.name for other in self.scope.values() if other.path[: len(path)] == path]
        return f"the group {{{', '.join(members)}}}"


def context_of(predicate: Expression, scope: Scope) -> tuple[int, ...]:
    """The repeated groups in whose iterations `predicate` must hold, outermost first.

    With plain references (`b.x`) the longest path among their variables, whose iteration is at hand; else the longest
    common prefix of the groups inside which each variable is a list.
    """
    references = [node for node in walk(predicate) if isinstance(node, (Attribute, Aggregate))]
    plain = [scope[r.variable].path for r in references if _is_plain(r)]
    if plain:
        return max(plain, key=len)
    lists = [scope[r.variable].list_path for r in references]
    common: tuple[int, ...] = lists[0] if lists else ()
    for path in lists[1:]:
        n_shared = next((k for k, (x, y) in enumerate(zip(common, path, strict=False)) if x != y), len(path))
        common = common[:n_shared]
    return common


def _is_plain(node: Attribute | Aggregate) -> bool:
    return isinstance(node, Attribute) and node.index is Index.SINGLE


def is_stepping(node: object) -> bool:
    """True for what depends on i: b[i], b[i-1], an aggregate over b[..i-1]."""
    if isinstance(node, Attribute):
        return node.index in (Index.CURRENT, Index.PREVIOUS)
    return isinstance(node, Aggregate) and node.range is Range.BEFORE_CURRENT


_CHECKS: dict[type, Callable[[TypeChecker, Expression], Kind]] = {
    Literal: TypeChecker._literal,  # type: ignore[dict-item] # each is called with its own node type alone
    Parameter: TypeChecker._parameter,  # type: ignore[dict-item]
    Attribute: TypeChecker._attribute,  # type: ignore[dict-item]
    Aggregate: TypeChecker._aggregate,  # type: ignore[dict-item]
    Negative: TypeChecker._negative,  # type: ignore[dict-item]
    Arithmetic: TypeChecker._arithmetic,  # type: ignore[dict-item]
    Comparison: TypeChecker._comparison,  # type: ignore[dict-item]
    Membership: TypeChecker._membership,  # type: ignore[dict-item]
    AllOf: TypeChecker._connective,  # type: ignore[dict-item]
    OneOf: TypeChecker._connective,  # type: ignore[dict-item]
    Not: TypeChecker._connective,  # type: ignore[dict-item]
}
