"""The campaign `soak` in short: two loops of the recording, and the fit."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.torture.campaigns import soak
from tests.torture.campaigns.soak import BOUNDS, HOURS, Sample, judged, slope, soaked
from tests.torture.inputs.looped_recording import LOOP_S, Moved


@pytest.mark.long
def test_a_looped_recording_calls_for_the_same_alerts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "POLL_MS", 60_000)
    first, second = soaked(tmp_path, 1.5 * LOOP_S / 3_600, 600)
    assert first.n_alerts == second.n_alerts > 5
    assert second.hours == pytest.approx(2 * LOOP_S / 3_600)


def test_times_and_ids_of_the_recording_move_together() -> None:
    moved = Moved(3_600_000)
    line = b"2026-11-20 12:59:59,123 INFO application_1795178134302_0003 t=1795178163449 n=123\n\tat 1795178163449x\n"
    assert moved.log(line) == (
        b"2026-11-20 13:59:59,123 INFO application_1795181734302_0003 t=1795181763449 n=123\n\tat 1795181763449x\n"
    )


def samples(growth: float) -> list[Sample]:
    """Ten hours with noise; memory grows by so much an hour."""
    chosen = random.Random(1)
    made = []
    for n in range(1, 44):
        hours = n * LOOP_S / 3_600
        noise = [chosen.uniform(0.99, 1.01) for _ in range(4)]
        memory = 400 * (1 + growth * hours) * noise[0]
        made.append(Sample(hours, memory, 17 * noise[1], 4_000 * noise[2], 0.1 * noise[3], 9))
    return made


def test_what_is_flat_holds_and_what_grows_is_told() -> None:
    assert judged(samples(0.0), 600).failures == ()
    (failure,) = judged(samples(2 * BOUNDS["memory"]), 600).failures
    assert failure.startswith("memory: ")
    (failure,) = judged(samples(0.0)[:20], 600).failures
    assert f"expected {HOURS:g}" in failure


def test_a_slope_has_the_interval_of_the_text_book() -> None:
    """Five points by hand: b = 1.97, squared residuals 0.091, so its standard error is sqrt(0.091 / 3 / 10)."""
    fit = slope([1, 2, 3, 4, 5], [2.1, 3.9, 6.2, 7.8, 10.0])
    assert fit.mean == pytest.approx(6.0)
    assert fit.share * fit.mean == pytest.approx(1.97)
    assert fit.low < fit.share < fit.high
    assert (fit.high - fit.share) * fit.mean == pytest.approx(2.75 * 0.05508, rel=0.001)
