"""The baselines as `clustercep match --runtime` evaluates them, on the shared conformance cases that they cover."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.baselines import OVER_INTERVALS, BaselineKind
from tests.conformance.runtimes import bindings_key, run_match, write_case
from tests.conformance.test_shared_cases import CASE_FILES, as_events, expected, load, ties

KINDS = [kind.value for kind in BaselineKind]
PRECISE_KINDS = [kind.value for kind in BaselineKind if kind not in OVER_INTERVALS]
QUERY = "PATTERN SEQ(A a, B+ b[], C c) WHERE {} WITHIN 10"
EVENTS = [{"type": kind, "t": t} for t, kind in enumerate("ABBC")]


def is_covered(path: Path, kind: str) -> bool:
    case = json.loads(path.read_text(encoding="utf-8"))
    if case["engine"] != "precise" and kind in PRECISE_KINDS:
        return False
    has_negation = "!" in load(path)["query"] or "~" in load(path)["query"]
    return case["strategy"] == "skip-till-any-match" and not (has_negation and kind not in PRECISE_KINDS)


COVERED = [(path, kind) for path in CASE_FILES for kind in KINDS if is_covered(path, kind)]


@pytest.mark.external
@pytest.mark.parametrize(("path", "kind"), COVERED, ids=lambda each: getattr(each, "stem", each))
def test_the_shared_cases(path: Path, kind: str, tmp_path: Path) -> None:
    case = load(path)
    result = run_match(*write_case(tmp_path, case["query"], as_events(case)), kind, *ties(case))
    assert result.matches == pytest.approx({b: float(c) for b, c in expected(case).items()}, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_printed_as_by_any_runtime(kind: str, tmp_path: Path) -> None:
    result = run_match(*write_case(tmp_path, QUERY.format("skip_till_any_match"), EVENTS), kind)
    assert result.matches.keys() == {bindings_key({"a": ["1"], "b": b, "c": ["4"]}) for b in (["2"], ["3"], ["2", "3"])}


@pytest.mark.parametrize("kind", PRECISE_KINDS)
@pytest.mark.parametrize(
    ("strategy", "last", "message"),
    [
        ("skip_till_next_match", {"type": "C", "t": 4}, "do not evaluate skip_till_next_match"),
        ("skip_till_any_match", {"type": "C", "t_lo": 4, "t_hi": 6}, "is not defined over imprecise events; found 1"),
    ],
)
def test_what_they_refuse_is_not_given_to_the_oracle(
    kind: str, strategy: str, last: dict[str, object], message: str, tmp_path: Path
) -> None:
    result = run_match(*write_case(tmp_path, QUERY.format(strategy), [*EVENTS, last]), kind)
    assert message in result.message
    assert "--runtime auto" in result.message
    assert not result.rows
