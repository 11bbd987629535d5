"""Daemons that settings name by an IPv6 address: over real connections to loopback."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from collectors.base import Collected
from collectors.ganglia.gmond import GmondCollector, GmondOptions
from collectors.ganglia.gmond_link import Ask
from collectors.jmx.jmx import JmxCollector, JmxOptions
from collectors.logs.client_trace import client_trace
from collectors.prometheus.prometheus import PrometheusCollector, PrometheusOptions
from collectors.prometheus.targets import TargetDefaults
from collectors.rest.documents import parse_attempts
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from tests.collectors import rest_server
from tests.collectors.ganglia import reports
from tests.collectors.jmx.daemons import Daemon, recorded
from tests.collectors.prometheus import exporters


class Server6(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True


class Handler(BaseHTTPRequestHandler):
    """A NameNode, a ResourceManager with all behind its proxy, an exporter: by path."""

    names: set[str]
    """What clients called this server."""

    def do_GET(self) -> None:
        self.names.add(self.headers["Host"])
        if self.path.startswith("/jmx"):
            answer = Daemon(recorded("NameNode")).get("", self.path, 0)
        elif self.path == "/metrics":
            answer = exporters.Exporter(exporters.recorded()).get("", self.path, 0)
        else:
            answer = rest_server.running_job().get("", self.path, 0)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, *args: object) -> None:
        """Nothing to standard error."""


@pytest.fixture
def address() -> Iterator[str]:
    """[::1]:PORT of a server."""
    try:
        server = Server6(("::1", 0), Handler)
    except OSError:
        pytest.skip("no IPv6 loopback here")
    Handler.names = set()
    with server:
        running = Thread(target=server.serve_forever, args=(0.02,))
        running.start()
        found = f"[::1]:{server.server_address[1]}"
        yield found
        server.shutdown()
        running.join()
    assert Handler.names == {found}


def hosts(polled: Collected) -> set[Any]:
    assert [problem for problem in polled.problems if problem.kind == "unavailable"] == []
    return {row["host"] for row in polled.events.rows() if row.get("host") is not None}


@pytest.mark.parametrize(("named", "host"), [({}, "::1"), ({"::1": "nn1"}, "nn1")])
def test_jmx(address: str, named: dict[str, str], host: str) -> None:
    polled = JmxCollector(JmxOptions({"NameNode": (f"http://{address}",)}, hosts=named)).poll(exporters.T0)
    assert "NameNodeSample" in {row["type"] for row in polled.events.rows()}
    assert hosts(polled) == {host}


@pytest.mark.parametrize("form", ["{}", "http://{}/metrics"])
def test_exporters(address: str, form: str) -> None:
    options = PrometheusOptions(targets=(form.format(address),), defaults=TargetDefaults(hosts={"::1": "node1"}))
    assert hosts(PrometheusCollector(options).poll(exporters.T0)) == {"node1"}


def test_a_resource_manager_and_what_is_behind_its_proxy(address: str) -> None:
    url = f"http://{address}"
    options = YarnRestOptions(resource_manager_urls=(url,), history_url=url)
    polled = YarnRestCollector(options).poll(rest_server.NOW_MS)
    assert polled.problems == ()
    assert {"JobStart", "TaskSample"} <= {row["type"] for row in polled.events.rows()}


def test_gmond() -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 loopback here")

    def answer() -> None:
        link, _ = listener.accept()
        with link:
            link.sendall(reports.recorded("gmond-1"))

    with listener:
        answering = Thread(target=answer)
        answering.start()
        options = GmondOptions(addresses=(f"[::1]:{listener.getsockname()[1]}",), metrics=reports.METRICS)
        polled = GmondCollector(options, Ask()).poll(reports.T0)
        answering.join()
    assert polled.problems == ()
    assert hosts(polled)


def test_hosts_that_daemons_name_by_such_addresses_have_no_brackets() -> None:
    attempt = rest_server.attempt(rest_server.MAP_RUNS, nodeHttpAddress="[fd00::5]:8042")
    (found,) = parse_attempts(rest_server.Script({"/": rest_server.attempts(attempt)}).get("", "/", 0))
    assert found.facts.host == "fd00::5"
    line = "src: /[fd00::5]:36092, dest: /[fd00::6]:9866, bytes: 7, op: HDFS_WRITE, cliID: c, duration(ns): 3"
    told = client_trace(line, str)
    assert told is not None
    assert (told["source_host"], told["dest_host"]) == ("fd00::5", "fd00::6")
