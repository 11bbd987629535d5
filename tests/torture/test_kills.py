"""The campaign `kills` in short: two rounds of all moments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.torture.campaign import Given
from tests.torture.campaigns.kills import MOMENTS, killed
from tests.torture.receivers.kills import STAGES, tried_kills
from tests.torture.receivers.kinds import KINDS


@pytest.mark.long
@pytest.mark.parametrize("routed", [False, True])
def test_kills_of_the_program_lose_and_double_nothing(tmp_path: Path, *, routed: bool) -> None:
    seed = int(os.environ.get("KILL_SEED", "1"))
    print(f"KILL_SEED={seed}")
    verdict = killed(Given(1, seed, tmp_path), 2 * len(MOMENTS) + 2 * routed, 6, routed=routed, most_s=120)
    print(verdict.figures)
    assert verdict.failures == ()


@pytest.mark.in_turn(of=3)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("routed", [False, True])
def test_a_message_that_death_cut_off_comes_again_as_it_was(tmp_path: Path, stage: str, *, routed: bool) -> None:
    assert tried_kills("webhook", stage, tmp_path / "store", routed=routed).failures() == []


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("routed", [False, True])
def test_each_kind_of_receiver_is_told_by_whoever_lives(tmp_path: Path, kind: str, *, routed: bool) -> None:
    seen = [tried_kills(kind, stage, tmp_path / stage, routed=routed).failures() for stage in STAGES]
    assert seen == [[]] * len(STAGES)
