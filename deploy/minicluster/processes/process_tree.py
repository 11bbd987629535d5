"""Resources used by a process and all its descendants, from /proc.

A process's own figures and those of its children that have ended and been waited for (cutime, cstime;
/proc/PID/io includes them) add up to a total that only grows, as long as orphans stay in the tree: the
guard at the root adopts them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SOCKET = re.compile(r"socket:\[(\d+)\]")


@dataclass(frozen=True)
class ProcessFigures:
    """One process: times in seconds with those of its reaped children, memory in bytes."""

    pid: int
    parent: int
    state: str
    user_s: float
    system_s: float
    rss_bytes: int


@dataclass(frozen=True)
class TreeFigures:
    """A tree: cpu times and disk bytes are cumulative, the others are of now."""

    user_s: float
    system_s: float
    rss_bytes: int
    disk_read_bytes: int
    disk_write_bytes: int
    n_processes: int
    n_running: int
    pids: tuple[int, ...]


def parse_stat(text: str) -> ProcessFigures:
    """One /proc/PID/stat. The command name may hold anything, even parentheses: the last one ends it."""
    pid, _, rest = text.partition(" ")
    fields = rest.rpartition(")")[2].split()
    user, system, child_user, child_system = (int(fields[i]) / _TICKS_PER_S for i in (11, 12, 13, 14))
    return ProcessFigures(
        pid=int(pid),
        parent=int(fields[1]),
        state=fields[0],
        user_s=user + child_user,
        system_s=system + child_system,
        rss_bytes=max(0, int(fields[21])) * _PAGE_BYTES,
    )


def scan(proc: Path = Path("/proc")) -> dict[int, ProcessFigures]:
    """Every process that can be read, by id."""
    found = {}
    for entry in os.listdir(proc):  # noqa: PTH208 - much cheaper than Path.iterdir, and done every step
        if entry.isdigit():
            try:
                figures = parse_stat((proc / entry / "stat").read_text(errors="replace"))
            except (OSError, IndexError, ValueError):
                continue  # it ended while we were looking
            found[figures.pid] = figures
    return found


def tree_pids(processes: Mapping[int, ProcessFigures], root: int) -> tuple[int, ...]:
    """`root` and all its descendants that are in `processes`."""
    children: dict[int, list[int]] = {}
    for figures in processes.values():
        children.setdefault(figures.parent, []).append(figures.pid)
    order = [root] if root in processes else []
    for pid in order:
        order += children.get(pid, [])
    return tuple(order)


def disk_bytes(pid: int, proc: Path = Path("/proc")) -> tuple[int, int]:
    """Bytes that a process and its reaped children caused to be read from and written to disk; (0, 0) if unknown."""
    try:
        lines = (proc / str(pid) / "io").read_text().splitlines()
        values = dict(line.split(": ") for line in lines)
        return int(values["read_bytes"]), int(values["write_bytes"])
    except (OSError, ValueError, KeyError):
        return 0, 0


def measure(processes: Mapping[int, ProcessFigures], root: int, proc: Path = Path("/proc")) -> TreeFigures:
    """Sum up the tree below `root`."""
    pids = tree_pids(processes, root)
    members = [processes[pid] for pid in pids]
    disk = [disk_bytes(pid, proc) for pid in pids]
    return TreeFigures(
        user_s=sum(member.user_s for member in members),
        system_s=sum(member.system_s for member in members),
        rss_bytes=sum(member.rss_bytes for member in members),
        disk_read_bytes=sum(read for read, _ in disk),
        disk_write_bytes=sum(written for _, written in disk),
        n_processes=len(members),
        n_running=sum(member.state == "R" for member in members),
        pids=pids,
    )


def socket_inodes(pids: Iterable[int], proc: Path = Path("/proc")) -> set[int]:
    """Inodes of the sockets that these processes hold open."""
    inodes = set()
    for pid in pids:
        folder = proc / str(pid) / "fd"
        try:
            names = os.listdir(folder)  # noqa: PTH208 - as in scan
        except OSError:
            continue
        for name in names:
            try:
                match = _SOCKET.fullmatch(os.readlink(folder / name))  # noqa: PTH115 - as in scan
            except OSError:
                continue
            if match:
                inodes.add(int(match.group(1)))
    return inodes
