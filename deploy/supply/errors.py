"""What is told in one line."""

from __future__ import annotations


class SupplyError(Exception):
    """What was found, where, and what to do."""


__all__ = ["SupplyError"]
