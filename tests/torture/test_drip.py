"""The campaign `drip` in short: a few ways towards all that asks; `test_http_attempt` has them all."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.app.alerting.receivers.told import SETTINGS
from tests.slow_servers import certificate, ends
from tests.torture.campaigns.drip import WAYS
from tests.torture.dripping import clients, receivers, servers, writers
from tests.torture.dripping import tally as tallying
from tests.torture.dripping.tally import Tally
from tests.torture.inputs import packets

NAMES = ("drips headers", "never ends to continue", "chunks without end")


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    """Limits hold as far as things end (`ends`); how long they take is for the campaign."""
    monkeypatch.setattr(tallying, "SLACK_S", 600.0)
    monkeypatch.setattr(servers, "MOST_POLLS", 20)
    monkeypatch.setattr(packets, "PACKETS_S", 150.0)
    return Tally()


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("name", NAMES)
def test_other_masters_and_other_receivers_do_not_wait(tally: Tally, name: str, tmp_path: Path) -> None:
    ends(lambda: servers.poll(tally, name, WAYS[name]))
    ends(lambda: servers.timeline(tally, name, WAYS[name]))
    ends(lambda: receivers.receivers(tally, name, WAYS[name], tmp_path))
    ends(lambda: receivers.services(tally, name, WAYS[name]))
    assert tally.n_attempts >= 6 + len(SETTINGS)
    assert tally.failures == []


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("name", NAMES)
def test_other_daemons_do_not_wait(tally: Tally, name: str) -> None:
    ends(lambda: servers.daemons(tally, name, WAYS[name]))
    ends(lambda: servers.scrapes(tally, name, WAYS[name]))
    ends(lambda: servers.ganglia(tally, name, WAYS[name]))
    assert tally.failures == []


@pytest.mark.parametrize("name", packets.SENT)
def test_other_senders_of_packets_do_not_wait(tally: Tally, name: str) -> None:
    ends(lambda: packets.packets(tally, name, tallying.POLL_S))
    assert tally.n_attempts >= packets.N_VALUES
    assert tally.failures == []


@pytest.mark.parametrize("name", writers.WRITTEN)
def test_other_files_do_not_wait(tally: Tally, name: str, tmp_path: Path) -> None:
    ends(lambda: writers.writers(tally, name, random.Random(1), tmp_path))
    assert tally.n_attempts == writers.N_DRIPS
    assert tally.failures == []


def test_endpoints_answer_beside_clients_that_drip(tally: Tally) -> None:
    ends(lambda: clients.endpoints(tally, random.Random(1), 100))
    assert tally.failures == []


def test_pages_are_there_beside_clients_that_drip(tally: Tally, tmp_path: Path) -> None:
    ends(lambda: clients.dashboard(tally, random.Random(1), 60, tmp_path))
    assert tally.failures == []


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_the_api_answers_beside_clients_that_drip(tally: Tally, tmp_path: Path, is_encrypted: bool) -> None:
    tls = certificate(tmp_path) if is_encrypted else None
    ends(lambda: clients.api(tally, random.Random(1), 80, tmp_path, tls))
    assert tally.failures == []


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_samples_are_taken_beside_clients_that_drip(tally: Tally, tmp_path: Path, is_encrypted: bool) -> None:
    tls = certificate(tmp_path) if is_encrypted else None
    ends(lambda: clients.writes(tally, random.Random(1), 80, tmp_path, tls))
    assert tally.failures == []
