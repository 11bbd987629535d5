"""Services that apprise tells: in a process with a deadline, by an allow-list, without redirects."""

from __future__ import annotations

import json
import warnings
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from app.alerting.receivers.errors import PermanentDeliveryError, TemporaryDeliveryError
from app.alerting.receivers.through_apprise import SCHEMES
from app.errors import ConfigError
from app.process.loopback import serving
from tests.app.alerting.receivers.told import alert, hostile, news, service
from tests.slow_servers import HEADS, ends
from tests.slow_servers import serving as serving_slowly


@pytest.mark.parametrize("status", [200, 500, 302])
def test_a_service_is_told_or_not_and_a_redirect_leads_nowhere(status: int) -> None:
    came: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status if self.path.startswith("/message") else 200)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Be quiet."""

    with serving(Handler) as url:
        found = service("apprise", url=f"gotify://{url.removeprefix('http://')}/token")
        message = found.message(news(alert()), None)
        if status == 200:
            assert found.send(message, "key", 60.0) == "taken"
        else:
            with pytest.raises(TemporaryDeliveryError, match="did not take it"):
                found.send(message, "key", 60.0)
    ((path, body),) = came
    assert path == "/message"
    told = json.loads(body)
    assert told["title"] == "warning: t1 took 65 s on node5"
    assert told["message"].startswith("t1 took 65 s on node5\nhost: node5\n")


def test_a_service_that_hangs_has_its_time() -> None:
    with serving_slowly(HEADS["drips headers"]) as url:
        found = service("apprise", url=f"gotify://{url.removeprefix('http://')}/token")
        with pytest.raises(TemporaryDeliveryError, match="no answer in time"):
            ends(lambda: found.send(found.message(news(alert()), None), "key", 2.0))


def test_an_address_that_apprise_does_not_know_is_refused_for_good() -> None:
    found = service("apprise", url="tgram://nonsense")
    with pytest.raises(PermanentDeliveryError, match="not shown"):
        found.send(found.message(news(hostile()), None), "key", 60.0)


@pytest.mark.parametrize(
    "url",
    ["syslog://", "dbus://", "macosx://", "exec:///bin/sh", "file:///etc/x", "json://h", "gotify://h/t, dbus://", "x"],
)
def test_what_runs_programs_or_talks_to_this_machine_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"receivers\.ops\.url: found .*expected one address of apprise") as failed:
        service("apprise", url=url)
    assert "/etc/x" not in str(failed.value)


def test_every_scheme_is_one_of_apprise_that_needs_no_program() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # plugins import what later versions of Python lack
        import apprise

        details = apprise.Apprise().details()
    known: dict[str, str] = {}
    for plugin in details["schemas"]:
        for scheme in (*(plugin["protocols"] or ()), *(plugin["secure_protocols"] or ())):
            known[scheme] = str(plugin["service_name"])
    assert sorted(SCHEMES - known.keys()) == []


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"receivers\.ops\.kind: found apprise, which is not installed"):
        service("apprise")
