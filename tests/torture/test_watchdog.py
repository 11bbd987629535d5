"""The campaign `watchdog` in short: each life is killed as soon as it has moved the position."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.campaigns.watchdog import caught_up, judged


@pytest.mark.in_turn(of=2, together=True)
def test_lives_that_are_killed_when_they_have_moved_something_catch_up(tmp_path: Path) -> None:
    caught = caught_up(tmp_path, 1, 100, life_s=600, most_s=1_200, at_first_advance=True)
    print(caught.positions)
    assert judged(caught) == []
