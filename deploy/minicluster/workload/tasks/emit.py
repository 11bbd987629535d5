"""Streaming mapper: every input line is a JSON object that says what to do.

sleep_s: seconds to wait; n_records, record_bytes: output after that; hot_key, hot_share: one key for this
share of the records; n_cold_keys: how many keys the others have; seed: of the random numbers;
fail_first: fail in the first attempt; fails_on: fail on the host of this name;
hog_first_mib: take so much memory in the first attempt;
truth: file that gets a line about a deliberate straggler.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

ALPHABET_BYTES = bytes(range(ord("0"), ord("9") + 1)) + bytes(range(ord("a"), ord("z") + 1))


def filler(generator: random.Random, n_bytes: int) -> str:
    """Text that does not compress to nothing."""
    return "".join(chr(ALPHABET_BYTES[byte % len(ALPHABET_BYTES)]) for byte in generator.randbytes(n_bytes))


def emit(task: dict[str, Any]) -> None:
    """Write the records of one task."""
    generator = random.Random(int(task.get("seed", 0)))  # noqa: S311 - test data
    n_bytes = int(task.get("record_bytes", 10))
    text = filler(generator, 2 * n_bytes)
    for number in range(int(task.get("n_records", 1))):
        if generator.random() < float(task.get("hot_share", 0)):
            key = str(task["hot_key"])
        else:
            key = f"key-{generator.randrange(int(task.get('n_cold_keys', 100))):05d}"
        start = (number * 7919) % n_bytes
        sys.stdout.write(f"{key}\t{text[start : start + n_bytes]}\n")


def write_truth(path: str, started_ms: int) -> None:
    """Tell who straggled, from when to when and where."""
    line = {
        "attempt_id": os.environ["mapreduce_task_attempt_id"],  # noqa: SIM112 - Hadoop's spelling
        "host": os.environ.get("NM_HOST", ""),
        "from_ms": started_ms,
        "to_ms": time.time_ns() // 1_000_000,
    }
    with Path(path).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


def is_first() -> bool:
    """Whether this is the first attempt of its task."""
    return os.environ["mapreduce_task_attempt_id"].endswith("_0")  # noqa: SIM112 - Hadoop's spelling


def main() -> None:
    """Do what every input line says."""
    for line in sys.stdin:
        task = json.loads(line)
        if task.get("fail_first") and is_first():
            time.sleep(3)
            sys.exit("this attempt fails on purpose")
        if "fails_on" in task and task["fails_on"] == os.environ["NM_HOST"]:
            sys.exit("attempts fail on this host on purpose")
        hog = b"x" * (int(task.get("hog_first_mib", 0)) << 20 if is_first() else 0)
        started_ms = time.time_ns() // 1_000_000
        time.sleep(float(task.get("sleep_s", 0)))
        emit(task)
        del hog
        if task.get("truth"):
            write_truth(str(task["truth"]), started_ms)


if __name__ == "__main__":
    main()
