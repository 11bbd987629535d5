"""A log that is read at once, in bulk."""

from __future__ import annotations

from collections.abc import Mapping

from collectors.base import ProblemLog
from collectors.spark.application import ApplicationReader, SparkApplication
from collectors.spark.codecs import DamagedError, codec_of
from collectors.spark.lines import MAX_LINE_BYTES, LinePosition, read_lines
from engine.events import EventBatch


def read_whole(
    place: str,
    data: bytes,
    application: SparkApplication,
    problems: ProblemLog,
    source_rank: int,
    hosts: Mapping[str, str],
    max_bytes: int,
) -> EventBatch:
    """What a file tells, of `max_bytes` of its text; parts of a rolled log one after another with one `application`."""
    reader, position = ApplicationReader(place, application, problems, source_rank, hosts), LinePosition()
    try:
        read = read_lines(codec_of(data), data, position, reader.take, is_over=True, max_bytes=max_bytes)
    except DamagedError as error:
        message = f"{error}; what stands before is used"
        problems.report(f"{place}:{position.n_lines + 1}", "damaged", message)
        return reader.rows.take_batch()
    place = f"{place}:{position.n_lines + 1}"
    if read.n_oversized:
        message = f"{read.n_oversized} line(s) before it longer than {MAX_LINE_BYTES:,} bytes; skipped"
        problems.report(place, "oversized_record", message)
    if not read.is_at_end:
        message = f"it unpacks to more than {max_bytes:,} bytes; what is behind them is not read"
        problems.report(place, "oversized", message)
    elif read.n_left or (position.block < len(data) and not position.skip):
        problems.report(place, "truncated", "it breaks off in the middle of a line or a block; the rest is used")
    return reader.rows.take_batch()


__all__ = ["read_whole"]
