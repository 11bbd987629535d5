"""Event types that a query names and an events file does not have: known as far as the query needs them.

A query on a type that does not occur has no match (or, when the type is negated, nothing that forbids one); it is
checked all the same. The attributes of such a type are those of the cluster's events when they have a type of that
name, else those that the query uses.
"""

from __future__ import annotations

from collections.abc import Collection

from engine import ast
from engine.events import TIME_ATTRIBUTE, AttributeType, EventSchema


def with_absent_types(
    query: ast.Query, schema: EventSchema, cluster: EventSchema, matches: Collection[str] = ()
) -> tuple[EventSchema, list[str]]:
    """`schema` with the types of `query` that it lacks, and the names of these in textual order.

    `matches`: types that stand for the matches of other queries; these are not absent.
    """
    types = {component.variable: component.event_type for component, _ in ast.components(query.pattern)}
    named = [*types.values(), *_opening_types(query)]
    absent = list(dict.fromkeys(name for name in named if name not in schema.types and name not in matches))
    if not absent:
        return schema, []
    known = dict(schema.attributes)
    texts = _text_attributes(query, known)
    used = {name: _attributes_of(name, query, types) for name in absent}
    added: dict[str, dict[str, AttributeType]] = {}
    for name in absent:
        attributes: dict[str, AttributeType] = {}
        for attribute, kind in cluster.types.get(name, {}).items():
            attributes[attribute] = known.setdefault(attribute, kind)
        if name not in cluster.types:
            for attribute in used[name]:
                guess = AttributeType.STRING if attribute in texts else AttributeType.FLOAT
                kind = known.get(attribute) or cluster.attributes.get(attribute) or guess
                attributes[attribute] = known.setdefault(attribute, kind)
        added[name] = attributes
    return EventSchema.of({**schema.types, **added}), absent


def _attributes_of(event_type: str, query: ast.Query, types: dict[str, str]) -> list[str]:
    """The attributes that the query reads from events of this type, or asks to be equal."""
    found: dict[str, None] = {}
    for node in ast.walk(query):
        if isinstance(node, ast.Attribute | ast.Aggregate) and types.get(node.variable) == event_type:
            if node.name is not None and node.name != TIME_ATTRIBUTE:
                found[node.name] = None
        elif isinstance(node, ast.Equivalence) and (node.variable is None or types.get(node.variable) == event_type):
            found[node.attribute] = None
    if event_type in _opening_types(query):
        own = (node.name for node in ast.walk(query.open_on) if isinstance(node, ast.Attribute))
        found |= dict.fromkeys(name for name in own if name not in ("type", TIME_ATTRIBUTE))
    return list(found)


def _opening_types(query: ast.Query) -> list[str]:
    """The types that OPEN ON compares `type` with."""
    found: list[str] = []
    for node in ast.walk(query.open_on):
        if isinstance(node, ast.Comparison | ast.Membership):
            sides = (node.left, node.right) if isinstance(node, ast.Comparison) else (node.operand, *node.options)
            if any(isinstance(side, ast.Attribute) and side.name == "type" for side in sides):
                found += [str(side.value) for side in sides if isinstance(side, ast.Literal) and side.value is not None]
    return found


def _text_attributes(query: ast.Query, known: dict[str, AttributeType]) -> set[str]:
    """Names of attributes that the query compares with text, directly or through another attribute."""
    texts = {name for name, kind in known.items() if kind is AttributeType.STRING}
    comparisons = [_sides(node) for node in ast.walk(query) if isinstance(node, ast.Comparison | ast.Membership)]
    for _ in comparisons:  # a chain of n comparisons settles after n rounds
        for names, has_text in comparisons:
            if has_text or names & texts:
                texts |= names
    return texts


def _sides(node: ast.Comparison | ast.Membership) -> tuple[set[str], bool]:
    sides = (node.left, node.right) if isinstance(node, ast.Comparison) else (node.operand, *node.options)
    names = {side.name for side in sides if isinstance(side, ast.Attribute)}
    return names, any(isinstance(side, ast.Literal) and isinstance(side.value, str) for side in sides)


__all__ = ["with_absent_types"]
