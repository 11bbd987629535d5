"""Operators of one operand are that operand."""

from __future__ import annotations

from engine.language import ast
from engine.plan.rewrites.parts import with_children


def drop_single(pattern: ast.Pattern) -> ast.Pattern:
    """`SEQ(P)`, `AND(P)`, `OR(P)` and `P{1,1}` are P; `ANY(1, A a)` is `A a`.

    Not right below a repetition, where `(SEQ(A a))+` is a repeated group and `A+ a[]` is not, and not around a
    negation, which only a SEQ can hold.
    """
    if isinstance(pattern, ast.Repeat) and not _is_once(pattern):
        inner = pattern.pattern
        if isinstance(inner, ast.Sequence | ast.Conjunction | ast.Alternative) and len(inner.parts) == 1:
            return with_children(pattern, lambda body: with_children(body, drop_single))
    pattern = with_children(pattern, drop_single)
    if isinstance(pattern, ast.Sequence | ast.Conjunction | ast.Alternative | ast.AnyOf) and len(pattern.parts) == 1:
        (part,) = pattern.parts
        return pattern if isinstance(part, ast.Negation) else part
    if isinstance(pattern, ast.Repeat) and _is_once(pattern):
        return pattern.pattern
    return pattern


def _is_once(pattern: ast.Repeat) -> bool:
    return (pattern.at_least, pattern.at_most) == (1, 1)


__all__ = ["drop_single"]
