"""The campaign `two`, in short: one pairing of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.campaigns.two import COMMANDS, Pairing, Seen, pairings, recorded, try_pairing


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize(
    "pairing",
    [
        Pairing("run", "run", "host"),
        Pairing("run", "stream", "url"),
        Pairing("demo", "run", "file"),
        Pairing("replay", "demo", "link"),
    ],
    ids=str,
)
def test_one_owner(pairing: Pairing, tmp_path: Path) -> None:
    seen = Seen()
    with recorded(tmp_path) as recording:
        (tmp_path / "pairing").mkdir()
        try_pairing(pairing, tmp_path / "pairing", recording, None, seen)
    assert seen.failures == []
    assert (seen.n_refused, seen.n_followed + seen.n_woken) == (1, 1)


def test_every_pair_of_commands_is_tried() -> None:
    found = pairings()
    assert {(pairing.first, pairing.second) for pairing in found} == {(a, b) for a in COMMANDS for b in COMMANDS}
    assert len(found) == len(set(found))
