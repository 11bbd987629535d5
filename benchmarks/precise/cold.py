"""The first query of a fresh process: with an empty folder of compiled kernels, and with a full one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.measure import show
from benchmarks.precise.rows import Figures
from engine.kernels.compile.cache import default_folder

QUERIES = {
    "skip till any match": "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] AND b[i].x > 1 } WITHIN 20",
    "skip till next match": "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match { [k] AND b[i].x > 1 } WITHIN 20",
}
N_EVENTS = 200


def main(figures: Figures, repeats: int = 5) -> None:
    """Wall-clock seconds of `clustercep match` on a small file, from its start to its end."""
    shown: list[list[object]] = []
    with tempfile.TemporaryDirectory(prefix="clustercep-bench-") as made:
        folder = Path(made)
        events = folder / "events.jsonl"
        events.write_text(
            "".join(
                json.dumps({"type": "ABBC"[n % 4], "t": 3 * n, "k": n // 8, "x": n % 7}) + "\n" for n in range(N_EVENTS)
            )
        )
        for name, text in QUERIES.items():
            query = folder / "query.cep"
            query.write_text(text)
            warm = [_seconds(query, events, default_folder()) for _ in range(1 + repeats)][1:]
            cold = []
            for number in range(3):
                empty = folder / f"{name} {number}".replace(" ", "-")
                cold.append(_seconds(query, events, empty))
                _end_compilers(empty)
            for variant, seconds in (("empty kernel cache", cold), ("full kernel cache", warm)):
                figures.keep(
                    f"first query, {name}", variant,
                    {"events": N_EVENTS, "seconds": median(seconds), "events_per_second": N_EVENTS / median(seconds),
                     "repeats": len(seconds)},
                )  # fmt: skip
            shown.append([name, f"{median(cold):.2f}", f"{median(warm):.2f}"])
    show("the first query of a process; s", ("strategy", "empty kernel cache", "full"), shown)


def _seconds(query: Path, events: Path, cache: Path) -> float:
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "app.commands.match.match", "match", str(query), str(events)],
        env={**os.environ, "CLUSTERCEP_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - started
    if done.returncode not in (0, 1):
        raise RuntimeError(f"clustercep match: exit code {done.returncode}: {done.stderr}")
    return seconds


def _end_compilers(cache: Path) -> None:
    """End the processes that go on compiling into this folder, which is ours alone."""
    mark = f"CLUSTERCEP_CACHE={cache}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            is_ours = mark in (entry / "environ").read_bytes().split(b"\0")
        except OSError:  # of another user, or ended
            continue
        if is_ours:
            os.kill(int(entry.name), signal.SIGKILL)


__all__ = ["main"]
