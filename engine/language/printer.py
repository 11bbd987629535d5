"""Syntax tree -> query text: parse(print_query(q)) == q for every tree that the parser makes.

The text is canonical: two texts of one query print alike, so a hash of it names the query.
"""

from __future__ import annotations

from dataclasses import replace

from engine.language.ast import (
    EXACT_BITS,
    Aggregate,
    AllOf,
    Alternative,
    AnyOf,
    Arithmetic,
    Attribute,
    Comparison,
    Component,
    Conjunction,
    Equivalence,
    Expression,
    Index,
    Literal,
    Membership,
    NamedHost,
    Negation,
    Negative,
    Not,
    OneOf,
    Output,
    Parameter,
    Pattern,
    Query,
    Range,
    Repeat,
    ReturnItem,
    Sequence,
    Severity,
    Shown,
    TrendAggregate,
)
from engine.language.build_query import default_name
from engine.language.source import duration_text

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _UNARY, _ATOM = range(8)
"""How tightly an expression binds; an operand that binds less than its place needs parentheses."""


def print_query(query: Query) -> str:
    """The text of `query`, one clause per line in a fixed order."""
    lines = [f"PATTERN {print_pattern(query.pattern)}", *_where(query)]
    if query.within_ms is not None:
        within = query.within_ms
        lines.append(f"WITHIN {f':{within.name}' if isinstance(within, Parameter) else duration_text(within)}")
    if query.within_events is not None:
        lines.append(f"WITHIN {query.within_events} EVENTS")
    if query.slide_ms is not None:
        slide = query.slide_ms
        lines.append(f"SLIDE {f':{slide.name}' if isinstance(slide, Parameter) else duration_text(slide)}")
    if query.open_on is not None:
        lines.append(f"OPEN ON {print_expression(query.open_on)}")
    if query.group_by:
        lines.append(f"GROUP BY {', '.join(query.group_by)}")
    if query.having is not None:
        lines.append(f"HAVING {print_expression(query.having)}")
    if query.output is Output.TOP:
        lines.append(f"OUTPUT TOP {query.top_k} BY CONFIDENCE")
    elif query.output is not Output.ALL:
        lines.append(f"OUTPUT {query.output.value}")
    if query.limit is not None:
        lines.append(f"LIMIT {query.limit}")
    if query.confidence is not None:
        lines.append(f"CONFIDENCE >= {_bound(query.confidence)}")
    if query.certain_above is not None:
        lines.append(f"CERTAIN_ABOVE {_bound(query.certain_above)}")
    if query.select_first:
        lines.append("SELECT FIRST")
    if query.consume:
        lines.append(f"CONSUME {', '.join(query.consume)}")
    if query.weight is not None:
        lines.append(f"WEIGHT {query.weight!r}")
    if query.exact_bits:
        lines.append("EXACT" if query.exact_bits == EXACT_BITS else f"EXACT {query.exact_bits} BITS")
    if query.ties is not None:
        lines.append(f"TIES {query.ties.value}")
    if query.returns:
        lines.append("RETURN " + ", ".join(_return_item(item) for item in query.returns))
    if query.parameters:
        values = (f"{default.name} = {_value(default.value)}" for default in query.parameters)
        lines.append("PARAMETERS " + ", ".join(values))
    lines += _alerting(query)
    return "\n".join(lines) + "\n"


def print_matching(query: Query) -> str:
    """The text of what decides the matches of `query`: without what becomes of them.

    Its hash is that of the query's meaning: another title, severity or list of hosts changes no match, so it begins no
    state anew and makes no other alert of the same events.
    """
    return print_query(replace(query, notice=None, group_gap_ms=None, shown=(), hosts=(), onset=None))


def print_pattern(pattern: Pattern) -> str:
    """The text of a pattern; operators in their prefix form."""
    match pattern:
        case Component(event_type=event_type, variable=variable, kleene=kleene):
            if kleene:
                return f"{event_type}+ {variable}[]"
            return event_type if variable == event_type else f"{event_type} {variable}"
        case Negation(pattern=inner):
            return f"!{print_pattern(inner)}"
        case Sequence(parts=parts):
            return f"SEQ({_parts(parts)})"
        case Alternative(parts=parts):
            return f"OR({_parts(parts)})"
        case Conjunction(parts=parts):
            return f"AND({_parts(parts)})"
        case AnyOf(count=count, parts=parts):
            return f"ANY({count}, {_parts(parts)})"
        case Repeat(pattern=inner, at_least=at_least, at_most=at_most):
            return f"({print_pattern(inner)}){_quantifier(at_least, at_most)}"


def print_expression(expression: Expression) -> str:
    """The text of an expression with as few parentheses as its meaning needs."""
    return _print(expression)[0]


def _where(query: Query) -> list[str]:
    conjuncts = [_equivalence(equivalence) for equivalence in query.equivalences]
    joined = len(query.equivalences) + len(query.predicates) > 1
    conjuncts += [_at(predicate, _NOT) if joined else print_expression(predicate) for predicate in query.predicates]
    text = " AND ".join(conjuncts)
    if query.strategy is None:
        return [f"WHERE {text}"] if text else []
    return [f"WHERE {query.strategy.value} {{ {text} }}" if text else f"WHERE {query.strategy.value}"]


def _alerting(query: Query) -> list[str]:
    lines: list[str] = []
    if query.notice is not None:
        summary = _value(query.notice.summary)
        severity = query.notice.severity
        per = f" PER {', '.join(query.notice.per)}" if query.notice.per else ""
        raised = "INCIDENT" if query.notice.is_incident else "ALERT"
        lines.append(
            f"REPORT {summary}" if severity is Severity.REPORT else f"{raised} {severity.value} {summary}{per}"
        )
    if query.shown:
        lines.append("SHOW " + ", ".join(map(_shown, query.shown)))
    if query.hosts:
        lines.append("HOSTS " + ", ".join(map(_named_host, query.hosts)))
    if query.onset is not None:
        lines.append(f"ONSET {query.onset}")
    if query.group_gap_ms is not None:
        lines.append(f"GROUP_GAP {duration_text(query.group_gap_ms)}")
    return lines


def _shown(shown: Shown) -> str:
    beside = f" WITH ({', '.join(shown.beside)})" if shown.beside else ""
    return f"{shown.aspect.value} {shown.name}{beside}"


def _named_host(host: NamedHost) -> str:
    return f"{host.role.value} {host.name}" + (f" ({host.value})" if host.value else "")


def _bound(bound: float | Parameter) -> str:
    return f":{bound.name}" if isinstance(bound, Parameter) else repr(bound)


def _parts(parts: tuple[Pattern, ...]) -> str:
    return ", ".join(print_pattern(part) for part in parts)


def _quantifier(at_least: int, at_most: int | None) -> str:
    known = {(1, None): "+", (0, None): "*", (0, 1): "?"}.get((at_least, at_most))
    if known:
        return known
    if at_most is None:
        return f"{{{at_least},}}"
    return f"{{{at_least}}}" if at_least == at_most else f"{{{at_least},{at_most}}}"


def _equivalence(equivalence: Equivalence) -> str:
    return f"[{equivalence.variable}.{equivalence.attribute}]" if equivalence.variable else f"[{equivalence.attribute}]"


def _return_item(item: ReturnItem) -> str:
    text = print_expression(item.expression)
    return text if item.name == default_name(item.expression) else f"{text} AS {item.name}"


def _value(value: float | str | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _at(expression: Expression, place: int) -> str:
    text, binding = _print(expression)
    return text if binding >= place else f"({text})"


def _print(expression: Expression) -> tuple[str, int]:
    match expression:
        case Literal(value=value):
            negative = isinstance(value, (int, float)) and _value(value).startswith("-")
            return _value(value), _UNARY if negative else _ATOM
        case Parameter(name=name):
            return f":{name}", _ATOM
        case Attribute(variable="", name=name):
            return name, _ATOM
        case Attribute(variable=variable, index=Index.NEXT, name=name):
            return f"NEXT({variable}).{name}", _ATOM
        case Attribute(variable=variable, index=index, name=name):
            return f"{variable}{_index(index, variable)}.{name}", _ATOM
        case Aggregate(function=function, variable=variable, range=covered, name=name):
            argument = f"{variable}{_index(covered, variable)}" + (f".{name}" if name else "")
            return f"{function}({argument})", _ATOM
        case TrendAggregate(function=function, variable=variable, name=name):
            argument = "*" if variable is None else variable if name is None else f"{variable}.{name}"
            return f"{function.upper()}({argument})", _ATOM
        case Negative(operand=operand):
            # An atom after the sign: two signs in a row would begin a comment, and a number would swallow the sign.
            return f"-{_at(operand, _ATOM)}", _UNARY
        case Arithmetic(op=op, left=left, right=right):
            binding = _SUM if op in "+-" else _PRODUCT
            return f"{_at(left, binding)} {op} {_at(right, binding + 1)}", binding
        case Comparison(op=op, left=left, right=right):
            return f"{_at(left, _SUM)} {op} {_at(right, _SUM)}", _COMPARE
        case Membership(operand=operand, options=options):
            listed = ", ".join(print_expression(option) for option in options)
            return f"{_at(operand, _SUM)} IN ({listed})", _COMPARE
        case Not(operand=operand):
            return f"NOT {_at(operand, _NOT)}", _NOT
        case AllOf(operands=operands):
            return " AND ".join(_at(operand, _NOT) for operand in operands), _AND
        case OneOf(operands=operands):
            return " OR ".join(_at(operand, _AND) for operand in operands), _OR


def _index(index: Index | Range, variable: str) -> str:
    text: str = index.value
    return text.replace("v.", f"{variable}.")
