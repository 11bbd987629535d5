"""Groups of what has names in common: the connected components of items and names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(eq=False)
class _Group:
    members: list[object]
    names: list[Hashable]
    newest: int


def linked(items: Iterable[T], names_of: Callable[[T], Collection[Hashable]]) -> list[list[T]]:
    """The items, together where each shares a name with another of its group; groups in the order of their last items.

    In time that hardly grows faster than items and names do.
    """
    group_of: dict[Hashable, _Group] = {}
    groups: dict[_Group, None] = {}
    for number, item in enumerate(items):
        names = names_of(item)
        known = {group_of[name]: None for name in names if name in group_of}
        joined = sorted(known, key=lambda group: group.newest)
        group = max(joined, key=lambda group: len(group.names), default=_Group([], [], number))
        if len(joined) > 1:
            group.members = [member for other in reversed(joined) for member in other.members]
            for other in joined:
                if other is not group:
                    group.names += other.names
                    group_of.update(dict.fromkeys(other.names, group))
                    del groups[other]
        fresh = [name for name in names if name not in group_of]
        group.names += fresh
        group_of.update(dict.fromkeys(fresh, group))
        group.members.append(item)
        group.newest = number
        groups[group] = None
    ordered = sorted(groups, key=lambda group: group.newest)
    return [group.members for group in ordered]  # type: ignore[misc]


__all__ = ["linked"]
