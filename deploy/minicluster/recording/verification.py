"""Checks that a recording shows what its ground truth says, and nothing like it anywhere else."""

from __future__ import annotations

import gzip
import os
import re
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import yaml

from deploy.minicluster.errors import RecordingError
from deploy.minicluster.recording import evidence
from deploy.minicluster.watch_config import MAX_QUEUED_BYTES

FAULTS = ("mapper_straggler", "reducer_straggler", "slow_source_host", "late_reducers", "cpu_hungry_node")
QUEUE_HIGH_BYTES, QUEUE_LOW_BYTES, QUEUE_HIGH_MS = MAX_QUEUED_BYTES, 15_000_000, 45_000
MIN_RISE, MIN_RISING_SAMPLES, MIN_UNBALANCED = 20.0, 8, 8


@dataclass(frozen=True)
class Finding:
    """One checked statement with the figures it rests on."""

    holds: bool
    text: str


def verify(folder: Path, foreign: Iterable[str]) -> list[Finding]:
    """All checks of an unpacked recording; none of the words `foreign` may stand in it (see this_machine)."""
    path = folder / "manifest.yaml"
    try:
        manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise RecordingError(f"{path}: {error}") from error
    if not isinstance(manifest, dict) or "ground_truth" not in manifest:
        raise RecordingError(f"{path}: not the manifest of a complete recording")
    samples = evidence.load_metric(folder, manifest, "cpu_user")
    findings = [_faults_present(manifest), _no_problems(manifest), _samples_complete(manifest, samples)]
    for job in manifest["jobs"]:
        findings += _check_job(folder, manifest, job, samples)
    findings.append(_no_foreign_text(folder, foreign))
    return findings


def _faults_present(manifest: dict[str, Any]) -> Finding:
    found = {truth["fault"] for truth in manifest["ground_truth"]}
    missing = [fault for fault in FAULTS if fault not in found]
    return Finding(not missing, f"every fault was injected; missing: {', '.join(missing) or 'none'}")


def _no_problems(manifest: dict[str, Any]) -> Finding:
    return Finding(not manifest["problems"], f"the run had no problems: {manifest['problems']}")


def _samples_complete(manifest: dict[str, Any], samples: dict[int, dict[str, float]]) -> Finding:
    n_expected = (manifest["ended_ms"] - manifest["started_ms"]) // (1000 * manifest["step_s"])
    n_full = sum(len(values) == len(manifest["hosts"]) for values in samples.values())
    return Finding(n_full >= 0.9 * n_expected, f"{n_full} of about {n_expected} steps have cpu_user of every host")


def _check_job(
    folder: Path, manifest: dict[str, Any], job: dict[str, Any], samples: dict[int, dict[str, float]]
) -> Iterator[Finding]:
    job_id = job["job_id"]
    truths = [truth for truth in manifest["ground_truth"] if truth["job_id"] == job_id]
    faults = {truth["fault"] for truth in truths}
    label = f"{job_id[-4:]} {job['kind']}"
    attempts = evidence.load_attempts(folder, job_id)
    lines = evidence.shuffle_lines(folder, job_id)
    yield _stragglers(label, [a for a in attempts if a.is_map], truths, "mapper_straggler")
    yield _stragglers(label, [a for a in attempts if not a.is_map], truths, "reducer_straggler")
    yield _fetches(label, evidence.fetch_periods(lines), truths)
    yield _queue(label, evidence.queued_bytes(attempts, lines), "late_reducers" in faults)
    for attempt in attempts:
        if not attempt.is_map:
            yield _balance(label, attempt, samples, "cpu_hungry_node" in faults)


def _stragglers(label: str, attempts: list[evidence.Attempt], truths: list[dict[str, Any]], fault: str) -> Finding:
    """The one named straggler takes more than 3 times the others' average and 45 s longer; no one else 2 times."""
    named = {attempt_id for truth in truths if truth["fault"] == fault for attempt_id in truth["attempt_ids"]}
    slow = [a.period_ms for a in attempts if a.attempt_id in named]
    others = [a.period_ms for a in attempts if a.attempt_id not in named]
    text = f"{label}: {fault}: {[round(p / 1000) for p in slow]} s, others {[round(p / 1000) for p in others]} s"
    if any(truth["fault"] == fault for truth in truths):
        return Finding(bool(slow and others) and min(slow) > max(3 * mean(others), mean(others) + 45_000), text)
    return Finding(not others or max(others) < max(2 * median(others), 25_000), text)


def _fetches(label: str, periods: dict[str, list[int]], truths: list[dict[str, Any]]) -> Finding:
    """From the slow host every reducer waits for 3 s at least, from all others less than 1 s (1.5 s in other jobs)."""
    injected = [truth for truth in truths if truth["fault"] == "slow_source_host"]
    named = {truth["host"] for truth in injected}
    n_reducers = sum(len(truth["task_ids"]) for truth in injected)
    slow = sorted(period for host in named for period in periods.get(host, []))
    others = sorted(period for host, listed in periods.items() if host not in named for period in listed)
    text = f"{label}: fetches from the slow host {slow} ms, from others at most {max(others, default=0)} ms"
    if named:
        n_slow = sum(period >= 3000 for period in slow)
        return Finding(n_slow >= n_reducers > 0 and max(others, default=0) < 1000, text)
    return Finding(max(others, default=0) < 1500, text)


def _queue(label: str, curve: list[tuple[int, int]], is_late: bool) -> Finding:
    peak = max((value for _, value in curve), default=0)
    high_ms = evidence.longest_above(curve, QUEUE_HIGH_BYTES)
    left = curve[-1][1] if curve else 0
    text = f"{label}: queued data peaks at {peak} bytes, {high_ms} ms at or above {QUEUE_HIGH_BYTES}, {left} at the end"
    return Finding(high_ms >= QUEUE_HIGH_MS if is_late else peak < QUEUE_LOW_BYTES, text)


def _balance(label: str, reducer: evidence.Attempt, samples: dict[int, dict[str, float]], is_hungry: bool) -> Finding:
    values = evidence.deviations(samples, reducer.start_ms, reducer.finish_ms)
    rising = evidence.longest_rise(values, MIN_RISE)
    n_unbalanced = evidence.unbalanced_steps(samples, reducer.start_ms, reducer.finish_ms)
    highest = max(values, default=0.0)
    text = (
        f"{label}: {reducer.attempt_id[-10:]} sees {rising} rising samples (by {MIN_RISE}), {n_unbalanced} unbalanced"
        f" of {len(values)} steps, deviation up to {highest:.1f}"
    )
    if is_hungry:
        return Finding(rising >= MIN_RISING_SAMPLES and n_unbalanced >= MIN_UNBALANCED, text)
    return Finding(rising < MIN_RISING_SAMPLES - 1 and n_unbalanced < MIN_UNBALANCED - 1, text)


def this_machine() -> set[str]:
    """Words that tell about this machine and its user, without those that are the cluster's own."""
    words = {socket.gethostname(), os.environ.get("USER", ""), str(Path.home()), str(Path.cwd())}
    return {word for word in words if len(word) > 1} - {"hadoop", "master", "localhost"}


def _no_foreign_text(folder: Path, foreign: Iterable[str]) -> Finding:
    words = sorted(set(foreign))
    alternatives = b"|".join(re.escape(word.encode()) for word in words)
    pattern = re.compile(rb"(?<![\w.-])(?:" + alternatives + rb")(?![\w-]|\.\w)")
    found = []
    for path in sorted(folder.rglob("*")):
        if words and path.is_file() and path.name != "manifest.yaml" and path.suffix != ".rrd":
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            if match := pattern.search(content):
                found.append(f"{path.relative_to(folder)}: {match.group().decode()}")
    return Finding(not found, f"nothing says {', '.join(words)}; found: {found[:5] or 'nothing'}")
