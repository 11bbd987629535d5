"""Tickets of a KDC on loopback, shown to web servers that check them with its library."""

from __future__ import annotations

import os
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.base import OptionError, SourceUnavailableError
from collectors.network.http import HttpOptions, HttpTransport
from collectors.network.kerberos import Kerberos, KerberosError, KerberosOptions
from tests.kdc import REALM, SERVICE, Kdc, TicketServer, kerberos_or_skip, running_kdc

WATCHER = f"watcher@{REALM}"
ACCEPTED_WITHOUT_PROOF = bytes.fromhex("a1073005a0030a0100")
"""A negTokenResp whose negState is accept-completed, alone."""
ONCE = HttpOptions(connect_timeout_s=120.0, read_timeout_s=120.0, total_timeout_s=240.0, n_attempts=1)


@pytest.fixture(scope="module")
def gssapi() -> Any:
    return kerberos_or_skip()


@pytest.fixture(scope="module")
def kdc(gssapi: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with running_kdc(tmp_path_factory.mktemp("kdc"), WATCHER) as made:
        yield made


@pytest.fixture(autouse=True)
def _realm(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def server(gssapi: Any, kdc: Kdc) -> TicketServer:
    return TicketServer(gssapi, kdc.folder / "http.keytab")


def options(kdc: Kdc, name: str = "watcher", **more: Any) -> HttpOptions:
    kerberos = Kerberos(KerberosOptions(f"{name}@{REALM}", kdc.folder / f"{name}.keytab", **more))
    return HttpOptions(**{**{f: getattr(ONCE, f) for f in ONCE.__slots__}, "kerberos": kerberos})


def test_a_ticket_by_the_keytab_is_taken(kdc: Kdc, server: TicketServer) -> None:
    """At the first request, and no login more at the second."""
    kdc.keytab(f"once@{REALM}", "once.keytab")
    with server.running() as url:
        transport = HttpTransport((url,), options(kdc, "once"))
        assert [transport.get(url, "/jmx", 0).body for _ in range(3)] == [b"{}"] * 3
    assert server.users == [f"once@{REALM}"] * 3
    assert len(set(server.authorizations)) == 3, "a token is of one request"
    assert kdc.n_logins(f"once@{REALM}") == 1
    assert not list(Path("/tmp").glob(f"krb5cc_{os.getuid()}_clustercep*"))


def test_many_threads_ask_one_server(kdc: Kdc, server: TicketServer) -> None:
    with server.running() as url:
        transport = HttpTransport((url,), options(kdc))
        found: list[bytes] = []

        def ask() -> None:
            found.extend(transport.get(url, "/jmx", 0).body for _ in range(5))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
    assert found == [b"{}"] * 40
    assert server.users == [WATCHER] * 40


def test_no_token_goes_to_another_server(kdc: Kdc, server: TicketServer, gssapi: Any) -> None:
    """Not after a redirect, neither to a server of the same host on another port nor by another name of it."""
    other = TicketServer(gssapi, server.keytab)
    with server.running() as url, other.running() as elsewhere:
        transport = HttpTransport((url,), options(kdc))
        for place in (elsewhere, elsewhere.replace("localhost", "127.0.0.1"), url.replace("localhost", "127.0.0.1")):
            server.answer = (302, {"Location": f"{place}/login"}, b"")
            answer = transport.get(url, "/jmx", 0)
            assert (answer.status, answer.location) == (302, f"{place}/login")
        assert other.authorizations == []
        assert len(server.authorizations) == 3
        transport.get(elsewhere, "/jmx", 0)
        assert other.authorizations == [None], "asked for by address, it is asked without a ticket"


def test_a_configured_server_is_followed_to_with_a_token_of_its_own(
    kdc: Kdc, server: TicketServer, gssapi: Any
) -> None:
    other = TicketServer(gssapi, server.keytab)
    other.answer = (200, {}, b"active")
    with server.running() as url, other.running() as elsewhere:
        server.answer = (307, {"Location": f"{elsewhere}/jmx"}, b"")
        assert HttpTransport((url, elsewhere), options(kdc)).get(url, "/jmx", 0).body == b"active"
    assert (server.users, other.users) == ([WATCHER], [WATCHER])
    assert server.authorizations != other.authorizations


def test_a_service_that_the_realm_does_not_know(kdc: Kdc, server: TicketServer) -> None:
    with server.running() as url:
        by_address = url.replace("localhost", "127.0.0.1")
        with pytest.raises(KerberosError, match=r"for HTTP@127\.0\.0\.1: .*not found") as raised:
            HttpTransport((by_address,), options(kdc)).get(by_address, "/jmx", 0)
    assert str(raised.value).startswith(f"{by_address}/jmx: no ticket of {WATCHER}")
    assert server.authorizations == []


def test_a_principal_of_another_realm(kdc: Kdc, server: TicketServer) -> None:
    other = Kdc(kdc.folder / "other", kdc.port, "OTHER.TEST")  # nobody asks it
    keytab = other.keytab("watcher@OTHER.TEST", "watcher.keytab")
    kerberos = Kerberos(KerberosOptions("watcher@OTHER.TEST", keytab))
    with server.running() as url:
        foreign = HttpOptions(n_attempts=1, kerberos=kerberos)
        with pytest.raises(KerberosError, match=r"no ticket of watcher@OTHER.TEST .*[Rr]ealm"):
            HttpTransport((url,), foreign).get(url, "/jmx", 0)
    assert server.authorizations == []


def test_a_server_whose_key_is_another_refuses(kdc: Kdc, gssapi: Any) -> None:
    """It gets a ticket got anew once, as its key may be newer; the third request does not busy the KDC."""
    kdc.keytab(f"refused@{REALM}", "refused.keytab")
    wrong = kdc.keytab(f"HTTP/elsewhere@{REALM}", "elsewhere.keytab")
    server = TicketServer(gssapi, wrong)
    with server.running() as url:
        transport = HttpTransport((url,), options(kdc, "refused"))
        for n_requested in (2, 3):
            with pytest.raises(KerberosError, match="refuses the ticket"):
                transport.get(url, "/jmx", 0)
            assert len(server.authorizations) == n_requested
        assert kdc.n_logins(f"refused@{REALM}") == 2
        server.refusal = 403
        assert transport.get(url, "/jmx", 0).status == 403
    assert server.users == []


def test_a_new_key_of_the_server_is_followed(kdc: Kdc, gssapi: Any) -> None:
    """The tickets for its old one would hold for hours."""
    keytab = kdc.key_of(SERVICE, "rotated.keytab")
    server = TicketServer(gssapi, keytab)
    with server.running() as url:
        transport = HttpTransport((url,), options(kdc))
        transport.get(url, "/jmx", 0)
        kdc.key_of(SERVICE, "rotated.keytab")
        assert transport.get(url, "/jmx", 0).status == 200
    assert len(server.authorizations) == 3
    (kdc.folder / "http.keytab").write_bytes(keytab.read_bytes())


def test_a_server_that_proves_nothing_is_not_believed(kdc: Kdc, server: TicketServer) -> None:
    server.proves = False
    with server.running() as url:
        for status in (200, 302, 404):
            server.answer = (status, {}, b"{}")
            with pytest.raises(KerberosError, match="without proof that it is HTTP@localhost"):
                HttpTransport((url,), options(kdc)).get(url, "/jmx", 0)
        unproven = options(kdc, mutual_authentication=False)
        assert HttpTransport((url,), unproven).get(url, "/jmx", 0).body == b"{}"


def test_a_proof_that_is_wrong_is_not_believed(kdc: Kdc, server: TicketServer) -> None:
    """Also where none is asked for."""
    for proof in (b"nonsense", bytes(200), ACCEPTED_WITHOUT_PROOF):
        server.proof = proof
        for mutual in (True, False):
            with server.running() as url, pytest.raises(KerberosError, match="proof that it is HTTP@localhost is"):
                HttpTransport((url,), options(kdc, mutual_authentication=mutual)).get(url, "/jmx", 0)


def ask_until_refused(transport: HttpTransport, url: str) -> None:
    for _ in range(6_000):
        transport.get(url, "/jmx", 0)
        threading.Event().wait(0.01)


def test_tickets_that_are_over_are_got_anew_and_serve_until_then(kdc: Kdc, server: TicketServer, gssapi: Any) -> None:
    """With a KDC that is away meanwhile: nothing lasts longer than its ticket, and all goes on when it is back."""
    kdc.keytab(f"brief@{REALM}", "brief.keytab", '-maxlife "6 seconds"')
    with server.running() as url:
        brief = options(kdc, "brief")
        transport = HttpTransport((url,), brief)
        transport.get(url, "/jmx", 0)
        kdc.stop()
        try:
            with pytest.raises(KerberosError, match=f"no ticket of brief@{REALM}"):
                ask_until_refused(transport, url)
        finally:
            kdc.start()
        n_before = len(server.users)
        assert transport.get(url, "/jmx", 0).body == b"{}"
    assert len(server.users) == n_before + 1 >= 2
    assert set(server.users) == {f"brief@{REALM}"}
    assert kdc.n_logins(f"brief@{REALM}") >= 2


def test_a_kdc_that_hangs_takes_no_longer_than_the_attempt(
    kdc: Kdc, server: TicketServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, server.running() as url:
        config = (kdc.folder / "krb5.conf").read_text()
        path = tmp_path / "krb5.conf"
        path.write_text(config.replace(str(kdc.port), str(silent.getsockname()[1])))
        monkeypatch.setenv("KRB5_CONFIG", str(path))
        hanging = HttpOptions(total_timeout_s=0.5, n_attempts=3, kerberos=options(kdc).kerberos)
        with pytest.raises(KerberosError, match="no ticket in time"):
            HttpTransport((url,), hanging).get(url, "/jmx", 0)
    assert server.authorizations == []


def test_what_is_told_holds_no_token(kdc: Kdc, server: TicketServer, capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    with server.running() as url:
        for proves, refusal in ((False, 401), (True, 401)):
            server.proves = proves
            transport = HttpTransport((url,), options(kdc))
            if proves:
                server.keytab = kdc.folder / "watcher.keytab"
            with pytest.raises(SourceUnavailableError) as raised:
                transport.get(url, "/jmx", 0)
            told.append(f"{raised.value!r} {raised.value.__cause__!r} {refusal}")
    told.extend(capfd.readouterr())
    tokens = [shown.removeprefix("Negotiate ") for shown in server.authorizations if shown]
    assert tokens
    assert not any(token in text for token in tokens for text in told)


def test_keytabs_that_cannot_serve_are_told_at_the_start(kdc: Kdc, tmp_path: Path) -> None:
    for keytab, said in ((tmp_path / "gone", "No such file"), (kdc.folder / "http.keytab", "has no key of watcher@")):
        with pytest.raises(OptionError, match=said):
            Kerberos(KerberosOptions(WATCHER, keytab))
    (tmp_path / "text").write_text("no keytab")
    with pytest.raises(OptionError, match="has no key of"):
        Kerberos(KerberosOptions(WATCHER, tmp_path / "text"))
    assert stat.S_IMODE((kdc.folder / "watcher.keytab").stat().st_mode) == 0o600


def test_without_the_optional_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(OptionError, match=r"install it: pip install 'clustercep\[kerberos\]'"):
        Kerberos(KerberosOptions(WATCHER, tmp_path / "k"))
