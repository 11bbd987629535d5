"""Commands whose jobs on Spark are killed: driver, JVM or Python worker, at a moment that is drawn."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.minicluster.processes.guard import descendants, signal_all

ROOT = Path(__file__).resolve().parents[3]
SMALL = (
    '{"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", '
    '"spark.sql.shuffle.partitions": "1", "spark.hadoop.dfs.replication": "1", '
    '"spark.hadoop.dfs.client.use.datanode.hostname": "false"}'
)
WITHIN_S = 240.0
"""No command takes longer; and no process stays longer than that after the one above it was killed."""
VICTIMS = ("driver", "jvm", "worker")


@dataclass(frozen=True)
class Life:
    """How one command went."""

    code: int
    told: str
    seconds: float
    killed: str | None
    """Which of VICTIMS; None when it had ended before."""
    stayed: tuple[str, ...]
    """Processes that were still there long after."""


@dataclass
class Spark:
    """Starts commands, and keeps how long each kind takes when nobody kills it."""

    drawn: random.Random
    seconds: dict[str, float] = field(default_factory=dict)

    def whole(self, words: Sequence[str]) -> Life:
        """A life to its end. Its time is that of its kind, if it is shorter than others."""
        (life,) = self.at_once([words])
        self.seconds[words[0]] = min(life.seconds, self.seconds.get(words[0], WITHIN_S))
        return life

    def at_once(self, several: Sequence[Sequence[str]]) -> list[Life]:
        """Several lives side by side, each to its end."""
        started_s = time.monotonic()
        running = [start(words) for words in several]
        lives = []
        for process in running:
            told = ended(process)
            lives.append(Life(process.returncode, told, time.monotonic() - started_s, None, ()))
        return lives

    def killed(self, words: Sequence[str], victim: str) -> Life:
        """A life in which one of VICTIMS is killed with -9, at any moment of what a whole one takes; a worker soon
        after it has started, for it does not live long."""
        after_s = self.drawn.uniform(0.05, 0.9) * self._whole_s(words) if victim != "worker" else 0.0
        delay_s = self.drawn.uniform(0.0, 0.5) if victim == "worker" else 0.0
        started_s = time.monotonic()
        with start(words) as process:
            pids: list[int] = []
            done = None
            while process.poll() is None:
                pids = descendants(process.pid)
                if time.monotonic() - started_s >= after_s and (found := chosen(victim, pids)) is not None:
                    time.sleep(delay_s)
                    signal_all([found], signal.SIGKILL)
                    done = victim
                    break
                time.sleep(0.05)
            told = ended(process, pids)
            stayed = long_lived(pids)
        return Life(process.returncode, told, time.monotonic() - started_s, done, stayed)

    def disturbed(self, words: Sequence[str], harm: Callable[[], None]) -> tuple[Life, bool]:
        """A life to its end, during which something is done, at any moment of what a whole one takes; whether it was,
        for it may have ended before."""
        after_s = self.drawn.uniform(0.05, 0.9) * self._whole_s(words)
        started_s = time.monotonic()
        with start(words) as process:
            while (is_running := process.poll() is None) and time.monotonic() - started_s < after_s:
                time.sleep(0.05)
            if is_running:
                harm()
            told = ended(process)
        return Life(process.returncode, told, time.monotonic() - started_s, None, ()), is_running

    def _whole_s(self, words: Sequence[str]) -> float:
        """What such a life takes; of a kind that has not been there yet, what another takes."""
        return self.seconds.get(words[0]) or min(self.seconds.values())


def start(words: Sequence[str]) -> subprocess.Popen[str]:
    """The command, in a process; what it says on standard error is kept."""
    environment = os.environ | {"CLUSTERCEP__SPARK__CONF": SMALL, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "app.cli", *words],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], below: Sequence[int] = ()) -> str:
    """What a command said until its end; after WITHIN_S it is ended by force, with its processes, and that is said.
    below: processes that it may have lost."""
    try:
        return process.communicate(timeout=WITHIN_S)[1]
    except subprocess.TimeoutExpired:
        signal_all([*descendants(process.pid), *below, process.pid], signal.SIGKILL)
        return f"{process.communicate()[1]}\nnot over after {WITHIN_S:.0f} s more: ended by force"


def chosen(victim: str, pids: Sequence[int]) -> int | None:
    """The process to kill among those below a command; None while it has not started."""
    programs = {pid: command_line(pid) for pid in pids}
    if victim == "driver":
        return next((pid for pid, line in programs.items() if "spark_jobs." in line), None)
    if victim == "jvm":
        return next((pid for pid, line in programs.items() if "SparkSubmit" in line and "java" in line), None)
    workers = [pid for pid, line in programs.items() if "pyspark.daemon" in line or "pyspark/daemon" in line]
    return workers[-1] if workers else None


def command_line(pid: int) -> str:
    """Of a process; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def long_lived(pids: Sequence[int]) -> tuple[str, ...]:
    """Those of a command's processes that do not end by themselves; they are ended by force."""
    before_s = time.monotonic()
    lines = {pid: command_line(pid) for pid in pids}
    while there := [pid for pid in pids if lines[pid] and command_line(pid) == lines[pid]]:
        if time.monotonic() - before_s > 60:
            signal_all(there, signal.SIGKILL)
            return tuple(f"{pid}: {lines[pid][:120]}" for pid in there)
        time.sleep(0.05)
    return ()
