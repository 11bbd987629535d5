"""The cluster whose daemons are hit by faults: its configuration, its plan and the relay, without daemons."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import socket
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.config import load_settings
from app.live.sources import build_sources
from app.queries.loading import load_queries
from collectors.logs.hdfs_audit import AUDIT_NAME_PATTERN
from deploy.minicluster import watch_config
from deploy.minicluster.daemons import configuration, faults, job_faults, namenode_faults, watching
from deploy.minicluster.daemons.cluster import SETTINGS
from deploy.minicluster.daemons.faults import FAULTS, MASTER, replaced_by_files
from deploy.minicluster.daemons.relay import Relay
from deploy.minicluster.processes import ports
from deploy.minicluster.settings import Settings, load
from deploy.minicluster.workload import jobs
from deploy.minicluster.workload.workload import planned_jobs
from tests.live.process import ROOT
from tests.live.scenario import write_config

SIGNALS = ROOT / "docs" / "signals.md"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return dataclasses.replace(load(SETTINGS), work_dir=tmp_path)


@pytest.fixture
def chosen(settings: Settings) -> dict[str, int]:
    return dict(settings.ports) | settings.shuffle_ports


def properties(path: Path) -> dict[str, str]:
    return {
        entry.findtext("name", ""): entry.findtext("value", "") for entry in ET.parse(path).getroot().iter("property")
    }


def test_each_datanode_has_its_own_address_and_volumes_and_knows_its_relay(
    settings: Settings, chosen: dict[str, int]
) -> None:
    configuration.write_all(settings, chosen)
    sites = {host.name: properties(settings.work_dir / "conf" / host.name / "hdfs-site.xml") for host in settings.hosts}
    for name, site in sites.items():
        assert site["dfs.namenode.rpc-address"] == f"{name}:{chosen['namenode']}"
        assert site["dfs.datanode.address"] == f"{name}:{chosen['datanode']}"
        assert len(site["dfs.datanode.data.dir"].split(",")) == 2
    assert len({site["dfs.datanode.data.dir"] for site in sites.values()}) == len(settings.hosts)
    client = properties(settings.work_dir / "conf" / "client" / "hdfs-site.xml")
    assert client["dfs.namenode.rpc-address"] == f"master:{chosen['namenode']}"


def test_the_namenode_has_two_directories_and_an_audit_log_that_clustercep_reads(
    settings: Settings, chosen: dict[str, int]
) -> None:
    configuration.write_all(settings, chosen)
    site = properties(settings.work_dir / "conf" / "client" / "hdfs-site.xml")
    assert site["dfs.namenode.name.dir"].split(",") == list(map(str, configuration.name_dirs(settings)))
    log4j = (settings.work_dir / "conf" / "daemon" / "log4j.properties").read_text(encoding="utf-8")
    (name,) = [line.partition("=")[2] for line in log4j.splitlines() if line.startswith("log4j.appender.AUDIT.File=")]
    path = Path(name.replace("${hadoop.log.dir}", str(settings.work_dir / "logs")))
    assert path.parent == configuration.audit_dir(settings)
    assert re.fullmatch(AUDIT_NAME_PATTERN, path.name)["host"] == MASTER  # type: ignore[index]


def test_volumes_are_so_small_that_one_file_fills_a_datanode(settings: Settings, chosen: dict[str, int]) -> None:
    full = namenode_faults.FULL_BYTES / (2 * configuration.VOLUME_BYTES)
    assert full > watching.MAX_FULL
    assert full / len(settings.hosts) > watching.MAX_FULL / 3
    # What other faults write does not, each with as many replicas as it has.
    others = max(2 * 2 * faults.SLOW_FILE_BYTES, 3 * namenode_faults.WIDE_BYTES, 2 * jobs.LARGE_BYTES)
    assert others < watching.MAX_FULL / 3 * 2 * configuration.VOLUME_BYTES * len(settings.hosts)


def test_a_file_waits_for_longer_than_clustercep_is_told(settings: Settings) -> None:
    assert jobs.LARGE_BYTES / configuration.READ_BYTES_PER_S > watching.LOCALISATION_S


def test_a_lock_is_held_for_longer_than_is_logged_and_shorter_than_datanodes_may_be_silent() -> None:
    assert configuration.LOCK_MS < namenode_faults.HELD_S * 1000 < configuration.STALE_MS


def test_the_narrow_queue_has_room_for_one_container(settings: Settings) -> None:
    memory = settings.memory
    room = len(settings.hosts) * memory.node * configuration.NARROW_PERCENT / 100
    assert memory.container <= room < 2 * memory.container


def test_clustercep_watches_every_daemon_by_the_name_of_its_host(
    settings: Settings, chosen: dict[str, int], tmp_path: Path
) -> None:
    write_config(tmp_path / "clustercep.yaml", watching.render(settings, chosen))
    read = load_settings(tmp_path / "clustercep.yaml", {})
    assert set(build_sources(read)) == {
        "yarn_rest", "yarn_timeline", "container_log", "daemon_log", "hdfs_audit", "jmx"
    }  # fmt: skip
    assert read.sources.hosts["127.0.10.3"] == "node3"
    assert (len(read.sources.jmx.data_nodes), len(read.sources.jmx.node_managers)) == (3, 3)
    loaded = load_queries(read.queries, read.alerting.group_gap_ms)
    assert loaded.problems == ()
    told_by = {query for fault in FAULTS for query in fault.told_by}
    assert told_by <= {path.stem for path in watch_config.QUERIES.glob("*.cep")} - set(read.queries.disabled)


def test_the_plan_has_every_fault_of_jobs_and_healthy_ones(settings: Settings) -> None:
    planned = [job for phase in planned_jobs(settings) for _, job in phase]
    assert {job.fault for job in planned if job.fault} == job_faults.INJECTIONS.keys()
    assert sum(job.healthy for job in planned) >= 2


def test_a_queue_starves_for_longer_than_clustercep_waits() -> None:
    assert job_faults.STARVED_S > watching.MIN_WAIT_S + 4 * watch_config.INTERVAL_S


def test_faults_name_hosts_of_the_cluster(settings: Settings) -> None:
    known = {MASTER, *(host.name for host in settings.hosts)}
    for fault in FAULTS:
        assert fault.host in known
        assert {*fault.told_by.values()} <= {*known, ""}  # an application's end is no host's fault
        assert fault.afterwards < fault.told_by.keys()
        truths = fault.truths(1, 2)
        assert {(truth.query, truth.host) for truth in truths} == set(fault.told_by.items())


def test_folders_are_files_for_a_while(tmp_path: Path) -> None:
    folder = tmp_path / "local"
    folder.mkdir()
    (folder / "kept").touch()
    with contextlib.suppress(KeyError), replaced_by_files((folder,)):
        assert folder.is_file()
        raise KeyError
    assert (folder / "kept").exists()


@contextlib.contextmanager
def echoing(port: int, seen: list[str]) -> Iterator[None]:
    """A server on 127.0.0.1 that notes who comes and answers with what it gets."""
    with socket.create_server(("127.0.0.1", port)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    near, (address, _) = listener.accept()
                    seen.append(address)
                    with near:
                        while block := near.recv(1 << 16):
                            near.sendall(block)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(120)


def test_through_a_relay_one_comes_from_its_address() -> None:
    port = ports.choose({"any": 23_456}, ["127.0.0.1", "127.0.10.7"])["any"]
    seen: list[str] = []
    with echoing(port, seen):
        relay = Relay("127.0.10.7", ("127.0.0.1", port))
        try:
            for text in (b"one" * 100_000, b"two"):
                with socket.create_connection(("127.0.10.7", port), 120) as client:
                    sender = threading.Thread(target=client.sendall, args=(text,))
                    sender.start()
                    got = b""
                    while len(got) < len(text):
                        got += client.recv(1 << 16)
                    sender.join(120)
                assert got == text
            waiting = socket.create_connection(("127.0.10.7", port), 120)
        finally:
            relay.close()
        with waiting, contextlib.suppress(ConnectionResetError):
            assert waiting.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.10.7", port), 120)
    assert seen[:2] == ["127.0.10.7"] * 2


def test_the_list_of_signals_names_what_is_injected() -> None:
    rows = [row for row in SIGNALS.read_text(encoding="utf-8").splitlines() if row.startswith("| ")]
    named = {fault.strip(" `") for row in rows[1:] for fault in row.split("|")[7].split(",")} - {"", "---"}
    assert named == {fault.name for fault in FAULTS} | job_faults.INJECTIONS.keys()
    for fault in FAULTS:
        of_row = [row for row in rows if f"`{fault.name}`" in row]
        told = fault.told_by.keys() - {"daemon-unreachable"}  # of every daemon: it has no row
        assert all(any(f"`{query}`" in row for row in of_row) for query in told), fault.name
