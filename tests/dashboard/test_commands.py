"""Commands to copy: a shell reads every name as one word, and ids that are none stand in no command."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

import pytest

from app.store.models import AlertRow
from dashboard.alerts.commands import commands

JOB, ATTEMPT = "job_1795178134302_0005", "attempt_1795178134302_0005_m_000000_0"

NAMES = (
    "$(reboot)",
    "`reboot`",
    "a 'quoted' \"name\"",
    "two\nlines",
    "carriage\rreturn",
    "\x1b[201~;reboot\n",
    "-rf",
    "; reboot #",
    "a\\'; reboot; '",
    "*",
    "!reboot",
    "~root",
    "dcb\u202eabc",
    "Größe 文",
)


def named(query: str) -> list[str]:
    return [command.line for command in commands(AlertRow(id="0" * 32, query=query, labels={}, values={}))]


def alert(job_id: str | None = None, host: str | None = None, labels: Any = None, **values: Any) -> AlertRow:
    return AlertRow(id="0" * 32, job_id=job_id, host=host, labels=labels or {}, values=values)


def lines(row: AlertRow) -> list[str]:
    return [command.line for command in commands(row)]


def test_an_alert_about_an_attempt_names_its_own_ids() -> None:
    found = lines(alert(JOB, "node4", {"queue": "root.default"}, attempt_id=ATTEMPT, job_name="nightly report"))
    assert found == [
        f"clustercep alerts show {'0' * 32}",
        f"mapred job -logs {JOB} {ATTEMPT}",
        "yarn application -status application_1795178134302_0005",
        "yarn logs -applicationId application_1795178134302_0005 | less",
        f"mapred job -status {JOB}",
        "ssh node4 'uptime; free -m; df -h; iostat -x 5 2'",
        "yarn queue -status root.default",
        "yarn application -list -appStates ALL | grep -F -e 'nightly report'",
        f"mapred job -kill-task {ATTEMPT}",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_id_stands_in_no_command(name: str) -> None:
    for wrong in (name, f"{JOB}{name}", f"{JOB}\n", f"{ATTEMPT} {name}"):
        labels = {"application": wrong, "job": wrong}
        found = lines(alert(wrong, None, labels, attempt_id=wrong, container_id=wrong))
        assert found == [f"clustercep alerts show {'0' * 32}"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_name_of_a_host_is_not_connected_to(name: str) -> None:
    for wrong in (name, f"-oProxyCommand={name}", f"node4 {name}", "node4\n"):
        assert not [line for line in lines(alert(host=wrong)) if line.startswith("ssh")]


@pytest.mark.parametrize("name", NAMES)
def test_a_shell_reads_a_name_as_one_word(name: str) -> None:
    (line,) = (line for line in lines(alert(job_name=name)) if "grep" in line)
    assert line.isprintable()  # one line, and nothing that a terminal acts on
    word = line.partition(" -e ")[2]
    shell = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True, timeout=120)
    assert shell.stdout.decode("utf-8") == name
    if name.isprintable():
        assert shlex.split(line)[-1] == name
    (queue,) = (line for line in lines(alert(labels={"queue": f"root.{name}"})) if "queue" in line)
    word = queue.removeprefix("yarn queue -status ")
    shell = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True, timeout=120)
    assert shell.stdout.decode("utf-8") == f"root.{name}"


def test_endless_names_stand_in_no_command() -> None:
    assert len(lines(alert(job_name="x" * 10_000, labels={"queue": "x" * 10_000}))) == 1


def test_queues_that_would_be_options_stand_in_no_command() -> None:
    assert len(lines(alert(labels={"queue": "-help"}))) == 1


def test_what_asks_the_daemons_is_told_by_the_query() -> None:
    """An alert about HDFS or the nodes of YARN may name no id at all."""
    first = f"clustercep alerts show {'0' * 32}"
    assert named("hdfs-safe-mode") == [first, "hdfs dfsadmin -safemode get", "hdfs dfsadmin -report"]
    assert named("hdfs-missing-blocks") == [first, "hdfs fsck / -list-corruptfileblocks", "hdfs dfsadmin -report"]
    assert named("datanode-lost") == [first, "hdfs dfsadmin -report"]
    assert named("node-lost") == [first, "yarn node -list -all"]
    assert named("my-own-query") == [first]
