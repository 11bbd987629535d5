"""How a job's process ends: its exit code, a mistake's message, and what a signal does to the work on executors."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from pyspark import SparkContext

from app.console import inert
from app.errors import AppError
from app.process.signals import ENDING, KILLED_BY_SIGNAL
from engine.errors import EngineError
from spark_jobs.jvm_errors import JVM_ENDED, hear_last_words

EXIT_MISTAKE = 2

LOOK_EVERY_S = 0.1
GRACE_S = 20.0
"""For what has been started to be taken back; then the process ends whatever it does."""

JVM_GRACE_S = 3.0
_PATIENCE_S = 5.0


class Interrupted(KeyboardInterrupt):
    """A signal asks the job to end."""


class Interruption:
    """What signals ask for. The first one cancels Spark's jobs and ends what is done here, the second ends at once.

    A call into the JVM is never left half-way: its answer would be taken for that of the next call, and cleaning up
    needs calls. It returns by itself, as its job is cancelled, by a thread of its own and as long as there are jobs.
    """

    def __init__(self) -> None:
        self.number = 0
        self._is_told = False
        self._ended = threading.Event()

    def install(self) -> None:
        """Listen, also to what came while this process was still starting (`app.process.child_process.held_back`)."""
        for number in ENDING:
            signal.signal(number, self._ask)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    def end(self) -> None:
        """Of what is being done to end the job."""
        self._ended.set()
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            self._give_up()
        self.number = number
        threading.Thread(target=self._cancel, daemon=True).start()
        signal.signal(signal.SIGALRM, self._tell)
        signal.setitimer(signal.ITIMER_REAL, LOOK_EVERY_S, LOOK_EVERY_S)
        self._tell(number, frame)

    def _tell(self, _number: int, frame: FrameType | None) -> None:
        """In the main thread, unless it waits for the JVM, or has an error to deal with already."""
        if self._is_told or _is_in_call(frame) or sys.exc_info()[0] is not None:
            return
        self._is_told = True
        raise Interrupted(f"signal {self.number}")

    def _cancel(self) -> None:
        n_looks = int(GRACE_S / LOOK_EVERY_S)
        for _ in range(n_looks):
            cancel_jobs()
            if self._ended.wait(LOOK_EVERY_S):
                return
        self._give_up()

    def _give_up(self) -> NoReturn:
        end_jvm(0.0)
        hear_last_words()
        os._exit(KILLED_BY_SIGNAL + self.number)


def run_job(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run `main` with the command line's arguments and end the process with its exit code.

    A mistake of the user's ends in its message and code 2; SIGINT, SIGTERM and SIGHUP cancel what runs on executors
    and end with 128 + their number, before anything of an unfinished write can be seen.
    """
    asked = Interruption()
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it prints what is raised as well, and what a signal cuts off
    try:
        asked.install()
        code = main(sys.argv[1:])
        asked.end()
        if asked.number and code == EXIT_MISTAKE:  # what a call that was cut off looks like
            code = _interrupted(asked.number)
    except BaseException as error:
        asked.end()
        if asked.number or isinstance(error, KeyboardInterrupt):  # whatever the cancelled call made of it
            code = _interrupted(asked.number or signal.SIGINT)
        elif isinstance(error, AppError | EngineError):
            print(f"clustercep: {inert(error)}", file=sys.stderr)
            code = EXIT_MISTAKE
        elif isinstance(error, BrokenPipeError):
            code = _nobody_reads()
        else:
            raise
    sys.exit(code)


def cancel_jobs() -> None:
    """Cancel what runs on executors, now; what waits for it fails.

    In a thread of its own, whose connection to the JVM is free: that of a thread which a signal has stopped is not.
    """
    context = getattr(SparkContext._active_spark_context, "_jsc", None)
    if context is None:  # not yet, or stopped
        return
    cancelling = threading.Thread(target=_cancel_all, args=(context,), daemon=True)
    cancelling.start()
    cancelling.join(_PATIENCE_S)


def end_jvm(grace_s: float) -> None:
    """End the JVM that was started by this process, if there is one; one that was still starting, too."""
    gateway = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is not None and process.poll() is None:
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()  # for which it waits
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            with suppress(subprocess.TimeoutExpired):  # without a limit a second signal would wait for the first one
                process.wait(_PATIENCE_S)
    for pid in _starting_jvms():
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _starting_jvms() -> list[int]:
    """Children of this process that are a JVM, or the script that becomes one: nobody else starts such."""
    found = []
    with suppress(OSError):  # where the kernel does not list them
        for listed in Path("/proc/self/task").glob("*/children"):
            for pid in map(int, listed.read_text("ascii").split()):
                with suppress(OSError):
                    if Path(f"/proc/{pid}/exe").resolve().name in ("java", "bash", "sh", "dash"):
                        found.append(pid)
    return found


def _interrupted(number: int) -> int:
    # What py4j says on the root logger of calls to a JVM that ends is no news.
    logging.getLogger().addFilter(lambda record: "while sending command" not in record.getMessage())
    end_jvm(JVM_GRACE_S)
    print(
        f"clustercep: interrupted by {signal.Signals(number).name}; what ran on Spark has been cancelled. Nothing is "
        "half-written: start the same command again, what is stored already is not stored twice",
        file=sys.stderr,
    )
    return KILLED_BY_SIGNAL + number


def _nobody_reads() -> int:
    """As of a program that SIGPIPE ends: `... | head` has what it wants."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes what is left when it ends
    return KILLED_BY_SIGNAL + signal.SIGPIPE


def _cancel_all(context: Any) -> None:
    with suppress(*JVM_ENDED):  # it may end before us
        context.sc().cancelAllJobs()


def _is_in_call(frame: FrameType | None) -> bool:
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("py4j.") or name == "subprocess":  # a child that is half begun would be nobody's
            return True
        frame = frame.f_back
    return False


__all__ = ["EXIT_MISTAKE", "GRACE_S", "Interrupted", "Interruption", "cancel_jobs", "end_jvm", "run_job"]
