"""Syntax trees of queries with one node in another's place."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")


def replaced(node: T, old: object, new: object) -> T:
    """The tree with `new` where `old` (that very node) stands."""
    if node is old:
        return new  # type: ignore[return-value]
    if not is_dataclass(node) or isinstance(node, type):
        return node
    changes: dict[str, Any] = {}
    for item in fields(node):
        value = getattr(node, item.name)
        changed = (
            tuple(replaced(child, old, new) for child in value)
            if isinstance(value, tuple)
            else replaced(value, old, new)
        )
        if changed is not value and changed != value:
            changes[item.name] = changed
    return replace(node, **changes) if changes else node


__all__ = ["replaced"]
