"""The campaign `kills` in short: two rounds of all moments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.torture.campaign import Given
from tests.torture.kills import MOMENTS, killed


@pytest.mark.long
def test_kills_of_the_program_lose_and_double_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("KILL_SEED", "1"))
    print(f"KILL_SEED={seed}")
    verdict = killed(Given(1, seed, tmp_path), 2 * len(MOMENTS), 6, retention="1 s", most_s=120)
    print(verdict.figures)
    assert verdict.failures == ()
