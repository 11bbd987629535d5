"""What alerting needs to know of a query, apart from how it is evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from app.settings import Severity


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """A query as alerting sees it."""

    name: str
    hash: str
    """Of the canonical text: alerts of a changed query are other alerts."""
    severity: Severity | None
    """None: its matches are rows of a report."""
    summary: str
    """Template; `{name}` stands for a RETURN value or a key attribute."""
    group_gap_ms: int
    per: tuple[str, ...] = ()
    """RETURN values that tell alerts apart, beside the partition key."""
    runbook: str = ""
    within_ms: int | None = None
    types: frozenset[str] = frozenset()

    @property
    def is_report(self) -> bool:
        """True when matches become rows of a report."""
        return self.severity is None
