"""JMX: recorded answers of real daemons, counters across restarts, pairs, daemons that are down, hostile answers."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from collectors.base import Collected, OptionError, SourceUnavailableError
from collectors.jmx import jmx
from collectors.jmx.beans import wanted_of
from collectors.jmx.jmx import MAX_DAEMONS, JmxCollector, JmxOptions
from collectors.jmx.readings import DAEMON_KINDS
from collectors.metrics.load_balance import LoadDeriver, LoadOptions
from collectors.network import side_by_side
from collectors.network.http import Answer
from collectors.schema import load_event_types
from tests.collectors.jmx.daemons import T0, URLS, Daemon, cluster, collector_of
from tests.collectors.positions import saved

MINUTE_MS = 60_000
MIB = 1 << 20


def rows(polled: Collected, event_type: str) -> list[dict[str, Any]]:
    return [row for row in polled.events.rows() if row["type"] == event_type]


def one(polled: Collected, event_type: str, **wanted: Any) -> dict[str, Any]:
    (row,) = [r for r in rows(polled, event_type) if all(r.get(k) == v for k, v in wanted.items())]
    return row


def kinds(polled: Collected) -> set[str]:
    return {problem.kind for problem in polled.problems}


def test_a_recorded_cluster() -> None:
    polled = collector_of(cluster()).poll(T0)
    assert polled.problems == ()
    assert polled.watermark_ms == T0 - 5_000
    name_node = one(polled, "NameNodeSample")
    # Read in the recorded answers by hand.
    assert {name: name_node[name] for name in (
        "host", "ha_state", "in_safe_mode", "n_missing_blocks", "n_under_replicated", "n_live_datanodes",
        "n_dead_datanodes", "n_stale_datanodes", "n_failed_name_dirs", "used_bytes", "remaining_bytes", "n_files",
        "n_uncheckpointed", "checkpoint_age_ms",
    )} == {
        "host": "nn1", "ha_state": "active", "in_safe_mode": 0, "n_missing_blocks": 0, "n_under_replicated": 2,
        "n_live_datanodes": 1, "n_dead_datanodes": 0, "n_stale_datanodes": 0, "n_failed_name_dirs": 0,
        "used_bytes": 19_143_450, "remaining_bytes": 61_544_968_192, "n_files": 129, "n_uncheckpointed": 5_605,
        "checkpoint_age_ms": T0 - 1_795_482_111_063,
    }  # fmt: skip
    assert "safe_mode" not in name_node
    assert one(polled, "RpcSample", daemon="NameNode")["port"] == "18020"
    assert one(polled, "DataNodeSample")["capacity_bytes"] == 270_553_174_016
    manager = one(polled, "ResourceManagerSample")
    assert (manager["ha_state"], manager["n_active_nodes"], manager["n_lost_nodes"]) == ("active", 2, 0)
    assert [row["queue"] for row in rows(polled, "QueueSample")] == ["root", "root.default"]
    queue = one(polled, "QueueSample", queue="root.default")
    assert (queue["am_used_bytes"], queue["am_limit_bytes"]) == (512 * MIB, 1_536 * MIB)
    node = one(polled, "NodeManagerSample")
    assert (node["n_bad_local_dirs"], node["local_dirs_percent"]) == (0, 77.0)
    heap = one(polled, "DaemonSample", daemon="NameNode")
    assert (heap["heap_used_bytes"], heap["heap_max_bytes"]) == (round(52.431763 * MIB), round(123.75 * MIB))
    assert all(
        (row["t_lo_ms"], row["t_hi_ms"], row["clock_id"]) == (T0, T0, "poll:jmx") for row in polled.events.rows()
    )
    assert len(rows(polled, "DaemonSample")) == 4


def test_what_is_told_is_in_the_table_of_events() -> None:
    types = load_event_types().types
    for row in collector_of(cluster()).poll(T0).events.rows():
        assert set(row) - set(types[row["type"]]) <= {
            "event_id", "type", "t_lo_ms", "t_hi_ms", "source_rank", "source_seq", "clock_id", "origin", "raw",
        }  # fmt: skip
    told = {s.event_type: {r.attribute for r in s.readings} for k in DAEMON_KINDS.values() for s in k.samples}
    assert all(attributes <= set(types[event_type]) for event_type, attributes in told.items())


def test_a_daemon_is_asked_for_chosen_beans_alone() -> None:
    daemons = cluster()
    collector_of(daemons).poll(T0)
    assert {kind: len(daemon.asked) for kind, daemon in daemons.items()} == {
        "NameNode": 8, "DataNode": 3, "ResourceManager": 8, "NodeManager": 4,
    }  # fmt: skip
    assert "/jmx?get=Hadoop:service=NameNode,name=NameNodeInfo::Safemode" in daemons["NameNode"].asked
    assert all("qry=Hadoop:service=" in path or "get=Hadoop:service=" in path for path in daemons["NameNode"].asked)


def test_growth_of_counters_survives_a_restart_of_the_daemon_and_of_the_program() -> None:
    daemons = cluster("NodeManager")
    collector, bean = collector_of(daemons), daemons["NodeManager"].bean("NodeManagerMetrics")
    first = one(collector.poll(T0), "NodeManagerSample")
    assert "n_failed_containers" not in first  # 1 since the daemon's start, whenever that was
    assert "period_ms" not in first
    bean["ContainersFailed"] = 5
    again = one(collector.poll(T0 + 30_000), "NodeManagerSample")
    assert (again["n_failed_containers"], again["period_ms"]) == (4, 30_000)
    position = saved(collector.checkpoint())
    collector = collector_of(daemons)
    collector.restore(position)
    bean["ContainersFailed"] = 7
    assert one(collector.poll(T0 + 60_000), "NodeManagerSample")["n_failed_containers"] == 2
    bean["ContainersFailed"] = 3  # it began anew
    assert one(collector.poll(T0 + 90_000), "NodeManagerSample")["n_failed_containers"] == 3
    assert one(collector.poll(T0 + 120_000), "NodeManagerSample")["n_failed_containers"] == 0


def test_counters_of_what_is_gone_leave_room_for_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    daemons = cluster("ResourceManager")
    collector = collector_of(daemons)
    collector.poll(T0)
    monkeypatch.setattr(
        jmx, "MAX_COUNTERS", len(collector.checkpoint()["daemons"][URLS["ResourceManager"]]["counters"])
    )
    daemons["ResourceManager"].bean("QueueMetrics,q0=root,q1=default")["tag.Queue"] = "root.new"
    collector.poll(T0 + 30_000)
    assert one(collector.poll(T0 + 60_000), "QueueSample", queue="root.new")["n_preempted"] == 0
    assert "root.default" not in json.dumps(collector.checkpoint())


def test_counters_are_kept_where_an_answer_is_missing() -> None:
    daemons = cluster("NodeManager")
    collector, bean = collector_of(daemons), daemons["NodeManager"].bean("NodeManagerMetrics")
    collector.poll(T0)
    path = next(path for path in daemons["NodeManager"].asked if "NodeManagerMetrics" in path)
    daemons["NodeManager"].pages[path] = (500, b"x")
    collector.poll(T0 + 30_000)
    daemons["NodeManager"].pages = {}
    bean["ContainersFailed"] += 4
    assert one(collector.poll(T0 + 60_000), "NodeManagerSample")["n_failed_containers"] == 4


def test_problems_of_a_poll_that_has_nothing_are_told_by_the_next() -> None:
    daemons = cluster("NameNode", "DataNode")
    collector_of(daemons).poll(T0)
    asked = daemons["NameNode"].asked
    collector = collector_of(daemons)
    daemons["NameNode"].pages = dict.fromkeys(asked, (401, b"x"))
    daemons["DataNode"].failure = "connection refused"
    with pytest.raises(SourceUnavailableError):
        collector.poll(T0)
    daemons["DataNode"].failure = None
    assert "bad_status" in kinds(collector.poll(T0 + 30_000))


def test_safe_mode_and_a_failed_directory() -> None:
    daemons = cluster("NameNode")
    info = daemons["NameNode"].bean("NameNodeInfo")
    info["Safemode"] = "Safe mode is ON. It was turned on manually."
    info["NameDirStatuses"] = '{"active":{},"failed":{"/srv/hadoop/name":"IMAGE_AND_EDITS"}}'
    row = one(collector_of(daemons).poll(T0), "NameNodeSample")
    assert (row["in_safe_mode"], row["safe_mode"]) == (1, "Safe mode is ON. It was turned on manually.")
    assert row["n_failed_name_dirs"] == 1


@pytest.mark.parametrize(
    ("told", "n_dead"),
    [
        ({"NumDeadDataNodes": 5, "NumDecomDeadDataNodes": 2, "NumInMaintenanceDeadDataNodes": 1}, 2),
        ({"NumDeadDataNodes": 1, "NumDecomDeadDataNodes": 1, "NumInMaintenanceDeadDataNodes": None}, 0),
        ({"NumDeadDataNodes": 1, "NumDecomDeadDataNodes": None, "NumInMaintenanceDeadDataNodes": None}, 1),
        ({"NumDeadDataNodes": 1, "NumDecomDeadDataNodes": 2, "NumInMaintenanceDeadDataNodes": "x"}, 0),
        ({"NumDeadDataNodes": None, "NumDecomDeadDataNodes": 2}, None),
        ({"NumDeadDataNodes": -1, "NumDecomDeadDataNodes": 2}, None),
    ],
)
def test_dead_datanodes_are_those_that_somebody_misses(told: dict[str, object], n_dead: int | None) -> None:
    daemons = cluster("NameNode")
    daemons["NameNode"].bean("FSNamesystemState").update(told)
    assert one(collector_of(daemons).poll(T0), "NameNodeSample").get("n_dead_datanodes") == n_dead


def test_which_of_a_pair_is_the_active_one() -> None:
    daemons = cluster("NameNode", "ResourceManager")
    daemons["NameNode"].bean("NameNodeStatus")["State"] = "standby"
    daemons["ResourceManager"].beans = [b for b in daemons["ResourceManager"].beans if "RMInfo" not in b["name"]]
    polled = collector_of(daemons).poll(T0)
    assert one(polled, "NameNodeSample")["ha_state"] == "standby"
    assert one(polled, "ResourceManagerSample")["ha_state"] == "unknown"


def test_a_daemon_that_does_not_answer_is_told_of_at_the_second_poll() -> None:
    daemons = cluster("NameNode", "DataNode")
    collector = collector_of(daemons)
    collector.poll(T0)
    daemons["NameNode"].failure = "connection refused"
    down = collector.poll(T0 + 30_000)
    assert rows(down, "DaemonUnreachable") == []
    assert kinds(down) == {"unavailable"}
    assert len(rows(down, "DataNodeSample")) == 1
    assert len(daemons["NameNode"].asked) == 8 + 1  # one question is enough
    row = one(collector.poll(T0 + 60_000), "DaemonUnreachable")
    assert (row["host"], row["daemon"], row["silent_ms"], row["reason"]) == (
        "nn1", "NameNode", 30_000, "connection refused",
    )  # fmt: skip
    daemons["NameNode"].failure = None
    back = one(collector.poll(T0 + 90_000), "NameNodeSample")
    assert back["period_ms"] == 90_000
    daemons["NameNode"].failure = "connection refused"
    assert rows(collector.poll(T0 + 120_000), "DaemonUnreachable") == []


def test_when_no_daemon_has_ever_answered_the_source_is_unavailable() -> None:
    daemons = cluster("NameNode")
    daemons["NameNode"].failure = "connection refused"
    with pytest.raises(SourceUnavailableError, match="none of 1 daemon"):
        collector_of(daemons).poll(T0)


def test_a_daemon_that_is_down_from_the_start_is_told_of_too() -> None:
    daemons = cluster("NameNode")
    daemons["NameNode"].failure = "connection refused"
    collector = collector_of(daemons)
    with pytest.raises(SourceUnavailableError):
        collector.poll(T0)
    assert one(collector.poll(T0 + 30_000), "DaemonUnreachable")["silent_ms"] == 30_000


def test_a_daemon_that_refuses_to_tell_is_a_problem_and_not_down() -> None:
    daemons = cluster("NameNode", "DataNode")
    collector_of(daemons).poll(T0)
    daemons["NameNode"].pages = dict.fromkeys(daemons["NameNode"].asked, (401, b"who are you"))
    collector = collector_of(daemons)
    for number in range(4):
        polled = collector.poll(T0 + number * 30_000)
        assert {row["daemon"] for row in polled.events.rows()} == {"DataNode"}
        assert kinds(polled) == ({"bad_status"} if number == 0 else set())


@pytest.mark.parametrize(
    ("status", "body", "found"),
    [
        (503, b"x", "found 503"),
        (500, b"x", "found 500"),
        (401, b"x", "found 401"),
        (403, b"x", "found 403"),
        (404, b"x", "found 404"),
        (302, b"x", "points to"),
        (200, b"<html>login</html>", "expected JSON"),
    ],
)
def test_a_daemon_that_answered_and_tells_nothing_usable_any_more_is_down(status: int, body: bytes, found: str) -> None:
    daemons = cluster("NameNode", "DataNode")
    collector, name_node = collector_of(daemons), daemons["NameNode"]
    collector.poll(T0)
    name_node.pages = dict.fromkeys(name_node.asked, (status, body))
    assert rows(collector.poll(T0 + 30_000), "DaemonUnreachable") == []
    row = one(collector.poll(T0 + 60_000), "DaemonUnreachable")
    assert (row["host"], row["silent_ms"]) == ("nn1", 30_000)
    assert found in row["reason"]
    name_node.pages, name_node.failure = {}, "connection refused"  # of one episode, whatever the reason
    assert one(collector.poll(T0 + 90_000), "DaemonUnreachable")["silent_ms"] == 60_000
    name_node.failure = None
    assert rows(collector.poll(T0 + 120_000), "DaemonUnreachable") == []


def test_a_daemon_that_fails_from_the_start_is_told_of_too() -> None:
    daemons = cluster("NameNode")
    collector_of(daemons).poll(T0)
    daemons["NameNode"].pages = dict.fromkeys(daemons["NameNode"].asked, (503, b"x"))
    collector = collector_of(daemons)
    with pytest.raises(SourceUnavailableError, match="found 503"):
        collector.poll(T0)
    assert one(collector.poll(T0 + 30_000), "DaemonUnreachable")["silent_ms"] == 30_000


def test_daemons_behind_one_gateway_have_ids_of_their_own() -> None:
    daemon = cluster("NodeManager")["NodeManager"]
    urls = ("http://gateway:8443/a", "http://gateway:8443/b")
    polled = JmxCollector(JmxOptions({"NodeManager": urls}), lambda _url, _http: daemon).poll(T0)
    ids = polled.events.strings("event_id").to_pylist()
    assert len(ids) == 4
    assert len(set(ids)) == 4


def test_of_an_answer_only_what_is_read_is_kept() -> None:
    daemons = cluster("NameNode")
    daemons["NameNode"].bean("FSNamesystemState")["TopUserOpCounts"] = "x" * 1_000_000
    daemons["NameNode"].bean("NameNodeInfo")["Safemode"] = "x" * 1_000_000
    row = one(collector_of(daemons).poll(T0), "NameNodeSample")
    assert "in_safe_mode" not in row
    assert row["n_files"] == 129
    kept = wanted_of(DAEMON_KINDS["NameNode"], daemons["NameNode"].beans)
    assert sum(len(json.dumps(bean)) for bean in kept) < 8_000


HOSTILE: tuple[tuple[int, bytes, str], ...] = (
    (200, b"<html>login</html>", "not_json"),
    (200, b"[" * 100_000, "not_json"),
    (200, b'{"beans": [' + b"{}," * 150_000 + b"{}]}", "too_large"),
    (200, b'{"beans": [' + b"1," * 2_500 + b"1]}", "too_large"),
    (200, b'{"beans": {}}', "bad_document"),
    (200, b"[]", "bad_document"),
    (200, b"\xff\xfe", "not_json"),
    (302, b"x", "redirect"),
    (401, b"x", "bad_status"),
    (500, b"x", "bad_status"),
)


@pytest.mark.parametrize(("status", "body", "kind"), HOSTILE)
def test_a_hostile_answer_is_told_and_costs_no_other(status: int, body: bytes, kind: str) -> None:
    daemons = cluster("NodeManager", "DataNode")
    collector_of(daemons).poll(T0)
    path = next(path for path in daemons["NodeManager"].asked if "NodeManagerMetrics" in path)
    daemons["NodeManager"].pages[path] = (status, body)
    polled = collector_of(daemons).poll(T0)
    assert kinds(polled) == {kind}
    assert len(rows(polled, "DaemonSample")) == 2
    assert rows(polled, "DataNodeSample")


@pytest.mark.parametrize("value", [None, -1, True, "12", "NaN", float("nan"), 1e300, 10**40, [], {}, -0.5])
def test_values_that_are_none_are_left_out(value: object) -> None:
    daemons = cluster("DataNode")
    for bean in daemons["DataNode"].beans:
        if "FSDatasetState" in bean["name"]:
            bean["Capacity"] = value
    row = one(collector_of(daemons).poll(T0), "DataNodeSample")
    assert "capacity_bytes" not in row
    assert row["used_bytes"] == 19_143_450


def test_texts_are_short_and_printable_and_queues_bounded() -> None:
    daemons = cluster("ResourceManager")
    template = daemons["ResourceManager"].bean("QueueMetrics,q0=root")
    many = [{**template, "name": template["name"] + f",q1={i}", "tag.Queue": f"\x1b[2J{i}" * 400} for i in range(1_500)]
    daemons["ResourceManager"].beans += many
    polled = collector_of(daemons).poll(T0)
    queues = [row["queue"] for row in rows(polled, "QueueSample")]
    assert len(queues) <= 1_000
    assert all(len(queue) <= 5 * 500 and queue.isprintable() for queue in queues)


def test_users_in_queues_cost_no_queue() -> None:
    daemons = cluster("ResourceManager")
    manager = daemons["ResourceManager"]
    template = manager.bean("QueueMetrics,q0=root,q1=default")
    service = "Hadoop:service=ResourceManager,name=QueueMetrics,q0=root"
    manager.beans += [{**template, "name": f"{template['name']},user=u{i}"} for i in range(3_000)]
    manager.beans += [{**template, "name": f"{service},q1=a,q2=b", "tag.Queue": "root.a.b"}]
    polled = collector_of(daemons).poll(T0)
    assert polled.problems == ()
    assert [row["queue"] for row in rows(polled, "QueueSample")] == ["root", "root.a.b", "root.default"]


def test_another_daemon_than_was_configured() -> None:
    daemons = {"NameNode": cluster("DataNode")["DataNode"]}
    polled = collector_of(daemons).poll(T0)
    assert len(polled.events) == 0
    assert kinds(polled) == {"no_beans"}


class Hanging:
    """Answers nothing until the other daemon was asked."""

    def __init__(self, other: threading.Event) -> None:
        self.other, self.waited = other, False

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        self.waited = self.other.wait(240)
        raise SourceUnavailableError("no answer")


class Noting(Daemon):
    """Says when it was asked."""

    def __init__(self, daemon: Daemon, asked: threading.Event) -> None:
        super().__init__(daemon.beans)
        self.event = asked

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        self.event.set()
        return super().get(base_url, path, now_ms)


def test_a_daemon_that_hangs_holds_up_no_other() -> None:
    asked = threading.Event()
    hanging, well = Hanging(asked), Noting(cluster("DataNode")["DataNode"], asked)
    urls = {"NameNode": URLS["NameNode"], "DataNode": URLS["DataNode"]}
    options = JmxOptions({kind: (url,) for kind, url in urls.items()}, n_workers=1)
    collector = JmxCollector(options, lambda url, _http: hanging if url == urls["NameNode"] else well)
    asked.set()
    collector.poll(T0)  # now it is known who answers
    asked.clear()
    polled = collector.poll(T0 + MINUTE_MS)
    assert hanging.waited
    assert len(rows(polled, "DataNodeSample")) == 1


def test_what_is_down_is_told_at_each_poll_whether_its_turn_came_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    daemons = cluster("NameNode", "DataNode")
    collector = collector_of(daemons)
    collector.poll(T0)
    for daemon in daemons.values():
        daemon.failure = "connection timed out"
    collector.poll(T0 + MINUTE_MS)
    assert len(rows(collector.poll(T0 + 2 * MINUTE_MS), "DaemonUnreachable")) == 2
    position, n_requested = saved(collector.checkpoint()), len(daemons["NameNode"].asked)
    collector = collector_of(daemons)
    collector.restore(position)
    monkeypatch.setattr(side_by_side, "remaining_s", lambda: 0.0)  # no turn comes
    told = rows(collector.poll(T0 + 3 * MINUTE_MS), "DaemonUnreachable")
    assert [(row["host"], row["silent_ms"], row["reason"]) for row in told] == [
        ("nn1", 2 * MINUTE_MS, "connection timed out"),
        ("node1", 2 * MINUTE_MS, "connection timed out"),
    ]
    assert len(daemons["NameNode"].asked) == n_requested


def test_a_daemon_of_which_it_is_not_known_that_it_is_down_is_not_told_of_before_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    daemons = cluster("NameNode")
    collector = collector_of(daemons)
    collector.poll(T0)
    daemons["NameNode"].failure = "connection refused"
    collector.poll(T0 + MINUTE_MS)
    monkeypatch.setattr(side_by_side, "remaining_s", lambda: 0.0)
    assert rows(collector.poll(T0 + 2 * MINUTE_MS), "DaemonUnreachable") == []


def test_what_is_down_is_asked_with_a_single_attempt_until_it_answers() -> None:
    daemon, attempts = cluster("NodeManager")["NodeManager"], list[int]()

    class Counting:
        def __init__(self, n_attempts: int) -> None:
            self.n_attempts = n_attempts

        def get(self, base_url: str, path: str, now_ms: int) -> Answer:
            attempts.append(self.n_attempts)
            return daemon.get(base_url, path, now_ms)

    options = JmxOptions({"NodeManager": (URLS["NodeManager"],)})
    collector = JmxCollector(options, lambda _url, http: Counting(http.n_attempts))
    collector.poll(T0)
    daemon.failure = "connection timed out"
    for number in (1, 2, 3):
        collector.poll(T0 + number * MINUTE_MS)
    daemon.failure = None
    collector.poll(T0 + 4 * MINUTE_MS)
    collector.poll(T0 + 5 * MINUTE_MS)
    assert attempts == [2] * 4 + [2] + [1, 1] + [1] * 4 + [2] * 4


@pytest.fixture
def server() -> Iterator[tuple[str, list[object]]]:
    """A NodeManager on loopback that keeps connections, and who connected."""
    daemon, connections = cluster("NodeManager")["NodeManager"], list[object]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            connections.append(self.client_address)
            super().setup()

        def do_GET(self) -> None:
            body = daemon.get("", self.path, 0).body
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}", connections
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_one_connection_is_kept_over_polls(server: tuple[str, list[object]]) -> None:
    url, connections = server
    collector = JmxCollector(JmxOptions({"NodeManager": (url,)}, hosts={"127.0.0.1": "node1"}))
    first = collector.poll(T0)
    collector.poll(T0 + 30_000)
    assert one(first, "NodeManagerSample")["host"] == "node1"
    assert len(connections) == 1


@pytest.mark.parametrize(
    ("daemons", "found"),
    [
        ({}, "no daemon is given"),
        ({"Zookeeper": ("http://a",)}, "unknown daemons Zookeeper"),
        ({"NameNode": ("http://a", "http://a")}, "given twice"),
        ({"NameNode": ("file:///etc/passwd",)}, "not of the form"),
        ({"NameNode": ("http://user:secret@nn1",)}, "may not hold a password"),
        ({"NameNode": tuple(f"http://n{i}" for i in range(MAX_DAEMONS + 1))}, "expected at most"),
    ],
)
def test_options_that_cannot_work(daemons: dict[str, tuple[str, ...]], found: str) -> None:
    with pytest.raises(OptionError, match=found):
        JmxOptions(daemons)


def test_a_sample_has_one_id_however_often_it_is_read() -> None:
    first, second = (collector_of(cluster()).poll(T0).events for _ in range(2))
    ids = first.strings("event_id").to_pylist()
    assert ids == second.strings("event_id").to_pylist()
    assert len(set(ids)) == len(ids)
    later = collector_of(cluster()).poll(T0 + 1).events.strings("event_id").to_pylist()
    assert not set(ids) & set(later)


def test_fixtures_name_no_place_of_the_machine_that_recorded_them() -> None:
    for daemon in cluster().values():
        assert "/tmp/" not in json.dumps(daemon.beans)


OPERATING_SYSTEM = {  # as a JVM of version 8 told it, and one of version 17
    "name": "java.lang:type=OperatingSystem", "SystemLoadAverage": 0.75, "AvailableProcessors": 2,
    "TotalPhysicalMemorySize": 7_694_454_784, "FreePhysicalMemorySize": 4_225_703_936, "SystemCpuLoad": 0.25,
    "TotalSwapSpaceSize": 0, "FreeSwapSpaceSize": 0, "OpenFileDescriptorCount": 207, "Name": "Linux",
}  # fmt: skip
LATER_JVM = OPERATING_SYSTEM | {"TotalMemorySize": 1 << 30, "FreeMemorySize": 1 << 20, "CpuLoad": math.nan}


def test_hosts_are_told_of_once_however_many_daemons_they_have() -> None:
    daemons = cluster("DataNode", "NodeManager", "NameNode")
    for kind, bean in (("DataNode", OPERATING_SYSTEM), ("NodeManager", LATER_JVM), ("NameNode", LATER_JVM)):
        daemons[kind].pages["/jmx?qry=java.lang:type=OperatingSystem"] = 200, json.dumps({"beans": [bean]}).encode()
    assert rows(collector_of(daemons).poll(T0), "Metric") == []  # nobody asked for them
    told = rows(collector_of(daemons, host_metrics=True).poll(T0), "Metric")
    assert {(row["host"], row["name"]): (row["value"], row.get("unit")) for row in told} == {
        ("node1", "load_one"): (0.75, None), ("node1", "cpu_busy"): (25.0, "%"), ("node1", "cpu_num"): (2.0, "CPUs"),
        ("node1", "mem_total"): (7_694_454_784 / 1024, "KB"), ("node1", "mem_free"): (4_225_703_936 / 1024, "KB"),
        ("node1", "swap_total"): (0.0, "KB"), ("node1", "swap_free"): (0.0, "KB"),
        ("nn1", "load_one"): (0.75, None), ("nn1", "cpu_num"): (2.0, "CPUs"),
        ("nn1", "mem_total"): (float(1 << 20), "KB"), ("nn1", "mem_free"): (1024.0, "KB"),
        ("nn1", "swap_total"): (0.0, "KB"), ("nn1", "swap_free"): (0.0, "KB"),
    }  # fmt: skip
    assert len(told) == 13


def test_the_load_of_the_nodes_comes_from_daemons_too() -> None:
    daemons = cluster("DataNode", "NodeManager", "NameNode")
    for kind, load in (("DataNode", 1.0), ("NodeManager", 9.0), ("NameNode", 3.0)):
        page = {"beans": [OPERATING_SYSTEM | {"SystemLoadAverage": load}]}
        daemons[kind].pages["/jmx?qry=java.lang:type=OperatingSystem"] = 200, json.dumps(page).encode()
    polled = collector_of(daemons, host_metrics=True).poll(T0)
    derived = LoadDeriver(LoadOptions("load_one"), of_polls=True).derive(polled.events, polled.watermark_ms)
    (std,) = [row for row in derived.rows() if row["type"] == "LoadStd"]
    assert (std["val"], std["n_hosts"], std["clock_id"], std["t_lo_ms"]) == (1.0, 2, "load:poll:jmx", T0)


def test_a_daemon_that_does_not_tell_of_its_host_is_not_down() -> None:
    daemons = cluster("DataNode")
    daemons["DataNode"].pages["/jmx?qry=java.lang:type=OperatingSystem"] = 500, b"no"
    polled = collector_of(daemons, host_metrics=True).poll(T0)
    assert kinds(polled) == {"bad_status"}
    assert rows(polled, "DataNodeSample") != []
