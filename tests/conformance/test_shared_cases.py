"""The shared conformance cases: text and events through the oracle and through every runtime of `clustercep match`."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from engine.events import AttributeType, EventBatch, EventSchema
from engine.language import ast
from engine.language.parser import parse
from engine.language.resolver import resolve
from engine.reference import reference_matches
from tests.conformance.runtimes import RUNTIMES, Bindings, bindings_key, run_match, write_case

ROOT = Path(__file__).parents[2]
CASES = ROOT.parent / "shared" / "conformance"
CASE_FILES = sorted(CASES.glob("*.json"))
_TIMES = ("id", "ts", "lo", "hi", "type")

pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(not CASE_FILES, reason="the shared conformance cases are not here"),
]


def load(path: Path) -> dict[str, Any]:
    case = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(case, dict)
    return case


def expected(case: dict[str, Any]) -> dict[Bindings, Fraction]:
    variables = [component["var"] for component in case["components"] if component["kind"] != "negation"]
    return {
        bindings_key(dict(zip(variables, match["bindings"], strict=True))): Fraction(match.get("confidence_exact", 1))
        for match in case["matches"]
    }


def as_events(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The events as `clustercep match` documents them: `t`, or `t_lo` and `t_hi`."""
    events = []
    for event in case["events"]:
        times = {"t_lo": event["lo"], "t_hi": event["hi"]} if "lo" in event else {"t": event["ts"]}
        events.append({name: value for name, value in event.items() if name not in ("ts", "lo", "hi")} | times)
    return events


def ties(case: dict[str, Any]) -> list[str]:
    """In the imprecise cases timestamps increase strictly, also among events that are points."""
    return ["--ties", "strict"] if case["engine"] == "imprecise" else []


def test_there_are_cases_of_every_strategy_that_exists() -> None:
    cases = [load(path) for path in CASE_FILES]
    assert {case["strategy"] for case in cases} >= {
        "skip-till-any-match",
        "skip-till-next-match",
        "partition-contiguity",
    }
    assert {case["engine"] for case in cases} == {"precise", "imprecise"}


@pytest.mark.parametrize("path", CASE_FILES, ids=lambda path: path.stem)
def test_oracle_agrees_exactly(path: Path) -> None:
    case = load(path)
    query = parse(case["query"] + ("\nTIES STRICT" if ties(case) else ""), case["id"])
    names = {component.event_type for component, _ in ast.components(query.pattern)}
    attributes = {name: AttributeType.INT for event in case["events"] for name in event if name not in _TIMES}
    schema = EventSchema.of(dict.fromkeys(names | {event["type"] for event in case["events"]}, attributes))
    rows = [
        {
            "event_id": str(event["id"]),
            "type": event["type"],
            "t_lo_ms": event.get("lo", event["ts"]),
            "t_hi_ms": event.get("hi", event["ts"]),
            "source_rank": 0,
            "source_seq": position,
            **{name: event[name] for name in attributes},
        }
        for position, event in enumerate(case["events"])
    ]
    # The order of rows must not matter: position is in source_seq.
    batch = EventBatch.from_rows(rows[::-1], schema)
    found = reference_matches(resolve(query, schema), batch)
    assert {bindings_key(match.bindings): match.confidence for match in found} == expected(case)
    assert len(found) == len(expected(case))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("path", CASE_FILES, ids=lambda path: path.stem)
def test_match_command_agrees(path: Path, runtime: str, tmp_path: Path) -> None:
    case = load(path)
    result = run_match(*write_case(tmp_path, case["query"], as_events(case)), runtime, *ties(case))
    assert "evaluated by the oracle instead" not in result.message
    wanted = expected(case)
    assert result.matches.keys() == wanted.keys()
    for bindings, confidence in result.matches.items():
        assert confidence == pytest.approx(float(wanted[bindings]), abs=1e-12)


@pytest.mark.parametrize("path", CASE_FILES, ids=lambda path: path.stem)
def test_events_as_the_cases_spell_them(path: Path, tmp_path: Path) -> None:
    """`ts`, `lo` and `hi` are understood as they stand, with what the cases mean by equal points."""
    case = load(path)
    result = run_match(*write_case(tmp_path, case["query"], case["events"]), "oracle")
    assert result.matches.keys() == expected(case).keys()
