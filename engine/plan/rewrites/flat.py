"""SEQ in SEQ, AND in AND, OR in OR: the order of their events is that of one operator."""

from __future__ import annotations

from dataclasses import replace

from engine.language import ast
from engine.plan.rewrites.parts import with_children


def flatten(pattern: ast.Pattern) -> ast.Pattern:
    """`SEQ(A, SEQ(B, C))` is `SEQ(A, B, C)`, and so for AND and OR (they are associative)."""
    pattern = with_children(pattern, flatten)
    if not isinstance(pattern, ast.Sequence | ast.Conjunction | ast.Alternative):
        return pattern
    parts: list[ast.Pattern] = []
    for part in pattern.parts:
        if isinstance(part, type(pattern)):
            parts += part.parts
        else:
            parts.append(part)
    return replace(pattern, parts=tuple(parts))


__all__ = ["flatten"]
