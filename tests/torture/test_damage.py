"""The campaign `damage`, in short: the same harms in every run."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.torture.campaigns.damage import Seen, try_one, undisturbed

N = 40


@pytest.mark.long
def test_one_harmed_file_gives_no_wrong_and_no_doubled_alert(tmp_path: Path) -> None:
    whole, seen, chosen = undisturbed(tmp_path / "whole"), Seen(), random.Random(3)
    for _ in range(N):
        try_one(tmp_path / "trial", whole, chosen, seen)
    assert seen.failures == []
    assert min(seen.outcomes[outcome] for outcome in ("went on", "refused", "started afresh")) > 0
