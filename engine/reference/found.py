"""A match with its events, as the oracle hands it on from one definition to the next."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from engine.reference.expressions import Binding
from engine.reference.observed import ObservedEvent
from engine.reference.places import Bounds, Nested
from engine.reference.shape import Items


@dataclass(frozen=True)
class FoundMatch:
    """A match with its events: `sequence` is all of them in order, `binding` the same by variable, without lists.

    `branch`: the plain pattern of the query's union that it matches. `ways`: all of them, where several parts of the
    pattern bind the same events to the same variables.
    """

    ids: dict[str, tuple[Nested, ...]]
    binding: Binding
    bounds: Bounds
    sequence: tuple[ObservedEvent, ...]
    confidence: Fraction
    branch: Items
    ways: tuple[FoundMatch, ...] = ()


__all__ = ["FoundMatch"]
