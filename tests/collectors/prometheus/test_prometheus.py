"""Scraping: recorded answers of a real node_exporter, times, restarts, targets that are down, credentials."""

from __future__ import annotations

import gzip
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collectors.base import OptionError, PositionError, SourceUnavailableError
from collectors.metrics.normal import UNITS
from collectors.network.http import HttpOptions
from collectors.prometheus.credentials import Credentials
from collectors.prometheus.prometheus import HTTP, PrometheusCollector, PrometheusOptions
from collectors.prometheus.readings import DEFAULT_METRICS, READINGS, Kind, Reading
from collectors.schema import load_event_types
from tests.collectors.positions import saved
from tests.collectors.prometheus.exporters import (
    ALL,
    STEP_MS,
    T0,
    Clock,
    Exporter,
    changed,
    collector_of,
    kinds,
    recorded,
    values,
)
from tests.slow_servers import certificate, serving

NODE = "node1:9100"


def test_two_recorded_answers_against_what_the_kernel_said_beside_them() -> None:
    exporter = Exporter(recorded(1))
    collector = collector_of({NODE: exporter})
    first = collector.poll(T0)
    assert first.problems == ()
    assert ("node1", "cpu_user") not in values(first)
    exporter.text = recorded(2)
    told = {name: value for (_, name), value in values(collector.poll(T0 + STEP_MS)).items()}
    # Of /proc/stat read just before each answer: user 1552, nice 1169, system 281, idle 1, softirq 8, steal 1 of 3012.
    assert told["cpu_user"] == pytest.approx(100 * 1552 / 3012, abs=0.3)
    assert told["cpu_nice"] == pytest.approx(100 * 1169 / 3012, abs=0.3)
    assert told["cpu_system"] == pytest.approx(100 * (281 + 8) / 3012, abs=0.3)
    assert told["cpu_sintr"] == pytest.approx(100 * 8 / 3012, abs=0.1)
    shares = ("cpu_user", "cpu_nice", "cpu_system", "cpu_idle", "cpu_wio", "cpu_steal")
    assert sum(told[name] for name in shares) == pytest.approx(100.0)
    # Read in the answer by hand.
    assert (told["load_one"], told["cpu_num"], told["boottime"]) == (5.36, 2.0, 1_795_691_910.0)
    assert told["mem_total"] == 25_276_502_016 / 1024
    assert told["disk_total"] == pytest.approx(270.553174016)
    assert told["part_max_used"] == pytest.approx(100 * (1 - 81.707884544 / 270.553174016))
    assert (told["bytes_in"], told["pkts_out"]) == (0.0, 0.0)
    assert set(told) == set(READINGS)


def test_units_are_those_of_ganglia() -> None:
    exporter = Exporter(recorded(1))
    collector = collector_of({NODE: exporter})
    collector.poll(T0)
    exporter.text = recorded(2)
    rows = list(collector.poll(T0 + STEP_MS).events.rows())
    assert {row["name"]: row.get("unit") for row in rows} == {name: UNITS.get(name) for name in READINGS}
    types = load_event_types().types["Metric"]
    assert all(set(types) - set(row) <= {"unit", "resolution_ms"} for row in rows)
    assert set(DEFAULT_METRICS) <= set(READINGS)


def test_times_lie_between_request_and_answer() -> None:
    clock = Clock()
    exporter = Exporter(recorded(1), clock, takes_s=2.0)
    collector = collector_of({NODE: exporter}, clock)
    collector.poll(T0)
    polled = collector.poll(T0 + 15_000)
    times = {row["name"]: (row["t_lo_ms"], row["t_hi_ms"], row["clock_id"]) for row in polled.events.rows()}
    assert times["load_one"] == (T0 + 15_000, T0 + 17_000, "prometheus:default")
    assert times["bytes_in"] == (T0 + 1, T0 + 17_000, "prometheus:default")
    assert polled.watermark_ms == T0 + 10_000
    next_times = [row["t_lo_ms"] for row in collector.poll(T0 + 30_000).events.rows()]
    assert min(next_times) >= polled.watermark_ms


def test_growth_survives_a_restart_of_the_host_and_of_the_program() -> None:
    text = recorded(1)
    exporter = Exporter(changed(text, node_network_receive_bytes_total=1_000))
    collector = collector_of({NODE: exporter})
    collector.poll(T0)
    exporter.text = changed(text, node_network_receive_bytes_total=31_000)
    assert values(collector.poll(T0 + 15_000))["node1", "bytes_in"] == 2_000
    position = saved(collector.checkpoint())
    collector = collector_of({NODE: exporter})
    collector.restore(position)
    exporter.text = changed(text, node_network_receive_bytes_total=46_000)
    assert values(collector.poll(T0 + 30_000))["node1", "bytes_in"] == 1_000
    exporter.text = changed(text, node_network_receive_bytes_total=1_500)  # it began anew
    assert values(collector.poll(T0 + 45_000))["node1", "bytes_in"] == 100
    exporter.text = changed(text, node_network_receive_bytes_total=1_500)
    assert values(collector.poll(T0 + 60_000))["node1", "bytes_in"] == 0


def cpu(**seconds: float) -> str:
    return "".join(f'node_cpu_seconds_total{{cpu="0",mode="{mode}"}} {value}\n' for mode, value in seconds.items())


def test_idle_time_that_goes_back_a_little_is_no_restart() -> None:
    exporter = Exporter(cpu(idle=5_000, user=100))
    collector = collector_of({NODE: exporter})
    collector.poll(T0)
    exporter.text = cpu(idle=4_999.98, user=106)
    assert values(collector.poll(T0 + 15_000))["node1", "cpu_user"] == 100.0
    exporter.text = cpu(idle=9, user=3)  # the host was started again
    assert values(collector.poll(T0 + 30_000))["node1", "cpu_user"] == 25.0


def test_a_series_that_is_new_adds_nothing_to_growth() -> None:
    line = 'node_network_receive_bytes_total{{device="eth{}"}} {}\n'
    exporter = Exporter(line.format(0, 1_000))
    collector = collector_of({NODE: exporter})
    collector.poll(T0)
    exporter.text = line.format(0, 2_500) + line.format(1, 9e12)
    assert values(collector.poll(T0 + 15_000))["node1", "bytes_in"] == 100
    exporter.text = line.format(0, 2_500) + line.format(1, 9e12 + 3_000)
    assert values(collector.poll(T0 + 30_000))["node1", "bytes_in"] == 200
    exporter.text = line.format(1, 9e12 + 3_000)
    assert values(collector.poll(T0 + 45_000))["node1", "bytes_in"] == 0


def test_growth_is_not_told_over_a_poll_that_failed() -> None:
    """Its interval would begin before what the source has promised."""
    exporter = Exporter(recorded(1))
    collector = collector_of({NODE: exporter})
    collector.poll(T0)
    exporter.failure = "connection refused"
    missed = collector.poll(T0 + 15_000)
    exporter.failure = None
    back = collector.poll(T0 + 30_000)
    assert ("node1", "bytes_in") not in values(back)
    assert min(row["t_lo_ms"] for row in back.events.rows()) >= missed.watermark_ms
    assert ("node1", "bytes_in") in values(collector.poll(T0 + 45_000))


def test_samples_that_are_dated_by_the_exporter() -> None:
    line = 'node_load1 {} {}\nnode_disk_read_bytes_total{{device="sda"}} {} {}\n'
    exporter = Exporter(line.format(1.5, T0 - 2_000, 100, T0 - 2_000))
    collector = collector_of({NODE: exporter})
    collector.poll(T0)
    again = collector.poll(T0 + 1_000)
    assert ("node1", "disk_read_bytes") not in values(again)  # the same sample: no time has passed
    exporter.text = line.format(2.5, T0 + 8_000, 1_100, T0 + 8_000)
    polled = collector.poll(T0 + 10_000)
    rows = {row["name"]: row for row in polled.events.rows()}
    assert (rows["load_one"]["t_lo_ms"], rows["load_one"]["t_hi_ms"]) == (T0 + 8_000, T0 + 8_000)
    assert (rows["disk_read_bytes"]["t_lo_ms"], rows["disk_read_bytes"]["value"]) == (T0 - 2_000 + 1, 100.0)
    assert {row["clock_id"] for row in rows.values()} == {"host:node1"}
    exporter.text = line.format(2.5, T0 + 900_000, 1_100, T0 + 900_000)
    ahead = collector.poll(T0 + 20_000)
    assert (kinds(ahead), values(ahead)) == (["ahead", "no_metrics"], {})


def test_what_is_not_chosen_is_counted() -> None:
    (load,) = [reading for reading in READINGS.values() if reading.name == "load_one"]
    polled = collector_of({NODE: Exporter(recorded(1))}, readings=(load,)).poll(T0)
    n_samples = sum(1 for line in recorded(1).splitlines() if line and not line.startswith("#"))
    assert (list(values(polled)), polled.n_unselected) == ([("node1", "load_one")], n_samples - 1)


def test_a_metric_of_ones_own() -> None:
    heap = Reading("heap_used", Kind.GAUGE, "jvm_memory_bytes_used", {"area": "heap|old"}, 1e-6, "MB")
    text = 'jvm_memory_bytes_used{area="heap"} 5e6\njvm_memory_bytes_used{area="nonheap"} 7e6\n'
    (row,) = collector_of({NODE: Exporter(text)}, readings=(heap,)).poll(T0).events.rows()
    assert (row["name"], row["value"], row["unit"]) == ("heap_used", 5.0, "MB")
    with pytest.raises(OptionError, match="no regular expression"):
        collector_of({NODE: Exporter(text)}, readings=(Reading("x", Kind.GAUGE, "y", {"a": "("}),))


def test_series_that_are_told_twice_are_a_problem_once_per_episode() -> None:
    exporter, told = Exporter(""), []
    collector = collector_of({NODE: exporter})
    for number, text in enumerate(("a 1\n", "a 1\n", "", "a 1\n")):
        exporter.text = "node_load1 1\n" + text.replace("a", "node_load1")
        told.append(kinds(collector.poll(T0 + number * 15_000)))
    assert told == [["repeated_series"], [], [], ["repeated_series"]]


def test_values_whose_sum_is_no_number_cost_their_host_alone() -> None:
    idle = 'node_cpu_seconds_total{cpu="0",mode="idle"}'
    heap = Reading("heap_used", Kind.GAUGE, "heap", factor=1e9)
    exporters = {NODE: Exporter(""), "node2:9100": Exporter("")}
    collector = collector_of(exporters, readings=(*ALL, heap))
    for number in range(2):
        sane = f"node_load1 1\n{idle} {number * 10}\nheap 1e300\n"
        exporters["node2:9100"].text = sane
        exporters[NODE].text = sane + "".join(
            f'{line} {sign}1e308\n'
            for line in (
                'node_load1{n="1"}', 'node_load1{n="2"}',
                'node_cpu_seconds_total{cpu="0",mode="user"}', 'node_cpu_seconds_total{cpu="1",mode="user"}',
                'node_network_receive_bytes_total{device="eth0"}', 'node_network_receive_bytes_total{device="eth1"}',
            )
            for sign in [("-", "")[number]]
        )  # fmt: skip
        told = values(collector.poll(T0 + number * 15_000))
    assert ("node1", "load_one") not in told
    assert ("node1", "bytes_in") not in told
    assert ("node1", "heap_used") not in told
    assert (told["node2", "load_one"], told["node2", "cpu_idle"]) == (1.0, 100.0)


# ---- targets that do not answer --------------------------------------------------------------------------------


def test_a_target_that_is_down_is_told_of_once_per_episode_and_an_event_per_poll() -> None:
    exporters = {NODE: Exporter(recorded(1)), "node2:9100": Exporter(recorded(1))}
    collector = collector_of(exporters)
    collector.poll(T0)
    exporters[NODE].failure = "connection refused"
    told = [collector.poll(T0 + n * 15_000) for n in range(1, 4)]
    assert [kinds(polled) for polled in told] == [["unavailable"], [], []]
    down = [[row for row in polled.events.rows() if row["type"] == "DaemonUnreachable"] for polled in told]
    assert [len(rows) for rows in down] == [0, 1, 1]
    last = down[2][0]
    assert (last["host"], last["daemon"], last["silent_ms"], last["reason"]) == (
        "node1", "exporter on port 9100", 30_000, "connection refused",
    )  # fmt: skip
    assert all(("node2", "load_one") in values(polled) for polled in told)
    exporters[NODE].failure = None
    assert ("node1", "load_one") in values(collector.poll(T0 + 60_000))
    exporters[NODE].failure = "connection refused"
    assert kinds(collector.poll(T0 + 75_000)) == ["unavailable"]


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"status": 404}, "bad_status", "expected status 200, found 404"),
        ({"status": 302, "location": "http://login"}, "redirect", "http://login"),
        ({"status": 401}, "refused", "wants credentials"),
        ({"text": "<html>\n<body>"}, "not_exposition", "is it the address of an exporter"),
        ({"text": "node_load1 1 2 3 x\n"}, "not_exposition", "line 1"),
    ],
)
def test_an_answer_that_is_none_of_an_exporter_counts_as_down(change: dict[str, Any], kind: str, text: str) -> None:
    exporters = {NODE: Exporter(recorded(1)), "node2:9100": Exporter(recorded(1))}
    collector = collector_of(exporters)
    collector.poll(T0)
    for name, value in change.items():
        setattr(exporters[NODE], name, value)
    (problem,) = collector.poll(T0 + 15_000).problems
    assert problem.kind == kind
    assert text in problem.message
    types = collector.poll(T0 + 30_000).events.strings("type").to_pylist()
    assert types.count("DaemonUnreachable") == 1


def test_nobody_has_answered_yet() -> None:
    exporter = Exporter(recorded(1))
    exporter.failure = "no route to host"
    with pytest.raises(SourceUnavailableError, match=r"none of 1 target\(s\) answers: no route to host"):
        collector_of({NODE: exporter}).poll(T0)


def test_an_exporter_without_any_of_the_chosen_metrics_is_told_of() -> None:
    polled = collector_of({NODE: Exporter("go_goroutines 7\n")}).poll(T0)
    assert kinds(polled) == ["no_metrics"]
    assert polled.n_unselected == 1


# ---- credentials -----------------------------------------------------------------------------------------------


def test_credentials_are_read_at_each_poll_and_go_over_https_alone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n", encoding="utf-8")
    credentials = Credentials(bearer_token_file=tmp_path / "token")
    exporters = {NODE: Exporter(recorded(1)), "127.0.0.1:9100": Exporter(recorded(1))}
    collector = collector_of(exporters, credentials=credentials)
    polled = collector.poll(T0)
    assert kinds(polled) == ["insecure"]
    assert [exporter.n_requested for exporter in exporters.values()] == [0, 1]
    assert collector._secret == "Bearer s3cret"
    (tmp_path / "token").write_text("later", encoding="utf-8")
    collector.poll(T0 + 15_000)
    assert collector._secret == "Bearer later"
    (tmp_path / "token").unlink()
    with pytest.raises(SourceUnavailableError, match="token, with the credentials, cannot be read"):
        collector.poll(T0 + 30_000)
    (tmp_path / "token").write_text("two\nlines", encoding="utf-8")
    with pytest.raises(SourceUnavailableError, match="one line") as raised:
        collector.poll(T0 + 30_000)
    assert "two" not in str(raised.value)


def test_basic_auth(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("open sesame", encoding="utf-8")
    assert Credentials(username="me", password_file=tmp_path / "password").header() == "Basic bWU6b3BlbiBzZXNhbWU="
    assert Credentials().header() is None
    for wrong in ({"username": "me"}, {"username": "a:b", "password_file": tmp_path / "x"}):
        with pytest.raises(OptionError):
            Credentials(**wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="one of them"):
        Credentials(tmp_path / "x", "me", tmp_path / "y")


# ---- options, positions ----------------------------------------------------------------------------------------


def test_options_that_cannot_work() -> None:
    for wrong in ({}, {"targets": ("n:1",), "readings": ()}, {"servers": ("http://u:p@h/",)}):
        with pytest.raises(OptionError):
            PrometheusOptions(**wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="the address 'node 1'"):
        PrometheusCollector(PrometheusOptions(targets=("node 1",)), lambda _url, _http: Exporter(""))


def test_a_foreign_position_is_refused() -> None:
    collector = collector_of({NODE: Exporter(recorded(1))})
    for wrong in ({}, {"version": 9}, {"version": 1, "targets": {"x": {}}, "watermark_ms": None, "levels": None}):
        with pytest.raises(PositionError):
            collector.restore(wrong)


def test_ids_are_of_host_metric_and_time() -> None:
    ids = [
        collector_of({address: Exporter(recorded(1))}).poll(now_ms).events.strings("event_id").to_pylist()
        for address, now_ms in ((NODE, T0), (NODE, T0), ("node2:9100", T0), (NODE, T0 + 1))
    ]
    assert ids[0] == ids[1]
    assert len({*ids[0], *ids[2], *ids[3]}) == 3 * len(ids[0])


def test_the_options_of_requests_ask_for_both_formats_and_follow_nobody() -> None:
    seen: list[HttpOptions] = []

    def connect(_url: str, http: HttpOptions) -> Exporter:
        seen.append(http)
        return Exporter(recorded(1))

    PrometheusCollector(PrometheusOptions(targets=(NODE,)), connect).poll(T0)
    assert "application/openmetrics-text" in seen[0].accept
    assert seen[0].max_redirects == 0


def test_over_tls_with_a_file_of_certificates_and_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret", encoding="utf-8")
    context, ca_file = certificate(tmp_path)
    heads: list[bytes] = []
    body = recorded(1).encode()

    def serve(connection: socket.socket) -> None:
        heads.append(connection.recv(65_536))
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        connection.recv(65_536)

    with serving(serve, context) as url:
        trusted = replace(HTTP, n_attempts=1, verify_tls=str(ca_file))
        options = PrometheusOptions((f"{url}/metrics",), http=trusted, credentials=Credentials(tmp_path / "token"))
        assert ("127.0.0.1", "load_one") in values(PrometheusCollector(options).poll(T0))
        with pytest.raises(SourceUnavailableError, match="certificate verify failed"):
            PrometheusCollector(replace(options, http=replace(HTTP, n_attempts=1))).poll(T0)
    assert len(heads) == 1
    assert b"\r\nAuthorization: Bearer s3cret\r\n" in heads[0]
    assert b"\r\nAccept: application/openmetrics-text" in heads[0]


def test_a_compressed_answer_is_bounded_as_it_is_unpacked() -> None:
    bomb = gzip.compress(b"a" * (4 << 20))
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"

    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(head % len(bomb) + bomb)
        connection.recv(65_536)

    with serving(serve) as url:
        options = PrometheusOptions((url,), http=replace(HTTP, n_attempts=1, max_answer_bytes=1 << 20))
        with pytest.raises(SourceUnavailableError, match="an answer of more than 1048576 bytes"):
            PrometheusCollector(options).poll(T0)
