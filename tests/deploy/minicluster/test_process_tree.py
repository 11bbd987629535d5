"""Accounting of process trees, against processes that report their own use."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.minicluster.processes.process_tree import disk_bytes, measure, parse_stat, scan, socket_inodes, tree_pids

# A child that burns, and a grandchild that burns and has ended before the tree is measured.
PROGRAM = """
import os, subprocess, sys, time
burn = "import time\\nwhile time.process_time() < 0.2: pass"
subprocess.run([sys.executable, "-c", burn], check=True)
while time.process_time() < 0.2: pass
with open(sys.argv[1], "wb") as stream:
    stream.write(b"x" * 300_000)
    stream.flush()
    os.fsync(stream.fileno())
t = os.times()
print(t.user + t.children_user, t.system + t.children_system, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], float, float]]:
    """A running process with its own account of (user, system) seconds, reaped children included."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "out")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        user, system = (float(word) for word in process.stdout.readline().split())
        yield process, user, system
        process.communicate()


def test_tree_counts_ended_children(child: tuple[subprocess.Popen[str], float, float]) -> None:
    process, user, system = child
    figures = measure(scan(), process.pid)
    assert figures.user_s + figures.system_s == pytest.approx(user + system, abs=0.1)
    assert figures.user_s + figures.system_s >= 0.35  # two burns of 0.2 s, in ticks
    assert figures.n_processes == 1
    assert figures.rss_bytes > 1_000_000


def test_disk_bytes_of_a_process(child: tuple[subprocess.Popen[str], float, float]) -> None:
    process, _, _ = child
    assert disk_bytes(process.pid)[1] in (0, 303_104) or disk_bytes(process.pid)[1] >= 300_000
    assert disk_bytes(2**22 + 1) == (0, 0)


def test_tree_holds_descendants_only() -> None:
    line = "{pid} (x) S {parent} " + " ".join(["0"] * 48)
    processes = {
        pid: parse_stat(line.format(pid=pid, parent=parent)) for pid, parent in [(5, 1), (6, 5), (7, 6), (8, 1)]
    }
    assert sorted(tree_pids(processes, 5)) == [5, 6, 7]
    assert tree_pids(processes, 99) == ()


def test_hostile_command_name() -> None:
    fields = ["S", "17", *["0"] * 9, "150", "50", "30", "20", *["0"] * 6, "3", *["0"] * 28]
    figures = parse_stat("42 (a) R 1 (b) " + " ".join(fields))
    assert (figures.pid, figures.parent, figures.state) == (42, 17, "S")
    assert figures.user_s == pytest.approx(1.8)
    assert figures.system_s == pytest.approx(0.7)


def test_processes_that_end_while_read(tmp_path: Path) -> None:
    (tmp_path / "12").mkdir()
    (tmp_path / "13").mkdir()
    (tmp_path / "13" / "stat").write_text("13 (cut")
    assert scan(tmp_path) == {}
    assert socket_inodes([12, 14], tmp_path) == set()
