"""The price that runs have to be worth where the queue bears the work of several windows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.shedding.overload.price import Price


def _started(utilities: list[float], drop_share: float) -> Price:
    price = Price()
    price.see(np.array(utilities))
    price.start(drop_share)
    return price


def test_it_begins_among_what_was_seen() -> None:
    worth = [1.0, 2.0, 3.0, 4.0]
    assert _started(worth, 1.0).n_below(np.array(worth), 0.0) == 2, "the median: half of what is to be saved"
    assert _started(worth, 0.0).n_below(np.array(worth), 0.0) == 0
    assert _started([0.0] * 9 + [7.0], 0.5).n_below(np.array([0.0, 6.9, 7.1]), 0.0) == 2, "above what is worth nothing"


def test_of_what_is_worth_nothing_there_is_none() -> None:
    price = _started([0.0, 0.0], 0.5)
    price.follow(0.5, 1.0)
    assert not price.is_set
    assert price.n_below(np.zeros(3), 0.5) == 0


@pytest.mark.parametrize(("queue", "elapsed", "factor"), [(0.5, 1.0, math.exp(2)), (-0.25, 0.5, math.exp(-0.5))])
def test_it_rises_while_the_queue_is_long(queue: float, elapsed: float, factor: float) -> None:
    price = _started([1.0], 0.5)
    price.follow(queue, elapsed)
    assert price.n_below(np.array([0.999 * factor, 1.001 * factor]), 0.0) == 1
    price.follow(-queue, elapsed)
    assert price.n_below(np.array([0.999, 1.001]), 0.0) == 1
    price.forget()
    assert not price.is_set


def test_what_is_kept_is_what_the_machine_takes_and_worth_most() -> None:
    """Runs of one step each, none or forty at once; ten a step are affordable. So half of them are to go, whichever
    come together, and a limit of ten a step keeps a quarter."""
    random, price, queue = np.random.default_rng(1), Price(), 0.0
    kept, n_runs = [], 0
    for step in range(4_000):
        utilities = random.random(40 * int(random.integers(0, 2)))
        if not price.is_set:
            price.see(utilities)
            if step == 20:
                price.start(0.5)
        price.follow(queue, 0.05)
        goes_on = np.sort(utilities)[price.n_below(utilities, queue) :]
        queue = max(-0.5, queue + (len(goes_on) - 10) / 1_000)
        if step >= 1_000:
            kept.append(goes_on)
            n_runs += len(utilities)
        assert queue < 0.5, "what is planned"
    every = np.concatenate(kept)
    assert len(every) == pytest.approx(n_runs / 2, rel=0.05)
    assert np.quantile(every, 0.05) > 0.4, "what is worth less than a half goes, but for what comes while it settles"
    assert every.sum() > 0.95 * (0.75 * n_runs / 2), "of the better half, as many as are affordable"
