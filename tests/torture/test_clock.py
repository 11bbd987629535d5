"""The campaign `clock` in short: one of each kind of jump, on injected clocks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.torture.campaigns.clock import Trial, judged, trials, tried

SHORT = [trial for trial in trials(random.Random(1)) if trial.wrong_s < 300]
KINDS = {trial.name.split(" for ")[0] + (" over" if trial.is_passed_over else ""): trial for trial in SHORT}


@pytest.mark.in_turn(of=3)
@pytest.mark.parametrize("trial", KINDS.values(), ids=lambda trial: trial.name)
def test_alerts_go_on_or_come_again(trial: Trial, tmp_path: Path) -> None:
    seen = tried(trial, tmp_path / "process")
    print(seen)
    assert judged(seen) == []


def test_there_are_jumps_of_all_kinds() -> None:
    assert len(KINDS) >= 6
