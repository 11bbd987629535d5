"""Rebuilding patterns bottom-up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.language import ast


def with_children(pattern: ast.Pattern, change: Callable[[ast.Pattern], ast.Pattern]) -> ast.Pattern:
    """The pattern with `change` applied to each direct child."""
    match pattern:
        case ast.Component() | ast.AnyOf():
            return pattern
        case ast.Negation() | ast.Repeat():
            return replace(pattern, pattern=change(pattern.pattern))
        case _:
            return replace(pattern, parts=tuple(change(part) for part in pattern.parts))


__all__ = ["with_children"]
