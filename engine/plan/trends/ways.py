"""Patterns with a component of its own for each way to read it, where a way decides what may be skipped.

Under skip till next match each alternative of OR, `?` and `*` is a match for itself: `SEQ(A, C?, B)` is
`SEQ(A, C, B) OR SEQ(A, B)`, in which an A that waits for a C ignores the B that the other one takes. Inside a repeated
group they are alternatives of each repetition.
"""

from __future__ import annotations

from dataclasses import replace

from engine.language import ast
from engine.plan.rewrites import expanded, rewritten
from engine.plan.rewrites.parts import with_children


def ways_apart(pattern: ast.Pattern) -> ast.Pattern:
    """OR of patterns without OR, `?` and `*`, but for those inside of negations.

    Raises UnsupportedQueryError where there are too many.
    """
    found = tuple(_with_bodies(way) for way in expanded(rewritten(pattern)))
    return found[0] if len(found) == 1 else ast.Alternative(found, pattern.span)


def _with_bodies(pattern: ast.Pattern) -> ast.Pattern:
    match pattern:
        case ast.Repeat(pattern=inner):
            return replace(pattern, pattern=ways_apart(inner))
        case ast.Negation():
            return pattern
        case _:
            return with_children(pattern, _with_bodies)


__all__ = ["ways_apart"]
