"""What is wrong with an event store."""

from __future__ import annotations

from app.errors import AppError


class StoreError(AppError):
    """The event store cannot be read or written as asked."""


__all__ = ["StoreError"]
