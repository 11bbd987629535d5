"""Reads a recording by simple means of its own, so that its ground truth can be checked without the collectors."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import pstdev
from typing import Any

import rrdtool

from deploy.minicluster.errors import RecordingError

_STAMP = r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})"
_FREED = re.compile(_STAMP + r" .*: (\S+):\d+ freed by fetcher#\d+ in (\d+)ms")
_FETCHED = re.compile(_STAMP + r" .*about to shuffle output of map (attempt_\S+) decomp: \d+ len: (\d+) to")


@dataclass(frozen=True)
class Attempt:
    """A finished task attempt of the history; times in ms since the epoch."""

    attempt_id: str
    is_map: bool
    host: str
    start_ms: int
    finish_ms: int
    output_bytes: int

    @property
    def period_ms(self) -> int:
        """How long it took."""
        return self.finish_ms - self.start_ms

    @property
    def task_id(self) -> str:
        """attempt_1_0001_m_000002_0 -> task_1_0001_m_000002."""
        return self.attempt_id.rpartition("_")[0].replace("attempt_", "task_", 1)


def load_attempts(folder: Path, job_id: str) -> list[Attempt]:
    """Successful attempts of a job from its .jhist. Raises RecordingError when there is none."""
    paths = sorted((folder / "history").glob(f"{job_id}-*.jhist"))
    if not paths:
        raise RecordingError(f"{folder}/history has no .jhist of {job_id}")
    starts: dict[str, int] = {}
    attempts = []
    for line in paths[0].read_text(encoding="utf-8").splitlines():
        if not line.startswith('{"type":"') or '"event":' not in line:
            continue  # the Avro header and blank lines
        record = json.loads(line)
        event: dict[str, Any] = next(iter(record["event"].values()))
        if record["type"] in {"MAP_ATTEMPT_STARTED", "REDUCE_ATTEMPT_STARTED"}:
            starts[event["attemptId"]] = event["startTime"]
        elif record["type"] in {"MAP_ATTEMPT_FINISHED", "REDUCE_ATTEMPT_FINISHED"}:
            attempt_id = event["attemptId"]
            is_map = record["type"].startswith("MAP")
            attempts.append(
                Attempt(
                    attempt_id, is_map, event["hostname"], starts[attempt_id], event["finishTime"], output_bytes(event)
                )
            )
    return attempts


def output_bytes(event: dict[str, Any]) -> int:
    """MAP_OUTPUT_MATERIALIZED_BYTES of a finished attempt, 0 when it has none."""
    for group in event["counters"]["groups"]:
        for count in group["counts"]:
            if count["name"] == "MAP_OUTPUT_MATERIALIZED_BYTES":
                return int(count["value"])
    return 0


def log_time_ms(stamp: str) -> int:
    """2026-01-31 12:00:00,123 in UTC -> ms since the epoch."""
    moment = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def shuffle_lines(folder: Path, job_id: str) -> list[str]:
    """All lines of the job's shuffle logs."""
    application = job_id.replace("job_", "application_", 1)
    lines: list[str] = []
    for path in sorted((folder / "userlogs").glob(f"*/{application}/*/syslog.shuffle")):
        lines += path.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines


def fetch_periods(lines: list[str]) -> dict[str, list[int]]:
    """Source host -> how long fetchers were busy with it, in ms."""
    periods: dict[str, list[int]] = {}
    for line in lines:
        if match := _FREED.match(line):
            periods.setdefault(match.group(2), []).append(int(match.group(3)))
    return periods


def queued_bytes(attempts: list[Attempt], lines: list[str]) -> list[tuple[int, int]]:
    """(time in ms, bytes of map output that are waiting), one for each change."""
    changes = [(attempt.finish_ms, attempt.output_bytes) for attempt in attempts if attempt.is_map]
    for line in lines:
        if match := _FETCHED.match(line):
            changes.append((log_time_ms(match.group(1)), -int(match.group(3))))
    total, curve = 0, []
    for time_ms, change in sorted(changes):
        total += change
        curve.append((time_ms, total))
    return curve


def longest_above(curve: list[tuple[int, int]], threshold: int) -> int:
    """The longest time in ms during which the curve stayed at or above `threshold`."""
    longest, since = 0, None
    for time_ms, value in curve:
        if since is not None:
            longest = max(longest, time_ms - since)
        if value < threshold:
            since = None
        elif since is None:
            since = time_ms
    return longest


def load_metric(folder: Path, manifest: dict[str, Any], metric: str) -> dict[int, dict[str, float]]:
    """Sample time in ms -> host -> value, from the RRDs; unknown samples are left out."""
    samples: dict[int, dict[str, float]] = {}
    for host in manifest["hosts"]:
        path = folder / "rrds" / manifest["cluster"] / host["name"] / f"{metric}.rrd"
        start_s, end_s = manifest["started_ms"] // 1000, manifest["ended_ms"] // 1000
        try:
            (first_s, _, step_s), _, rows = rrdtool.fetch([str(path), "AVERAGE", "-s", str(start_s), "-e", str(end_s)])
        except rrdtool.OperationalError as error:
            raise RecordingError(f"{path}: {error}") from error
        for number, (value,) in enumerate(rows, 1):
            if value is not None:
                samples.setdefault((first_s + number * step_s) * 1000, {})[host["name"]] = float(value)
    return samples


def deviations(samples: dict[int, dict[str, float]], from_ms: int, to_ms: int) -> list[float]:
    """Population standard deviation over the hosts, for each sample in a time."""
    return [pstdev(samples[t].values()) for t in sorted(samples) if from_ms <= t <= to_ms]


def unbalanced_steps(samples: dict[int, dict[str, float]], from_ms: int, to_ms: int, busy: float = 20.0) -> int:
    """Samples with between 20 % and 80 % of the hosts at or above `busy` percent."""
    n_unbalanced = 0
    for time_ms, values in samples.items():
        share = sum(value >= busy for value in values.values()) / len(values)
        n_unbalanced += from_ms <= time_ms <= to_ms and 0.2 <= share <= 0.8
    return n_unbalanced


def longest_rise(values: list[float], min_rise: float) -> int:
    """Length of the longest non-decreasing subsequence that ends at least `min_rise` above its start; 0 if none."""
    best = 0
    for first in range(len(values)):
        lengths: list[int] = []
        for last in range(first, len(values)):
            below = [lengths[k - first] for k in range(first, last) if values[k] <= values[last] and lengths[k - first]]
            length = 1 if last == first else (max(below) + 1 if below else 0)
            lengths.append(length)
            if length and values[last] - values[first] >= min_rise:
                best = max(best, length)
    return best
