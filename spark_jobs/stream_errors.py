"""Why a stream failed, of all that Spark says: one line with the place, what was found and what to do."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException

_UNREAD = re.compile(r"\[FAILED_READ_FILE\.(\w+)\] Encountered error while reading file (\S+?)\.?\s")
_PLAN = "=== Streaming Query ==="
"""What follows names the checkpoint whatever has happened."""
_STATE = "CANNOT_LOAD_STATE_STORE"
_SHARED = ("CONCURRENT_STREAM_LOG_UPDATE", "concurrently using")
"""So Spark says it where a file of the checkpoint that it wants to write is there already."""
_LINE = 300
_REMEDY = (
    "restore the checkpoint from a backup, or name a new checkpoint folder: alerts keep their ids, matches are counted "
    "again"
)


def reason_of(error: PySparkException, checkpoint: str) -> str:
    """The line. checkpoint: URL of the stream's checkpoint, of which a file may be damaged."""
    text = str(error)
    if (unread := _UNREAD.search(text)) is not None:
        return (
            f"{unread[2]} cannot be read ({unread[1]}): put a whole file in its place, or leave such files out with "
            "--skip-damaged"
        )
    said = text.partition(_PLAN)[0]
    folder = re.escape(checkpoint.partition("://")[2] or checkpoint)
    inside = re.search(folder + r"/[^\s,'\"()\[\]]*[^\s,'\"()\[\].:;]", said)
    place = inside[0] if inside is not None else f"{checkpoint}/state" if _STATE in said else None
    if any(mark in said for mark in _SHARED):
        return (
            f"{place or checkpoint}: another stream goes on from this checkpoint, or its files were replaced: "
            f"let one stream use it; if there is no other, {_REMEDY}"
        )
    if place is not None:
        return f"{place} is damaged or missing ({_innermost(said)}): {_REMEDY}"
    lines = [line for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "Error:" in line and not line.startswith(("\t", " "))]
    return (told or lines or ["no reason given"])[0]


def _innermost(said: str) -> str:
    """The last cause that has words, else the first line."""
    causes = [line for line in said.splitlines() if line.startswith("Caused by: ")]
    return (causes[-1].removeprefix("Caused by: ") if causes else said.strip().partition("\n")[0])[:_LINE]


__all__ = ["reason_of"]
