"""What is lost for work that is saved."""

from __future__ import annotations

import numpy as np
import pytest

from engine.shedding.events.costs import EventCosts
from engine.shedding.events.threshold import UtilityDistribution
from engine.shedding.overload.trade import Trade


def test_what_is_worth_least_goes_first() -> None:
    """Of work 1, 3 and 4 that are worth 6, 1 and 3 the second goes first: for 3/8 of the work a tenth is lost."""
    trade = Trade.of(np.array([6.0, 1 / 3, 0.75]), np.array([1.0, 3.0, 4.0]), np.array([6.0, 1.0, 3.0]), 0.8)
    assert trade.lost_at(0.0) == 0.0
    assert trade.lost_at(0.8 * 3 / 8) == pytest.approx(0.1)
    assert trade.lost_at(0.8 * 7 / 8) == pytest.approx(0.4)
    assert trade.lost_at(0.8 * 5 / 8) == pytest.approx(0.25), "half of the third kind"
    assert trade.lost_at(0.8) == pytest.approx(1.0)
    assert trade.lost_at(0.81) == np.inf, "a fifth of the work is not theirs"


def test_a_match_is_lost_with_any_of_its_events() -> None:
    """With half of the events, seven of eight matches of three."""
    trade = Trade.of(np.zeros(1), np.ones(1), np.ones(1), 1.0).with_parts(3)
    assert trade.lost_at(1.0) == 1.0
    halves = Trade.of(np.array([0.0, 1.0]), np.ones(2), np.ones(2), 1.0).with_parts(3)
    assert halves.lost_at(0.5) == pytest.approx(7 / 8)


def test_events_of_no_use_that_cost_nothing_save_nothing() -> None:
    """Of three events two are worth nothing and cost 1, one is worth 2 and costs 8; what is not judged costs 5 in
    ten."""
    random, worth = np.random.default_rng(1), np.array([0.0, 2.0])
    costs = EventCosts(UtilityDistribution.of(worth, np.array([2.0, 1.0])))
    assert costs.trade() is None, "nothing is known yet"
    for _ in range(200):
        utilities = worth[(random.random(12) < 1 / 3).astype(int)]
        n_others = int(random.integers(0, 4))
        costs.see(utilities, n_others)
        costs.took(utilities, n_others, float(np.where(utilities > 0, 8.0, 1.0).sum()) + 5.0 * n_others)
    trade = costs.trade()
    assert trade is not None
    n_useless, n_useful = 8.0, 4.0
    of_others = 5 * 1.5
    total = n_useless + 8 * n_useful + of_others
    assert trade.lost_at(0.9 * n_useless / total) == pytest.approx(0.0, abs=0.02)
    assert trade.lost_at((n_useless + 4 * n_useful) / total) == pytest.approx(0.5, abs=0.05)
    assert trade.lost_at((total - 0.8 * of_others) / total) == np.inf
