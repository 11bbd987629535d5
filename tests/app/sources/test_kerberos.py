"""Every source over HTTP, from its settings, against web servers that want tickets of a KDC on loopback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.errors import ConfigError
from app.live.sources import build_sources
from tests.app.sources.test_https import ANSWERS, SOURCES, settings_of
from tests.kdc import REALM, Kdc, TicketServer, kerberos_or_skip, running_kdc

WATCHER = f"watcher@{REALM}"
T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    kerberos_or_skip()
    with running_kdc(tmp_path_factory.mktemp("kdc"), WATCHER) as made:
        yield made


@pytest.fixture
def kerberos(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    return {"principal": WATCHER, "keytab_file": str(kdc.folder / "watcher.keytab")}


@pytest.mark.parametrize("name", SOURCES)
def test_servers_that_want_tickets_are_asked(kdc: Kdc, kerberos: dict[str, Any], tmp_path: Path, name: str) -> None:
    server = TicketServer(kerberos_or_skip(), kdc.folder / "http.keytab")
    kind = "text/plain" if name == "prometheus" else "application/json"
    server.answer = (200, {"Content-Type": kind}, ANSWERS[name])
    with server.running() as url:
        bare = {"enabled": True, **SOURCES[name](url)}
        refused = build_sources(settings_of(tmp_path, name, bare))[name].source.poll(T0)
        assert any("401" in problem.message for problem in refused.problems)
        assert server.users == []
        told = build_sources(settings_of(tmp_path, name, {**bare, "kerberos": kerberos}))[name].source.poll(T0)
    assert told.problems == ()
    assert set(server.users) == {WATCHER}
    assert len(server.users) == sum(shown is not None for shown in server.authorizations)


def test_lists_of_targets_are_asked_for_without_a_ticket(kdc: Kdc, kerberos: dict[str, Any], tmp_path: Path) -> None:
    """As without tokens and passwords: they are for the targets."""
    gssapi = kerberos_or_skip()
    listing, exporter = (TicketServer(gssapi, kdc.folder / "http.keytab") for _ in range(2))
    exporter.answer = (200, {"Content-Type": "text/plain"}, ANSWERS["prometheus"])
    listing.refusal = 200
    with exporter.running() as url, listing.running() as lists:
        section = {"enabled": True, "targets": [f"{url}/metrics"], "http_sd": [f"{lists}/t"], "kerberos": kerberos}
        build_sources(settings_of(tmp_path, "prometheus", section))["prometheus"].source.poll(T0)
    assert exporter.users == [WATCHER]
    assert listing.authorizations
    assert set(listing.authorizations) == {None}


def test_what_cannot_serve_is_named_at_the_start(
    kdc: Kdc, kerberos: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = {"enabled": True, **SOURCES["jmx"]("http://localhost:1"), "kerberos": kerberos}
    gone = {**section, "kerberos": {**kerberos, "keytab_file": str(tmp_path / "gone.keytab")}}
    with pytest.raises(ConfigError, match=r"sources\.jmx\.kerberos: found .*gone\.keytab: No such file"):
        build_sources(settings_of(tmp_path, "jmx", gone))
    with pytest.raises(ConfigError, match=r"sources\.jmx\.kerberos\.principal"):
        settings_of(tmp_path, "jmx", {**section, "kerberos": {**kerberos, "principal": "watcher"}})
    (tmp_path / "token").write_text("t")
    both = {"enabled": True, "targets": ["h:1"], "kerberos": kerberos, "bearer_token_file": str(tmp_path / "token")}
    with pytest.raises(ConfigError, match="kerberos and a token or a user are given"):
        build_sources(settings_of(tmp_path, "prometheus", both))
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match=r"sources\.jmx\.kerberos: found .*clustercep\[kerberos\]"):
        build_sources(settings_of(tmp_path, "jmx", section))
