"""The campaign `postgresql`, in short: one life of each kind that needs no second server."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.app import postgresql as servers
from tests.torture.campaigns.postgresql import Seen, server, try_one, undisturbed

SEEDS = {"stopped": (1,), "cut": (1,), "restored": (1, 2, 5)}


@pytest.mark.in_turn(of=2, together=True)
@pytest.mark.skipif(servers.why_not() is not None, reason=str(servers.why_not()))
def test_alerts_and_keys_are_those_of_an_undisturbed_process(tmp_path: Path) -> None:
    expected, seen = undisturbed(tmp_path / "whole"), Seen()
    with server() as primary:
        for kind, seeds in SEEDS.items():
            for seed in seeds:
                try_one(kind, primary, tmp_path / f"{kind}{seed}", expected, random.Random(seed), seen)
    assert seen.failures == []
    assert seen.kinds == {kind: len(seeds) for kind, seeds in SEEDS.items()}
    assert seen.outages["stopped"] == 1
    assert seen.n_set_back > 0
    assert seen.n_refused > 0
