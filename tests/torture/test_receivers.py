"""The campaign `receivers` in short: an outage and a receiver that wants less, on an injected clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.campaigns.receivers import judged, p95, tried
from tests.torture.receivers.kinds import HARMS, KINDS, tried_kind


def test_a_receiver_that_is_down_for_five_minutes(tmp_path: Path) -> None:
    seen = tried("down 5 min", tmp_path / "down", 1, down_s=300, alerts_per_s=0.2)
    print(seen)
    assert judged(seen) == []
    assert seen.n_attempts > 2 * seen.n_alerts > 60


def test_a_receiver_that_takes_one_message_in_three_seconds(tmp_path: Path) -> None:
    seen = tried("429", tmp_path / "busy", 1, pause_s=3, alerts_per_s=0.3)
    print(seen)
    assert judged(seen) == []


@pytest.mark.parametrize(("name", "harm"), [("down 5 min", {"down_s": 300}), ("429", {"pause_s": 3})])
def test_the_same_through_routes(tmp_path: Path, name: str, harm: dict[str, int]) -> None:
    seen = tried(name, tmp_path / "store", 1, **harm, alerts_per_s=0.3, routed=True)
    print(seen)
    assert judged(seen) == []
    assert 2 * seen.n_escalated > seen.n_alerts > 30


def test_p95() -> None:
    assert p95([1.0]) == 1
    assert p95([float(n) for n in range(100)]) == 94
    assert p95([float(n) for n in range(20)]) == 18


@pytest.mark.in_turn(of=3)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "apprise"])
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("routed", [False, True])
def test_a_service_that_is_not_well_is_told_when_it_is(tmp_path: Path, kind: str, harm: str, *, routed: bool) -> None:
    seen = tried_kind(kind, harm, tmp_path / "store", routed=routed)
    assert seen.failures() == []
