"""Ganglia asked directly: reports are told once, at their time; hosts and addresses that fall silent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.base import Collected, OptionError, PositionError, SourceUnavailableError
from collectors.ganglia.gmond import GmondCollector, GmondOptions
from collectors.ganglia.gmond_link import Ask, parse_address
from collectors.metrics.load_balance import LoadDeriver
from tests.collectors.ganglia.reports import METRICS, T0, Answers, answer, collector_of, host, metric, recorded
from tests.collectors.positions import saved
from tests.ports import own_port

STEP_MS = 15_000


def rows(polled: Collected, event_type: str = "Metric") -> list[dict[str, Any]]:
    return [row for row in polled.events.rows() if row["type"] == event_type]


def told(polled: Collected) -> list[tuple[str, str, float, int, int]]:
    """(host, name, value, begin and end before now) of each sample."""
    return [(r["host"], r["name"], r["value"], r["t_lo_ms"], r["t_hi_ms"]) for r in rows(polled)]


def kinds(polled: Collected) -> set[str]:
    return {problem.kind for problem in polled.problems}


def test_two_recorded_answers_tell_each_report_once() -> None:
    """gmond was told to send load and processor every 4 s, bytes and memory every 10 s, numbers every 20 minutes."""
    answers = Answers(g1=recorded("gmond-1"))
    gmond = collector_of(answers)
    first = gmond.poll(T0)
    assert len(rows(first)) == 8
    assert {row["clock_id"] for row in rows(first)} == {"gmond:mini"}
    assert {row["origin"] for row in rows(first)} == {"gmond://g1:8649"}
    (user,) = [row for row in rows(first) if (row["host"], row["name"]) == ("node-2", "cpu_user")]
    assert (user["value"], user["unit"]) == (37.5, "%")
    # gmetric sent it 6.2 s before the answer; TN was 6.
    assert user["t_lo_ms"] <= 1_795_763_084_620 <= user["t_hi_ms"] == T0 - 6_000
    answers.bodies["g1:8649"] = recorded("gmond-2")
    second = gmond.poll(T0 + 6_006)
    assert sorted((row["host"], row["name"]) for row in rows(second)) == [
        ("localhost", "bytes_in"), ("localhost", "cpu_user"), ("localhost", "load_one"), ("localhost", "mem_free"),
    ]  # fmt: skip
    # The packets came at :094.7 (load, processor) and :095.7.
    for row in rows(second):
        sent_ms = 1_795_763_094_700 if row["name"] in ("load_one", "cpu_user") else 1_795_763_095_700
        assert row["t_lo_ms"] - 100 <= sent_ms <= row["t_hi_ms"] + 100
    assert rows(gmond.poll(T0 + 6_007)) == []
    answers.bodies["g1:8649"] = recorded("gmetad")  # of the same reports
    assert rows(gmond.poll(T0 + 6_010)) == []


def test_a_report_lies_as_long_before_the_answer_as_its_age_says() -> None:
    """Whole seconds, rounded down, of a moment between request and answer; of gmetad one less to two more."""
    answers = Answers(g1=answer(host("a", metric("load_one", 1, 7))), takes_s=0.25)
    assert told(collector_of(answers).poll(T0)) == [("a", "load_one", 1.0, T0 - 8_000 + 1, T0 + 250 - 7_000)]
    answers.tell(host("a", metric("load_one", 1, 7)), source="gmetad")
    assert told(collector_of(answers).poll(T0)) == [("a", "load_one", 1.0, T0 - 9_000 + 1, T0 + 250 - 6_000)]
    answers.tell(host("a", metric("load_one", 1, 0)), source="gmetad")
    ((*_, t_hi_ms),) = told(collector_of(answers).poll(T0))
    assert t_hi_ms == T0 + 250  # not after it was told


def test_the_same_value_reported_again_is_another_sample_and_seen_again_is_none() -> None:
    answers = Answers(g1=answer(host("a", metric("load_one", 1, 3))))
    gmond = collector_of(answers)
    assert len(told(gmond.poll(T0))) == 1
    for number, (age_s, n) in enumerate(((18, 0), (33, 0), (4, 1), (19, 0), (0, 1), (0, 1)), 1):
        answers.tell(host("a", metric("load_one", 1, age_s)))
        assert len(told(gmond.poll(T0 + number * STEP_MS))) == n, number


def test_a_value_that_changed_within_the_same_second_is_told_and_what_is_of_before_is_not() -> None:
    answers = Answers(g1=answer(host("a", metric("load_one", 1, 0))))
    gmond = collector_of(answers)
    gmond.poll(T0)
    answers.tell(host("a", metric("load_one", 2, 0)))
    assert told(gmond.poll(T0 + 100)) == [("a", "load_one", 2.0, T0 - 899, T0 + 100)]
    answers.tell(host("a", metric("load_one", 1, 30)))  # of an address that is behind
    assert told(gmond.poll(T0 + STEP_MS)) == []


def test_of_several_addresses_the_youngest_report_counts_and_one_stands_in_for_another() -> None:
    answers = Answers(
        g1=answer(host("a", metric("load_one", 1, 9), age_s=9)), g2=answer(host("a", metric("load_one", 2, 1), age_s=1))
    )
    gmond = collector_of(answers)
    assert [row[2] for row in told(gmond.poll(T0))] == [2.0]
    answers.fall_silent("g2")
    answers.tell(host("a", metric("load_one", 2, 16), age_s=16))
    polled = gmond.poll(T0 + STEP_MS)
    assert (told(polled), kinds(polled)) == ([], {"unavailable"})
    answers.tell(host("a", metric("load_one", 3, 2), age_s=2))
    polled = gmond.poll(T0 + 2 * STEP_MS)
    assert [row[2] for row in told(polled)] == [3.0]
    (down,) = rows(polled, "DaemonUnreachable")
    assert (down["host"], down["daemon"], down["silent_ms"]) == ("g2", "Ganglia on port 8649", STEP_MS)
    assert "refused" in down["reason"]


def test_a_host_that_reports_no_more_gives_no_sample_and_is_missed_for_a_day() -> None:
    answers = Answers(g1=answer(host("a", metric("load_one", 1)), host("gone", metric("load_one", 1), age_s=90_000)))
    gmond = collector_of(answers, hosts={"10.0.0.1": "node-a"})
    first = gmond.poll(T0)
    assert [row[0] for row in told(first)] == ["a"]
    assert rows(first, "DaemonUnreachable") == []  # it was gone before anybody looked
    answers.tell(host("a", metric("load_one", 1, 0, limit_s=0), age_s=81, address="10.0.0.1"))
    second = gmond.poll(T0 + 81_000)
    assert (told(second), kinds(second)) == ([], {"host_vanished"})
    (down,) = rows(second, "DaemonUnreachable")
    assert (down["host"], down["daemon"], down["silent_ms"]) == ("node-a", "gmond", 81_000)
    answers.tell(host("a", age_s=86_400 + 82))
    assert rows(gmond.poll(T0 + 86_401_000), "DaemonUnreachable") == []
    answers.tell(host("a", metric("load_one", 1)))
    assert len(told(gmond.poll(T0 + 86_500_000))) == 1


def test_the_watermark_follows_answers_and_not_for_ever_those_who_give_none() -> None:
    answers = Answers(g1=answer(host("a", metric("load_one", 1))), g2=answer(host("b", metric("load_one", 1))))
    gmond = collector_of(answers, lateness_ms=20_000, silent_ms=60_000)
    marks = [gmond.poll(T0).watermark_ms - T0]
    answers.fall_silent("g2")
    marks += [gmond.poll(T0 + n * STEP_MS).watermark_ms - T0 for n in range(1, 7)]
    assert marks == [-20_000, -20_000, -20_000, -20_000, -20_000, 55_000, 70_000]


def test_nothing_that_is_told_was_promised_away() -> None:
    """Reports come at any time and are seen at the next poll, with ages of gmetad's kind."""
    answers = Answers(g1=answer())
    gmond = collector_of(answers)
    watermark_ms, n_told = -1, 0
    for number in range(1, 60):
        now_ms = T0 + number * STEP_MS
        reported_ms = now_ms - (number * 7_919) % (STEP_MS + 15_000)
        answers.tell(host("a", metric("load_one", number, (now_ms - reported_ms) // 1_000)), source="gmetad")
        polled = gmond.poll(now_ms)
        for _, _, _, t_lo_ms, t_hi_ms in told(polled):
            assert t_lo_ms <= reported_ms <= t_hi_ms
            assert t_lo_ms >= watermark_ms
            n_told += 1
        watermark_ms = polled.watermark_ms
    assert n_told > 40


def test_odd_answers_are_told_once_per_episode() -> None:
    answers = Answers(g1=answer(host("a", metric("load_one", "x"), metric("cpu_user", 1))))
    gmond = collector_of(answers)
    polled = gmond.poll(T0)
    assert [problem.message for problem in polled.problems] == ["g1:8649: a: load_one is 'x'; expected a number"]
    assert kinds(gmond.poll(T0 + 1)) == set()
    for body, kind in (
        (answer(), "no_hosts"),
        (answer(host("a", metric("disk_free", 1))), "no_metrics"),
        (recorded("gmond-1")[:-30], "truncated"),
        (b"<html/>", "not_ganglia"),
    ):
        answers.bodies["g1:8649"] = body
        assert kinds(gmond.poll(T0 + STEP_MS)) == {kind}
    answers.tell(host("a", metric("disk_free", 1), metric("disk_total", 1), metric("load_one", 1)))
    assert gmond.poll(T0 + 2 * STEP_MS).n_unselected == 2


def test_while_nobody_has_answered_the_source_is_unavailable() -> None:
    answers = Answers(g1=SourceUnavailableError("refused"), g2=b"nothing")
    gmond = collector_of(answers)
    with pytest.raises(SourceUnavailableError, match=r"none of 2 address\(es\) answers: refused"):
        gmond.poll(T0)
    assert len(rows(gmond.poll(T0 + STEP_MS), "DaemonUnreachable")) == 2
    with pytest.raises(OptionError, match="no address"):
        GmondCollector(GmondOptions(()))
    with pytest.raises(OptionError, match="expected HOST:PORT"):
        GmondCollector(GmondOptions(("a b",)))


def test_a_restart_tells_nothing_twice_and_forgets_nobody() -> None:
    answers = Answers(
        g1=answer(host("a", metric("load_one", 1)), host("b")), g2=answer(host("c", metric("load_one", 1)))
    )
    gmond = collector_of(answers)
    first = gmond.poll(T0)
    answers.fall_silent("g2")
    gmond.poll(T0 + 1_000)
    again = collector_of(answers)
    again.restore(saved(gmond.checkpoint()))
    assert saved(again.checkpoint()) == saved(gmond.checkpoint())
    answers.tell(host("a", metric("load_one", 1, 15)), host("b", age_s=99))
    polled = again.poll(T0 + STEP_MS)
    assert told(polled) == []
    assert {row["host"] for row in rows(polled, "DaemonUnreachable")} == {"b", "g2"}
    assert polled.watermark_ms >= first.watermark_ms
    json.dumps(saved(gmond.checkpoint()), default=str)
    for damaged in ({}, {"version": 99}, {"version": 1, "watermark_ms": 0, "addresses": {"x": 1}, "reports": None}):
        with pytest.raises(PositionError):
            again.restore(damaged)


def test_the_load_is_of_all_hosts_though_a_poll_brings_those_that_changed() -> None:
    answers = Answers(g1=answer(*(host(name, metric("cpu_user", 10, 1)) for name in "abc")))
    gmond, deriver = collector_of(answers), LoadDeriver(of_polls=True, hold_ms=180_000)
    first = gmond.poll(T0)
    (std, _) = deriver.derive(first.events, first.watermark_ms).rows()
    assert (std["n_hosts"], std["val"]) == (3, 0.0)
    answers.tell(
        host("a", metric("cpu_user", 10, 16)),
        host("b", metric("cpu_user", 40, 3)),
        host("c", metric("cpu_user", 10, 16)),
    )
    second = gmond.poll(T0 + STEP_MS)
    (std, state) = deriver.derive(second.events, second.watermark_ms).rows()
    assert (std["n_hosts"], std["n_missing"], std["host_1"], std["value_1"]) == (3, 0, "b", 40.0)
    assert std["val"] == pytest.approx(14.142135623730951)
    assert state["type"] == "Imbalance"
    assert first.watermark_ms <= std["t_lo_ms"] <= std["t_hi_ms"] == T0 + STEP_MS - 3_000
    again = LoadDeriver(of_polls=True, hold_ms=180_000)
    again.restore(json.loads(json.dumps(deriver.checkpoint())))
    # c reports no more: it is held for three minutes, then missing.
    hosts = {}
    for number in range(2, 16):
        answers.tell(host("b", metric("cpu_user", 40 + number, 3)), host("new", metric("cpu_user", 1, 300)))
        polled = gmond.poll(T0 + number * STEP_MS)
        found = list(again.derive(polled.events, polled.watermark_ms).rows())
        assert all(row["t_lo_ms"] >= T0 + (number - 1) * STEP_MS - 3_000 for row in found)
        hosts[number] = (found[0]["n_hosts"], found[0]["n_missing"])
    assert hosts[2] == (3, 0)
    assert hosts[12] == (3, 0)
    assert hosts[13] == (1, 2)


# ---- the real one ----------------------------------------------------------------------------------------------

GMOND_CONF = """
globals {{ daemonize = no setuid = no mute = no deaf = no host_dmax = 0 send_metadata_interval = 2 }}
cluster {{ name = "real" }}
udp_send_channel {{ host = 127.0.0.1 port = {port} }}
udp_recv_channel {{ bind = 127.0.0.1 port = {port} }}
tcp_accept_channel {{ bind = 127.0.0.1 port = {port} gzip_output = {packed} }}
modules {{ module {{ name = "core_metrics" }} }}
collection_group {{ collect_once = yes time_threshold = 20 metric {{ name = "heartbeat" }} }}
"""


@pytest.fixture(params=["no", "yes"])
def running_gmond(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """(address, configuration) of a gmond of its own."""
    program = shutil.which("gmond", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None or shutil.which("gmetric") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no gmond: apt-get install ganglia-monitor")
        pytest.skip("no gmond: apt-get install ganglia-monitor")
    with own_port() as port:
        conf = tmp_path / "gmond.conf"
        conf.write_text(GMOND_CONF.format(port=port, packed=request.param), encoding="utf-8")
        with (tmp_path / "log").open("wb") as log:
            daemon = subprocess.Popen([program, "-c", conf, "-f"], stdout=log, stderr=log)
        try:
            yield f"127.0.0.1:{port}", conf
        finally:
            daemon.kill()
            daemon.wait()


def test_a_real_gmond_tells_what_gmetric_sent_to_it(running_gmond: tuple[str, Path]) -> None:
    address, conf = running_gmond
    gmond = GmondCollector(GmondOptions((address,), METRICS, hosts={"10.0.0.2": "node2"}))
    deadline_s = time.monotonic() + 180

    def samples(n: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while len(found) < n:
            assert time.monotonic() < deadline_s
            found += rows(gmond.poll(round(time.time() * 1_000)))
            time.sleep(0.05)
        return found

    def send(**sent: Any) -> tuple[int, int]:
        given = [f"--{key}={value}" for key, value in sent.items()]
        before_ms = round(time.time() * 1_000)
        subprocess.run(["gmetric", "-c", conf, "--spoof=10.0.0.2:spoofed", *given], check=True)
        return before_ms, round(time.time() * 1_000)

    while True:  # what is sent before it listens is lost
        try:
            Ask()(parse_address(address))
        except SourceUnavailableError:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        else:
            break
    for value in (12.5, 37.5):
        before_ms, after_ms = send(name="cpu_user", value=value, type="double", units="%")
        (row,) = samples(1)
        assert (row["host"], row["name"], row["value"], row["unit"]) == ("node2", "cpu_user", value, "%")
        assert row["clock_id"] == "gmond:real"
        assert row["t_lo_ms"] <= after_ms
        assert before_ms <= row["t_hi_ms"] <= row["t_lo_ms"] + 60_000
