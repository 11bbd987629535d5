"""What can be told of an event store on this machine without Spark: its commits, its files and their events."""

from app.event_store.errors import StoreError
from app.event_store.reader import EventStoreReader

__all__ = ["EventStoreReader", "StoreError"]
