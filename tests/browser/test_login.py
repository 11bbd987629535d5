"""The login, through a provider of OpenID Connect that this test is: what is seen before, between and after."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.browser.site import ROOT, WAIT_MS, Windows
from tests.ports import own_port

CLIENT = "clustercep"


class Provider(ThreadingHTTPServer):
    """Lets everybody in as Ann, on another origin than the dashboard's."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.issuer = f"http://localhost:{self.server_address[1]}"
        self.key = RSAKey.generate_key(2048, parameters={"kid": "1", "use": "sig", "alg": "RS256"})
        self.asked: dict[str, str] = {}

    def token(self) -> str:
        """Who it is, signed, for the one who asked."""
        now_s = int(time.time())
        claims = {
            "iss": self.issuer, "sub": "1", "aud": CLIENT, "iat": now_s, "exp": now_s + 600,
            "nonce": self.asked["nonce"], "name": "Ann of Operations",
        }  # fmt: skip
        return jwt.encode({"alg": "RS256", "kid": "1"}, claims, self.key)


class _Answers(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        issuer = self.server.issuer
        if asked.path == "/.well-known/openid-configuration":
            self._json({
                "issuer": issuer, "authorization_endpoint": f"{issuer}/authorize", "token_endpoint": f"{issuer}/token",
                "jwks_uri": f"{issuer}/keys", "response_types_supported": ["code"],
                "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"],
                "code_challenge_methods_supported": ["S256"],
            })  # fmt: skip
        elif asked.path == "/keys":
            self._json({"keys": [self.server.key.as_dict(private=False)]})
        else:
            given = {name: values[0] for name, values in parse_qs(asked.query).items()}
            self.server.asked = given
            self.send_response(302)
            back = urlencode({"code": "once", "state": given["state"]})
            self.send_header("Location", f"{given['redirect_uri']}?{back}")
            self.end_headers()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._json({
            "access_token": "x", "token_type": "Bearer", "expires_in": 600, "id_token": self.server.token(),
        })  # fmt: skip

    def _json(self, told: dict[str, Any]) -> None:
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def with_login(folder: Path, store: Path, provider: Provider) -> Iterator[str]:
    """The URL of a dashboard that asks for it."""
    with own_port() as port:
        yield from _with_login(folder, store, provider, port)


def _with_login(folder: Path, store: Path, provider: Provider, port: int) -> Iterator[str]:
    (folder / ".streamlit").mkdir()
    (folder / ".streamlit/secrets.toml").write_text(
        f'[auth]\nredirect_uri = "http://127.0.0.1:{port}/oauth2callback"\ncookie_secret = "{"a" * 64}"\n'
        f'client_id = "{CLIENT}"\nclient_secret = "b"\n'
        f'server_metadata_url = "{provider.issuer}/.well-known/openid-configuration"\n'
    )
    (folder / "config.yaml").write_text("store: {directory: data}\ndashboard: {login: true}\n")
    given = {name: value for name, value in os.environ.items() if not name.startswith("CLUSTERCEP")}
    words = [sys.executable, "-m", "app.cli", "dashboard", "-c", "config.yaml", "--store", str(store)]
    with subprocess.Popen(
        [*words, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder,
        env={**given, "PYTHONPATH": str(ROOT)}, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"Dashboard: http://127.0.0.1:{port}/\n"
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()


def test_nothing_is_seen_before_the_login_and_after_the_log_out(
    windows: Windows, served: Site, provider: Provider, tmp_path: Path
) -> None:
    with with_login(tmp_path, served.store_folder, provider) as url, closing(windows.browser.new_context()) as context:
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.goto(f"{url}alerts")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_test_id("stSidebar")).to_contain_text("Ann of Operations", timeout=WAIT_MS)
        assert {provider.asked["code_challenge_method"], provider.asked["response_type"]} == {"S256", "code"}
        assert provider.asked["state"]
        assert provider.asked["nonce"]
        kept = {cookie["name"]: cookie for cookie in context.cookies()}
        for name in ("_streamlit_user", "_streamlit_user_tokens"):
            assert kept[name]["httpOnly"]
            assert kept[name]["sameSite"] == "Lax"
        page.goto(f"{url}alerts")
        expect(page.locator("h1").first).to_have_text("Alerts", timeout=WAIT_MS)
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("button", name="Log in")).to_be_visible(timeout=WAIT_MS)
        expect(page.locator("h1").first).to_have_text("clustercep", timeout=WAIT_MS)
        assert not {"_streamlit_user", "_streamlit_user_tokens"} & {cookie["name"] for cookie in context.cookies()}
