"""`clustercep routes`, and what `check` says of routes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.commands.check import check_all

ROOT = Path(__file__).parents[3]
CONFIG = f"""
queries: {{directory: {ROOT / "queries"}}}
alerting:
  receivers:
    ops: {{url: "http://127.0.0.1:9/ops", template: text.json}}
    db: {{url: "http://127.0.0.1:9/db", min_severity: critical}}
    spare: {{url: "http://127.0.0.1:9/spare"}}
  route:
    receiver: ops
    group_by: [alertname]
    routes:
    - matchers: ['severity=~"critical|warning"']
      receiver: db
      continue: true
      group_wait: 10s
    - matchers: ['severity="page"']
    - matchers: ['alertname="no-such-query"']
      labels: {{team: etl, why: "{{{{ .GroupLabels.job }}}}"}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "text.json").write_text('{"text": "{severty}: {summary} {job} {n_alerts}"}')
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def run(*words: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(cli, [str(word) for word in words])
    return result.exit_code, result.output


def test_a_label_that_no_alert_has_is_warned_of(config: Path) -> None:
    result = CliRunner().invoke(cli, ["routes", "test", "severty=critical", "--json", "-c", str(config)])
    assert result.exit_code == 0
    assert result.stderr == "warning: no alert has a label 'severty'; did you mean 'severity'?\n"
    assert [told["receiver"] for told in json.loads(result.stdout)] == ["ops"]
    result = CliRunner().invoke(cli, ["routes", "test", "severity=info", "suspect=node1", "-c", str(config)])
    assert result.stderr == "", "a label of a key"


def test_check_names_the_query_that_a_matcher_may_mean(config: Path) -> None:
    config.write_text(CONFIG.replace("no-such-query", "node-lst"))
    (told,) = [warning for warning in check_all(config).warnings if "no query fulfils" in warning]
    assert told.endswith("; did you mean 'node-lost'?")


def test_labels_lead_to_receivers(config: Path) -> None:
    code, text = run("routes", "test", "severity=critical", 'alertname="job-failed"', "-c", config)
    assert (code, text) == (
        0,
        'db  with the group {}/{severity=~"critical|warning"}:{alertname="job-failed"}, after 10 s\n',
    )
    code, text = run("routes", "test", "severity=warning", "-c", config)
    assert (code, text.split("  ")[1]) == (1, "is not told: warning is below its min_severity critical")
    code, text = run("routes", "test", "severity=info", "--format", "json", "-c", config)
    (found,) = json.loads(text)
    assert (found["receiver"], found["group"], found["group_wait_ms"]) == ("ops", "{}:{}", 30_000)


@pytest.mark.parametrize(("expected", "code"), [("ops", 0), ("ops,db", 1), ("db", 1)])
def test_receivers_are_verified(config: Path, expected: str, code: int) -> None:
    assert run("routes", "test", "severity=info", "--verify-receivers", expected, "-c", config)[0] == code


def test_the_tree_is_shown(config: Path) -> None:
    code, text = run("routes", "show", "-c", config)
    assert code == 0
    assert [line.split(" -> ")[1].split(";")[0] for line in text.splitlines() if "->" in line] == [
        "ops",
        "db",
        "ops",
        "ops",
    ]


def test_both_print_json(config: Path) -> None:
    code, text = run("routes", "test", "severity=info", "--json", "-c", config)
    assert (code, [found["receiver"] for found in json.loads(text)]) == (0, ["ops"])
    code, text = run("routes", "show", "--json", "-c", config)
    tree = json.loads(text)
    assert (code, tree["receiver"], tree["matchers"], tree["group_by"]) == (0, "ops", [], ["alertname"])
    first, *_, last = tree["routes"]
    assert (first["receiver"], first["continue"], first["group_wait_ms"]) == ("db", True, 10_000)
    assert (last["matchers"], last["group_by"]) == (['alertname="no-such-query"'], ["alertname"])
    assert last["labels"]["team"] == "etl"


def test_what_is_no_label_is_a_mistake(config: Path) -> None:
    assert run("routes", "test", "critical", "-c", config)[0] == 2


def test_check_tells_what_is_perhaps_not_meant(config: Path) -> None:
    report = check_all(config)
    assert report.problems == ()
    told = "\n".join(report.warnings)
    for part in (
        "receivers.spare: no route leads to it",
        'severity="page"}: no severity of a query fulfils severity="page"; there are critical, info, warning',
        'no query fulfils alertname="no-such-query"',
        "receivers.ops.template: no alert has {severty}; ",
        "its label why is a template of Go, which stays in messages as it is",
    ):
        assert part in told
    assert len(report.warnings) == 5


def test_check_tells_what_a_rule_hides_that_has_a_side_without_matchers(config: Path) -> None:
    rules = """
  inhibit_rules:
  - {source_matchers: ['severity="critical"'], equal: [host]}
  - {target_matchers: ['severity="info"']}
  - {}
"""
    config.write_text(CONFIG + rules)
    report = check_all(config)
    assert report.problems == ()
    assert [warning for warning in report.warnings if "inhibit_rules" in warning] == [
        'alerting.inhibit_rules.0: it has no target_matchers: while an alert fulfils {severity="critical"}, all others '
        "with equal host are hidden",
        'alerting.inhibit_rules.1: it has no source_matchers: any alert hides those that fulfil {severity="info"}',
        "alerting.inhibit_rules.2: it has neither source_matchers nor target_matchers, so it hides nothing",
    ]


def test_check_tells_of_labels_that_no_alert_has(config: Path) -> None:
    tree = """
    - {matchers: [service="files", job=~".+", attempt_id=~".+"]}
    - {matchers: [service=~"a|b", team!="x", cluster=~".*"]}
    - {matchers: [service!~"|x", site="here"]}
"""
    config.write_text(CONFIG.replace("receivers:", "external_labels: {site: here}\n  receivers:", 1) + tree)
    (told,) = [warning for warning in check_all(config).warnings if "no alert has the label" in warning]
    assert 'service="files",' in told
    assert 'no alert has the label of service="files" (nor of 2 more such matchers); ' in told
    assert "alerting.external_labels gives service to all alerts" in told


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("receiver: db", "receiver: dbx", r"routes.0.receiver: there is no receiver 'dbx'; .*did you mean 'db'"),
        ("group_wait:", "group_wiat:", r"group_wiat: found an unknown key; .*did you mean 'group_wait'"),
        ("receiver: ops\n", "group_wait: 1s\n", r"route.receiver: found nothing"),
        ("group_by: [alertname]", "matchers: [a=b]", r"route.matchers: expected none"),
        ("group_by: [alertname]", "group_by: [a, '...']", r"'...' means all labels"),
        ("continue: true", "mute_time_intervals: [night]", r"there is no time interval 'night'"),
        ('severity="page"', 'severity=~"(page"', r"routes.1.matchers: .*no regular expression of RE2: missing \)"),
    ],
)
def test_mistakes_are_refused_with_their_place(config: Path, before: str, after: str, problem: str) -> None:
    assert before in CONFIG
    config.write_text(CONFIG.replace(before, after, 1))
    (found, *_) = check_all(config).problems
    assert re.search(problem, found), found
    assert "Value error" not in found
    assert "127.0.0.1" not in found, "addresses may hold secrets"


def test_examples_of_the_page_are_right(tmp_path: Path) -> None:
    page = (ROOT / "docs/alerting.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(examples) >= 3
    for name in ("ops.url", "on-call.url", "pagerduty.key", "slack.url"):
        (tmp_path / name).write_text(f"http://127.0.0.1:9/{name}" if name.endswith("url") else "K0123456789")
    path = tmp_path / "config.yaml"
    for example in examples:
        text = example.replace("/etc/clustercep/", f"{tmp_path}/")
        if not text.startswith("alerting:"):  # a part of it
            receivers = "{ops: {url: 'http://127.0.0.1:9/ops'}, on-call: {url: 'http://127.0.0.1:9/on-call'}}"
            text = f"alerting:\n  receivers: {receivers}\n{text}"
        path.write_text(f"queries: {{directory: {ROOT / 'queries'}}}\n{text}")
        report = check_all(path)
        assert (report.problems, report.warnings) == ((), ()), example
        if "group_by" in example:
            code, told = run("routes", "test", "severity=critical", "alertname=node-lost", "-c", path)
            assert (code, [line.split()[0] for line in told.splitlines()]) == (0, ["on-call"])


def test_both_tell_of_escalation(config: Path) -> None:
    escalated = "    group_by: [alertname]\n    escalate_to: spare\n    escalate_after: 15m\n"
    config.write_text(CONFIG.replace("    group_by: [alertname]\n", escalated, 1))
    code, text = run("routes", "test", "severity=info", "-c", config)
    assert (code, text) == (0, "ops  with the group {}:{}, after 30 s  unacknowledged 15 min later spare\n")
    code, text = run("routes", "test", "severity=info", "--format", "json", "-c", config)
    assert json.loads(text)[0]["escalation"] == {"receiver": "spare", "why_not": None, "after_ms": 900_000}
    code, text = run("routes", "show", "-c", config)
    assert "unacknowledged after 15 min -> spare" in " ".join(text.split())
