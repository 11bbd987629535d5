"""The campaign `groups` in short: each moment once."""

from __future__ import annotations

from pathlib import Path

from tests.torture.campaign import Given
from tests.torture.groups import MOMENTS, killed


def test_kills_lose_and_double_nothing_of_what_waits(tmp_path: Path) -> None:
    verdict = killed(Given(1, 1, tmp_path), len(MOMENTS), 2, most_s=240)
    print(verdict.figures)
    assert verdict.failures == ()
