"""How a job's process ends: its exit code, a mistake's message, and what a signal does to the work on executors."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from py4j.protocol import Py4JError
from pyspark import SparkContext

from app.console import inert
from app.errors import AppError
from engine.errors import EngineError

EXIT_MISTAKE = 2
_PATIENCE_S = 5.0

_ASKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal asks the job to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.exit_code = 128 + number


def run_job(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run `main` with the command line's arguments and end the process with its exit code.

    A mistake of the user's ends in its message and code 2; SIGINT, SIGTERM and SIGHUP cancel what runs on executors
    and end with 128 + their number, before anything of an unfinished write can be seen.
    """
    for number in _ASKED:
        signal.signal(number, _interrupt)
    try:
        code = main(sys.argv[1:])
    except (AppError, EngineError) as error:
        print(f"clustercep: {inert(error)}", file=sys.stderr)
        code = EXIT_MISTAKE
    except KeyboardInterrupt as asked:
        print("clustercep: interrupted; nothing of this job has been written", file=sys.stderr)
        code = asked.exit_code if isinstance(asked, Interrupted) else 128 + signal.SIGINT
    sys.exit(code)


def cancel_jobs() -> None:
    """Cancel what runs on executors, now; what waits for it fails.

    In a thread of its own, whose connection to the JVM is free: that of a thread which a signal has stopped is not.
    """
    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        return
    cancelling = threading.Thread(target=_cancel_all, args=(context,), daemon=True)
    cancelling.start()
    cancelling.join(_PATIENCE_S)


def _cancel_all(context: SparkContext) -> None:
    with suppress(Py4JError):  # the JVM may have ended before us
        context.cancelAllJobs()


def _interrupt(number: int, _frame: FrameType | None) -> None:
    for ignored in _ASKED:
        signal.signal(ignored, signal.SIG_IGN)  # it ends already
    cancel_jobs()
    raise Interrupted(number)


__all__ = ["Interrupted", "cancel_jobs", "run_job"]
