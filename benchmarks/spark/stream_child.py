"""A stream in a process of its own: what it tells, line by line, the memory of all its processes, and its end.

What the process writes to standard error is kept in a file and shown when it fails.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.spark.stream_run import Run

ROOT = Path(__file__).parents[2]
LIMIT_S = 180.0
"""A stream that tells nothing for so long stands still."""
_END_S = 60.0
_LOOK_S = 2.0
"""Between two looks at the memory of all processes, which takes a while."""
_N_SHOWN = 40
_OF_SPARK = (
    "Streaming TransformWithState",
    "WARNING: Using incubator",
    "Setting default log level",
    "To adjust logging",
)
"""Beginnings of lines that say nothing."""

Line = dict[str, Any]


class StreamError(Exception):
    """The process ended with an error, or stands still; says what it wrote to standard error."""


class Child:
    """One stream; `lines` are all that it told so far, `peak_mb` the most memory of all its processes."""

    def __init__(self, run: Run, name: str) -> None:
        self.began_s = time.time()
        self.lines: list[Line] = []
        self.peak_mb = 0.0
        self._look_s = 0.0
        self._name = name
        self._is_killed = False
        self._errors = Path(run.folder) / f"{name.replace(' ', '-')}.err"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.spark.stream_run"],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                start_new_session=True,
            )  # fmt: skip
        atexit.register(self.kill)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(run)) + "\n")
        self._process.stdin.flush()  # left open: the process ends with this one
        self._told: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> Line | None:
        """The next line; None when the process has ended well; raises StreamError."""
        for _ in range(round(LIMIT_S / _LOOK_S)):  # by looks: while the machine sleeps or we are stopped none is taken
            with suppress(_WaitedError):
                return self._next(time.monotonic() + _LOOK_S)
        raise self._stands_still()

    def until(self, at_s: float) -> None:
        """Take lines as they come until that time.time(); raises StreamError when the process ends."""
        ends_s = time.monotonic() + at_s - time.time()
        with suppress(_WaitedError):
            while self._next(ends_s) is not None:
                pass
            raise StreamError(f"{self._name}: the stream has ended, though it was to go on")

    def await_kind(self, kind: str) -> Line:
        """Take lines up to the next one of a kind; raises StreamError when there is none."""
        while (line := self.next()) is not None:
            if line["kind"] == kind:
                return line
        raise StreamError(f"{self._name}: the stream has ended without telling '{kind}'")

    def batches(self) -> Iterator[Line]:
        """Lines of micro-batches until the process ends."""
        while (line := self.next()) is not None:
            if line["kind"] == "batch":
                yield line

    def kill(self) -> None:
        """With -9, and all of its processes."""
        self._is_killed = True
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _next(self, ends_s: float) -> Line | None:
        while (left_s := ends_s - time.monotonic()) > 0:
            self._look()
            try:
                line = self._told.get(timeout=min(_LOOK_S, left_s))
            except queue.Empty:
                continue
            if line is None:
                self._check_end()
            else:
                self.lines.append(line)
            return line
        raise _WaitedError

    def _stands_still(self) -> StreamError:
        return StreamError(f"{self._name}: the stream has told nothing for {LIMIT_S:.0f} s\n{self._complaint()}")

    def _check_end(self) -> None:
        code = self._process.wait(_END_S)
        if code and not self._is_killed:
            raise StreamError(f"{self._name}: the stream ended with exit code {code}\n{self._complaint()}")

    def _complaint(self) -> str:
        lines = self._errors.read_text(encoding="utf-8", errors="replace").splitlines()
        kept = [line for line in lines if line.strip() and not line.startswith(_OF_SPARK)]
        return "\n".join(kept[-_N_SHOWN:])

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            if text.startswith("{"):
                self._told.put(json.loads(text))
        self._told.put(None)

    def _look(self) -> None:
        if time.monotonic() < self._look_s:
            return
        self.peak_mb = max(self.peak_mb, memory_mb(self._process.pid))
        self._look_s = time.monotonic() + _LOOK_S


class _WaitedError(Exception):
    """The time has come."""


def memory_mb(session: int) -> float:
    """Memory of all processes of a session, what they share counted once."""
    total_kib = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getsid(int(entry.name)) == session:
                rolled = (entry / "smaps_rollup").read_text()
                total_kib += int(rolled.partition("\nPss:")[2].split()[0])
        except (OSError, IndexError, ValueError):
            continue  # it has ended meanwhile
    return total_kib * 1024 / 1e6


__all__ = ["Child", "Line", "StreamError"]
