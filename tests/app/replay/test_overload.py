"""`clustercep demo --overload 2`: the bound holds on the simulated machine, and what is lost for it is told."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from app.config import load_settings
from app.replay.demo import DemoResult, run_demo

ROOT = Path(__file__).parents[3]
EXEMPT = {
    "hdfs-no-active", "hdfs-safe-mode-stays", "late-reducers", "mappers-slowing-host", "queue-growing",
    "rising-load-host", "rpc-slowing", "load-imbalance-host", "several-signals-host", "sick-host",
}  # fmt: skip
"""By their own form: incidents need no query whole."""


@pytest.fixture(scope="module")
def printed() -> StringIO:
    return StringIO()


@pytest.fixture(scope="module")
def overloaded(tmp_path_factory: pytest.TempPathFactory, printed: StringIO) -> DemoResult:
    shipped = load_settings(ROOT / "config.yaml", {})
    folder = tmp_path_factory.mktemp("overload") / "demo"
    own = shipped.model_copy(update={"demo": shipped.demo.model_copy(update={"directory": folder})})
    return run_demo(own, "max", Console(file=printed, width=200), overload=2.0)


def found(truth: dict[str, Any]) -> set[str]:
    return {row["fault"] for row in truth["found"]} - {row["fault"] for row in truth["missed"]}


@pytest.mark.in_turn(of=3, together=True)
def test_the_bound_holds_at_twice_what_the_machine_takes(overloaded: DemoResult) -> None:
    overload = overloaded.summary["overload"]
    assert overload["latency_max_ms"] <= overload["bound_ms"]
    assert overload["latency_p999_ms"] <= overload["latency_max_ms"]
    assert overload["latency_max_without_shedding_ms"] > 10 * overload["bound_ms"]
    assert overload["released_events_per_s"] == pytest.approx(2 * overload["capacity_events_per_s"], rel=1e-3)
    assert overload["n_shed_steps"] > 0


@pytest.mark.in_turn(of=3, together=True)
def test_without_overload_all_is_found_and_with_it_nothing_false(overloaded: DemoResult) -> None:
    truth, without = overloaded.summary["ground_truth"], overloaded.summary["overload"]["without_shedding"]
    assert len(found(without["ground_truth"])) == 5
    assert truth["false_alarms"] == []
    assert len(found(truth)) >= 4
    for query, n in overloaded.summary["matches"].items():
        assert n <= without["matches"][query]


@pytest.mark.in_turn(of=3, together=True)
def test_what_was_dropped_is_told_by_query(overloaded: DemoResult, printed: StringIO) -> None:
    overload, text = overloaded.summary["overload"], printed.getvalue()
    assert overload["dropped"]
    assert set(overload["exempt"]) == EXEMPT
    for name in overload["dropped"]:
        assert name in text
    assert "At 2 times what the machine takes: " in text
    assert "Without overload: 5 of 5 faults found, no false alarm." in text
    assert json.loads(overloaded.summary_path.read_text())["overload"] == overload
    assert any(name.startswith("engine: load_shed") for name in overloaded.summary["problems"])
