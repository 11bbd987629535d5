"""Parse tree of predicates and values -> expression nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lark import Token

from engine.errors import QuerySyntaxError, Span
from engine.language.ast import (
    Aggregate,
    AllOf,
    Arithmetic,
    Attribute,
    Comparison,
    Equivalence,
    Expression,
    Index,
    Literal,
    Membership,
    Negative,
    Not,
    OneOf,
    Parameter,
    Range,
    Strategy,
    TrendAggregate,
)
from engine.language.source import Branch, Source, did_you_mean, span_of

AGGREGATES = ("avg", "count", "first", "last", "max", "min", "repeats", "stddev", "sum")
"""The aggregates that every engine has; others are registered."""

TREND_ARGUMENTS = ("all_trends", "trend_variable", "trend_attribute")
"""Rules for what stands between the parentheses of an aggregate over trends."""

_OVER_TRENDS = frozenset({"avg", "count", "max", "min", "sum"})

_STRATEGIES = frozenset(strategy.value for strategy in Strategy)
_COMPARISONS = {"==": "=", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">="}
_ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "remainder": "%"}


@dataclass(frozen=True)
class Where:
    """What a WHERE clause holds besides its strategy."""

    predicates: tuple[Expression, ...] = ()
    equivalences: tuple[Equivalence, ...] = ()


def build_where(tree: Branch, source: Source) -> Where:
    """Split the conjuncts of WHERE into predicates and equivalences, in their order; AND in parentheses is flat."""
    predicates: list[Expression] = []
    equivalences: list[Equivalence] = []
    for conjunct in _conjuncts(tree):
        if conjunct.data == "equivalences":
            equivalences += [_equivalence(child) for child in conjunct.children if not isinstance(child, Token)]
        else:
            predicates.append(build_expression(conjunct, source))
    return Where(tuple(predicates), tuple(equivalences))


def build_expression(tree: Branch, source: Source) -> Expression:
    """The expression that `tree` (one of the grammar's expression rules) describes."""
    return _BUILDERS[tree.data](tree, source)


def _conjuncts(tree: Branch) -> list[Branch]:
    if tree.data != "all_of":
        return [tree]
    return [part for branch in _branches(tree) for part in _conjuncts(branch)]


def _branches(tree: Branch) -> list[Branch]:
    return [child for child in tree.children if not isinstance(child, Token)]


def _tokens(tree: Branch) -> list[Token]:
    return [child for child in tree.children if isinstance(child, Token)]


def _operands(tree: Branch, source: Source) -> tuple[Expression, ...]:
    return tuple(build_expression(branch, source) for branch in _branches(tree))


def _equivalence(tree: Branch) -> Equivalence:
    *variable, attribute = (str(token) for token in _tokens(tree))
    return Equivalence(attribute, variable[0] if variable else None, span_of(tree))


def _nested_equivalence(tree: Branch, source: Source) -> Expression:
    raise source.syntax_error(
        tree,
        "an equivalence inside another expression",
        "[attribute] as a predicate of its own, joined with AND",
        "compare the attributes one by one here, as in a.x = b.x",
    )


def _all_of(tree: Branch, source: Source) -> Expression:
    parts = (build_expression(branch, source) for branch in _conjuncts(tree))
    return AllOf(tuple(parts), span_of(tree))


def _one_of(tree: Branch, source: Source) -> Expression:
    flat: list[Expression] = []
    for operand in _operands(tree, source):
        flat += operand.operands if isinstance(operand, OneOf) else (operand,)
    return OneOf(tuple(flat), span_of(tree))


def _not(tree: Branch, source: Source) -> Expression:
    (operand,) = _operands(tree, source)
    return Not(operand, span_of(tree))


def _compare(tree: Branch, source: Source) -> Expression:
    left, right = _operands(tree, source)
    (op,) = _tokens(tree)
    return Comparison(_COMPARISONS.get(op, str(op)), left, right, span_of(tree))


def _membership(tree: Branch, source: Source) -> Expression:
    operand, *options = _operands(tree, source)
    checked: list[Literal | Parameter] = []
    for option in options:
        assert isinstance(option, (Literal, Parameter))  # the grammar allows nothing else
        checked.append(option)
    return Membership(operand, tuple(checked), span_of(tree))


def _no_membership(tree: Branch, source: Source) -> Expression:
    return Not(_membership(tree, source), span_of(tree))


def _arithmetic(tree: Branch, source: Source) -> Expression:
    left, right = _operands(tree, source)
    return Arithmetic(_ARITHMETIC[tree.data], left, right, span_of(tree))


def _negative(tree: Branch, source: Source) -> Expression:
    (operand,) = _operands(tree, source)
    return negated(operand, span_of(tree))


def negated(operand: Expression, span: Span | None) -> Expression:
    """`-operand`; the sign of a number becomes part of the number, so that a value has one form."""
    if isinstance(operand, Literal) and isinstance(operand.value, (int, float)):
        return Literal(-operand.value, span)
    return Negative(operand, span)


def _number(tree: Branch, source: Source) -> Expression:
    return Literal(source.number(_tokens(tree)[0]), span_of(tree))


def _duration(tree: Branch, source: Source) -> Expression:
    return Literal(source.duration_ms(tree), span_of(tree))


def _string(tree: Branch, source: Source) -> Expression:  # noqa: ARG001 - the signature of all builders
    return Literal(string_value(_tokens(tree)[0]), span_of(tree))


def string_value(token: Token) -> str:
    """The text between the quotes, with doubled quotes made single."""
    return str(token)[1:-1].replace("''", "'")


def _null(tree: Branch, source: Source) -> Expression:  # noqa: ARG001 - the signature of all builders
    return Literal(None, span_of(tree))


def _parameter(tree: Branch, source: Source) -> Expression:  # noqa: ARG001 - the signature of all builders
    return Parameter(str(_tokens(tree)[0]), span_of(tree))


def _bare_name(tree: Branch, source: Source) -> Expression:
    (name,) = _tokens(tree)
    if source.one_event or source.one_group:
        return Attribute("", Index.SINGLE, str(name), span_of(tree))
    if name.lower() in _STRATEGIES:
        raise source.syntax_error(
            tree,
            f"the strategy {name} stands among the predicates",
            "the strategy, then the predicates",
            f"the strategy stands first after WHERE: WHERE {name} {{ ... }} or WHERE {name} AND ...",
        )
    raise source.syntax_error(
        tree,
        f"the name {name} stands alone",
        "variable.attribute, a number, a string, :parameter or an aggregate",
        f"write which event's attribute is meant, as in a.{name}, or '{name}' for a string",
    )


def _refuse_variable(tree: Branch, source: Source) -> None:
    if source.one_event:
        raise source.syntax_error(
            tree,
            "OPEN ON looks at one event, before any match: it has no variables and no aggregates",
            "attributes by their name alone, and type, as in OPEN ON type = 'JobStart' AND n_maps > 10",
        )


def _attribute(tree: Branch, source: Source) -> Expression:
    _refuse_variable(tree, source)
    variable, name = _tokens(tree)
    return Attribute(str(variable), Index.SINGLE, str(name), span_of(tree))


def _indexed_attribute(tree: Branch, source: Source) -> Expression:
    _refuse_variable(tree, source)
    variable, name = _tokens(tree)
    (index_tree,) = _branches(tree)
    index = _index(index_tree, str(variable), tree, source)
    if isinstance(index, Range):
        raise source.syntax_error(
            tree,
            f"{variable}{_range_text(index, variable)} stands for several events",
            f"one event ({variable}[i], {variable}[i-1], {variable}[1], {variable}[{variable}.len]) or an aggregate",
            f"write {variable}[i].{name} for each event, or an aggregate such as max({variable}[].{name})",
        )
    return Attribute(str(variable), index, str(name), span_of(tree))


def _range_text(covered: Range, variable: str) -> str:
    return covered.value.replace("v.", f"{variable}.")


def _index(tree: Branch, variable: str, around: Branch, source: Source) -> Index | Range:
    """What stands between the brackets after `variable`."""
    tokens = [str(token) for token in _tokens(tree)]
    index: Index | Range | None = None
    match tree.data, tokens:
        case "index_all", _:
            index = Range.ALL
        case "index_number", ["1"]:
            index = Index.FIRST
        case "index_name", ["i"]:
            index = Index.CURRENT
        case "index_before", ["i", "1"]:
            index = Index.PREVIOUS
        case "index_length", [owner, length] if owner == variable and length.lower() == "len":
            index = Index.LAST
        case "range_before", ["i", "1"] | ["1", "i", "1"]:
            index = Range.BEFORE_CURRENT
        case "range_length", [*first, owner, length] if _whole(first, owner, length, variable):
            index = Range.ALL
        case "range_before_length", [*first, owner, length, "1"] if _whole(first, owner, length, variable):
            index = Range.BEFORE_LAST
    if index is None:
        v = variable
        raise source.syntax_error(
            tree if tokens else around,
            f"no such index of {v}",
            f"{v}[i], {v}[i-1], {v}[1] or {v}[{v}.len]; in an aggregate {v}[], {v}[..i-1] or {v}[..{v}.len-1]",
        )
    return index


def _whole(first: list[str], owner: str, length: str, variable: str) -> bool:
    return first in ([], ["1"]) and owner == variable and length.lower() == "len"


def _call(tree: Branch, source: Source) -> Expression:
    _refuse_variable(tree, source)
    (function,) = _tokens(tree)
    (argument,) = _branches(tree)
    if argument.data in TREND_ARGUMENTS:
        return _over_trends(tree, str(function), argument, source)
    variable, *name = (str(token) for token in _tokens(argument))
    covered = _index(_branches(argument)[0], variable, argument, source)
    if isinstance(covered, Index):
        raise source.syntax_error(
            argument,
            f"{function} over one event",
            f"several events: {variable}[], {variable}[..i-1] or {variable}[..{variable}.len-1]",
            f"write {variable}[] for all events of {variable}, or leave {function}(...) out",
        )
    if not name and function.lower() != "count":
        raise source.syntax_error(
            argument, f"{function} needs an attribute", f"{function}({variable}[].attribute); only count goes without"
        )
    return Aggregate(function.lower(), variable, covered, name[0] if name else None, span_of(tree))


def _over_trends(tree: Branch, function: str, argument: Branch, source: Source) -> Expression:
    """`COUNT(*)`, `COUNT(v)`, `f(v.x)`: of an aggregate they are about all trends; other functions there are none."""
    if function.lower() not in AGGREGATES:
        raise source.syntax_error(
            tree,
            f"no function of one value is called {function}",
            f"an aggregate over several events: {', '.join(AGGREGATES)} or a registered one",
            did_you_mean(function, AGGREGATES) or f"write {function}(b[].x) for all events of b",
        )
    if not source.one_group:
        raise source.syntax_error(
            tree,
            f"{function}(...) without brackets aggregates all trends, of which there are none yet here",
            "such aggregates in RETURN and HAVING alone",
            "aggregate the events of one match with brackets, as in avg(b[].x) or count(b[])",
        )
    names = [str(token) for token in _tokens(argument)]
    if function.lower() not in _OVER_TRENDS:
        raise source.unsupported(
            tree,
            f"{function}(...) is no aggregate over trends",
            f"take {', '.join(sorted(_OVER_TRENDS))} over trends; {function}(b[].x) is over the events of a match",
        )
    if function.lower() == "count":
        if len(names) == 2:
            owner, counted = names
            raise source.syntax_error(
                tree,
                f"{function}({owner}.{counted}) counts values; trends and their events are counted",
                f"{function}(*) for trends or {function}({owner}) for the events of {owner} in them",
            )
    elif len(names) != 2:
        raise source.syntax_error(tree, f"{function} needs an attribute", f"{function}(variable.attribute)")
    variable, attribute = (*names, None, None)[:2]
    return TrendAggregate(function.lower(), variable, attribute, span_of(tree))


def _next_attribute(tree: Branch, source: Source) -> Expression:
    """`NEXT(v).x`."""
    _refuse_variable(tree, source)
    function, name = _tokens(tree)
    (argument,) = _branches(tree)
    if function.lower() != "next":
        raise _not_next(tree, str(function), source)
    if argument.data != "trend_variable":
        raise source.syntax_error(
            tree, f"an argument of {function} that is no variable", f"{function}(variable).{name}"
        )
    return Attribute(str(_tokens(argument)[0]), Index.NEXT, str(name), span_of(tree))


def _not_next(tree: Branch, function: str, source: Source) -> QuerySyntaxError:
    return source.syntax_error(
        tree,
        f"an attribute of {function}(...)",
        f"the attribute inside the parentheses, as in {function}(b[].x)",
    )


_BUILDERS: dict[str, Callable[[Branch, Source], Expression]] = {
    "all_of": _all_of,
    "one_of": _one_of,
    "not_": _not,
    "compare": _compare,
    "membership": _membership,
    "no_membership": _no_membership,
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    "negative": _negative,
    "number": _number,
    "duration_value": _duration,
    "string": _string,
    "null": _null,
    "parameter": _parameter,
    "bare_name": _bare_name,
    "attribute": _attribute,
    "indexed_attribute": _indexed_attribute,
    "call": _call,
    "next_attribute": _next_attribute,
    "equivalences": _nested_equivalence,
}
