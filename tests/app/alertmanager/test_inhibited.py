"""What is inhibited is what a real Alertmanager inhibits, also by rules of which a side has no matchers."""

from __future__ import annotations

import random
import time
from itertools import product
from pathlib import Path
from typing import Any

import requests
import yaml
from pydantic import TypeAdapter

from app.alerting.dispatch.inhibition import Inhibitions, InhibitRule
from app.alerting.dispatch.settings import InhibitRuleSettings
from tests.app.alertmanager.programs import alertmanager
from tests.examples import examples

N_CASES = examples(25)
WAIT_S = 120.0
ALERTS = [
    {"alertname": f"{a}-{b}", **{name: value for name, value in (("a", a), ("b", b)) if value}}
    for a, b in product(("", "x", "y"), repeat=2)
]
MATCHERS = ('a="x"', 'a=~"x|y"', 'a!="y"', 'a=""', 'b="x"', 'b=""', 'b!~"x"', 'alertname="x-y"')
BOTH_SIDES_OPEN: list[dict[str, Any]] = [{"equal": ["a"]}]
NO_SOURCE: list[dict[str, Any]] = [{"target_matchers": ['a="x"'], "equal": ["b"]}]
NO_TARGET: list[dict[str, Any]] = [{"source_matchers": ['a="x"'], "equal": ["b"]}]


def rules_of(generator: random.Random) -> list[dict[str, Any]]:
    def side() -> list[str]:
        return generator.sample(MATCHERS, generator.choice([0, 1, 1, 2]))

    return [
        {"source_matchers": side(), "target_matchers": side(), "equal": generator.sample(["a", "b", "c"], n_equal)}
        for n_equal in generator.choices([0, 1, 2], k=generator.choice([1, 1, 2]))
    ]


def inhibited_here(rules: list[dict[str, Any]]) -> set[str]:
    read = TypeAdapter(list[InhibitRuleSettings]).validate_python(rules)
    made = [InhibitRule(rule.source_matchers, rule.target_matchers, rule.equal) for rule in read]
    found = Inhibitions(made, [(labels["alertname"], labels) for labels in ALERTS])
    return {labels["alertname"] for labels in ALERTS if found.by(labels) is not None}


def config_of(rules: list[dict[str, Any]]) -> str:
    of_all = {"global": {"resolve_timeout": "1d"}, "route": {"receiver": "r"}, "receivers": [{"name": "r"}]}
    return yaml.safe_dump({**of_all, "inhibit_rules": rules})


def test_what_is_inhibited_is_what_alertmanager_inhibits(tmp_path: Path) -> None:
    generator = random.Random(5)
    cases = [BOTH_SIDES_OPEN, NO_SOURCE, NO_TARGET, *(rules_of(generator) for _ in range(N_CASES))]
    seen = []
    with alertmanager(tmp_path, config_of(cases[0])) as url:
        requests.post(f"{url}/api/v2/alerts", json=[{"labels": labels} for labels in ALERTS], timeout=60)
        for rules in cases:
            (tmp_path / "alertmanager.yml").write_text(config_of(rules))
            requests.post(f"{url}/-/reload", timeout=60).raise_for_status()
            expected, until_s = inhibited_here(rules), time.monotonic() + WAIT_S
            while (told := inhibited_there(url)) != expected:  # it follows its configuration in threads of its own
                assert time.monotonic() < until_s, (rules, told ^ expected)
            seen.append(len(expected))
    assert seen[:3] == [0, 3, 6]
    assert len(set(seen)) > 3


def inhibited_there(url: str) -> set[str]:
    answer = requests.get(f"{url}/api/v2/alerts", timeout=60).json()
    assert len(answer) == len(ALERTS)
    return {alert["labels"]["alertname"] for alert in answer if alert["status"]["inhibitedBy"]}
