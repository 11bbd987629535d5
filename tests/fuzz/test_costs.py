"""Generated hostile cases, and ones with small budgets: they end, within bounded memory, and tell what they leave out.

How long they take is not asked here, but for a guard far beyond the goal: `make fuzz` and `make bench BENCH=bounds` are
for that.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from benchmarks.engine.bounds import GOAL_MIB
from tests.conformance.ways import CUT, Outcome, Way, outcome_by
from tests.examples import each_drawn_anew, examples
from tests.fuzz.__main__ import repeat
from tests.fuzz.budgets import BUDGETED, Budgeted, difference
from tests.fuzz.hostile import HOSTILE, Cost, Hostile, cost_of, over
from tests.fuzz.saved import load_saved
from tests.fuzz.searching import Found, Order, Search, Tally

ONE_EVENT = Hostile("PATTERN SEQ(A v0) WHERE skip_till_any_match WITHIN 1 hour", "A")


@pytest.mark.in_turn(of=3)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_cases_end_within_bounded_memory(name: str) -> None:
    @settings(max_examples=examples(5), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(HOSTILE[name])
    def look(hostile: Hostile) -> None:
        cost = cost_of(hostile)
        assert cost is None or isinstance(cost, Cost), cost
        assert cost is None or cost.mib <= GOAL_MIB, cost

    with each_drawn_anew():
        look()


def test_a_match_of_one_event_costs_one_event() -> None:
    """Not a search among all that its window has."""
    cost = cost_of(ONE_EVENT)
    assert isinstance(cost, Cost)
    assert (cost.n_rows, cost.is_cut) == (10_000, False)


def test_a_search_that_is_stopped_when_it_has_hardly_begun_is_told() -> None:
    stopped = Cost(seconds=0.05, mib=100, n_rows=0, is_cut=True, is_stopped=True)
    assert over(stopped) == "stopped early"
    assert over(replace(stopped, seconds=0.5)) is None
    assert over(replace(stopped, is_stopped=False)) is None  # LIMIT ends it as early as it likes


@pytest.mark.in_turn(of=3)
@pytest.mark.parametrize("name", BUDGETED)
def test_what_small_budgets_leave_out_is_told_and_the_same_for_every_division(name: str) -> None:
    @settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
    @given(BUDGETED[name])
    def look(budgeted: Budgeted) -> None:
        finding = difference(budgeted)
        assert finding is None, finding.message

    with each_drawn_anew():
        look()


def _forgetful(way: Way, *given: object) -> Outcome:
    """A runtime that leaves out a row of a stream in pieces, and tells nobody."""
    outcome = outcome_by(way, *given)  # type: ignore[arg-type]
    return replace(outcome, rows=outcome.rows[1:]) if way is CUT else outcome


def test_a_difference_under_a_budget_is_found_saved_and_repeated(tmp_path: Path) -> None:
    emitted: list[Found | Tally] = []
    search = Search(Order(3, 600.0, [], (), tmp_path, tmp_path / "current"), emitted.append)
    with patch("tests.fuzz.budgets.outcome_by", _forgetful):
        number = 0
        while not emitted:
            search.budgets("output, small budget", number)
            number += 1
        (found, *_) = emitted
        assert isinstance(found, Found)
        assert repeat(found.folder) == 1
    assert isinstance(load_saved(found.folder), Budgeted)
    assert repeat(found.folder) == 0


def test_what_costs_too_much_is_found_saved_and_repeated(tmp_path: Path) -> None:
    emitted: list[Found | Tally] = []
    search = Search(Order(3, 600.0, [], (), tmp_path, tmp_path / "current"), emitted.append)
    with (
        patch("tests.fuzz.hostile.MIB", 1),
        patch.multiple("tests.fuzz.searching", SHRINK_SECONDS=0.0, HOSTILE_PER_ROUND=2),
    ):
        search.burden("hostile", 1)
        (found, *_) = emitted
        assert isinstance(found, Found)
        assert found.finding.message.startswith("memory")
        assert repeat(found.folder) == 1
    saved = load_saved(found.folder)
    assert isinstance(saved, Hostile)
    assert over(cost_of(saved)) is None
