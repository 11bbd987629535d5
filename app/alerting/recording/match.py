"""A match as alerting sees it: what the engine's MatchRow offers, by structure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from engine import Binding, Expectation, Possibilities


class Match(Protocol):
    """The parts of engine.runtime.engine.MatchRow that alerting reads."""

    @property
    def query(self) -> str:
        """Name of the query."""
        ...

    @property
    def key(self) -> tuple[tuple[str, object], ...]:
        """Partition key."""
        ...

    @property
    def first_lo_ms(self) -> int:
        """Earliest time of the first event."""
        ...

    @property
    def last_hi_ms(self) -> int:
        """Latest time of the last event."""
        ...

    @property
    def bindings(self) -> Mapping[str, Binding]:
        """Variable -> event ids, nested for a component in repeated groups."""
        ...

    @property
    def confidence(self) -> float:
        """Of the match in `bindings`."""
        ...

    @property
    def values(self) -> Mapping[str, int | float | str | None]:
        """RETURN values."""
        ...

    @property
    def count(self) -> int:
        """Matches behind this row."""
        ...

    @property
    def capped(self) -> bool:
        """True: a limit stopped the listing, there are more matches than rows."""
        ...

    @property
    def count_exact(self) -> bool:
        """False: `count` is a lower bound."""
        ...

    @property
    def possibilities(self) -> Possibilities:
        """What the matches behind this row demand of uncertain times."""
        ...

    @property
    def n_events(self) -> int | None:
        """Of a row about trends: how many events its trends come to; `bindings` has the first and the last ones."""
        ...

    @property
    def window(self) -> tuple[int, int] | None:
        """Start and end of the window that the row belongs to; None for a query without windows of its own."""
        ...

    @property
    def expected(self) -> Expectation | None:
        """What the numbers of a row about trends are where uncertain times leave open which trends there are."""
        ...
