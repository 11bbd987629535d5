"""Figures of a virtual host, from two looks at its process tree."""

from pathlib import Path

import pytest

from deploy.minicluster.ganglia.host_metrics import (
    HostState,
    Metric,
    derive,
    gmetric_command,
    network_delta,
    parse_sockets,
)
from deploy.minicluster.processes.process_tree import TreeFigures
from deploy.minicluster.settings import Host

LISTING = (
    "0 0 127.0.10.1:13562 127.0.0.1:50000 ino:77 sk:1 cgroup:/ <-> cubic "
    "bytes_sent:900 bytes_acked:900 bytes_received:55\n"
    "0 0 127.0.10.1:13562 127.0.0.1:50001 ino:78 sk:2 cgroup:/ <-> cubic rto:201\n"
    "nonsense\n"
)


def figures(user_s: float, system_s: float = 0.0, read: int = 0, written: int = 0, n_running: int = 0) -> TreeFigures:
    return TreeFigures(user_s, system_s, 2048 * 1024, read, written, 3, n_running, (1, 2, 3))


def values(metrics: list[Metric]) -> dict[str, float]:
    return {metric.name: metric.value for metric in metrics}


def test_processor_time_is_percent_of_the_hosts_capacity() -> None:
    metrics, state = derive(HostState(100.0, figures(10.0, 5.0)), 105.0, figures(11.0, 5.25), {}, cores=0.5)
    found = values(metrics)
    assert found["cpu_user"] == pytest.approx(40.0)
    assert found["cpu_system"] == pytest.approx(10.0)
    assert found["cpu_idle"] == pytest.approx(50.0)
    assert found["mem_rss"] == 2048
    assert state.time_s == 105.0


def test_more_than_the_capacity_is_shown_as_all_of_it() -> None:
    found = values(derive(HostState(0.0, figures(0.0)), 5.0, figures(7.5, 2.5), {}, cores=0.5)[0])
    assert (found["cpu_user"], found["cpu_system"], found["cpu_idle"]) == pytest.approx((75.0, 25.0, 0.0))


def test_a_total_that_went_back_is_no_change() -> None:
    found = values(derive(HostState(0.0, figures(9.0, read=50)), 5.0, figures(8.0, read=10), {}, cores=1)[0])
    assert (found["cpu_user"], found["disk_read_bytes"]) == (0.0, 0.0)


def test_rates_are_per_second() -> None:
    before = HostState(0.0, figures(0.0, read=1000, written=0), {1: (100, 200)})
    found = values(derive(before, 5.0, figures(0.0, read=2000, written=500), {1: (600, 200), 2: (0, 50)}, cores=1)[0])
    assert (found["disk_read_bytes"], found["disk_write_bytes"]) == (200.0, 100.0)
    assert (found["bytes_in"], found["bytes_out"]) == (100.0, 10.0)


def test_load_approaches_the_running_processes() -> None:
    state = HostState(0.0, figures(0.0))
    for step in range(1, 200):
        _, state = derive(state, 5.0 * step, figures(0.0, n_running=2), {}, cores=1)
    assert state.load_one == pytest.approx(2.0, abs=0.01)


def test_sockets_of_ss() -> None:
    assert parse_sockets(LISTING) == {77: (55, 900), 78: (0, 0)}
    assert network_delta({77: (60, 100)}, {77: (55, 900)}) == (0, 800)


def test_gmetric_sends_under_the_hosts_name() -> None:
    metric = Metric("cpu_user", 12.34567, "float", "%", "cpu")
    command = gmetric_command("/bin/gmetric", Path("/c"), Host("node3", "127.0.10.3"), metric, 5)
    assert command[command.index("--spoof") + 1] == "127.0.10.3:node3"
    assert command[command.index("-v") + 1] == "12.346"
    assert command[command.index("-x") + 1] == "10"
    whole = Metric("proc_run", 2.0, "uint32", " ", "process")
    assert "2" in gmetric_command("/bin/gmetric", Path("/c"), Host("node3", "127.0.10.3"), whole, 5)
