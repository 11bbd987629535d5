"""The processes of a search: started, listened to, ended when they do not come back; and what they have searched."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import queue
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from tests.engine.constructs import CONSTRUCTS
from tests.fuzz.checking import Finding, warm_ways
from tests.fuzz.saved import load_saved
from tests.fuzz.searching import Found, Order, Search, Tally

HANG_SECONDS = 300.0
"""A process that has looked at one case for so long does not come back from it: kernels are not interrupted."""
_MOST_BEGUN = 20


def work(order: Order, emitted: Any) -> None:
    """What a process of the search does."""
    faulthandler.enable()
    os.environ.setdefault("CLUSTERCEP_COMPILE", "first")
    warm_ways()
    Search(order, emitted.put).run()


@dataclass
class _Worker:
    number: int
    process: SpawnProcess
    current: Path


class Overseer:
    """Starts the processes, gathers what they tell, and ends those that do not come back."""

    def __init__(
        self, seed: int, seconds: float, fields: Sequence[str], without: Sequence[str], folder: Path, n_workers: int
    ) -> None:
        self._seed = seed
        self._seconds = seconds
        self._fields = fields
        self._without = without
        self._folder = folder
        self._context = multiprocessing.get_context("spawn")
        self._n_workers = n_workers
        self._retired: Any = self._context.Queue()
        self._started = time.monotonic()
        self._n_begun = 0
        self._tally = Tally()
        self._found: list[Found] = []
        self._workers = [self._begin() for _ in range(n_workers)]

    def _begin(self) -> _Worker:
        number, self._n_begun = self._n_begun, self._n_begun + 1
        current = self._folder / f"current-{number}"
        shutil.rmtree(current, ignore_errors=True)
        left = max(0.0, self._seconds - (time.monotonic() - self._started))
        # Side by side they begin far apart: all fields come up in the time of one process shared among them.
        begun, place = divmod(number, self._n_workers)
        first = (place * len(self._fields) // self._n_workers + begun) % len(self._fields)
        fields = [*self._fields[first:], *self._fields[:first]]
        order = Order(self._seed + number, left, fields, self._without, self._folder, current)
        process = self._context.Process(target=work, args=(order, self._retired), daemon=True)
        process.start()
        return _Worker(number, process, current)

    def run(self) -> None:
        """Until all processes have come to their end."""
        while self._workers:
            self._listen(1.0)
            for worker in list(self._workers):
                if worker.process.exitcode == 0:
                    self._workers.remove(worker)
                    shutil.rmtree(worker.current, ignore_errors=True)
                elif worker.process.exitcode is not None:
                    self._lost(worker, f"the process ended with code {worker.process.exitcode}")
                elif _seconds_at(worker.current) > HANG_SECONDS:
                    worker.process.kill()
                    worker.process.join()
                    self._lost(worker, f"no end after {HANG_SECONDS:g} s")
        self._listen(0.1)

    def _listen(self, seconds: float) -> None:
        try:
            while True:
                emitted = self._retired.get(timeout=seconds)
                if isinstance(emitted, Tally):
                    self._tally.merge(emitted)
                else:
                    self._tell(emitted)
        except queue.Empty:
            pass

    def _lost(self, worker: _Worker, reason: str) -> None:
        """Keep the case that it was at, and let another go on."""
        self._workers.remove(worker)
        folder = self._folder / f"lost-{self._seed}-{worker.number}"
        if worker.current.is_dir():
            shutil.copytree(worker.current, folder, dirs_exist_ok=True)
        text = str(load_saved(folder)) if (folder / "case.json").exists() else "before its first case"
        seconds = time.monotonic() - self._started
        self._tell(Found(Finding("process", "an end", reason), "?", seconds, folder, text))
        if seconds < self._seconds and self._n_begun < _MOST_BEGUN:
            self._workers.append(self._begin())

    def _tell(self, found: Found) -> None:
        self._found.append(found)
        finding = found.finding
        print(f"\n== found after {found.seconds:.0f} s in {found.field}: {finding.way} against {finding.against}")
        print(finding.message.rstrip())
        print(found.text)
        queries = sorted(found.folder.glob("*.cep"))
        print(f"repeat: python -m tests.fuzz --case {found.folder}" if queries else f"repeat: --seed {self._seed}")
        if (found.folder / "events.jsonl").exists():
            files = f"{queries[0]} {found.folder}/events.jsonl"
            print(f"        clustercep match {files} --runtime oracle|compiled|automaton")
        sys.stdout.flush()

    def summary(self) -> int:
        """Print what was searched; the exit code."""
        tally = self._tally
        n_cases, n_with_rows = sum(tally.cases.values()), sum(tally.with_rows.values())
        print(f"\n{'field':32} {'cases':>7} {'with rows':>10}")
        for name in self._fields:
            print(f"{name:32} {tally.cases[name]:7} {tally.with_rows[name]:10}")
        print("\ncases with rows by construct: ", end="")
        print(", ".join(f"{name} {n}" for name, n in tally.constructs.most_common()))
        print("never with rows: " + (", ".join(c for c in CONSTRUCTS if not tally.constructs[c]) or "none"))
        print("\nleft out:")
        for reason, n in tally.refused.most_common():
            print(f"{n:7} {reason}")
        print(
            f"\n{n_cases} cases, {n_with_rows} with rows, {tally.n_compared} comparisons, {tally.n_without_oracle} "
            f"without the oracle, {tally.n_no_query} texts that were no query; {len(self._found)} finding(s); "
            f"seed {self._seed}"
        )
        return 1 if self._found else 0


def _seconds_at(current: Path) -> float:
    """For how long the case has been looked at."""
    try:
        return time.time() - (current / "case.json").stat().st_mtime
    except OSError:
        return 0.0


__all__ = ["Overseer"]
