"""The campaign's short form: what a storm does is counted, not timed."""

from __future__ import annotations

import sys
from pathlib import Path

from app.process.scheduling import TURN_S
from tests.torture.campaigns.storm import storm


def test_a_storm_through_routes_with_incidents_is_told_whole(tmp_path: Path) -> None:
    seen = storm(tmp_path, 300, is_routed=True, n_hosts=200)
    assert seen.unhealthy == []
    assert seen.failures == []
    assert seen.n_untold == 0
    assert seen.n_messages > 0
    assert seen.n_incidents == 100, "of the hosts those with two tasks"
    assert seen.api_s, "the API was asked meanwhile"


def test_each_kind_of_receiver_is_told_of_a_storm(tmp_path: Path) -> None:
    seen = storm(tmp_path, 120, of_kinds=True)
    assert seen.unhealthy == []
    assert seen.failures == []
    assert seen.n_untold == 0


def test_a_storm_is_stored_in_short_transactions_beside_people_and_health(tmp_path: Path) -> None:
    seen = storm(tmp_path, 200)
    assert seen.unhealthy == []
    assert seen.failures == []
    assert seen.n_messages > 0
    assert sys.getswitchinterval() == TURN_S, "its threads take short turns"
    assert len(seen.transactions_s) > 2 * 200 / 64, "several for those that fire, several for those that are over"
