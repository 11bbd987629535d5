"""Configuration files of Hadoop and Ganglia."""

import dataclasses
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from deploy.minicluster.errors import StartError
from deploy.minicluster.ganglia import ganglia
from deploy.minicluster.hadoop import hadoop_config
from deploy.minicluster.settings import Settings, load


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return dataclasses.replace(load(), work_dir=tmp_path)


@pytest.fixture
def ports(settings: Settings) -> dict[str, int]:
    return dict(settings.ports) | settings.shuffle_ports


def properties(path: Path) -> dict[str, str]:
    return {
        entry.findtext("name", ""): entry.findtext("value", "") for entry in ET.parse(path).getroot().iter("property")
    }


def test_values_survive_xml(tmp_path: Path) -> None:
    hostile = {"a<b": '</value>&amp; "x"', "flag": False, "number": 3}
    (tmp_path / "x.xml").write_text(hadoop_config.render_xml(hostile), encoding="utf-8")
    assert properties(tmp_path / "x.xml") == {"a<b": '</value>&amp; "x"', "flag": "false", "number": "3"}


def test_every_node_has_its_own_folders_and_shuffle_port(settings: Settings, ports: dict[str, int]) -> None:
    hadoop_config.write_all(settings, ports)
    conf = settings.work_dir / "conf"
    yarn = {host.name: properties(conf / host.name / "yarn-site.xml") for host in settings.hosts}
    mapred = {host.name: properties(conf / host.name / "mapred-site.xml") for host in settings.hosts}
    for key in ("yarn.nodemanager.local-dirs", "yarn.nodemanager.log-dirs", "yarn.nodemanager.address"):
        assert len({site[key] for site in yarn.values()}) == len(settings.hosts)
    assert len({site["mapreduce.shuffle.port"] for site in mapred.values()}) == len(settings.hosts)
    assert "mapreduce.shuffle.port" not in properties(conf / "client" / "mapred-site.xml")
    assert properties(conf / "client" / "mapred-site.xml")["mapreduce.jobhistory.jhist.format"] == "json"


def test_names_resolve_to_their_addresses(settings: Settings) -> None:
    lines = hadoop_config.render_hosts(settings).splitlines()
    assert lines[0].split() == ["127.0.0.1", "master", "localhost"]
    assert lines[6].split() == ["127.0.10.6", "node6"]


def test_gmetad_keeps_every_step_of_the_retention(settings: Settings, ports: dict[str, int]) -> None:
    config = ganglia.gmetad_config(settings, ports, Path("/rrds"))
    assert f'data_source "minicluster" 5 127.0.0.1:{ports["gmond"]}' in config
    assert "RRA:AVERAGE:0.5:1:1440" in config
    assert 'authority "http://master/ganglia/"' in config


def test_gmond_says_nothing_about_the_real_machine(settings: Settings, ports: dict[str, int]) -> None:
    config = ganglia.gmond_config(settings, ports["gmond"])
    assert "mute = yes" in config
    assert "collection_group" not in config


def test_names_that_would_break_out_are_refused() -> None:
    with pytest.raises(StartError, match="cannot be written"):
        ganglia.quote('x" { }')


def test_hosts_with_metric() -> None:
    xml = (
        '<GANGLIA_XML><GRID><CLUSTER><HOST NAME="node1"><METRIC NAME="cpu_user"/></HOST>'
        '<HOST NAME="node2"><METRIC NAME="cpu_idle"/></HOST></CLUSTER></GRID></GANGLIA_XML>'
    )
    assert ganglia.hosts_with_metric(xml, "cpu_user") == {"node1"}
    assert ganglia.hosts_with_metric(xml[:50], "cpu_user") == set()
