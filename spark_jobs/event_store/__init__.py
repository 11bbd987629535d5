"""The event store: Parquet files that a log of commits names, on any file system that Hadoop knows."""

from app.event_store.commits import StoredFile
from app.event_store.errors import StoreError
from spark_jobs.event_store.store import Appended, EventStore

__all__ = ["Appended", "EventStore", "StoreError", "StoredFile"]
