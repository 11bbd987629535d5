"""The released events as columns on disk: written step by step, merged in the background of it, read by any process."""

from app.event_log.reader import EventLogReader
from app.event_log.writer import EventLog

__all__ = ["EventLog", "EventLogReader"]
