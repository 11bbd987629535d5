"""`A{n,m} v[]` as `A+ v[]` with its bounds as predicates, which every runtime evaluates.

Taking is bounded by `count(v[..i-1]) < m`, leaving by `count(v[]) >= n`.
"""

from __future__ import annotations

from dataclasses import replace

from engine.language import ast
from engine.language.reading import Reading, Start
from engine.language.resolver import ResolvedQuery


def bounds_as_predicates(resolved: ResolvedQuery) -> ResolvedQuery:
    """The query with unbounded Kleene components alone; of a pattern that is a SEQ of components and negations."""
    pattern = resolved.query.pattern
    parts = pattern.parts if isinstance(pattern, ast.Sequence) else (pattern,)
    kept: list[ast.Pattern] = []
    added: list[tuple[ast.Expression, Reading]] = []
    for part in parts:
        if isinstance(part, ast.Repeat) and isinstance(part.pattern, ast.Component) and not part.pattern.kleene:
            kept.append(replace(part.pattern, kleene=True))
            added += _bounds(part, part.pattern.variable)
        else:
            kept.append(part)
    if not added:
        return resolved
    query = replace(
        resolved.query,
        pattern=replace(pattern, parts=tuple(kept)) if isinstance(pattern, ast.Sequence) else kept[0],
        predicates=(*resolved.query.predicates, *(predicate for predicate, _ in added)),
    )
    return replace(resolved, query=query, reading=(*resolved.reading, *(reading for _, reading in added)))


def _bounds(part: ast.Repeat, v: str) -> list[tuple[ast.Expression, Reading]]:
    bounds: list[tuple[ast.Expression, Reading]] = []
    if part.at_most is not None:
        taken = ast.Aggregate("count", v, ast.Range.BEFORE_CURRENT, None, part.span)
        conjunct = ast.Comparison("<", taken, ast.Literal(part.at_most), part.span)
        bounds.append((conjunct, Reading(Start.FROM_SECOND, v, f"{v} takes at most {part.at_most} events")))
    if part.at_least > 1:
        all_of_it = ast.Aggregate("count", v, ast.Range.ALL, None, part.span)
        conjunct = ast.Comparison(">=", all_of_it, ast.Literal(part.at_least), part.span)
        bounds.append((conjunct, Reading(Start.PER_MATCH, None, f"{v} is left after {part.at_least} events or more")))
    return bounds


__all__ = ["bounds_as_predicates"]
