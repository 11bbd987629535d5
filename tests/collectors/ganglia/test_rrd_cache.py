"""rrdcached: the real one holds rows back until they are asked for; others answer anything, or nothing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import rrdtool

from collectors.base import OptionError, SourceUnavailableError
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.ganglia.rrd_cache import MAX_ANSWER_BYTES, RrdCache
from tests.collectors import rrds
from tests.collectors.ganglia.reports import listening
from tests.collectors.rrds import STEP_S, T0_MS, T0_S
from tests.slow_servers import wait_for_hang_up

STEP_MS = STEP_S * 1_000


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon of a busy machine may be late; how long one is waited for that says nothing is that test's own."""
    monkeypatch.setattr(RrdCache.__init__, "__defaults__", (120.0,))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[str]:
    """Address of an rrdcached of its own, which writes nothing for an hour."""
    program = shutil.which("rrdcached", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        reason = "there is no rrdcached; deploy/setup/for-tests.sh installs it"
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    address = tmp_path / "cached.sock"
    given = ["-g", "-l", f"unix:{address}", "-w", "3600", "-f", "7200", "-p", str(tmp_path / "pid")]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([program, *given], stdout=log, stderr=log)
    deadline_s = time.monotonic() + 180
    try:
        while not address.exists():
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        yield f"unix:{address}"
    finally:
        process.kill()
        process.wait()


def test_rows_that_the_daemon_holds_back_are_read(daemon: str, tmp_path: Path) -> None:
    root = tmp_path / "rrds"
    paths = [root / "c" / host / "cpu_user.rrd" for host in ("node 1", 'a"b\\c')]
    for path in paths:
        rrds.write_rrd(path, [1.0])
    plain = GangliaRrdCollector(GangliaRrdOptions(root))
    flushing = GangliaRrdCollector(GangliaRrdOptions(root, daemon=daemon))
    for collector in (plain, flushing):
        assert len(collector.poll(T0_MS + STEP_MS).events) == 2
    for path in paths:
        rrdtool.update(str(path), "--daemon", daemon, f"{T0_S + 2 * STEP_S}:2")
    now_ms = T0_MS + 2 * STEP_MS
    assert len(plain.poll(now_ms).events) == 0
    polled = flushing.poll(now_ms)
    assert [(row["host"], row["value"]) for row in polled.events.rows()] == [('a"b\\c', 2.0), ("node 1", 2.0)]
    assert polled.problems == ()


def test_what_it_refuses_and_that_it_is_gone_is_told_once_and_files_are_read_nevertheless(
    daemon: str, tmp_path: Path
) -> None:
    cache = RrdCache(daemon)
    flushed = cache.flush([str(tmp_path / "none.rrd"), "with\nline"])
    assert (flushed.n_done, list(flushed.refused)) == (0, [str(tmp_path / "none.rrd")])
    assert "No such file" in flushed.refused[str(tmp_path / "none.rrd")]
    root = tmp_path / "rrds"
    path = root / "c" / "h" / "cpu_user.rrd"
    rrds.write_rrd(path, [1.0])
    collector = GangliaRrdCollector(GangliaRrdOptions(root, daemon=str(tmp_path / "gone.sock")))
    collector.poll(T0_MS + STEP_MS)
    rrds.extend_rrd(path, [2.0], start_s=T0_S + STEP_S)
    polled = collector.poll(T0_MS + 2 * STEP_MS)
    assert len(polled.events) == 1
    assert [problem.kind for problem in polled.problems] == ["cache_unavailable"]
    assert collector.poll(T0_MS + 3 * STEP_MS).problems == ()


def test_many_files_are_asked_for_in_parts_and_answers_belong_to_their_files() -> None:
    def serve(link: socket.socket) -> None:
        file = link.makefile("rb")
        for line in file:
            number = int(line.split(b"/")[-1])
            link.sendall(b"-1 bad %d\n" % number if number % 7 == 0 else b"0 Successfully flushed\n")

    with listening(serve) as address:
        flushed = RrdCache(address).flush([f"/r/{number}" for number in range(1_000)])
    assert flushed.n_done == 857
    assert flushed.refused == {f"/r/{number}": f"-1 bad {number}" for number in range(0, 1_000, 7)}


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "is it an rrdcached"),
        (b"1 one line follows\n", "is it an rrdcached"),
        (b"0" * (MAX_ANSWER_BYTES + 70_000), "an answer of more than|more bytes than"),
        (b"", "not all in time"),
    ],
)
def test_what_is_no_rrdcached_is_given_up(sent: bytes, told: str) -> None:
    def serve(link: socket.socket) -> None:
        link.recv(1_000)
        link.sendall(sent)

    with listening(serve) as address, pytest.raises(SourceUnavailableError, match=told):
        RrdCache(address).flush(["/r/1", "/r/2"])


def test_one_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    with listening(wait_for_hang_up) as address, pytest.raises(SourceUnavailableError, match="rrdcached at"):
        RrdCache(address, timeout_s=0.2).flush(["/r/1"])
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        with pytest.raises(SourceUnavailableError, match="rrdcached at"):
            RrdCache(f"unix:{tmp_path / 's'}", timeout_s=0.2).flush(["/r/1"])


def test_addresses() -> None:
    for right in ("unix:/run/rrdcached.sock", "/run/rrdcached.sock", "cache", "cache:42217", "[::1]:42217"):
        RrdCache(right)
    for wrong in ("", "unix:", "a b", "cache:0", "cache:65536", "/run/\n"):
        with pytest.raises(OptionError, match="expected unix:/PATH or HOST:PORT"):
            RrdCache(wrong)
    assert RrdCache("cache").flush([]).n_done == 0
