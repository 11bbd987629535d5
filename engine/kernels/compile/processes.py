"""Kernels compiled by several processes at once, those that take longest first.

Numba compiles one function at a time in a process. Each of these reads kernels from its standard input, one a line, and
answers with a line when the code is in the cache folder; it ends with its input.

Most of the time goes into bringing functions into the form that is compiled, once for all kernels of a process that
call them. So a process is given kernels that call what it knows already rather than what another one knows.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from engine.kernels.compile.needed import Kernel

_MAX_PROCESSES = 4
"""Each needs up to 1 GB, and brings the functions that kernels share into form by itself."""

_COLLECT_EVERY = (200_000, 50, 100)
"""The compiler makes some 100,000 objects for a function and keeps most of them: looking through them for garbage as
often as Python does otherwise is a twentieth to a twelfth of its time."""


_MUCH = 3
"""A part of a kernel that is at least its third."""


class CompiledKernels(NamedTuple):
    """How far it is."""

    n_compiled: int
    n_requested: int


class _Waiting(NamedTuple):
    """A kernel, its size, and the sizes of its parts."""

    kernel: Kernel
    size: int
    parts: dict[Any, int]

    def rank(self, of_others: set[Any]) -> tuple[bool, int]:
        """Less comes first: what is large, but last what to a great part only others know."""
        known_elsewhere = sum(self.parts[part] for part in of_others & self.parts.keys())
        return _MUCH * known_elsewhere > sum(self.parts.values()), -self.size


class WaitingKernels:
    """What is to be compiled, and which functions each of the processes knows."""

    def __init__(self, n_processes: int) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._known: list[set[Any]] = [set() for _ in range(n_processes)]
        self._is_complete = False

    def put(self, kernel: Kernel) -> None:
        """Have it compiled by the process that is the next to be free, and fits."""
        waiting = _Waiting(kernel, kernel.size(), kernel.parts())
        with self._changed:
            self._waiting.append(waiting)
            self._changed.notify()

    def take(self, process: int) -> Kernel | None:
        """The next kernel for this process, when there is one; None where there are no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_complete)
            if not self._waiting:
                return None
            of_others = set().union(*self._known) - self._known[process]
            found = min(self._waiting, key=lambda waiting: waiting.rank(of_others))
            self._waiting.remove(found)
            self._known[process].update(found.parts)
            return found.kernel

    def end(self) -> None:
        """No more will be put."""
        with self._changed:
            self._is_complete = True
            self._changed.notify_all()

    def give_up(self) -> None:
        """What waits is not compiled."""
        with self._changed:
            self._waiting.clear()
        self.end()


class CompilingProcesses:
    """Processes that compile what they are asked for; to be left as a context, which ends them."""

    def __init__(self, watch: Callable[[CompiledKernels], object] | None = None, *, niceness: int = 0) -> None:
        """`watch` is called by several threads, one at a time; `niceness`: added to that of this process."""
        self._watch, self._niceness = watch, niceness
        self.tell_compiled: Callable[[Kernel], object] = lambda _kernel: None
        self._lock = threading.Lock()
        self._n_requested = self._n_compiled = 0
        self._waiting = WaitingKernels(n_processes())
        self._failures: list[str] = []
        self._processes: list[subprocess.Popen[str]] = []
        self._threads = [
            threading.Thread(target=self._drive, args=(n,), name=f"compiling {n}", daemon=True)
            for n in range(n_processes())
        ]

    def __enter__(self) -> CompilingProcesses:
        for thread in self._threads:
            self._processes.append(_start(self._niceness))
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """What is being compiled is given up where `finish` was not called."""
        for process in self._processes:
            process.kill()
        self._waiting.give_up()
        for thread, process in zip(self._threads, self._processes, strict=True):
            thread.join()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):  # what it has not read is lost
                    pipe.close()

    def ask(self, kernel: Kernel) -> None:
        """Have it compiled."""
        with self._lock:
            self._n_requested += 1
            self._waiting.put(kernel)
            self._tell()

    def finish(self) -> list[str]:
        """Wait until all that was asked for is compiled; what has failed, one line each."""
        self._waiting.end()
        for thread in self._threads:
            thread.join()
        return self._failures

    def _drive(self, n: int) -> None:
        """Give process n kernels until there are no more, or it has ended."""
        process = self._processes[n]
        while (kernel := self._waiting.take(n)) is not None:
            answer = _answer(process, kernel)
            with self._lock:
                if answer == _DONE:
                    self._n_compiled += 1
                    self.tell_compiled(kernel)
                else:
                    self._failures.append(f"{kernel.module}.{kernel.name}: {answer}")
                self._tell()
            if process.poll() is not None:
                return
        with contextlib.suppress(OSError):
            _stdin(process).close()
        process.wait()

    def _tell(self) -> None:
        if self._watch is not None:
            self._watch(CompiledKernels(self._n_compiled, self._n_requested))


def n_processes() -> int:
    """As many as this process may use cores, at most four."""
    return min(_MAX_PROCESSES, len(os.sched_getaffinity(0)))


_DONE = "done"
_MAX_ANSWER = 400
"""Characters."""


def _start(niceness: int) -> subprocess.Popen[str]:
    sources = str(Path(__file__).parents[3])
    paths = [sources, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(  # noqa: S603  # this interpreter and this module
        [sys.executable, "-m", __spec__.name, str(niceness)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _stdin(process: subprocess.Popen[str]) -> Any:
    assert process.stdin is not None
    return process.stdin


def _answer(process: subprocess.Popen[str], kernel: Kernel) -> str:
    """`_DONE`, or what went wrong."""
    assert process.stdout is not None
    line = ""
    with contextlib.suppress(OSError):  # it has ended
        _stdin(process).write(base64.b64encode(pickle.dumps(kernel)).decode() + "\n")
        _stdin(process).flush()
        line = process.stdout.readline().strip()
    return line or f"the process that compiles it has ended with status {process.wait()}"


def main() -> None:
    """What such a process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who has started it ends it
    os.nice(int(sys.argv[1]))
    gc.freeze()
    gc.set_threshold(*_COLLECT_EVERY)
    answers = os.fdopen(os.dup(1), "w")
    sys.stdout = io.StringIO()
    for line in sys.stdin:
        kernel: Kernel = pickle.loads(base64.b64decode(line))  # noqa: S301  # from the process that has started it
        try:
            kernel.dispatcher().compile(kernel.types)
        except Exception as error:  # noqa: BLE001  # the one who asked is told
            answers.write(f"{type(error).__name__}: {' '.join(str(error).split())}"[:_MAX_ANSWER] + "\n")
        else:
            answers.write(_DONE + "\n")
        answers.flush()


if __name__ == "__main__":
    main()


__all__ = ["CompiledKernels", "CompilingProcesses", "WaitingKernels", "n_processes"]
