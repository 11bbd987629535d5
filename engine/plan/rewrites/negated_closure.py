"""`!A+ a[]` where one event is as good as many: the negation of a single component."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engine.language import ast
from engine.plan.rewrites.parts import with_children


def single_negations(pattern: ast.Pattern, free: Iterable[str]) -> ast.Pattern:
    """`!A+ a[]` as `!A a` for the variables in `free`: those that predicates mention as `a[i]` alone, for every i.

    Some events that all satisfy them exist exactly when one does.
    """
    names = frozenset(free)

    def change(part: ast.Pattern) -> ast.Pattern:
        inner = part.pattern if isinstance(part, ast.Negation) else None
        if isinstance(part, ast.Negation) and isinstance(inner, ast.Component) and inner.kleene:
            return replace(part, pattern=replace(inner, kleene=False)) if inner.variable in names else part
        return with_children(part, change)

    return change(pattern)


def as_single(expression: ast.Expression, variables: Iterable[str]) -> ast.Expression:
    """The expression with `a[i].x` written `a.x` for these variables."""
    names = frozenset(variables)
    match expression:
        case ast.Attribute() if expression.variable in names:
            return replace(expression, index=ast.Index.SINGLE)
        case ast.Negative() | ast.Not() | ast.Membership():
            return replace(expression, operand=as_single(expression.operand, names))
        case ast.Arithmetic() | ast.Comparison():
            return replace(expression, left=as_single(expression.left, names), right=as_single(expression.right, names))
        case ast.AllOf() | ast.OneOf():
            return replace(expression, operands=tuple(as_single(operand, names) for operand in expression.operands))
    return expression


__all__ = ["as_single", "single_negations"]
