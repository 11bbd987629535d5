"""A measurement in a process of its own: its peak memory is its own, and a time limit ends it.

`python -m benchmarks.own_process MODULE:FUNCTION` reads keyword arguments as JSON from standard input and
prints what the function returns as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_LOOK_EVERY_S = 0.5


class MeasurementError(RuntimeError):
    """A measurement failed in its process; the message holds what it printed."""


def measured(task: str, arguments: dict[str, Any], limit_s: float) -> dict[str, Any] | None:
    """What the function `task` ("module:function") returns for the arguments; None when it takes longer than limit_s.

    The limit is CPU time, so that other work on the machine does not cut it short; it is looked at from outside, since
    a limit that the system enforces makes the process's own CPU clock coarse. Raises MeasurementError when the function
    raises.
    """
    with subprocess.Popen(
        [sys.executable, "-m", __spec__.name, task],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        given: str | None = json.dumps(arguments)
        while True:
            try:
                printed, complaints = process.communicate(given, timeout=_LOOK_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                given = None
                if _cpu_s(process.pid) > limit_s:
                    process.kill()
                    process.communicate()
                    return None
    if process.returncode:
        raise MeasurementError(f"{task} {arguments}: {complaints.strip()}")
    result = json.loads(printed.splitlines()[-1])
    assert isinstance(result, dict)
    return result


def _cpu_s(pid: int) -> float:
    """User and system time of a process so far; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(arguments: list[str]) -> None:
    """The process: one function, once."""
    module, _, function = arguments[0].partition(":")
    print(json.dumps(getattr(import_module(module), function)(**json.loads(sys.stdin.read()))))


if __name__ == "__main__":
    main(sys.argv[1:])


__all__ = ["MeasurementError", "measured"]
