"""How urgent alerts are."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """How urgent an alert is; the order is that of urgency."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for the least urgent."""
        return _RANKS[self]


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}

__all__ = ["Severity"]
