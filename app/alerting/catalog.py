"""What alerting needs to know of a query, apart from how it is evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from app.settings import Severity
from engine import ast


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """A query as alerting sees it."""

    name: str
    hash: str
    """Of what decides its matches (see CompiledQuery) and which of them are one alert (`per`)."""
    severity: Severity | None
    """None: its matches are rows of a report."""
    summary: str
    """Template; `{name}` stands for a RETURN value, see engine.language.templates."""
    group_gap_ms: int
    key: tuple[str, ...] = ()
    """The attributes of the partition key."""
    per: tuple[str, ...] = ()
    """RETURN values that tell alerts apart, beside the partition key."""
    runbook: str = ""
    within_ms: int | None = None
    """How far apart the events that decide a match may be; None: that is not known in time."""
    keep_ms: int = 0
    """The same of windows in time alone: for so long an event may be bound, where nothing counts events."""
    within_events: int | None = None
    """WITHIN n EVENTS: so many."""
    types: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    """RETURN values that are numbers."""
    shown: tuple[ast.Shown, ...] = ()
    """Which matches give the values that an alert shows; of all others the last one does."""
    hosts: tuple[ast.NamedHost, ...] = ()
    """Which RETURN values name hosts; none: see app.alerting.hosts."""
    onset: str | None = None
    """The variable whose first event is when the condition began; none: that of the first match's last event."""
    match_hash: str = ""
    """Names the query in the ids of its matches, see engine.match_id."""
    depth: int = 0
    """How many queries of which each uses the matches of the next stand below it."""
    uses: frozenset[str] = frozenset()
    """The queries whose matches it binds or negates."""
    binds: frozenset[str] = frozenset()
    """Of an incident: the queries whose alerts are part of it where it binds matches of theirs."""

    @property
    def is_incident(self) -> bool:
        """Whether alerts of other queries are part of its alerts."""
        return bool(self.binds)

    @property
    def is_report(self) -> bool:
        """True when matches become rows of a report."""
        return self.severity is None
