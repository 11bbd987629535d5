"""Which exporters there are: addresses, files, servers, and lists that cannot be read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from collectors.base import ProblemLog, SourceUnavailableError
from collectors.network.http import Answer
from collectors.prometheus import discovery as discovery_module
from collectors.prometheus.discovery import Discovery, TargetServers
from collectors.prometheus.targets import Target, TargetDefaults, TargetFiles, TargetsError, listed, target_of
from tests.collectors.prometheus.exporters import T0
from tests.slow_servers import ends

DEFAULTS = TargetDefaults(hosts={"10.0.0.7": "node7"})


def test_addresses() -> None:
    assert target_of("node1:9100", {}, DEFAULTS) == Target("http://node1:9100/metrics", "node1", "default", "")
    assert target_of("10.0.0.7:9100", {}, DEFAULTS).host == "node7"
    full = target_of("https://node2:9443/a/b", {"cluster": "prod", "job": "node"}, DEFAULTS)
    assert full == Target("https://node2:9443/a/b", "node2", "prod", "node")
    assert full.instance == "node2:9443"
    labels = {"__scheme__": "https", "__metrics_path__": "/m", "host": "n", "__meta_x": "y"}
    assert target_of("[::1]:9100", labels, DEFAULTS) == Target("https://[::1]:9100/m", "n", "default", "")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "node 1",
        "u:p@node:1",
        "ftp://node/",
        "node:99999999",
        "node:70000",
        "http://node/?a=b",
        "-x:1",
        "a/../b",
        "x\n",
    ],
)  # fmt: skip
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(TargetsError, match=r"expected|is not of the form"):
        target_of(address, {}, DEFAULTS)


@pytest.mark.parametrize(
    "document",
    [None, {}, [1], [{}], [{"targets": "x"}], [{"targets": [1]}], [{"targets": [], "labels": {"a": 1}}],
     [{"targets": ["n:1"], "labels": {"__param_x": "1"}}]],
)  # fmt: skip
def test_what_is_no_list(document: object) -> None:
    with pytest.raises(TargetsError):
        listed(document, DEFAULTS)


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    problems, path = ProblemLog("prometheus"), tmp_path / "a.json"
    files = TargetFiles([tmp_path / "*.json", tmp_path / "b.yml"], DEFAULTS)
    assert files.targets(problems) == []
    assert [p.kind for p in problems.drain()] == ["no_targets", "no_targets"]
    path.write_text(json.dumps([{"targets": ["n1:1", "n2:1"], "labels": {"cluster": "c"}}]), encoding="utf-8")
    (tmp_path / "b.yml").write_text("- targets: ['n3:1']\n", encoding="utf-8")
    assert [(t.host, t.cluster) for t in files.targets(problems)] == [("n1", "c"), ("n2", "c"), ("n3", "default")]
    path.write_text("[{", encoding="utf-8")
    assert [t.host for t in files.targets(problems)] == ["n1", "n2", "n3"]
    (problem,) = problems.drain()
    assert (problem.kind, "the 2 targets of before stay" in problem.message) == ("bad_targets", True)
    assert len(files.targets(problems)) == 3
    assert problems.drain() == ()
    path.write_text("[]", encoding="utf-8")
    os.utime(path, ns=(1, 1))
    assert [t.host for t in files.targets(problems)] == ["n3"]
    path.unlink()
    assert [t.host for t in files.targets(problems)] == ["n3"]


@pytest.mark.parametrize(
    "text",
    ["&a [*a]", "- targets: &x [a]\n- targets: *x\n", "!!python/object/apply:os.system [x]", "{", "\x00", "[" * 5_000],
)
def test_hostile_yaml_is_a_problem(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yml").write_text(text, encoding="utf-8")
    problems = ProblemLog("prometheus")
    assert TargetFiles([tmp_path / "a.yml"], DEFAULTS).targets(problems) == []
    assert [p.kind for p in problems.drain()] == ["bad_targets"]


def test_what_stands_in_yaml_is_text_as_prometheus_has_it(tmp_path: Path) -> None:
    """And a number of base 60 with 100,000 digits is not computed at each poll."""
    (tmp_path / "a.yml").write_text(
        "- targets: [n1:9100]\n  labels: {cluster: 12, job: on, rack: 2026-11-26, n: 1" + ":1" * 100_000 + "}\n"
        "- targets: [n2:9100]\n  labels:\n",
        encoding="utf-8",
    )
    problems = ProblemLog("prometheus")
    found = TargetFiles([tmp_path / "a.yml"], DEFAULTS).targets(problems)
    assert problems.drain() == ()
    assert [(t.host, t.cluster, t.job) for t in found] == [("n1", "12", "on"), ("n2", "default", "")]


def test_what_is_no_file_is_a_problem_and_holds_up_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    problems = ProblemLog("prometheus")
    files = TargetFiles([tmp_path / "*.json"], DEFAULTS)
    assert ends(lambda: files.targets(problems)) == []
    assert [p.kind for p in problems.drain()] == ["bad_targets"] * 3


class Server:
    def __init__(self, *hosts: str) -> None:
        self.hosts, self.n_requested, self.failure, self.status = list(hosts), 0, "", 200

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        self.n_requested += 1
        if self.failure:
            raise SourceUnavailableError(self.failure)
        body = json.dumps([{"targets": [f"{host}:9100" for host in self.hosts]}]).encode()
        return Answer(base_url, self.status, "application/json", body, now_ms)


def at_once(call: Callable[[], list[Target]], _name: str) -> Future[list[Target]]:
    future: Future[list[Target]] = Future()
    try:
        future.set_result(call())
    except SourceUnavailableError as error:
        future.set_exception(error)
    except TargetsError as error:
        future.set_exception(error)
    return future


def test_servers_are_asked_when_their_list_is_due() -> None:
    problems, server = ProblemLog("prometheus"), Server("n1")
    servers = TargetServers(["http://sd/x"], DEFAULTS, lambda _url: server, 60_000, at_once)
    assert [t.host for t in servers.targets(T0, problems)] == ["n1"]
    server.hosts = ["n2"]
    assert [t.host for t in servers.targets(T0 + 59_999, problems)] == ["n1"]
    assert [t.host for t in servers.targets(T0 + 60_000, problems)] == ["n2"]
    server.failure = "gone"
    assert [t.host for t in servers.targets(T0 + 120_000, problems)] == ["n2"]
    server.failure, server.status = "", 500
    assert [t.host for t in servers.targets(T0 + 180_000, problems)] == ["n2"]
    assert [p.kind for p in problems.drain()] == ["bad_targets"]
    assert server.n_requested == 4


def test_a_server_that_hangs_holds_up_no_later_poll() -> None:
    hanging: list[Future[list[Target]]] = []

    def run(call: Callable[[], list[Target]], _name: str) -> Future[list[Target]]:
        hanging.append(at_once(call, "") if not hanging else Future())
        return hanging[-1]

    servers = TargetServers(["http://sd/x"], DEFAULTS, lambda _url: Server("n1"), 60_000, run)
    problems = ProblemLog("prometheus")
    for now_ms in (T0, T0 + 60_000, T0 + 120_000):
        assert [t.host for t in servers.targets(now_ms, problems)] == ["n1"]
    assert len(hanging) == 2  # it is not asked again while it hangs


def test_all_together_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yml").write_text("- targets: ['n1:9100', 'n2:9100']\n", encoding="utf-8")
    servers = TargetServers(["http://sd/x"], DEFAULTS, lambda _url: Server("n2", "n3"), 60_000, at_once)
    found = Discovery(["n1:9100"], [tmp_path / "a.yml"], servers, DEFAULTS)
    problems = ProblemLog("prometheus")
    assert [t.host for t in found.targets(T0, problems).values()] == ["n1", "n2", "n3"]
    monkeypatch.setattr(discovery_module, "MAX_TARGETS", 2)
    assert len(found.targets(T0, problems)) == 2
    assert [p.kind for p in problems.drain()] == ["too_many_targets"]
