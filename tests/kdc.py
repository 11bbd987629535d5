"""MIT's KDC on loopback with a realm of its own, and web servers that want its tickets."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from app.process.serving.loopback import serving
from tests.ports import own_port

REALM = "CLUSTER.TEST"
SERVICE = f"HTTP/localhost@{REALM}"
KDC, ADMIN, MAKE = "/usr/sbin/krb5kdc", "/usr/sbin/kadmin.local", "/usr/sbin/kdb5_util"


def kerberos_or_skip() -> Any:
    """The library. Without it or the KDC the test is skipped, and fails with CI=true."""
    missing = [path for path in (KDC, ADMIN, MAKE) if shutil.which(path) is None]
    try:
        import gssapi
    except ImportError:
        missing.append("gssapi")
    if missing:
        reason = f"there is no {missing[0]}; deploy/setup/for-tests.sh installs it"
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    return gssapi


@contextmanager
def running_kdc(folder: Path, *principals: str) -> Iterator[Kdc]:
    """A realm with a key table for each of these, NAME.keytab, and one of the servers' (http.keytab)."""
    with own_port() as port:
        made = Kdc(folder, port)
        for principal in principals:
            made.keytab(principal, f"{principal.partition('@')[0]}.keytab")
        made.keytab(SERVICE, "http.keytab")
        made.start()
        try:
            yield made
        finally:
            made.stop()


class Kdc:
    """One realm in a folder; `environment` makes libkrb5 use it."""

    def __init__(self, folder: Path, port: int, realm: str = REALM) -> None:
        self.folder, self.port, self.realm = folder, port, realm
        folder.mkdir(exist_ok=True)
        (folder / "krb5.conf").write_text(
            f"[libdefaults]\ndefault_realm = {realm}\ndns_lookup_kdc = false\ndns_lookup_realm = false\n"
            "dns_canonicalize_hostname = false\nrdns = false\nclockskew = 1\nudp_preference_limit = 1\n"
            f"[realms]\n{realm} = {{\n kdc = 127.0.0.1:{self.port}\n}}\n"
            f"[domain_realm]\nlocalhost = {realm}\n"
        )
        (folder / "kdc.conf").write_text(
            f"[realms]\n{realm} = {{\n database_name = {folder}/principal\n key_stash_file = {folder}/stash\n"
            f' kdc_listen = ""\n kdc_tcp_listen = 127.0.0.1:{self.port}\n supported_enctypes = aes256-cts:normal\n'
            " max_life = 10h\n}\n"
            f"[logging]\nkdc = FILE:{folder}/kdc.log\n"
        )
        self.environment = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5RCACHENAME": "none:",
            "KRB5CCNAME": f"FILE:{folder}/nobody",
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._run(MAKE, "create", "-s", "-r", realm, "-P", "master")

    def _run(self, program: str, *arguments: str) -> None:
        environment = {**os.environ, **self.environment}
        subprocess.run([program, *arguments], env=environment, check=True, capture_output=True, timeout=300)

    def admin(self, command: str) -> None:
        """A command of kadmin."""
        self._run(ADMIN, "-r", self.realm, "-q", command)

    def keytab(self, principal: str, name: str, *options: str) -> Path:
        """A new principal, and the file of its key."""
        self.admin(f"addprinc -randkey {' '.join(options)} {principal}")
        return self.key_of(principal, name)

    def key_of(self, principal: str, name: str) -> Path:
        """A new key of a principal, in a file."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        self.admin(f"ktadd -q -k {path} {principal}")
        return path

    def start(self) -> None:
        """Answer; returns once it does."""
        environment = {**os.environ, **self.environment}
        self._process = subprocess.Popen(
            [KDC, "-n", "-r", self.realm], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(6_000):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self._process.poll() is None, (self.folder / "kdc.log").read_text()
                threading.Event().wait(0.01)
        raise AssertionError("the KDC does not begin to answer")

    def stop(self) -> None:
        """Answer no more."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    def n_logins(self, principal: str) -> int:
        """How often it got first tickets."""
        lines = (self.folder / "kdc.log").read_text().splitlines()
        return sum("AS_REQ" in line and "ISSUE" in line and principal in line for line in lines)


class TicketServer:
    """A web server that answers those who show a ticket for `keytab`, and proves that it is whom they ask."""

    def __init__(self, gssapi: Any, keytab: Path) -> None:
        self.gssapi, self.keytab = gssapi, keytab
        self.proves = True
        self.proof: bytes | None = None
        """In place of the true one."""
        self.refusal = 401
        self.answer: tuple[int, dict[str, str], bytes] = (200, {"Content-Type": "application/json"}, b"{}")
        self.users: list[str] = []
        self.authorizations: list[str | None] = []

    @contextmanager
    def running(self) -> Iterator[str]:
        """Its address, by name."""
        with serving(self._handler()) as url:
            yield url.replace("127.0.0.1", "localhost")

    def accept(self, token: bytes) -> tuple[str, bytes]:
        """Who shows it, and the proof for them; raises GSSError."""
        acceptor = self.gssapi.Credentials(usage="accept", store={"keytab": str(self.keytab)})
        context = self.gssapi.SecurityContext(creds=acceptor, usage="accept")
        proof = context.step(token)
        assert context.complete
        return str(context.initiator_name), proof

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                shown = self.headers.get("Authorization")
                server.authorizations.append(shown)
                status, headers, body = server.refusal, {"WWW-Authenticate": "Negotiate"}, b"who are you?"
                if shown is not None and shown.startswith("Negotiate "):
                    try:
                        user, proof = server.accept(base64.b64decode(shown.removeprefix("Negotiate ")))
                    except server.gssapi.exceptions.GSSError:
                        pass
                    else:
                        server.users.append(user)
                        status, headers, body = server.answer
                        if server.proves:
                            told = base64.b64encode(server.proof or proof).decode()
                            headers = {**headers, "WWW-Authenticate": f"Negotiate {told}"}
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        return Handler
