"""Streaming reducer: waits for a while and for every record, and counts the records of each key.

    consume.py BASE_SLEEP_S SLEEP_PER_RECORD_S [HOT_KEY TRUTH_FILE]

With HOT_KEY the reducer that sees this key writes a line about itself to TRUTH_FILE.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

RECORDS_PER_SLEEP = 20


def main() -> None:
    """Count, slowly."""
    base_s, per_record_s = float(sys.argv[1]), float(sys.argv[2])
    hot_key, truth = (sys.argv[3], sys.argv[4]) if len(sys.argv) > 3 else ("", "")
    started_ms = time.time_ns() // 1_000_000
    time.sleep(base_s)
    counts: dict[str, int] = {}
    n_records = 0
    for line in sys.stdin:
        key = line.partition("\t")[0]
        counts[key] = counts.get(key, 0) + 1
        n_records += 1
        if per_record_s > 0 and n_records % RECORDS_PER_SLEEP == 0:
            time.sleep(per_record_s * RECORDS_PER_SLEEP)
    for key, count in sorted(counts.items()):
        sys.stdout.write(f"{key}\t{count}\n")
    if hot_key in counts and truth:
        line_out = {
            "attempt_id": os.environ["mapreduce_task_attempt_id"],  # noqa: SIM112 - Hadoop's spelling
            "host": os.environ.get("NM_HOST", ""),
            "from_ms": started_ms,
            "to_ms": time.time_ns() // 1_000_000,
            "n_records": n_records,
        }
        with Path(truth).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line_out) + "\n")


if __name__ == "__main__":
    main()
