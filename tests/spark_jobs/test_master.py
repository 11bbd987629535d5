"""Masters and Java: what cannot work is told at once, with the remedy."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from spark_jobs.master import SparkJobError, check_java, check_master, is_on_this_machine


def test_masters_of_this_machine() -> None:
    for master in ("local", "local[2]", "local[*]", "local[2,3]", "local-cluster[2,1,1024]"):
        assert is_on_this_machine(master)
        check_master(master)
    for master in ("local[0]", "local[x]", "locale", "yarn", "spark://local:7077"):
        assert not is_on_this_machine(master)


@pytest.mark.parametrize("master", ["", "mesos://x", "yarn-cluster", "local[x]", "spark://", "spark://h:port"])
def test_no_master_that_spark_knows(master: str) -> None:
    with pytest.raises(SparkJobError, match=r"Spark master: found .*expected local"):
        check_master(master, {})


def test_a_standalone_master_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port}")
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
        check_master(f"k8s://http://127.0.0.1:{port}")
    with pytest.raises(SparkJobError, match=r"cannot be reached: 127\.0\.0\.1:1: connection refused; start it"):
        check_master("spark://127.0.0.1:1")


def test_yarn_needs_the_clusters_configuration(tmp_path: Path) -> None:
    with pytest.raises(SparkJobError, match="neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"):
        check_master("yarn", {})
    with pytest.raises(SparkJobError, match=f"no yarn-site.xml in {tmp_path}"):
        check_master("yarn", {"HADOOP_CONF_DIR": str(tmp_path)})
    (tmp_path / "yarn-site.xml").write_text("<configuration/>")
    check_master("yarn", {"YARN_CONF_DIR": str(tmp_path)})
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    with pytest.raises(SparkJobError, match=r"yarn-site.xml: .*expected Hadoop's configuration"):
        check_master("yarn", {"YARN_CONF_DIR": str(tmp_path)})


def yarn_site(**given: str) -> str:
    entries = "".join(
        f"<property><name>yarn.resourcemanager.{name}</name><value>{value}</value></property>"
        for name, value in given.items()
    )
    return f"<configuration>{entries}</configuration>"


def test_a_resource_manager_that_does_not_answer(tmp_path: Path) -> None:
    site, given = tmp_path / "yarn-site.xml", {"HADOOP_CONF_DIR": str(tmp_path)}
    site.write_text(yarn_site(address="127.0.0.1:1"))
    with pytest.raises(SparkJobError, match=r"yarn cannot be reached: 127\.0\.0\.1:1: connection refused"):
        check_master("yarn", given)
    site.write_text(yarn_site(address="${somewhere}:8032"))
    check_master("yarn", given)
    with socket.create_server(("127.0.0.1", 0)) as server:
        both = {"ha.enabled": "true", "ha.rm-ids": "a, b", "address.a": "127.0.0.1:1"}
        site.write_text(yarn_site(**both, **{"address.b": f"127.0.0.1:{server.getsockname()[1]}"}))
        check_master("yarn", given)


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ('openjdk version "17.0.15" 2025-04-15', None),
        ('openjdk version "21" 2023-09-19', None),
        ('java version "1.8.0_402"', "is 8; install"),
        ('openjdk version "11.0.2" 2019-01-15', "is 11; install"),
        ("Segmentation fault", "is Segmentation fault; install"),
    ],
)
def test_java_is_new_enough(tmp_path: Path, told: str, problem: str | None) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{told}\nEND\n")
    java.chmod(0o755)
    given = {"JAVA_HOME": str(tmp_path)}
    if problem is None:
        check_java(given)
    else:
        with pytest.raises(SparkJobError, match=problem):
            check_java(given)


def test_no_java_at_all(tmp_path: Path) -> None:
    with pytest.raises(SparkJobError, match="found none on the PATH; install a Java runtime of version 17"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(SparkJobError, match="cannot be started: No such file or directory"):
        check_java({"JAVA_HOME": str(tmp_path)})
