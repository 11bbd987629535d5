"""The hosts that an event is about, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collectors.metrics.load_balance import N_FURTHEST
from dashboard.text import inert

NOT_RECORDED = "hosts not recorded"
"""Events of older stores do not say which hosts were furthest from the mean."""

LOAD_TYPES = frozenset({"LoadStd", "Balance", "Imbalance"})
"""Of which `val` is the standard deviation of the hosts' values of a metric."""


def hosts_of(event_type: str | None, attributes: Mapping[str, Any]) -> str | None:
    """`node1`, `from node1`, or `node1 (95.2), node2 (94)` of a step's load; None for an event about no host."""
    if event_type in LOAD_TYPES:
        return _furthest(attributes) or (NOT_RECORDED if _differ(attributes) else None)
    return host_of(attributes)


def host_of(attributes: Mapping[str, Any]) -> str | None:
    """`node1` or `from node1`; None for an event that is not about a single host."""
    for name, before in (("host", ""), ("source_host", "from ")):
        value = attributes.get(name)
        if isinstance(value, str) and value:
            return before + inert(value, 60)
    return None


def _furthest(attributes: Mapping[str, Any]) -> str:
    named = [(attributes.get(f"host_{i}"), attributes.get(f"value_{i}")) for i in range(1, N_FURTHEST + 1)]
    return ", ".join(
        inert(host, 60) + (f" ({value:.3g})" if isinstance(value, (int, float)) else "")
        for host, value in named
        if isinstance(host, str) and host
    )


def _differ(attributes: Mapping[str, Any]) -> bool:
    """Whether the step's values surely differed: then some host was a standard deviation from the mean."""
    val, busy_ratio = attributes.get("val"), attributes.get("busy_ratio")
    return (val is not None and val > 0) or (busy_ratio is not None and 0 < busy_ratio < 1)


__all__ = ["LOAD_TYPES", "NOT_RECORDED", "host_of", "hosts_of"]
