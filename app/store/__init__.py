"""The store: alerts, reports, notifications, problems and read positions in one relational database.

`Store` is loaded on first use, so that Spark's Python workers, which only need what databases accept
(`app.store.storable`), do without one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.store.api import Store, open_store

__all__ = ["Store", "open_store"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("app.store.api"), name)
    raise AttributeError(f"module 'app.store' has no attribute {name!r}")
