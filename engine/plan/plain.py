"""Which patterns are plain sequences."""

from __future__ import annotations

from engine.language import ast


def is_plain(pattern: ast.Pattern) -> bool:
    """True for a SEQ of components, Kleene components (bounded ones, too) and negated single components."""
    parts = pattern.parts if isinstance(pattern, ast.Sequence) else (pattern,)
    return all(_is_plain_part(part) for part in parts)


def _is_plain_part(part: ast.Pattern) -> bool:
    match part:
        case ast.Component():
            return True
        case ast.Repeat(pattern=ast.Component(kleene=False)):
            return True
        case ast.Negation(pattern=ast.Component(kleene=False)):
            return True
    return False


__all__ = ["is_plain"]
