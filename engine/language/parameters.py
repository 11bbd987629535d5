"""Parameters: `:name` becomes the value that configuration gives, else the default of the PARAMETERS clause."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from engine.events import MAX_EXACT_INT, lone_surrogate
from engine.language.ast import Literal, Negative, Parameter, Query, walk
from engine.language.build_expression import negated
from engine.language.scopes import Checked
from engine.language.source import did_you_mean

Value = int | float | str
_Node = TypeVar("_Node")


def parameter_values(query: Query, given: Mapping[str, Value], checked: Checked) -> dict[str, Value]:
    """The value of every parameter of `query`.

    Raises QueryTypeError for a given name that the query does not have, a value that has not the kind (number or
    text) of its default, a number that is not finite or not exact, and a parameter without any value.
    """
    defaults = {default.name: default for default in query.parameters}
    uses: dict[str, Parameter] = {}
    for node in walk(query):
        if isinstance(node, Parameter):
            uses.setdefault(node.name, node)
    known = defaults.keys() | uses.keys()
    values: dict[str, Value] = {}
    for name in given:
        if name not in known:
            raise checked.error(
                None,
                f"a value is given for the parameter {name}, which the query does not have",
                f"one of {', '.join(sorted(known))}" if known else "no parameters",
                did_you_mean(name, known),
            )
    for name in [*defaults, *(name for name in uses if name not in defaults)]:
        if name in given:
            value = given[name]
            _check(name, value, checked)
            if name in defaults and isinstance(value, str) is not isinstance(defaults[name].value, str):
                raise checked.error(
                    defaults[name].span,
                    f"the parameter {name} is given {value!r}",
                    "a text, as its default" if isinstance(defaults[name].value, str) else "a number, as its default",
                )
            values[name] = value
        elif name in defaults:
            values[name] = defaults[name].value
        else:
            raise checked.error(
                uses[name].span,
                f"the parameter {name} has no value",
                "a default in PARAMETERS or a value from configuration",
                did_you_mean(name, defaults) or f"write PARAMETERS {name} = value",
            )
    return values


def _check(name: str, value: object, checked: Checked) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise checked.error(
            None, f"the parameter {name} is given {value!r} ({type(value).__name__})", "a number or text"
        )
    if isinstance(value, str) and lone_surrogate(value) is not None:
        raise checked.error(
            None,
            f"the parameter {name} is given {value!a}, with half of a surrogate pair",
            "Unicode text",
            "write the whole character; on a command line, in UTF-8",
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise checked.error(None, f"the parameter {name} is given {value}", "a finite number")
    if isinstance(value, int) and abs(value) > MAX_EXACT_INT:
        raise checked.error(None, f"the parameter {name} is given {value}", "an integer up to 2^53, or a real number")


def substitute(node: _Node, values: Mapping[str, Value]) -> _Node:
    """`node` with every Parameter below it replaced by a Literal of its value."""
    if not is_dataclass(node) or isinstance(node, type):
        return node
    changes: dict[str, object] = {}
    for item in fields(node):
        before = getattr(node, item.name)
        if isinstance(before, tuple):
            after: object = tuple(_replaced(child, values) for child in before)
        else:
            after = _replaced(before, values)
        if after != before:
            changes[item.name] = after
    changed = replace(node, **changes) if changes else node
    if changes and isinstance(changed, Negative):
        return negated(changed.operand, changed.span)  # type: ignore[return-value] # an expression for an expression
    return changed


def _replaced(child: object, values: Mapping[str, Value]) -> object:
    if isinstance(child, Parameter):
        return Literal(values[child.name], child.span)
    return substitute(child, values)
