"""Why a stream failed, of all that Spark says: one line with the place, what was found and what to do."""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from spark_jobs.event_store.errors import OUT_OF_REACH

_UNREAD = re.compile(r"\[FAILED_READ_FILE\.(\w+)\] Encountered error while reading file (\S+?)\.?\s")
_PLAN = "=== Streaming Query ==="
"""What follows names the checkpoint whatever has happened."""
_STATE = "CANNOT_LOAD_STATE_STORE"
_SHARED = ("CONCURRENT_STREAM_LOG_UPDATE", "concurrently using")
"""So Spark says it where a file of the checkpoint that it wants to write is there already."""
_FULL = re.compile(
    r"No space left on device|Disk quota exceeded|File too large|DSQuotaExceeded|could only be written to 0 of"
)
_FRAME = re.compile(r"\bat (org\.apache\.spark\.[\w.$]+)\(")
_FILES_OF = {
    ".streaming.checkpointing.CommitLog": "/commits",
    ".streaming.checkpointing.OffsetSeq": "/offsets",
    ".streaming.checkpointing.": "",
    ".streaming.state.": "/state",
    ".streaming.runtime.CompactibleFileStreamLog": "/sources",
    ".streaming.runtime.FileStreamSourceLog": "/sources",
    ".streaming.runtime.FileStreamSourceOffset": "/offsets",
    ".streaming.runtime.StreamMetadata": "/metadata",
}
"""Spark's code that reads a checkpoint, and what it reads there, where the reason names no file."""
_CAUSES = ("\nCaused by: ", "\n: ")
"""Java says the first of another exception, py4j the second of one that has no other."""
_LINE = 300
_REMEDY = (
    "restore the checkpoint from a backup, or name a new checkpoint folder: alerts keep their ids, matches are counted "
    "again"
)


def reason_of(error: PySparkException | Py4JJavaError, checkpoint: str) -> str:
    """The line. checkpoint: URL of the stream's checkpoint, of which a file may be damaged."""
    text = str(error)
    if (unread := _UNREAD.search(text)) is not None:
        return (
            f"{unread[2]} cannot be read ({unread[1]}): put a whole file in its place, or leave such files out with "
            "--skip-damaged"
        )
    said = text.partition(_PLAN)[0]
    trace = getattr(error, "_stackTrace", None) or ""
    folder = re.escape(checkpoint.partition("://")[2] or checkpoint)
    inside = re.search(folder + r"/[^\s,'\"()\[\]]*[^\s,'\"()\[\].:;]", said)
    place = inside[0] if inside is not None else f"{checkpoint}/state" if _STATE in said else None
    if any(mark in said for mark in _SHARED):
        return (
            f"{place or checkpoint}: another stream goes on from this checkpoint, or its files were replaced: "
            f"let one stream use it; if there is no other, {_REMEDY}"
        )
    last = _last_cause(trace) or _last_cause(said)
    if OUT_OF_REACH.search(last) or OUT_OF_REACH.search(said):
        reason = _first_line(last if OUT_OF_REACH.search(last) else said)
        return f"{place or checkpoint}: its file system does not answer ({reason}): see to that"
    if _FULL.search(last) or _FULL.search(said):
        return f"{place or checkpoint}: {_first_line(last or said)}: make room"
    place = place or _read_by(last, checkpoint)
    if place is not None:
        return f"{place} is damaged or missing ({_first_line(last or said)}): {_REMEDY}"
    if isinstance(error, Py4JJavaError) and last:
        return _first_line(last)
    lines = [line for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "Error:" in line and not line.startswith(("\t", " "))]
    return (told or lines or ["no reason given"])[0]


def _last_cause(text: str) -> str:
    """The last cause that is told, with its stack; empty when there is none."""
    return next((text.rpartition(mark)[2] for mark in _CAUSES if mark in text), "")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:_LINE]


def _read_by(cause: str, checkpoint: str) -> str | None:
    """What of the checkpoint was being read, by the innermost of Spark's methods; None: an error, or elsewhere."""
    if _first_line(cause).partition(":")[0].endswith("Error") or (frame := _FRAME.search(cause)) is None:
        return None
    return next((f"{checkpoint}{files}" for method, files in _FILES_OF.items() if method in frame[1]), None)


__all__ = ["reason_of"]
