"""Which attributes of the key, `[x]`, the events of a match may have together: not every type need have all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations, product

from engine.language import ast
from engine.language.resolver import ResolvedQuery

Attributes = frozenset[str]


def key_attributes(resolved: ResolvedQuery) -> dict[str, Attributes]:
    """What of the key each type of the schema has."""
    return {name: frozenset(resolved.key) & frozenset(has) for name, has in resolved.schema.types.items()}


def key_sets(pattern: ast.Pattern, resolved: ResolvedQuery) -> set[Attributes]:
    """The sets of key attributes that the events of a match of this pattern may have together."""
    return _key_sets(pattern, key_attributes(resolved))


def _key_sets(pattern: ast.Pattern, of_type: Mapping[str, Attributes]) -> set[Attributes]:
    match pattern:
        case ast.Component(event_type=event_type):
            return {of_type[event_type]}
        case ast.Sequence(parts=parts) | ast.Conjunction(parts=parts):
            return _united(_key_sets(part, of_type) for part in parts)
        case ast.Alternative(parts=parts):
            return {attributes for part in parts for attributes in _key_sets(part, of_type)}
        case ast.AnyOf(count=count, parts=parts):
            chosen = combinations([_key_sets(part, of_type) for part in parts], count)
            return {attributes for sets in chosen for attributes in _united(sets)}
        case ast.Repeat(pattern=inner, at_least=at_least, at_most=at_most):
            found = _key_sets(inner, of_type)
            while at_most != 1 and (more := {a | b for a, b in product(found, found)}) - found:
                found |= more
            return found | ({frozenset()} if at_least == 0 else set())
        case ast.Negation():
            return {frozenset()}


def _united(sets: Iterable[set[Attributes]]) -> set[Attributes]:
    found: set[Attributes] = {frozenset()}
    for own in sets:
        found = {a | b for a, b in product(found, own)}
    return found


__all__ = ["Attributes", "key_attributes", "key_sets"]
