"""The schema of event types: which there are, with which attributes of which type.

It stands apart from the batches (`engine.events`, which has these names too), so that who only asks for types and names
does not load Arrow and NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from engine.errors import EventError

if TYPE_CHECKING:
    import pyarrow as pa

MAX_EXACT_INT = 2**53
"""Numbers are compared as IEEE doubles; integers beyond this magnitude would not be exact and are refused."""

_SURROGATE = re.compile("[\ud800-\udfff]")

HEADER_NAMES: tuple[str, ...] = (
    "event_id",
    "type",
    "t_lo_ms",
    "t_hi_ms",
    "source_rank",
    "source_seq",
    "clock_id",
    "weights",
    "origin",
    "raw",
    "skew_ms",
)
"""Names of columns that are no attributes: those of `engine.events.HEADER`, and SKEW."""

TIME_ATTRIBUTE = "timestamp"
"""Virtual attribute of every event: t_hi_ms of a precise event; of an imprecise one the latest possible time."""


class AttributeType(Enum):
    """Types of attributes: numbers compare by value, strings by equality only."""

    INT = "int"
    FLOAT = "float"
    STRING = "string"

    @property
    def is_number(self) -> bool:
        """True for INT and FLOAT."""
        return self is not AttributeType.STRING

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of a column of such values; loads Arrow, which nothing else here needs."""
        import pyarrow as pa

        return {"int": pa.int64(), "float": pa.float64(), "string": pa.string()}[self.value]


@dataclass(frozen=True)
class EventSchema:
    """The event types that queries may name.

    `types` maps a type's name to its attributes in order. One attribute name has one type throughout the schema, so
    that a column means the same for every event; `EventSchema.of` checks it.
    """

    types: Mapping[str, Mapping[str, AttributeType]]

    @classmethod
    def of(cls, types: Mapping[str, Mapping[str, AttributeType]]) -> EventSchema:
        """Check and freeze `types`; raises EventError when an attribute has two types or hides a header column."""
        seen: dict[str, tuple[str, AttributeType]] = {}
        for type_name, attributes in types.items():
            for name in (type_name, *attributes):
                if lone_surrogate(name) is not None:
                    raise EventError(f"event type {type_name!a}: {name!a} is no Unicode text")
            for attribute, attribute_type in attributes.items():
                if attribute in HEADER_NAMES or attribute == TIME_ATTRIBUTE:
                    raise EventError(f"event type {type_name}: attribute {attribute} is reserved; rename it")
                first_type, known = seen.setdefault(attribute, (type_name, attribute_type))
                if known is not attribute_type:
                    raise EventError(
                        f"attribute {attribute} is {known.value} in {first_type} but {attribute_type.value} in "
                        f"{type_name}; give one of them another name"
                    )
        return cls({name: dict(attributes) for name, attributes in types.items()})

    @property
    def attributes(self) -> dict[str, AttributeType]:
        """All attribute names with their type, in order of first appearance."""
        merged: dict[str, AttributeType] = {}
        for attributes in self.types.values():
            merged.update(attributes)
        return merged

    def types_with(self, attribute: str) -> frozenset[str]:
        """Names of the types that have `attribute`."""
        return frozenset(name for name, attributes in self.types.items() if attribute in attributes)


def lone_surrogate(text: str) -> int | None:
    """Where half of a surrogate pair stands in a text: no character, and nothing that UTF-8 can hold. None without one.

    Escapes (`\\ud83d` in JSON and YAML), and bytes that are not UTF-8 in arguments and variables, become such halves.
    """
    found = _SURROGATE.search(text)
    return None if found is None else found.start()


__all__ = [
    "HEADER_NAMES",
    "MAX_EXACT_INT",
    "TIME_ATTRIBUTE",
    "AttributeType",
    "EventSchema",
    "lone_surrogate",
]
