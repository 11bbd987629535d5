"""A configuration of Alertmanager, pasted as it is: the real amtool and clustercep send the same alerts to the same."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from app.alerting.dispatch.routes import Routing
from app.cli import cli
from app.config import load_settings
from tests.app.alertmanager.programs import program

RECEIVERS = ("mails", "pager", "files", "data", "nobody")
TREE = r"""
route:
  receiver: 'mails'
  group_by: ['alertname', 'cluster', 'service']
  group_wait: 30s
  group_interval: 5m
  repeat_interval: 1h30m
  routes:
  - match_re:
      service: ^(foo1|foo2|baz)$
    receiver: pager
    continue: true
    routes:
    - match: {severity: critical}
      group_by: ['...']
    - matchers: [severity = warning, team != "b"]
      receiver: nobody
      mute_time_intervals: [nights]
  - matchers: ['{service="files", severity=~"crit.*|info"}']
    receiver: files
    repeat_interval: 1d
  - matchers:
    - service =~ "data|base"
    - severity!~"info"
    - team=""
    receiver: data
    active_time_intervals: [work, holidays]
  - match: {service: files}
    match_re: {team: a|c}
    matchers: [severity!="critical"]
    receiver: data
  - matchers: [team=c]
    receiver: files
inhibit_rules:
- source_match: {severity: 'critical'}
  target_match_re: {severity: 'warning|info'}
  equal: ['alertname', 'cluster', 'service']
- source_matchers: [alertname = node-lost]
  target_matchers: ['alertname=~".*straggler.*"', 'host!=""']
mute_time_intervals:
- name: nights
  time_intervals:
  - times: [{start_time: '22:00', end_time: '24:00'}, {start_time: 00:00, end_time: 06:00}]
    weekdays: ['monday:friday', Saturday]
time_intervals:
- name: work
  time_intervals:
  - times: [{start_time: 09:00, end_time: 17:00}]
    days_of_month: ['1:15', '-3:-1']
    months: ['january:march', '10:12', May]
    location: Europe/Berlin
- name: holidays
  time_intervals:
  - years: ['2026:2028', '2030']
"""


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """`alertmanager.yml`."""
    path = tmp_path / "alertmanager.yml"
    path.write_text(TREE + "receivers:\n" + "".join(f"- name: {name}\n" for name in RECEIVERS))
    return path


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """`config.yaml` with the same, indented by two."""
    pasted = "".join(f"  {line}\n" if line else "\n" for line in TREE.splitlines())
    receivers = "".join(f"    {name}: {{url: 'http://127.0.0.1:9/{name}'}}\n" for name in RECEIVERS)
    path = tmp_path / "config.yaml"
    path.write_text(f"alerting:\n  receivers:\n{receivers}{pasted}")
    return path


def drawn(rng: random.Random) -> dict[str, str]:
    """Labels of an alert."""
    values = {
        "service": ["foo1", "foo2", "foo11", "baz", "files", "data", "base", "database"],
        "severity": ["critical", "warning", "info", "crit", "page"],
        "team": ["a", "b", "c", "ab"],
    }
    return {name: rng.choice(of_name) for name, of_name in values.items() if rng.random() < 0.8}


def test_amtool_and_routes_test_name_the_same_receivers(theirs: Path, ours: Path) -> None:
    amtool, rng = program("amtool"), random.Random(26)
    check = [amtool, "check-config", str(theirs)]
    checked = subprocess.run(check, capture_output=True, text=True, timeout=300, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    routing = Routing.of(load_settings(ours, {}).alerting)
    assert routing is not None
    seen = set()
    for _ in range(80):
        labels = drawn(rng)
        pairs = [f"{name}={value}" for name, value in labels.items()]
        command = [amtool, "config", "routes", "test", f"--config.file={theirs}", *pairs]
        told = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout.strip()
        assert [target.route.receiver for target in routing.targets(labels)] == told.split(","), labels
        seen.add(told)
    assert {name for told in seen for name in told.split(",")} == set(RECEIVERS)
    assert any("," in told for told in seen)


def test_a_pasted_tree_is_shown_and_asked_by_commands(ours: Path) -> None:
    def told(*words: str) -> str:
        result = CliRunner().invoke(cli, [*words, "-c", str(ours)])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert told("routes", "test", "service=foo1", "severity=critical", "--verify-receivers", "pager")
    assert told("routes", "show").count(" -> ") == 8
    alerting = load_settings(ours, {}).alerting
    assert [interval.name for interval in alerting.all_time_intervals] == ["work", "holidays", "nights"]
    rules = [(str(rule.source_matchers[0]), str(rule.target_matchers[0])) for rule in alerting.inhibit_rules]
    assert rules == [
        ('severity="critical"', 'severity=~"warning|info"'),
        ('alertname="node-lost"', 'alertname=~".*straggler.*"'),
    ]
    assert yaml.safe_load(TREE)["route"]["repeat_interval"] == "1h30m"
    routing = Routing.of(alerting)
    assert routing is not None
    assert routing.root.timing.repeat_interval_ms == 5_400_000
