"""A receiver of Ganglia's packets: recorded ones against gmond's own reading of them, bounds, who may send."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from collectors.base import Collected, OptionError, PositionError, SourceUnavailableError
from collectors.ganglia import gmond_udp, packet_socket
from collectors.ganglia.gmond_udp import GmondUdpCollector, GmondUdpOptions
from collectors.ganglia.gmond_xml import parse_answer
from collectors.ganglia.packet_socket import PacketSocket, Received
from tests.collectors.ganglia.reports import (
    METRICS,
    T0,
    metadata_packet,
    packets,
    recorded,
    value_packet,
)
from tests.collectors.positions import saved

DEADLINE_S = 180


class Receiver:
    """A collector on loopback whose packets come at times of a clock of ours."""

    def __init__(self, **options: Any) -> None:
        self.seconds = 1_000.0
        self.collector = GmondUdpCollector(
            GmondUdpOptions(**{"port": 0, "metrics": METRICS, **options}), lambda: self.seconds
        )
        self.poll(T0)
        self._sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def close(self) -> None:
        self._sender.close()
        self.collector.close()

    def send(self, *data: bytes) -> None:
        """And wait until they are taken."""
        taken = self.n_taken
        for one in data:
            self._sender.sendto(one, ("127.0.0.1", self.collector.port or 0))
            deadline_s = time.monotonic() + DEADLINE_S
            while self.n_taken == taken:
                assert time.monotonic() < deadline_s
                time.sleep(0.0005)
            taken = self.n_taken

    @property
    def n_taken(self) -> int:
        of = self.collector._socket
        assert of is not None
        return len(of._waiting) + sum(of._refused.values())

    def poll(self, now_ms: int) -> Collected:
        return self.collector.poll(now_ms)


@pytest.fixture
def receiver() -> Iterator[Callable[..., Receiver]]:
    made: list[Receiver] = []

    def make(**options: Any) -> Receiver:
        made.append(Receiver(**options))
        return made[-1]

    yield make
    for one in made:
        one.close()


Make = Callable[..., Receiver]


def rows(polled: Collected, event_type: str = "Metric") -> list[dict[str, Any]]:
    return [row for row in polled.events.rows() if row["type"] == event_type]


def kinds(polled: Collected) -> set[str]:
    return {problem.kind for problem in polled.problems}


def test_recorded_packets_are_what_gmond_itself_read_of_them(receiver: Make) -> None:
    """Of each metric the last value before gmond's answer is that in the answer, as it is printed, and as old."""
    mine = receiver(hosts={"vm": "localhost", "10.0.0.2": "node-2"})
    sent = [(t_ms, data) for t_ms, data in packets() if t_ms <= T0]
    for t_ms, data in sent:
        mine.seconds = 1_000.0 + (t_ms - sent[0][0]) / 1_000
        mine.send(data)
    mine.seconds = 1_000.0 + (T0 - sent[0][0]) / 1_000
    polled = mine.poll(T0)
    last = {(row["host"], row["name"]): row for row in rows(polled)}
    answered = {(of.name, name): found for of in parse_answer(recorded("gmond-1"), METRICS).hosts
                for name, found in of.metrics.items()}  # fmt: skip
    assert set(last) == set(answered)
    for key, found in answered.items():
        row = last[key]
        assert row["value"] == pytest.approx(found.value, abs=0.05 if key[1] == "cpu_user" else 0.5), key
        assert (row.get("unit"), row["clock_id"], row["origin"]) == (found.unit, "gmond:default", "gmond_udp:127.0.0.1")
        assert found.age_s * 1_000 <= T0 - row["t_lo_ms"] + 200 < found.age_s * 1_000 + 1_400
        assert row["t_lo_ms"] == row["t_hi_ms"]
    values = [data for _, data in sent if data[3] != 128]
    n_chosen = sum(any(name.encode() in data for name in METRICS) for data in values)
    assert len(rows(polled)) == n_chosen == 20
    assert polled.n_unselected == len(values) - n_chosen - sum(b"heartbeat" in data for data in values)
    assert polled.problems == ()
    assert polled.watermark_ms == T0 - 5_000


def test_values_are_dated_by_when_they_came(receiver: Make) -> None:
    mine = receiver()
    mine.send(value_packet("a", "load_one", 0.5))
    mine.seconds += 2.5
    mine.send(value_packet("a", "load_one", 0.5))
    mine.seconds += 1.5
    assert [(r["t_lo_ms"], r["value"]) for r in rows(mine.poll(T0 + 4_000))] == [(T0, 0.5), (T0 + 2_500, 0.5)]
    assert rows(mine.poll(T0 + 5_000)) == []


def test_units_and_types_are_those_of_the_metadata(receiver: Make) -> None:
    mine = receiver(metrics=("mem_free", "queue", "state"))
    mine.send(value_packet("a", "mem_free"), value_packet("a", "queue"))
    mine.send(metadata_packet("a", "queue", unit="jobs"), value_packet("a", "queue"))
    mine.send(metadata_packet("a", "mem_free", unit="GB"), value_packet("a", "mem_free"))
    mine.send(metadata_packet("a", "state", kind="string"), value_packet("a", "state"))
    polled = mine.poll(T0)
    told = [(row["name"], row.get("unit")) for row in rows(polled)]
    assert told == [("mem_free", "KB"), ("queue", None), ("queue", "jobs")]
    assert kinds(polled) == {"other_unit", "not_number"}


def test_what_is_no_packet_is_counted_and_told_once_per_episode(receiver: Make) -> None:
    mine = receiver()
    mine.send(b"hello", b"hello there", bytes(4_000), value_packet("a", "load_one"), bytes(9_000))
    polled = mine.poll(T0)
    assert len(rows(polled)) == 1
    assert sorted((p.kind, p.message.partition(",")[0]) for p in polled.problems) == [
        ("too_large", "1 packet(s) are refused"), ("unknown", "3 packet(s) are refused"),
    ]  # fmt: skip
    mine.send(b"hello")
    assert kinds(mine.poll(T0 + 1)) == set()
    assert kinds(mine.poll(T0 + 2)) == set()
    mine.send(b"hello")
    assert kinds(mine.poll(T0 + 3)) == {"unknown"}


def test_packets_hosts_and_memory_are_bounded(receiver: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packet_socket, "MAX_WAITING", 3)
    monkeypatch.setattr(gmond_udp, "MAX_HOSTS", 1)
    mine = receiver()
    mine.send(*(value_packet(f"h{n}", "heartbeat") for n in range(2)), *[value_packet("a", "load_one")] * 3)
    polled = mine.poll(T0)
    assert len(rows(polled)) == 1
    assert kinds(polled) == {"too_many", "too_many_hosts"}
    assert mine.collector.checkpoint()["heard_ms"] == {"h0": T0}


@pytest.mark.parametrize(
    ("allow", "sender", "taken"),
    [
        ((), "127.0.0.1", True),
        ((), "::1", True),
        ((), "10.0.0.1", False),
        (("10.0.0.0/8",), "10.0.0.1", True),
        (("10.0.0.0/8",), "::ffff:10.0.0.1", True),
        (("10.0.0.0/8",), "11.0.0.1", False),
        (("10.0.0.1", "fe80::/16"), "fe80::1%eth0", True),
    ],
)
def test_senders_that_are_not_named_are_refused(allow: Sequence[str], sender: str, taken: bool) -> None:
    listening = PacketSocket("127.0.0.1", 0, packet_socket.networks_of(allow))
    try:
        listening._take(0.0, value_packet("a", "load_one"), sender)
        found: Received = listening.take()
    finally:
        listening.close()
    assert (len(found.packets), dict(found.refused)) == ((1, {}) if taken else (0, {"not_allowed": 1}))
    assert taken or "sources.gmond_udp.allow does not name it" in found.first["not_allowed"]
    with pytest.raises(OptionError, match="expected addresses and networks"):
        GmondUdpOptions(allow=("node1",))


def test_a_host_whose_heartbeat_ends_is_told_for_a_day_and_one_without_heartbeats_is_not(receiver: Make) -> None:
    mine = receiver()
    mine.send(value_packet("a", "heartbeat"), value_packet("cron", "load_one"))
    assert rows(mine.poll(T0), "DaemonUnreachable") == []
    assert rows(mine.poll(T0 + 80_000), "DaemonUnreachable") == []
    polled = mine.poll(T0 + 80_001)
    (down,) = rows(polled, "DaemonUnreachable")
    assert (down["host"], down["daemon"], down["silent_ms"]) == ("a", "gmond", 80_001)
    assert kinds(polled) == {"host_vanished"}
    again = GmondUdpCollector(GmondUdpOptions(port=0))
    again.restore(json.loads(json.dumps(saved(mine.collector.checkpoint()))))
    try:
        assert rows(again.poll(T0 + 300_000), "DaemonUnreachable") == []  # it gets its time to be heard of again
        assert len(rows(again.poll(T0 + 380_001), "DaemonUnreachable")) == 1
    finally:
        again.close()
    assert rows(mine.poll(T0 + 86_400_001), "DaemonUnreachable") == []
    with pytest.raises(PositionError):
        again.restore({"version": 1, "heard_ms": 3, "watermark_ms": None})


def test_an_address_is_free_again_when_the_source_is_closed_and_taken_ones_are_told() -> None:
    first = GmondUdpCollector(GmondUdpOptions(port=0))
    first.poll(T0)
    second = GmondUdpCollector(GmondUdpOptions(port=first.port or 0))
    with pytest.raises(SourceUnavailableError, match="cannot be listened at"):
        second.poll(T0)
    first.close()
    with pytest.raises(SourceUnavailableError, match="closed"):
        first.poll(T0)
    second.poll(T0)
    second.close()


def test_real_gmond_and_gmetric_send_what_is_received(receiver: Make, tmp_path: Path) -> None:
    program = shutil.which("gmond", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None or shutil.which("gmetric") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no gmond: apt-get install ganglia-monitor")
        pytest.skip("no gmond: apt-get install ganglia-monitor")
    mine = receiver()
    conf = tmp_path / "gmond.conf"
    conf.write_text(
        f"""
globals {{ daemonize = no setuid = no deaf = yes override_hostname = "real" }}
udp_send_channel {{ host = 127.0.0.1 port = {mine.collector.port} }}
modules {{ module {{ name = "core_metrics" }} }}
collection_group {{ collect_once = yes time_threshold = 1 metric {{ name = "heartbeat" }} }}
""",
        encoding="utf-8",
    )
    subprocess.run(
        ["gmetric", "-c", conf, "--name=cpu_user", "--value=37.5", "--type=double", "--units=%"],
        check=True,
    )
    with (tmp_path / "log").open("wb") as log:
        daemon = subprocess.Popen([program, "-c", conf, "-f"], stdout=log, stderr=log)
    deadline_s, found = time.monotonic() + DEADLINE_S, list[dict[str, Any]]()
    try:
        while not found or not mine.collector.checkpoint()["heard_ms"]:
            assert time.monotonic() < deadline_s
            polled = mine.poll(T0)
            assert polled.problems == ()
            found += rows(polled)
            time.sleep(0.02)
    finally:
        daemon.kill()
        daemon.wait()
    assert [(row["name"], row["value"], row["unit"]) for row in found] == [("cpu_user", 37.5, "%")]
