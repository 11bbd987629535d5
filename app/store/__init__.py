"""The store: alerts, reports, notifications, problems and read positions in one relational database."""

from app.store.api import Store, open_store

__all__ = ["Store", "open_store"]
