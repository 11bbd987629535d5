"""Files that come byte by byte, or as a line without end, beside others."""

from __future__ import annotations

import random
from pathlib import Path

from collectors.base import Collected
from tests.torture.campaigns import poison
from tests.torture.dripping.tally import POLL_S, Tally

N_DRIPS = 8
WRITTEN = (
    "container logs", "daemon logs", "HDFS audit logs", "job client logs", "Spark event logs", "job history", "RRDs",
)  # fmt: skip
"""Files that somebody writes while they are followed; kinds of the campaign `poison`."""


def writers(tally: Tally, name: str, chosen: random.Random, folder: Path) -> None:
    """Polls of files of a kind, one of which comes byte by byte and one of which is a line without end.

    What the third tells is what it tells alone.
    """
    kind = poison.KINDS[name]
    right = kind.right(chosen)

    def put(root: Path, file: int, data: bytes) -> None:
        path = root.joinpath(*kind.place(file))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as growing:
            growing.write(data)

    alone, beside = folder / "alone", folder / "beside"
    for root in (alone, beside):
        put(root, 0, right)
    expected, found = set[str](), set[str]()
    by_itself, reader = kind.reader(alone), kind.reader(beside)
    end = chosen.randrange(len(right))
    for number in range(N_DRIPS):
        now_ms = poison.NOW_MS + 1_000 * number
        put(beside, 1, right[end : end + 1] if number else right[:end])
        end += 1
        put(beside, 2, right[:20] + b"x" * (1 << 20) if number == 0 else b"x" * (1 << 20))
        expected |= _ids(by_itself.poll(now_ms))
        with tally.timed(f"poll of {name}", "is written byte by byte", POLL_S):
            polled = reader.poll(now_ms)
        found |= _ids(polled)
    if not expected or expected - found:
        tally.failures.append(
            f"{name} beside a file that drips: {len(expected - found)} of {len(expected)} are missing"
        )


def _ids(polled: Collected) -> set[str]:
    batches = [polled.events, *(history.events for history in polled.finished)]
    return {str(found) for batch in batches if len(batch) for found in batch.strings("event_id").to_pylist()}
