"""What is told in one line."""

from __future__ import annotations


class WheelError(Exception):
    """What was found, where, and what to do."""


__all__ = ["WheelError"]
