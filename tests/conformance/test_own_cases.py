"""The cases in cases/*.yaml, derived by hand, through every runtime of `clustercep match`.

A case has `query`, `events` (rows as the command reads them), `options` of the command, and what is expected: `matches`
(bindings by variable, `confidence` as a fraction, 1 if left out, `values` of RETURN if given), or `rows` of COLLAPSED
and COUNT by first and last event, or `n_rows`. `reported` is part of what stands on standard error. `refused` gives for
a runtime part of the message of the UnsupportedQueryError that it must raise: a gap is declared, never skipped.
"""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.runtimes import RUNTIMES, Outcome, bindings_key, outcome, run_match, write_case

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "cases"
_KNOWN = {"case", "query", "events", "options", "matches", "rows", "n_rows", "reported", "refused"}


def load_cases() -> list[Any]:
    cases = []
    for path in sorted(FOLDER.glob("*.yaml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8")):
            cases.append(pytest.param(case, id=f"{path.stem}/{case['case']}"))
    return cases


CASES = load_cases()


def test_cases_say_nothing_that_is_not_read() -> None:
    for parameter in CASES:
        (case,) = parameter.values
        assert set(case) <= _KNOWN, parameter.id
        assert {"matches", "rows", "n_rows"} & set(case), parameter.id
        assert set(case.get("refused", {})) <= set(RUNTIMES) - {"oracle", "auto"}, parameter.id
    ids = [parameter.id for parameter in CASES]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("case", CASES)
def test_case(case: dict[str, Any], runtime: str, tmp_path: Path) -> None:
    result = run_match(*write_case(tmp_path, case["query"], case["events"]), runtime, *case.get("options", []))
    refusal = case.get("refused", {}).get(runtime)
    if refusal is not None:
        assert result.exit_code == 2, "this runtime evaluates the case now: take it from `refused`"
        assert refusal in result.message
        return
    falls_back = runtime == "auto" and "compiled" in case.get("refused", {})
    assert ("evaluated by the oracle instead" in result.message) == falls_back
    check(case, result)


def check(case: dict[str, Any], result: Outcome) -> None:
    """Compare what came back with what the case expects."""
    assert result.exit_code != 2, result.message
    if "reported" in case:
        assert case["reported"] in result.message
    if "n_rows" in case:
        assert len(result.rows) == case["n_rows"]
    if "matches" in case:
        check_matches(case["matches"], result)
    if "rows" in case:
        check_rows(case["rows"], result)


def check_matches(expected: list[dict[str, Any]], result: Outcome) -> None:
    wanted = {}
    for match in expected:
        bindings = {name: ids for name, ids in match.items() if name not in ("confidence", "values")}
        wanted[bindings_key(bindings)] = match
    assert result.matches.keys() == wanted.keys()
    for row in result.rows:
        match = wanted[bindings_key(row["bindings"])]
        assert row["confidence"] == pytest.approx(float(Fraction(match.get("confidence", 1))), abs=1e-12)
        if "values" in match:
            assert row["values"].keys() == match["values"].keys()
            for name, value in match["values"].items():
                is_real = isinstance(value, float)
                assert row["values"][name] == (pytest.approx(value, abs=1e-12) if is_real else value), name
                assert isinstance(row["values"][name], float) == is_real, name


def check_rows(expected: list[dict[str, Any]], result: Outcome) -> None:
    """COLLAPSED and COUNT: the match that stands as evidence has the row's first and last event; it is `shown`."""
    found = {}
    for row in result.rows:
        ids = [event for bound in row["bindings"].values() for event in bound]
        assert row.get("count_exact", True)
        found[ids[0], ids[-1]] = row
    assert found.keys() == {(row["first"], row["last"]) for row in expected}
    for row in expected:
        got = found[row["first"], row["last"]]
        assert got.get("count", 1) == row["count"]
        if "shown" in row:
            assert bindings_key(got["bindings"]) == bindings_key(row["shown"])
        if "confidence" in row:
            assert got.get("confidence", 1.0) == pytest.approx(float(Fraction(row["confidence"])), abs=1e-12)
        if "candidates" in row:
            assert {name: set(ids) for name, ids in got["candidates"].items()} == {
                name: set(ids) for name, ids in row["candidates"].items()
            }
            assert got["exact"] == row["exact"]


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_as_a_process(runtime: str, tmp_path: Path) -> None:
    (case,) = next(parameter.values for parameter in CASES if parameter.id == "imprecise/both-orders")
    query_file, events_file = write_case(tmp_path, case["query"], case["events"])
    lines = Path(events_file).read_text(encoding="utf-8")
    command = [sys.executable, "-m", "app.commands.match.match", "match", query_file, "-", "--runtime", runtime]
    done = subprocess.run(command, input=lines, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    check(case, outcome(done.returncode, done.stdout, done.stderr))
