"""Parse tree of a whole query -> Query: each clause at most once, in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lark import Token

from engine.language.ast import (
    EXACT_BITS,
    LEAST_EXACT_BITS,
    MOST_EXACT_BITS,
    Aggregate,
    Aspect,
    Attribute,
    Default,
    Expression,
    HostRole,
    Index,
    Literal,
    NamedHost,
    Notice,
    Output,
    Parameter,
    Query,
    Range,
    ReturnItem,
    Severity,
    Shown,
    Strategy,
    Ties,
    TrendAggregate,
)
from engine.language.build_expression import (
    AGGREGATES,
    TREND_ARGUMENTS,
    build_expression,
    build_where,
    string_value,
)
from engine.language.build_pattern import build_pattern
from engine.language.source import Branch, Source, did_you_mean, span_of

Fields = dict[str, Any]
"""Fields of Query that a clause fills."""

_SEVERITIES = {severity.value: severity for severity in Severity if severity is not Severity.REPORT}


def build_query(tree: Branch, source: Source) -> Query:
    """The query whose clauses are the children of `tree`."""
    fields: Fields = {}
    seen: dict[str, Branch] = {}
    source = replace(source, aggregates_trends=_aggregates_trends(tree))
    for clause in _branches(tree):
        keyword, builder = _CLAUSES[clause.data]
        if keyword in seen:
            raise source.syntax_error(
                clause,
                f"a second {keyword} clause; the first stands in line {seen[keyword].meta.line}",
                "each clause at most once",
                "join them into one",
            )
        seen[keyword] = clause
        fields.update(builder(clause, source))
    if "pattern" not in fields:
        raise source.syntax_error(
            None, "the query has no PATTERN clause", "PATTERN SEQ(Type a, Type+ b[], ...)", "say which events match"
        )
    spans = tuple((keyword, span) for keyword, clause in seen.items() if (span := span_of(clause)) is not None)
    return Query(**{"strategy": None, **fields}, span=span_of(tree), clause_spans=spans)


def default_name(expression: Expression) -> str | None:
    """The name of a RETURN item without AS: the attribute's, `avg_period_ms`, `count_b`; None when it needs AS."""
    match expression:
        case Attribute(name=name):
            return name
        case Aggregate(function=function, name=None, range=Range.ALL, variable=variable):
            return f"{function}_{variable}"
        case Aggregate(function=function, name=str(name)) | TrendAggregate(function=function, name=str(name)):
            return f"{function}_{name}"
        case TrendAggregate(function=function, variable=variable):
            return function if variable is None else f"{function}_{variable}"
        case _:
            return None


def _aggregates_trends(tree: Branch) -> bool:
    """Whether RETURN or HAVING has an aggregate without brackets: bare names there are attributes of GROUP BY."""
    asked = (clause for clause in tree.children if not isinstance(clause, Token))
    calls = (
        call
        for clause in asked
        if clause.data in ("return_clause", "having_clause")
        for call in clause.iter_subtrees()
        if call.data == "call"
    )
    return any(
        str(_tokens(call)[0]).lower() in AGGREGATES and _branches(call)[0].data in TREND_ARGUMENTS for call in calls
    )


def _branches(tree: Branch) -> list[Branch]:
    return [child for child in tree.children if not isinstance(child, Token)]


def _tokens(tree: Branch) -> list[Token]:
    return [child for child in tree.children if isinstance(child, Token)]


def _pattern(clause: Branch, source: Source) -> Fields:
    return {"pattern": build_pattern(_branches(clause)[0], source)}


def _where(clause: Branch, source: Source) -> Fields:
    fields: Fields = {}
    for token in _tokens(clause):
        fields["strategy"] = Strategy(token.lower().replace("-", "_"))
    for branch in _branches(clause):
        where = build_where(branch, source)
        fields |= {"predicates": where.predicates, "equivalences": where.equivalences}
    return fields


def _within_time(clause: Branch, source: Source) -> Fields:
    (length,) = _branches(clause)
    if length.data == "parameter":
        return {"within_ms": build_expression(length, source)}
    return {"within_ms": source.duration_ms(length)}


def _within_events(clause: Branch, source: Source) -> Fields:
    return {"within_events": source.integer(_tokens(clause)[0], "a window of events", 1)}


def _output_form(clause: Branch, source: Source) -> Fields:  # noqa: ARG001 - the signature of all clauses
    return {"output": Output(_tokens(clause)[0].upper().replace("-", "_"))}


def _output_top(clause: Branch, source: Source) -> Fields:
    return {"output": Output.TOP, "top_k": source.integer(_tokens(clause)[0], "the k of TOP k", 1)}


def _limit(clause: Branch, source: Source) -> Fields:
    return {"limit": source.integer(_tokens(clause)[0], "the limit", 1)}


def _confidence(clause: Branch, source: Source) -> Fields:
    (op,) = _tokens(clause)
    (bound,) = _branches(clause)
    if op not in (">=", "≥"):
        raise source.syntax_error(op, f"CONFIDENCE {op}", "CONFIDENCE >= c", "a confidence has a lower bound only")
    return {"confidence": _bound(bound, source)}


def _bound(tree: Branch, source: Source) -> float | Parameter:
    """A confidence: a number from 0 to 1, or a parameter."""
    value = build_expression(tree, source)
    if isinstance(value, Literal):
        assert isinstance(value.value, (int, float))
        if not 0 <= value.value <= 1:
            raise source.syntax_error(tree, f"a confidence of {value.value}", "a number from 0 to 1")
        return float(value.value)
    assert isinstance(value, Parameter)
    return value


def _having(clause: Branch, source: Source) -> Fields:
    return {"having": build_expression(_branches(clause)[0], _of_rows(source))}


def _ties(clause: Branch, source: Source) -> Fields:  # noqa: ARG001 - the signature of all clauses
    return {"ties": Ties(_tokens(clause)[0].upper())}


def _returns(clause: Branch, source: Source) -> Fields:
    items: list[ReturnItem] = []
    for branch in _branches(clause):
        items += _return_items(branch, source)
    names: set[str] = set()
    for item in items:
        if item.name in names:
            raise source.syntax_error(
                item.span, f"two values are called {item.name}", "a name of its own for each value", "write AS name"
            )
        names.add(item.name)
    return {"returns": tuple(items)}


def _of_rows(source: Source) -> Source:
    """Where the values of a row are looked at, of a trend query those of its group."""
    return replace(source, one_group=source.aggregates_trends)


def _return_items(branch: Branch, source: Source) -> list[ReturnItem]:
    source = _of_rows(source)
    if branch.data == "return_attributes":
        variable, *names = _tokens(branch)
        span = span_of(branch)
        return [ReturnItem(Attribute(str(variable), Index.SINGLE, str(n), span_of(n)), str(n), span) for n in names]
    expression = build_expression(_branches(branch)[0], source)
    alias = _tokens(branch)
    name = str(alias[0]) if alias else default_name(expression)
    if name is None:
        raise source.syntax_error(branch, "this value has no name of its own", "expression AS name", "write AS name")
    return [ReturnItem(expression, name, span_of(branch))]


def _parameters(clause: Branch, source: Source) -> Fields:
    defaults: dict[str, Default] = {}
    for branch in _branches(clause):
        name, op = _tokens(branch)
        if op not in ("=", "=="):
            raise source.syntax_error(op, f"found {op} after {name}", "name = value")
        if name in defaults:
            raise source.syntax_error(name, f"two defaults for the parameter {name}", "one default each")
        (written,) = _branches(branch)
        value = build_expression(written, source)
        assert isinstance(value, Literal)
        assert value.value is not None  # the grammar allows no NULL here
        is_duration = written.data == "duration_value"
        defaults[str(name)] = Default(str(name), value.value, is_duration, span_of(branch))
    return {"parameters": tuple(defaults.values())}


def _alert(clause: Branch, source: Source) -> Fields:
    return {"notice": _raised(clause, source)}


def _incident(clause: Branch, source: Source) -> Fields:
    return {"notice": replace(_raised(clause, source), is_incident=True)}


def _raised(clause: Branch, source: Source) -> Notice:
    severity, summary, *per = _tokens(clause)
    if severity.lower() not in _SEVERITIES:
        raise source.syntax_error(
            severity,
            f"no severity is called {severity}",
            ", ".join(_SEVERITIES),
            did_you_mean(severity, _SEVERITIES),
        )
    given = tuple(map(str, per))
    return Notice(_SEVERITIES[severity.lower()], string_value(summary), given, span=span_of(clause))


def _report(clause: Branch, source: Source) -> Fields:  # noqa: ARG001 - the signature of all clauses
    return {"notice": Notice(Severity.REPORT, string_value(_tokens(clause)[0]), span=span_of(clause))}


def _group_gap(clause: Branch, source: Source) -> Fields:
    return {"group_gap_ms": source.duration_ms(_branches(clause)[0])}


def _show(clause: Branch, source: Source) -> Fields:
    shown: dict[str, Shown] = {}
    for branch in _branches(clause):
        aspect, *names = _tokens(branch)
        if aspect.upper() not in Aspect.__members__:
            raise source.syntax_error(
                aspect,
                f"found {aspect} before {names[0]}",
                ", ".join(Aspect.__members__),
                did_you_mean(aspect, Aspect.__members__) or "say which of an alert's matches gives the value",
            )
        item = Shown(Aspect[aspect.upper()], str(names[0]), tuple(map(str, names[1:])), span_of(branch))
        for place, name in zip(names, (item.name, *item.beside), strict=True):
            if name in shown:
                raise source.syntax_error(
                    place, f"SHOW names {name} twice", "each value once: an alert shows one of it"
                )
            shown[name] = item
    return {"shown": tuple(dict.fromkeys(shown.values()))}


def _hosts(clause: Branch, source: Source) -> Fields:
    hosts: dict[str, NamedHost] = {}
    role: HostRole | None = None
    for branch in _branches(clause):
        of_kind = {part.data: _tokens(part)[0] for part in _branches(branch)}
        (name,) = _tokens(branch)
        if "host_role" in of_kind:
            role = _host_role(of_kind["host_role"], name, source)
        if role is None:
            raise source.syntax_error(
                name,
                f"the host {name} has no role",
                ", ".join(HostRole.__members__),
                f"write SUSPECT {name} if the fault is probably its own, else AFFECTED {name}",
            )
        if name in hosts:
            raise source.syntax_error(name, f"HOSTS names {name} twice", "each value once")
        value = of_kind.get("host_value")
        hosts[str(name)] = NamedHost(role, str(name), None if value is None else str(value), span_of(branch))
    return {"hosts": tuple(hosts.values())}


def _host_role(word: Token, name: Token, source: Source) -> HostRole:
    if word.upper() not in HostRole.__members__:
        raise source.syntax_error(
            word,
            f"found {word} before {name}",
            ", ".join(HostRole.__members__),
            did_you_mean(word, HostRole.__members__),
        )
    return HostRole[word.upper()]


def _onset(clause: Branch, source: Source) -> Fields:  # noqa: ARG001 - the signature of all clauses
    return {"onset": str(_tokens(clause)[0])}


def _slide(clause: Branch, source: Source) -> Fields:
    (step,) = _branches(clause)
    if step.data == "parameter":
        return {"slide_ms": build_expression(step, source)}
    slide_ms = source.duration_ms(step)
    if slide_ms == 0:
        raise source.syntax_error(step, "a slide of no time", "a positive duration, as in SLIDE 30 seconds")
    return {"slide_ms": slide_ms}


def _open_on(clause: Branch, source: Source) -> Fields:
    return {"open_on": build_expression(_branches(clause)[0], replace(source, one_event=True))}


def _certain_above(clause: Branch, source: Source) -> Fields:
    return {"certain_above": _bound(_branches(clause)[0], source)}


def _select_first(clause: Branch, source: Source) -> Fields:  # noqa: ARG001 - the signature of all clauses
    return {"select_first": True}


def _consume(clause: Branch, source: Source) -> Fields:
    names: dict[str, None] = {}
    for name in _tokens(clause):
        if name in names:
            raise source.syntax_error(name, f"CONSUME names {name} twice", "each variable once")
        names[str(name)] = None
    return {"consume": tuple(names)}


def _weight(clause: Branch, source: Source) -> Fields:
    (number,) = _branches(clause)
    weight = build_expression(number, source)
    assert isinstance(weight, Literal)
    assert isinstance(weight.value, (int, float))
    if weight.value <= 0:
        raise source.syntax_error(number, f"a weight of {weight.value}", "a number above 0")
    return {"weight": float(weight.value)}


def _group_by(clause: Branch, source: Source) -> Fields:
    names: dict[str, None] = {}
    for name in _tokens(clause):
        if name in names:
            raise source.syntax_error(name, f"GROUP BY names {name} twice", "each attribute once")
        names[str(name)] = None
    return {"group_by": tuple(names)}


def _exact(clause: Branch, source: Source) -> Fields:
    tokens = _tokens(clause)
    if not tokens:
        return {"exact_bits": EXACT_BITS}
    n_bits = source.integer(tokens[0], "bits", LEAST_EXACT_BITS)
    if n_bits > MOST_EXACT_BITS:
        raise source.syntax_error(tokens[0], f"EXACT with {n_bits:,} bits", f"at most {MOST_EXACT_BITS:,}")
    return {"exact_bits": n_bits}


_CLAUSES: dict[str, tuple[str, Callable[[Branch, Source], Fields]]] = {
    "pattern_clause": ("PATTERN", _pattern),
    "where_clause": ("WHERE", _where),
    "within_time": ("WITHIN", _within_time),
    "within_events": ("WITHIN", _within_events),
    "output_form": ("OUTPUT", _output_form),
    "output_top": ("OUTPUT", _output_top),
    "limit_clause": ("LIMIT", _limit),
    "confidence_clause": ("CONFIDENCE", _confidence),
    "having_clause": ("HAVING", _having),
    "ties_clause": ("TIES", _ties),
    "return_clause": ("RETURN", _returns),
    "parameters_clause": ("PARAMETERS", _parameters),
    "alert_clause": ("ALERT, INCIDENT or REPORT", _alert),
    "incident_clause": ("ALERT, INCIDENT or REPORT", _incident),
    "report_clause": ("ALERT, INCIDENT or REPORT", _report),
    "group_gap_clause": ("GROUP_GAP", _group_gap),
    "show_clause": ("SHOW", _show),
    "hosts_clause": ("HOSTS", _hosts),
    "onset_clause": ("ONSET", _onset),
    "slide_clause": ("SLIDE", _slide),
    "open_clause": ("OPEN ON", _open_on),
    "certain_clause": ("CERTAIN_ABOVE", _certain_above),
    "select_clause": ("SELECT FIRST", _select_first),
    "consume_clause": ("CONSUME", _consume),
    "weight_clause": ("WEIGHT", _weight),
    "group_by_clause": ("GROUP BY", _group_by),
    "exact_clause": ("EXACT", _exact),
}
