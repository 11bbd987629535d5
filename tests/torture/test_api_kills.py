"""The campaign `api_kills` in short: a few lives; `long`: more of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.torture.campaign import Given
from tests.torture.campaigns.api_kills import killed


@pytest.mark.parametrize("n_kills", [4, pytest.param(40, marks=pytest.mark.long)])
def test_kills_of_the_api_lose_no_silence_and_leave_none_by_halves(tmp_path: Path, n_kills: int) -> None:
    seed = int(os.environ.get("KILL_SEED", "1"))
    print(f"KILL_SEED={seed}")
    verdict = killed(Given(1, seed, tmp_path / "api"), n_kills, most_s=300)
    print(verdict.figures)
    assert verdict.failures == ()
