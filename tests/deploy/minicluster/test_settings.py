"""Settings are read whole, and what is wrong with them is said with its place."""

from pathlib import Path

import pytest

from deploy.minicluster.daemons.cluster import SETTINGS as DAEMONS
from deploy.minicluster.errors import SettingsError
from deploy.minicluster.settings import Host, PlannedJob, load
from deploy.minicluster.workload.jobs import CATALOGUE


def test_shipped_settings() -> None:
    settings = load()
    assert settings.hosts[:2] == (Host("node1", "127.0.10.1"), Host("node2", "127.0.10.2"))
    assert len(settings.hosts) == 6
    assert set(settings.shuffle_ports.values()) == set(range(13562, 13568))
    planned = [{plan.job for phase in each.workload for plan in phase} for each in (settings, load(DAEMONS))]
    assert set.union(*planned) == set(CATALOGUE)
    assert set.intersection(*planned) == {"pi", "multi_reducer"}


def test_own_settings_change_only_what_they_name(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("nodes: 3\nmemory: {task_heap: 200}\nworkload: [[{job: pi, start_after_s: 2}]]\n")
    settings = load(path)
    assert (len(settings.hosts), settings.memory.task_heap, settings.memory.node) == (3, 200, 1536)
    assert settings.workload == ((PlannedJob("pi", 2.0),),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodez: 3", r"nodez: unknown setting"),
        ("memory: {heap: 3}", r"memory\.heap: unknown setting"),
        ("memory: {node: big}", r"memory\.node: expected a number above 0, found 'big'"),
        ("memory: 5", r"memory: expected a mapping, found 5"),
        ("ports: {gmond: 80}", r"ports\.gmond: expected a port from 1024 to 65535, found 80"),
        ("master_address: 10.0.0.1", r"master_address: expected an address in 127\.0\.0\.0/8"),
        ("first_node_address: here", r"first_node_address: .*here"),
        ("nodes: 1", r"nodes: expected 2 to 100, found 1"),
        ("work_dir: here", r"work_dir: expected an absolute path"),
        ("workload: [[{jobs: pi}]]", r"workload\[0\]\[0\]: expected"),
        (
            "workload: [[{job: pi}, {job: terasort, after: teragen}]]",
            r"\[0\]\[1\]\.after: expected .*\(pi\), found 'teragen'",
        ),
        ("workload: [[{job: pi, after: pi}]]", r"\[0\]\[0\]\.after: .*there is none"),
        ("- a list", r"expected a mapping of settings, found list"),
        ("a: [", r"cannot be read as YAML"),
    ],
)
def test_wrong_settings(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=message):
        load(path)
