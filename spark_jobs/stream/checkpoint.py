"""What the checkpoint folder says of the queries whose state it holds, beside Spark's own files.

Spark would go on with any state that has the right shape. Whether it is the state of these queries is looked at here.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.event_store.file_system import StoreFiles
from spark_jobs.session import SparkJobError

FORMAT = 1
FOLDER = "clustercep"
"""In the checkpoint: one file per start that changed something, the last one holds."""


@dataclass(frozen=True)
class StreamMeaning:
    """What a checkpoint belongs to."""

    stream_id: str
    """16 hex digits, of the checkpoint; micro-batches are counted under it."""
    n_buckets: int
    source: Mapping[str, Any]
    groups: Mapping[str, Any]
    """See `stream_groups.meaning`."""

    def to_json(self) -> str:
        """As the file has it."""
        content = {
            "format": FORMAT,
            "stream_id": self.stream_id,
            "n_buckets": self.n_buckets,
            "source": dict(self.source),
            "groups": dict(self.groups),
        }
        return json.dumps(content, indent=1, sort_keys=True)

    @property
    def queries(self) -> dict[str, tuple[str, str]]:
        """(Group, hash) by the name of each query and group it runs in."""
        return {
            f"{name}@{group}": (group, digest)
            for group, content in self.groups.items()
            for name, digest in content["queries"].items()
        }


def read_meaning(files: StoreFiles) -> StreamMeaning | None:
    """What the checkpoint holds, None for a new one; raises SparkJobError for a file that is not understood."""
    names = _names(files)
    if not names:
        if files.names("offsets"):
            raise SparkJobError(
                f"{files.url}: a checkpoint of Spark, but without {FOLDER}: not of this job; name another folder"
            )
        return None
    place = files.full(f"{FOLDER}/{names[-1]}")
    try:
        found = json.loads(files.read(f"{FOLDER}/{names[-1]}"))
        if found["format"] != FORMAT:
            raise SparkJobError(
                f"{place}: format {found['format']}; expected {FORMAT}: the checkpoint is of another version; name a "
                "new folder"
            )
        return StreamMeaning(found["stream_id"], found["n_buckets"], found["source"], found["groups"])
    except (KeyError, TypeError, ValueError) as error:
        raise SparkJobError(f"{place}: not what this job writes ({error}); name a new folder") from error


def write_meaning(files: StoreFiles, meaning: StreamMeaning) -> None:
    """From now on the checkpoint holds the state of these queries; raises SparkJobError when another job was first."""
    files.make_folder(FOLDER)
    name = f"{len(_names(files)):06d}.json"
    if not files.create_new(f"{FOLDER}/{name}", meaning.to_json().encode()):
        raise SparkJobError(f"{files.full(FOLDER)}/{name} is there already: another stream begins on this checkpoint")


def _names(files: StoreFiles) -> list[str]:
    return [name for name in files.names(FOLDER) if name.endswith(".json") and not name.startswith(".")]


def new_stream_id() -> str:
    """For a new checkpoint."""
    return secrets.token_hex(8)


def check(before: StreamMeaning, now: StreamMeaning, place: str, *, restart_queries: bool) -> list[str]:
    """What begins afresh, as lines for the log; raises SparkJobError for what cannot go on.

    Another source and another number of buckets are never taken over: the state would be that of other events.
    """
    if before.source != now.source:
        raise SparkJobError(
            f"{place}: the checkpoint is of the source {_shown(before.source)}, found {_shown(now.source)}; "
            "give that one, or name a new checkpoint folder"
        )
    if before.n_buckets != now.n_buckets:
        raise SparkJobError(
            f"{place}: the checkpoint has {before.n_buckets} buckets, found {now.n_buckets}; keys would go to buckets "
            f"that do not know them: give --buckets {before.n_buckets}, or name a new checkpoint folder"
        )
    lines = _changes(before, now)
    if lines and not restart_queries:
        raise SparkJobError(
            f"{place}: the queries are not those of the checkpoint:\n  " + "\n  ".join(lines) + "\n"
            "put them back, or let these begin afresh with --restart-queries (the others go on), or name a new "
            "checkpoint folder to begin afresh with all"
        )
    return lines


def last_watermark_ms(files: StoreFiles) -> int | None:
    """How far Spark's checkpoint says that event time has come, None for a new one."""
    numbers = [int(name) for name in files.names("offsets") if name.isdigit()]
    if not numbers:
        return None
    lines = files.read(f"offsets/{max(numbers)}").splitlines()
    try:
        watermark_ms = int(json.loads(lines[1])["batchWatermarkMs"])
    except (IndexError, KeyError, ValueError):
        return None
    return watermark_ms or None


def _changes(before: StreamMeaning, now: StreamMeaning) -> list[str]:
    lines = []
    old, new = before.queries, now.queries
    for key in sorted(old.keys() | new.keys()):
        name = key.partition("@")[0]
        where = f"by {group}" if (group := (new.get(key) or old[key])[0]) else "without a key"
        if key not in old:
            lines.append(f"{name} ({where}) is new: it begins with the recent events that are kept")
        elif key not in new:
            lines.append(f"{name} ({where}) is gone: its state is given up")
        elif old[key] != new[key]:
            lines.append(f"{name} ({where}) means something else: it begins with the recent events that are kept")
    return lines


def _shown(source: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in source.items())


__all__ = ["StreamMeaning", "check", "last_watermark_ms", "new_stream_id", "read_meaning", "write_meaning"]
