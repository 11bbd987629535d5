"""Memory of a process with all that it started: Python, the JVM, its Python workers."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_EVERY_S = 0.5


@dataclass
class Peak:
    """The most that was seen so far, MiB."""

    mib: float = 0.0


@contextmanager
def peak_of_tree(root: int | None = None) -> Iterator[Peak]:
    """Look every half second: proportional set sizes, so that what processes share counts once."""
    found, ended = Peak(), threading.Event()

    def look() -> None:
        while True:
            found.mib = max(found.mib, sum(map(_pss_mib, _tree(root or os.getpid()))))
            if ended.wait(_EVERY_S):
                return

    watching = threading.Thread(target=look, daemon=True)
    watching.start()
    try:
        yield found
    finally:
        ended.set()
        watching.join()


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has ended meanwhile
                continue
            children[parent].append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children[pid])
    return found


def _pss_mib(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return int(text.partition("\nPss:")[2].split()[0]) / 1024


__all__ = ["Peak", "peak_of_tree"]
