"""A measurement in a process of its own: its peak memory is its own, and a time limit ends it.

`python -m benchmarks.own_process MODULE:FUNCTION SECONDS` reads keyword arguments as JSON from standard input and
prints what the function returns as JSON.
"""

from __future__ import annotations

import json
import math
import resource
import signal
import subprocess
import sys
from importlib import import_module
from typing import Any

_WALL_PER_CPU = 5


class MeasurementError(RuntimeError):
    """A measurement failed in its process; the message holds what it printed."""


def measured(task: str, arguments: dict[str, Any], limit_s: float) -> dict[str, Any] | None:
    """What the function `task` ("module:function") returns for the arguments; None when it takes longer than limit_s.

    The limit is CPU time, so that other work on the machine does not cut it short; wall-clock time may be five times
    that. Raises MeasurementError when the function raises.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, task, str(math.ceil(limit_s))],
            input=json.dumps(arguments),
            capture_output=True,
            text=True,
            timeout=_WALL_PER_CPU * limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode == -signal.SIGXCPU:
        return None
    if done.returncode:
        raise MeasurementError(f"{task} {arguments}: {done.stderr.strip()}")
    result = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(result, dict)
    return result


def main(arguments: list[str]) -> None:
    """The process: one function, once."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(arguments[1]), int(arguments[1]) + 1))
    module, _, function = arguments[0].partition(":")
    print(json.dumps(getattr(import_module(module), function)(**json.loads(sys.stdin.read()))))


if __name__ == "__main__":
    main(sys.argv[1:])


__all__ = ["MeasurementError", "measured"]
