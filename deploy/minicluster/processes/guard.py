"""Runs one command as the first process of a virtual host. Standard library only; started as a script.

    guard.py [--hostname NAME] [--grace SECONDS] LOG COMMAND...

The guard makes itself the reaper of all its descendants, so that containers which outlive their
NodeManager stay in its tree: they keep being counted and they end with it. It reads one JSON object a
line from standard input, `{"start": [...], "log": "..."}` starts another process on this host. When
standard input closes (its parent has ended, however that happened) or on SIGTERM or SIGINT it ends
the whole tree. It exits with the status of COMMAND.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWUTS = 0x04000000


def adopt_orphans() -> None:
    """Make this process the parent of every orphaned descendant (Linux 3.4 and newer)."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def take_hostname(name: str) -> bool:
    """Give this process tree its own host name; False where the system does not allow it."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUTS) != 0:
        return False
    try:
        socket.sethostname(name)
    except OSError:
        return False
    return True


def descendants(root: int) -> list[int]:
    """Process ids below `root`, without it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue
        parent = int(stat.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def spawn(command: list[str], log: str) -> subprocess.Popen[bytes]:
    """Start `command` with its output appended to `log`."""
    with Path(log).open("ab") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # noqa: S603 - by our parent


def signal_all(pids: list[int], number: int) -> None:
    """Send a signal to every process that still exists."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def reap(main_pid: int) -> int | None:
    """Collect ended children; the exit status of `main_pid` when it was among them."""
    status = None
    while True:
        try:
            pid, wait_status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == main_pid:
            status = os.waitstatus_to_exitcode(wait_status)


def end_tree(main_pid: int, grace_s: float) -> int | None:
    """Ask every descendant to end, insist after `grace_s`; the status of the main process if it came now."""
    status = None
    below = descendants(os.getpid())
    signal_all(below, signal.SIGCONT)
    signal_all(below, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while True:
        found = reap(main_pid)
        status = found if status is None else status
        below = descendants(os.getpid())
        if not below:
            return status
        if time.monotonic() > deadline:
            signal_all(below, signal.SIGKILL)
        time.sleep(0.05)


def read_commands(buffer: bytearray) -> bool:
    """Start what standard input asks for; False when it has been closed."""
    chunk = os.read(0, 65536)
    if not chunk:
        return False
    buffer += chunk
    while b"\n" in buffer:
        line, _, rest = bytes(buffer).partition(b"\n")
        buffer[:] = rest
        request = json.loads(line)
        spawn([str(word) for word in request["start"]], str(request["log"]))
    return True


def run(command: list[str], log: str, grace_s: float) -> int:
    """Run until the command, the parent or a signal ends it; the exit status of the command."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: stopping.append(received))
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(write_end)
    main = spawn(command, log)
    buffer = bytearray()
    while True:
        ready, _, _ = select.select([0, read_end], [], [])
        if read_end in ready:
            os.read(read_end, 4096)
        status = reap(main.pid)
        if status is not None:
            end_tree(main.pid, grace_s)
            return status
        if stopping or (0 in ready and not read_commands(buffer)):
            status = end_tree(main.pid, grace_s)
            return 0 if status is None else status


def main() -> int:
    """Entry point of the script."""
    parser = argparse.ArgumentParser(description="first process of a virtual host")
    parser.add_argument("--hostname")
    parser.add_argument("--grace", type=float, default=8.0)
    parser.add_argument("log")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not arguments.command:
        parser.error("no command given")
    adopt_orphans()
    if arguments.hostname:
        take_hostname(arguments.hostname)
    status = run(arguments.command, arguments.log, arguments.grace)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
