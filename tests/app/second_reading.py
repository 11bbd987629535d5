"""The recording read a second time, by code of its own: which alerts its files call for, of which hosts and numbers.

Nothing here comes from `collectors` or `engine`. History is read as JSON, logs line by line as Hadoop prints them, the
round-robin databases by rrdtool, REST answers as they were recorded; what the shipped queries look for is computed anew
from their comments, with the thresholds as arguments.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import statistics
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

STEP_MS = 5_000
"""Of the recorded databases, and of the polls of the replay."""

_FETCHED = re.compile(r"^(\S+ \S+) INFO \[(fetcher#\d+)\] .*: Read \d+ bytes from map-output for (attempt_\w+)")
_SIZE = re.compile(r"\[(fetcher#\d+)\] .*about to shuffle output of map (attempt_\w+) decomp: \d+ len: (\d+) ")
_FREED = re.compile(r"^(\S+ \S+) INFO \[(fetcher#\d+)\] .*: (\S+):\d+ freed by fetcher#\d+ in (\d+)ms")
_PAUSE = re.compile(r"^(\S+ \S+) WARN \S+JvmPauseMonitor: Detected pause .* approximately (\d+)ms")
_REDUCER = re.compile(r"EventFetcher: (attempt_\w+_r_\w+) Thread started")


@dataclass(frozen=True)
class Attempt:
    """As job history tells it."""

    attempt_id: str
    job_id: str
    host: str
    start_ms: int
    end_ms: int
    output_bytes: int | None = None


@dataclass(frozen=True)
class Fetch:
    """A reducer's fetch of one map output."""

    attempt_id: str
    source_host: str
    end_ms: int
    period_ms: int
    bytes: int


@dataclass(frozen=True)
class Called:
    """An alert that the recording calls for."""

    query: str
    subject: str
    """The job or the attempt that it is about."""
    hosts: tuple[str, ...]
    """Suspects; the first one is named first."""
    numbers: dict[str, float]
    """RETURN values that it shows."""
    onset_ms: tuple[int, int]
    """When the condition began to hold, as exactly as the samples tell: both ends included."""
    last_ms: int
    """When it held last."""


@dataclass
class SecondReading:
    """What the files of an unpacked recording say."""

    folder: Path
    manifest: dict[str, Any] = field(init=False)
    maps: list[Attempt] = field(init=False)
    reducers: list[Attempt] = field(init=False)
    fetches: list[Fetch] = field(init=False)
    load: dict[int, dict[str, float]] = field(init=False)
    """End of the step in ms -> host -> value."""
    answers: list[tuple[int, str, str, int]] = field(init=False)
    """(answered, attempt, state, start) of every recorded answer about attempts of a running job."""
    lists: list[tuple[int, dict[str, str]]] = field(init=False)
    """(answered, application -> state) of every recorded list of applications."""

    def __post_init__(self) -> None:
        self.manifest = yaml.safe_load((self.folder / "manifest.yaml").read_text(encoding="utf-8"))
        self.maps, self.reducers = [], []
        for path in sorted((self.folder / "history").glob("*.jhist")):
            self._read_history(path)
        self.fetches = [f for path in sorted(self.folder.rglob("syslog.shuffle")) for f in _fetches(path)]
        self.load = self._read_load("cpu_user")
        self.answers, self.lists = [], []
        self._read_answers()

    # ------------------------------------------------------------------ what is called for

    def called(self, max_queued_bytes: int) -> list[Called]:
        """All alerts, with the shipped thresholds but for that of queued data."""
        return [
            *self.stragglers("mapper-straggler-running", self.maps, n_least=3),
            *self.stragglers("reducer-straggler-running", self.reducers, n_least=2),
            *self.slow_fetches(),
            *self.queued(max_queued_bytes),
            *self.drifting(),
            *self.unbalanced(),
            *self.pauses(),
        ]

    def pauses(self) -> Iterator[Called]:
        """A NodeManager that stood still for ten seconds; no two of one host lie close together."""
        for path in sorted((self.folder / "daemons").glob("nodemanager-*.log")):
            host = path.stem.removeprefix("nodemanager-")
            for found in filter(None, map(_PAUSE.match, path.read_text(encoding="utf-8").splitlines())):
                t_ms, pause_ms = _ms(found[1]), int(found[2])
                if pause_ms >= 10_000:
                    yield Called("daemon-paused", host, (host,), {"pause_ms": pause_ms}, (t_ms, t_ms), t_ms)

    def stragglers(self, query: str, attempts: list[Attempt], n_least: int) -> Iterator[Called]:
        """Running for a minute and for three times the average of those that had finished."""
        for attempt in attempts:
            held = []
            for t_ms, started_ms in self._samples(attempt.attempt_id):
                done = [a.end_ms - a.start_ms for a in attempts if a.job_id == attempt.job_id and a.end_ms < t_ms]
                elapsed_ms = t_ms - started_ms
                if len(done) >= n_least and elapsed_ms >= 60_000 and elapsed_ms > 3 * statistics.fmean(done):
                    numbers = {"elapsed_ms": elapsed_ms, "n_finished": len(done)}
                    held.append((t_ms, numbers | {"avg_finished_ms": statistics.fmean(done)}))
            if held:
                onset_ms, last_ms = held[0][0], held[-1][0]
                yield Called(query, attempt.attempt_id, (attempt.host,), held[-1][1], (onset_ms, onset_ms), last_ms)

    def slow_fetches(self) -> Iterator[Called]:
        """Three seconds and three times the average of at least three fetches before it."""
        for attempt in self.reducers:
            own = sorted((f for f in self.fetches if f.attempt_id == attempt.attempt_id), key=lambda f: f.end_ms)
            slow = [
                (f, statistics.fmean(g.period_ms for g in own[:i]))
                for i, f in enumerate(own)
                if i >= 3 and f.period_ms >= 3_000 and f.period_ms > 3 * statistics.fmean(g.period_ms for g in own[:i])
            ]
            if slow:
                worst, before = max(slow, key=lambda found: found[0].period_ms)
                numbers = {"period_ms": worst.period_ms, "bytes": worst.bytes, "avg_before_ms": before}
                onset_ms, last_ms = slow[0][0].end_ms, slow[-1][0].end_ms
                yield Called(
                    "data-pull-straggler", attempt.attempt_id, (worst.source_host,), numbers,
                    (onset_ms, onset_ms), last_ms,
                )  # fmt: skip

    def queued(self, threshold: int) -> Iterator[Called]:
        """Map output that waits: what maps have written less what reducers have fetched."""
        for job_id in sorted({a.job_id for a in self.maps}):
            has_reducers = any(a.job_id == job_id for a in self.reducers)
            written = [(a.end_ms, a.output_bytes or 0) for a in self.maps if a.job_id == job_id and has_reducers]
            fetched = [(f.end_ms, -f.bytes) for f in self.fetches if f"job_{f.attempt_id[8:-11]}" == job_id]
            waiting, above = 0, []
            for t_ms, change in sorted([*written, *fetched]):
                waiting += change
                if waiting > threshold:
                    above.append((t_ms, waiting))
            if above:
                numbers = {"queued_bytes": max(n for _, n in above), "queued_bytes.last": above[-1][1]}
                onset_ms = above[0][0]
                yield Called("queued-data-high", job_id, (), numbers, (onset_ms, onset_ms), above[-1][0])

    def drifting(self, n_least: int = 8, rise: float = 25.0) -> Iterator[Called]:
        """The standard deviation over the hosts rises in eight steps by 25 while a reducer runs."""
        for attempt in self.reducers:
            steps = self._steps_during(attempt)
            deviations = [self.deviation(step) for step in steps]
            ends = [k for k in range(len(steps)) if _longest_rise(deviations[: k + 1], rise) >= n_least]
            if ends:
                top = max(ends, key=lambda k: deviations[k])
                first = min(j for j in range(ends[0] + 1) if deviations[j] <= deviations[ends[0]] - rise)
                last = max(j for j in range(ends[0] + 1) if deviations[j] <= deviations[ends[0]] - rise)
                yield Called(
                    "load-imbalance-task", attempt.attempt_id, self.furthest(steps[top]),
                    {"std_now": deviations[top], "value_1": self.load[steps[top]][self.furthest(steps[top])[0]]},
                    (steps[first] - STEP_MS, steps[last]), attempt.end_ms,
                )  # fmt: skip

    def unbalanced(self, n_least: int = 8, settle_ms: int = 60_000, within_ms: int = 600_000) -> Iterator[Called]:
        """A fifth to four fifths of the hosts above 20 in eight steps while a reducer runs, and not right before it.

        It is told at the polls that find the reducer running, and at the first balanced steps after it.
        """
        for attempt in self.reducers:
            balanced = [step for step in self.load if not self._is_unbalanced(step)]
            before = [s for s in balanced if attempt.start_ms - settle_ms <= s - STEP_MS and s < attempt.start_ms]
            during = [step for step in self._steps_during(attempt) if self._is_unbalanced(step)]
            after = [s for s in balanced if attempt.end_ms <= s - STEP_MS and s <= attempt.end_ms + settle_ms]
            if len(during) < n_least or not before:
                continue
            latest_ms = before[-1] - STEP_MS + within_ms
            enough_ms = during[n_least - 1]
            samples = [t for t, _ in self._samples(attempt.attempt_id)]
            told = [t for t in [*samples, *after] if enough_ms <= t <= latest_ms]
            if told:
                seen = [step for step in during[n_least - 1 :] if step <= max(told)]
                worst = max(seen, key=self.deviation)
                hosts = self.furthest(worst)
                numbers = {
                    "std_now": self.deviation(worst), "value_1": self.load[worst][hosts[0]],
                    "std_now.last": self.deviation(seen[-1]),
                }  # fmt: skip
                onset_ms = during[0] - STEP_MS, during[0]
                yield Called("imbalance-window-task", attempt.attempt_id, hosts, numbers, onset_ms, max(told))

    def deviation(self, step: int) -> float:
        """Population standard deviation over the hosts."""
        return statistics.pstdev(self.load[step].values())

    def furthest(self, step: int) -> tuple[str, ...]:
        """Hosts at least one standard deviation from the mean, furthest first."""
        values = self.load[step]
        mean, deviation = statistics.fmean(values.values()), self.deviation(step)
        far = [host for host, value in values.items() if abs(value - mean) >= deviation * (1 - 1e-9)]
        return tuple(sorted(far, key=lambda host: (-abs(values[host] - mean), -values[host], host))[:5])

    # ------------------------------------------------------------------ the files

    def _read_history(self, path: Path) -> None:
        started: dict[str, tuple[int, str]] = {}
        for line in path.read_text(encoding="utf-8").splitlines()[2:]:
            if not line.strip():
                continue
            record = json.loads(line)
            kind, (told,) = record["type"], record["event"].values()
            if kind in ("MAP_ATTEMPT_STARTED", "REDUCE_ATTEMPT_STARTED"):
                started[told["attemptId"]] = told["startTime"], told["trackerName"]
            elif kind in ("MAP_ATTEMPT_FINISHED", "REDUCE_ATTEMPT_FINISHED"):
                attempt_id = told["attemptId"]
                counted = {c["name"]: c["value"] for g in told["counters"]["groups"] for c in g["counts"]}
                attempt = Attempt(
                    attempt_id,
                    "job_" + "_".join(attempt_id.split("_")[1:3]),
                    told["hostname"].rpartition("/")[2],
                    started[attempt_id][0],
                    told["finishTime"],
                    counted.get("MAP_OUTPUT_MATERIALIZED_BYTES"),
                )
                (self.maps if kind.startswith("MAP") else self.reducers).append(attempt)

    def _samples(self, attempt_id: str) -> Iterator[tuple[int, int]]:
        """(time, start) at each poll that found it running; answers say how old they are in whole seconds."""
        found = [row for row in self.answers if row[1] == attempt_id]
        last_ms = 0
        for now_ms in range(self.manifest["started_ms"], self.manifest["ended_ms"] + 1, STEP_MS):
            known = [row for row in found if row[0] <= now_ms]
            if not known:
                continue
            answered_ms, _, state, started_ms = known[-1]
            t_ms = now_ms - 1_000 * math.ceil((now_ms - answered_ms) / 1_000)
            if state in ("RUNNING", "COMMIT_PENDING") and t_ms > last_ms and self._runs(attempt_id, now_ms):
                last_ms = t_ms
                yield t_ms, started_ms

    def _runs(self, attempt_id: str, now_ms: int) -> bool:
        """Whether the newest list of applications has its application as running: else nobody asks."""
        application = "application_" + "_".join(attempt_id.split("_")[1:3])
        known = [states for t_ms, states in self.lists if t_ms <= now_ms]
        return bool(known) and known[-1].get(application) == "RUNNING"

    def _read_answers(self) -> None:
        with gzip.open(self.folder / "rest.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                if row.get("status") != 200:
                    continue
                if row["path"].startswith("/proxy/") and row["path"].endswith("/attempts"):
                    listed = json.loads(row["body"])["taskAttempts"]["taskAttempt"]
                    self.answers += [(row["t_ms"], a["id"], a["state"], a["startTime"]) for a in listed]
                elif row["path"].startswith("/ws/v1/cluster/apps"):
                    apps = (json.loads(row["body"]).get("apps") or {}).get("app") or []
                    self.lists.append((row["t_ms"], {app["id"]: app["state"] for app in apps}))

    def _read_load(self, metric: str) -> dict[int, dict[str, float]]:
        load: dict[int, dict[str, float]] = {}
        from_s, to_s = self.manifest["started_ms"] // 1_000 - 60, self.manifest["ended_ms"] // 1_000
        for host in self.manifest["hosts"]:
            path = self.folder / "rrds" / self.manifest["cluster"] / host["name"] / f"{metric}.rrd"
            command = ["rrdtool", "fetch", str(path), "AVERAGE", "-r", "5", "-s", str(from_s), "-e", str(to_s)]
            told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
            for line in told.splitlines():
                at, _, value = line.partition(": ")
                if at.isdigit() and not math.isnan(float(value)):
                    load.setdefault(int(at) * 1_000, {})[host["name"]] = float(value)
        return dict(sorted(load.items()))

    def _steps_during(self, attempt: Attempt) -> list[int]:
        """Steps that lie wholly in its life."""
        return [step for step in self.load if attempt.start_ms <= step - STEP_MS and step < attempt.end_ms]

    def _is_unbalanced(self, step: int) -> bool:
        values = self.load[step].values()
        return 0.2 <= sum(value >= 20 for value in values) / len(values) <= 0.8


def _fetches(path: Path) -> Iterator[Fetch]:
    """The fetches that a reducer's log tells.

    A fetcher is assigned to a host, reads its outputs one after the other and is freed; how long it had the host stands
    in the last line, and so from when on.
    """
    reducer, sizes = "", dict[tuple[str, str], int]()
    open_reads: dict[str, list[tuple[int, str]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if found := _REDUCER.search(line):
            reducer = found[1]
        elif found := _SIZE.search(line):
            sizes[found[1], found[2]] = int(found[3])
        elif found := _FETCHED.match(line):
            open_reads.setdefault(found[2], []).append((_ms(found[1]), found[3]))
        elif found := _FREED.match(line):
            since_ms = _ms(found[1]) - int(found[4])
            for end_ms, mapper in open_reads.pop(found[2], []):
                yield Fetch(reducer, found[3], end_ms, end_ms - since_ms, sizes[found[2], mapper])
                since_ms = end_ms


def _longest_rise(values: list[float], rise: float) -> int:
    """Length of the longest choice of values that ends with the last, never falls and rises by `rise` in all."""
    best = 0
    for j in range(len(values)):
        if values[j] > values[-1] - rise:
            continue
        lengths = {j: 1}
        for k in range(j + 1, len(values)):
            before = [lengths[i] for i in lengths if values[i] <= values[k]]
            if before:
                lengths[k] = 1 + max(before)
        best = max(best, lengths.get(len(values) - 1, 0))
    return best


def _ms(stamp: str) -> int:
    """2026-11-20 12:42:58,446 in UTC."""
    moment = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000)
