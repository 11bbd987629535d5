"""The campaign `groups` in short: each moment once; `long`: three times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.torture.campaign import Given
from tests.torture.campaigns.groups import MOMENTS, killed


@pytest.mark.parametrize("n_rounds", [1, pytest.param(3, marks=pytest.mark.long)])
def test_kills_beside_groups_lose_and_double_nothing(tmp_path: Path, n_rounds: int) -> None:
    seed = int(os.environ.get("KILL_SEED", "1"))
    print(f"KILL_SEED={seed}")
    verdict = killed(Given(1, seed, tmp_path), n_rounds * len(MOMENTS), 3, most_s=300)
    print(verdict.figures)
    assert verdict.failures == ()
