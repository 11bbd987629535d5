"""Drawn histories of jobs as Hadoop writes them, and what docs/heuristics.md says of each, by sums over what was drawn.

Shares nothing with the collectors and the heuristics but names.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.collectors import histories
from tests.collectors.histories import T0, record

MIB, MINUTE_MS, HOUR_MS = 1 << 20, 60_000, 3_600_000
FILES = "org.apache.hadoop.mapreduce.FileSystemCounter"
NUMBERS = (1, 2, 9, 10, 11, 49, 50, 51, 100, 101)
RUNS_MS = (0, 1, 59_999, MINUTE_MS, 2 * MINUTE_MS, 4 * MINUTE_MS, 5 * MINUTE_MS, 10 * MINUTE_MS, 16 * MINUTE_MS)
RUNS_MS = (*RUNS_MS, 31 * MINUTE_MS, 121 * MINUTE_MS)


@dataclass
class Attempt:
    """What a history says of an attempt; times from T0."""

    task: int
    number: int
    is_map: bool
    status: str
    start_ms: int
    run_ms: int
    shuffle_ms: int = 0
    sort_ms: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)

    @property
    def end_ms(self) -> int:
        """When it ended."""
        return self.start_ms + self.run_ms

    def id(self, job_id: str) -> str:
        """Its id."""
        kind = "m" if self.is_map else "r"
        return f"attempt{job_id.removeprefix('job')}_{kind}_{self.task:06d}_{self.number}"


@dataclass
class DrawnJob:
    """`memory_mb`: of the containers of maps and of reducers, None where the configuration does not say."""

    job_id: str
    attempts: list[Attempt]
    status: str
    user: str
    queue: str
    memory_mb: tuple[int | None, int | None]
    has_conf: bool
    block_bytes: int | None

    def tasks(self, *, is_map: bool) -> list[Attempt]:
        """Each task by the attempt that succeeded last, else by the one that failed, or was killed, first; of several
        that ended at once by the later, or else the earlier, number."""
        found = []
        own = [attempt for attempt in self.attempts if attempt.is_map is is_map]
        for task in sorted({attempt.task for attempt in own}):
            of_task = [attempt for attempt in own if attempt.task == task]
            done = [attempt for attempt in of_task if attempt.status == "SUCCEEDED"]
            if done:
                found.append(max(done, key=lambda attempt: (attempt.end_ms, attempt.number)))
            else:
                found.append(min(of_task, key=lambda attempt: (attempt.end_ms, attempt.number)))
        return found

    def history(self) -> bytes:
        """Its .jhist file."""
        n_of = [len({a.task for a in self.attempts if a.is_map is is_map}) for is_map in (True, False)]
        lines = histories.start_records(self.job_id, *n_of)
        lines = [line.replace('"userName":"ann"', f'"userName":"{self.user}"') for line in lines]
        lines = [line.replace('{"string":"etl"}', f'{{"string":"{self.queue}"}}') for line in lines]
        for attempt in self.attempts:
            lines += _records(self.job_id, attempt)
        end = {"jobid": self.job_id, "finishTime": T0 + self.end_ms, "finishedMaps": n_of[0]}
        if self.status == "SUCCEEDED":
            lines.append(record("JOB_FINISHED", "JobFinished", **end))
        else:
            lines.append(
                record(f"JOB_{self.status}", "JobUnsuccessfulCompletion", jobStatus=self.status, diagnostics="", **end)
            )
        return histories.history(lines)

    @property
    def end_ms(self) -> int:
        """After the last of its attempts."""
        return max([a.end_ms for a in self.attempts], default=6_000) + 500

    def conf(self) -> str:
        """Its configuration."""
        values: dict[str, int] = {}
        for name, mb in zip(("map", "reduce"), self.memory_mb, strict=True):
            if mb is not None:
                values[f"mapreduce.{name}.memory.mb"] = mb
        if self.block_bytes is not None:
            values["dfs.blocksize"] = self.block_bytes
        made = "".join(f"<property><name>{n}</name><value>{v}</value></property>" for n, v in values.items())
        return f"<configuration>{made}</configuration>"


def drawn_job(draw: random.Random, number: int) -> DrawnJob:
    """A job of few or many tasks; attempts that fail, are killed, race each other; none, or maps alone."""
    scale = draw.choice(RUNS_MS)
    attempts: list[Attempt] = []
    n_maps, n_reduces = draw.choice((0, *NUMBERS)), draw.choice((0, 0, *NUMBERS[:7]))
    for is_map, n_tasks in ((True, n_maps), (False, n_reduces)):
        size = draw.choice((0, 1, 10 * MIB, 64 * MIB, 3 << 30))
        for task in range(n_tasks):
            attempts += _attempts(draw, task, scale, size, is_map=is_map)
    status = draw.choice(("SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "FAILED", "KILLED"))
    memory: tuple[int | None, int | None] = (
        draw.choice((512, 1024, 2252, 2253, 3072, 4096, 5120, 8192)),
        draw.choice((1024, 2253, 4096, 6144)),
    )
    user, queue = draw.choice(("ann", "bob")), draw.choice(("etl", "adhoc"))
    block = draw.choice((None, 64 * MIB, 128 * MIB))
    return DrawnJob(
        f"job_1700000000000_{number:04d}", attempts, status, user, queue, memory, draw.random() < 0.9, block
    )


def _attempts(draw: random.Random, task: int, scale: int, size: int, *, is_map: bool) -> list[Attempt]:
    fates = draw.choice(
        (["S"],) * 8 + (["F", "S"], ["K", "S"], ["S", "K"], ["F", "F"], ["S", "S"], ["F", "K", "S"], ["K"])
    )
    found, start_ms = [], 6_000 + draw.randrange(5_000)
    for number, fate in enumerate(fates):
        run_ms = draw.choice((scale, scale, scale, scale + draw.randrange(1_000), 3 * scale, scale // 9))
        status = {"S": "SUCCEEDED", "F": "FAILED", "K": "KILLED"}[fate]
        attempt = Attempt(task, number, is_map, status, start_ms + number * draw.choice((0, 1_000)), run_ms)
        cpu_ms = max(1, run_ms) * draw.choice((1, 2))
        attempt.counters = {
            "CPU_MILLISECONDS": cpu_ms,
            "GC_TIME_MILLIS": round(cpu_ms * draw.choice((0, 0.005, 0.01, 0.02, 0.03, 0.2))),
            "PHYSICAL_MEMORY_BYTES": draw.choice((100, 300, 614, 900)) * MIB,
            "SPILLED_RECORDS": draw.choice((0, 201, 220, 250, 400)),
        }  # fmt: skip
        if is_map:
            attempt.counters["MAP_OUTPUT_RECORDS"] = 100
            attempt.files = {"HDFS_BYTES_READ": size * draw.choice((1, 1, 1, 4)), "FILE_BYTES_READ": 7}
            if draw.random() < 0.3:
                attempt.files["S3A_BYTES_READ"] = draw.choice((0, MIB))
        else:
            attempt.counters["REDUCE_SHUFFLE_BYTES"] = size * draw.choice((1, 1, 1, 30))
            attempt.shuffle_ms = draw.choice((0, run_ms // 2, run_ms // 3))
            attempt.sort_ms = draw.choice((0, (run_ms - attempt.shuffle_ms) // 2))
        found.append(attempt)
    return found


def _records(job_id: str, attempt: Attempt) -> list[str]:
    name = attempt.id(job_id)
    task_id = "task" + name[len("attempt") : name.rindex("_")]
    kind = "MAP" if attempt.is_map else "REDUCE"
    counters = histories.counters(**attempt.counters)
    if attempt.files:
        counts = [{"name": name, "value": value} for name, value in attempt.files.items()]
        counters["groups"].append({"name": FILES, "counts": counts})
    end_ms = T0 + attempt.end_ms
    whose: dict[str, Any] = {"taskid": task_id, "taskType": kind, "attemptId": name}
    lines = [
        record(
            f"{kind}_ATTEMPT_STARTED",
            "TaskAttemptStarted",
            **whose,
            startTime=T0 + attempt.start_ms,
            trackerName="node2",
        )
    ]
    ended = {**whose, "finishTime": end_ms, "hostname": "node2", "rackname": "/r1", "counters": counters}
    if attempt.status != "SUCCEEDED":
        lines.append(
            record(
                f"{kind}_ATTEMPT_{attempt.status}", "TaskAttemptUnsuccessfulCompletion", status=attempt.status,
                error="", **ended,
            )
        )  # fmt: skip
    elif attempt.is_map:
        lines.append(
            record(
                "MAP_ATTEMPT_FINISHED", "MapAttemptFinished", taskStatus="SUCCEEDED", state="map", mapFinishTime=end_ms,
                **ended,
            )
        )  # fmt: skip
    else:
        shuffled_ms = T0 + attempt.start_ms + attempt.shuffle_ms
        lines.append(
            record(
                "REDUCE_ATTEMPT_FINISHED", "ReduceAttemptFinished", taskStatus="SUCCEEDED", state="reduce",
                shuffleFinishTime=shuffled_ms, sortFinishTime=shuffled_ms + attempt.sort_ms, **ended,
            )
        )  # fmt: skip
    return lines


# ----------------------------------------------------------------- by definition


def rising(value: float, *limits: float) -> int:
    """0 for none to 4 for critical."""
    return sum(value >= limit for limit in limits)


def falling(value: float, *limits: float) -> int:
    """The same where less is worse."""
    return sum(value <= limit for limit in limits)


def severities(job: DrawnJob) -> Mapping[str, tuple[int | None, int | None]]:
    """By heuristic severity and score, None for what is not known (a score then is 0), of a job that succeeded."""
    found: dict[str, tuple[int | None, int | None]] = {}
    maps, reduces = job.tasks(is_map=True), job.tasks(is_map=False)
    for kind, tasks in (("mapper", maps), ("reducer", reduces)):
        minutes = statistics.fmean(task.run_ms for task in tasks) / MINUTE_MS if tasks else None
        n = len(tasks)
        if minutes is None:
            continue
        cpu = sum(task.counters["CPU_MILLISECONDS"] for task in tasks)
        gc = sum(task.counters["GC_TIME_MILLIS"] for task in tasks) / cpu
        found[f"{kind}-gc"] = _scored(min(rising(gc, 0.01, 0.02, 0.03, 0.04), rising(minutes, 5, 10, 12, 15)), n)
        short = min(falling(minutes, 10, 4, 2, 1), rising(n, 50, 101, 500, 1000))
        found[f"{kind}-time"] = _scored(max(short, rising(minutes, 15, 30, 60, 120)), n)
        found[f"{kind}-skew"] = _scored(_skew(job, tasks), n)
        mb = job.memory_mb[kind == "reducer"]
        if job.has_conf and mb is not None:
            peak = max(task.counters["PHYSICAL_MEMORY_BYTES"] for task in tasks) / MIB
            severity = min(falling(peak / mb, 0.6, 0.5, 0.4, 0.3), rising(mb / 2048, 1.1, 1.5, 2, 2.5))
            found[f"{kind}-memory"] = _scored(severity, n)
        else:
            found[f"{kind}-memory"] = None, 0
    if maps:
        ran = [task for task in maps if task.run_ms > 0 and _bytes(task)]
        if not ran:
            found["mapper-speed"] = None, 0
        else:
            speeds = [_bytes(task) / (task.run_ms / 1000) / MIB for task in ran]
            slow = falling(statistics.median(speeds), 50, 25, 12.5, 3.125)
            long = rising(statistics.median(task.run_ms for task in ran) / MINUTE_MS, 5, 10, 15, 30)
            found["mapper-speed"] = _scored(min(slow, long), len(maps))
        ratio = sum(task.counters["SPILLED_RECORDS"] for task in maps) / (100 * len(maps))
        found["mapper-spill"] = _scored(
            min(rising(ratio, 2.01, 2.2, 2.5, 3), rising(len(maps), 50, 100, 500, 1000)), len(maps)
        )
    done = [task for task in reduces if task.status == "SUCCEEDED"]
    if done:
        code = statistics.fmean(task.run_ms - task.shuffle_ms - task.sort_ms for task in done)
        worst = 0
        for mean in (statistics.fmean(t.shuffle_ms for t in done), statistics.fmean(t.sort_ms for t in done)):
            share = 2 * mean / code if code else (float("inf") if mean else 0.0)
            worst = max(worst, min(rising(mean / MINUTE_MS, 1, 5, 10, 30), rising(share, 1, 2, 4, 8)))
        found["shuffle-sort"] = _scored(worst, len(reduces))
    return found


def _scored(severity: int, n_tasks: int) -> tuple[int, int]:
    return severity, severity * n_tasks if severity >= 2 else 0


def _bytes(task: Attempt) -> int:
    """Read from other file systems than the local one, or shuffled."""
    if task.is_map:
        return sum(value for name, value in task.files.items() if not name.startswith("FILE_"))
    return task.counters["REDUCE_SHUFFLE_BYTES"]


def _skew(job: DrawnJob, tasks: Sequence[Attempt]) -> int:
    block = (job.block_bytes if job.has_conf else None) or 64 * MIB
    small, large = cut([_bytes(task) for task in tasks])
    by_bytes = 0
    if large:
        mean = statistics.fmean(large)
        size = rising(mean / block, 1 / 8, 1 / 4, 1 / 2, 1)
        by_bytes = min(_deviation(small, large), size, rising(len(small), 10, 50, 100, 200))
    small, large = cut([task.run_ms for task in tasks])
    # Run times are compared in seconds: a second is the least that the smaller mean counts as.
    by_time = min(_deviation(small, large, 1_000), rising(len(small), 10, 50, 100, 200)) if large else 0
    return max(by_bytes, by_time)


def _deviation(small: Sequence[int], large: Sequence[int], least: float = 1) -> int:
    low, high = statistics.fmean(small), statistics.fmean(large)
    return rising((high - low) / max(low, least), 2, 4, 8, 16)


def cut(values: Sequence[int]) -> tuple[list[int], list[int]]:
    """The two groups with the least squares within both."""
    ordered = sorted(values)
    places = [k for k, (a, b) in enumerate(pairwise(ordered), start=1) if a != b]
    if not places:
        return ordered, []

    def squares(part: Sequence[int]) -> float:
        mean = statistics.fmean(part)
        return sum((value - mean) ** 2 for value in part)

    best = min(places, key=lambda k: squares(ordered[:k]) + squares(ordered[k:]))
    return ordered[:best], ordered[best:]


def memory(job: DrawnJob) -> tuple[float, float, float]:
    """Held and wasted GiB hours, and lost hours: of all attempts, of what those that succeeded did not use and all of
    the others, and the life times of these."""
    held = wasted = lost = 0.0
    for attempt in job.attempts:
        mb = job.memory_mb[not attempt.is_map]
        assert mb is not None
        hours = attempt.run_ms / HOUR_MS
        held += mb / 1024 * hours
        if attempt.status == "SUCCEEDED":
            wasted += max(0.0, mb / 1024 - attempt.counters["PHYSICAL_MEMORY_BYTES"] / (1 << 30)) * hours
        else:
            wasted += mb / 1024 * hours
            lost += hours
    return held, wasted, lost


__all__ = ["Attempt", "DrawnJob", "drawn_job", "memory", "severities"]
