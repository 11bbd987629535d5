"""Groups of what shares names, against the definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.uncertainty.linked import linked

NAMES = st.frozensets(st.integers(0, 12), max_size=4)


def components(items: list[frozenset[int]]) -> list[set[int]]:
    """By number: those that are reached over shared names."""
    left, found = set(range(len(items))), []
    while left:
        group = {min(left)}
        while more := {n for n in left - group if any(items[n] & items[other] for other in group)}:
            group |= more
        left -= group
        found.append(group)
    return sorted(found, key=max)


@given(st.lists(NAMES, max_size=14))
def test_items_are_together_that_are_linked_by_names(items: list[frozenset[int]]) -> None:
    groups = linked(list(enumerate(items)), lambda item: item[1])
    assert [{number for number, _ in group} for group in groups] == components(items)
    assert sum(map(len, groups)) == len(items)


def test_a_group_that_grows_by_its_last_item_keeps_their_order() -> None:
    assert linked("abcd", lambda _: [1]) == [["a", "b", "c", "d"]]
