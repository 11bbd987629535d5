"""All that reads what others write, given bytes that nobody would: nothing crashes, and each costs what it may.

Cases are tried in processes of their own: the memory of one batch is known, a crash is seen and what hangs ends.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.torture.campaign import Given, Verdict
from tests.torture.inputs.hostile_bytes import mutated
from tests.torture.readers.every_reader import Reader, all_readers

MOST_S_PER_MIB = 1.0
"""Of processor time; what is smaller may take as much."""
MOST_MIB = 500
BATCH_S = 20.0
BATCH_LIMIT_S = 300.0
CURRENT = "current"
"""The file that is tried is kept under this name, for the case that the process does not outlive it."""


@dataclass
class Tried:
    """What became of a batch."""

    n_cases: dict[str, int] = field(default_factory=dict)
    n_bytes: int = 0
    dearest_s_per_mib: float = 0.0
    dearest: str = ""
    peak_mib: int = 0
    failures: list[str] = field(default_factory=list)


def run(given: Given) -> Verdict:
    """Batches with new cases until the time is over."""
    n_cases, failures = Counter[str](), list[str]()
    n_bytes, peak_mib, dearest = 0, 0, (0.0, "")
    number, ends_s = 0, time.monotonic() + 60 * given.minutes
    while time.monotonic() < ends_s and len(failures) < 20:
        folder = given.folder / f"batch-{number}"
        folder.mkdir()
        tried = _in_a_process(given.seed + number, min(BATCH_S, ends_s - time.monotonic()), folder)
        n_cases.update(tried.n_cases)
        n_bytes, peak_mib = n_bytes + tried.n_bytes, max(peak_mib, tried.peak_mib)
        dearest = max(dearest, (tried.dearest_s_per_mib, tried.dearest))
        failures += tried.failures
        if tried.peak_mib > MOST_MIB:
            failures.append(f"batch {number}: expected at most {MOST_MIB} MiB, found {tried.peak_mib}")
        if not tried.failures:
            shutil.rmtree(folder)
        number += 1
    cases = ", ".join(f"{name} {n:,}" for name, n in sorted(n_cases.items()))
    figures = (
        f"{sum(n_cases.values()):,} cases ({cases}), {n_bytes / 2**20:,.0f} MiB; at most {dearest[0]:.2f} s per MiB "
        f"({dearest[1]}; bound {MOST_S_PER_MIB:g}), {peak_mib} MiB of memory (bound {MOST_MIB})"
    )
    return Verdict(figures, tuple(failures))


def tried_cases(seed: int, folder: Path, *, seconds: float | None = None, n_cases: int | None = None) -> Tried:
    """Cases of one seed in this process, for a time or of a number, of each reader in turn."""
    chosen, tried = random.Random(seed), Tried()
    ends_s = None if seconds is None else time.monotonic() + seconds
    with all_readers(folder) as readers:
        names = sorted(readers)
        number = 0
        while (n_cases is None or number < n_cases) and (ends_s is None or time.monotonic() < ends_s):
            turn, place = divmod(number, len(names))
            name, number = names[place], number + 1
            if turn % readers[name].one_in:
                continue
            data = _drawn(chosen, readers, name)
            _try(name, readers[name], data, folder, tried)
    tried.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return tried


def _drawn(chosen: random.Random, readers: Mapping[str, Reader], name: str) -> bytes:
    reader = readers[name]
    other = readers[chosen.choice(sorted(readers))]
    return mutated(chosen, chosen.choice(reader.samples), chosen.choice(other.samples), reader.most_bytes)


def _try(name: str, reader: Reader, data: bytes, folder: Path, tried: Tried) -> None:
    (folder / CURRENT).write_bytes(name.encode() + b"\n" + data)
    place = folder / "place"
    place.mkdir()
    started_s = time.process_time()
    try:
        reader.read(data, place)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        _keep(name, data, f"{type(error).__name__}: {str(error)[:300]}", folder, tried)
    seconds = time.process_time() - started_s
    mib = max(1.0, len(data) / 2**20)
    if seconds / mib > tried.dearest_s_per_mib:
        tried.dearest_s_per_mib, tried.dearest = seconds / mib, name
    if seconds / mib > MOST_S_PER_MIB:
        _keep(
            name, data, f"{seconds:.2f} s for {len(data):,} bytes, expected {MOST_S_PER_MIB * mib:.2f}", folder, tried
        )
    tried.n_cases[name] = tried.n_cases.get(name, 0) + 1
    tried.n_bytes += len(data)
    shutil.rmtree(place, ignore_errors=True)


def _keep(name: str, data: bytes, found: str, folder: Path, tried: Tried) -> None:
    path = folder / f"found-{len(tried.failures)}"
    path.write_bytes(data)
    tried.failures.append(f"{name}, {path}: {found}")


def _in_a_process(seed: int, seconds: float, folder: Path) -> Tried:
    command = [sys.executable, "-m", "tests.torture.campaigns.parsers", str(seed), str(seconds), str(folder)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=BATCH_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return Tried(
            failures=[f"seed {seed}: expected an end, found none after {BATCH_LIMIT_S:g} s: {folder / CURRENT}"]
        )
    lines = ended.stdout.splitlines()
    if ended.returncode or not lines:
        what = ended.stderr.strip().splitlines()[-1:] or ["nothing said"]
        return Tried(failures=[f"seed {seed}: exit {ended.returncode}, {what[0]}: {folder / CURRENT}"])
    return Tried(**json.loads(lines[-1]))


if __name__ == "__main__":
    print(json.dumps(asdict(tried_cases(int(sys.argv[1]), Path(sys.argv[3]), seconds=float(sys.argv[2])))))


__all__ = ["Tried", "run", "tried_cases"]
