"""Brackets within brackets: as deep as is said, whatever reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from app.yaml_text import load_yaml
from collectors.prometheus.targets import TargetDefaults, TargetsError, read_list
from collectors.yaml_depth import MAX_FLOW_DEPTH


def nested(depth: int) -> str:
    return "a: 1\nb: " + "[" * depth + "]" * depth + "\n"


def test_settings_are_read_up_to_the_depth() -> None:
    found = load_yaml(nested(MAX_FLOW_DEPTH))["b"]
    for _ in range(MAX_FLOW_DEPTH - 1):
        [found] = found
    assert found == []


@pytest.mark.parametrize(
    "text",
    [nested(MAX_FLOW_DEPTH + 1), "a: 1\nb: " + "[" * 8_000, "a: 1\nb: " + "{a: " * 8_000],
    ids=["one too many", "lists", "mappings"],
)
def test_what_is_deeper_is_refused_where_it_is(text: str) -> None:
    """At the first bracket that is too deep: none behind it is looked at."""
    step = 4 if "{" in text else 1
    with pytest.raises(yaml.YAMLError, match="nested too deeply: more than 64") as caught:
        load_yaml(text)
    mark = caught.value.problem_mark  # type: ignore[attr-defined]  # which errors of the scanner have
    assert (mark.line, mark.column) == (1, 3 + step * MAX_FLOW_DEPTH)


def test_depth_is_of_brackets_that_are_open(tmp_path: Path) -> None:
    many = "[" + ", ".join(["[[]]"] * 1_000) + "]"
    assert load_yaml(many) == [[[]]] * 1_000
    targets = tmp_path / "targets.yml"
    targets.write_text("[" * 5_000)
    with pytest.raises(TargetsError, match="nested too deeply"):
        read_list(str(targets), TargetDefaults())
