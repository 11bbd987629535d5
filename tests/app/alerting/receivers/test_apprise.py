"""Services that apprise tells: in a process with a deadline, by an allow-list, without redirects."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
import warnings
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.alerting.receivers import apprise_worker
from app.alerting.receivers.errors import PermanentDeliveryError, TemporaryDeliveryError
from app.alerting.receivers.through_apprise import SCHEMES
from app.errors import ConfigError
from app.process.serving.loopback import serving
from tests.app.alerting.receivers.told import alert, hostile, news, service
from tests.slow_servers import FLOODS, HEADS, answer, certificate, ends
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
    with serving_slowly(HEADS["drips a header"]) as url:
        found = service("apprise", url=f"gotify://{url.removeprefix('http://')}/token")
        with pytest.raises(TemporaryDeliveryError, match="no answer in time"):
            ends(lambda: found.send(found.message(news(alert()), None), "key", 2.0))


def test_a_service_that_answers_without_end_takes_no_more_memory_than_it_may() -> None:
    with serving_slowly(FLOODS["a body without end"]) as url:
        found = service("apprise", url=f"gotify://{url.removeprefix('http://')}/token")
        with pytest.raises(TemporaryDeliveryError, match="did not take it"):  # its time would not be over yet
            ends(lambda: found.send(found.message(news(alert()), None), "key", 300.0))


def test_who_started_it_may_be_gone_and_it_ends_at_its_time() -> None:
    with serving_slowly(HEADS["drips a header"]) as url:
        given: dict[str, object] = {
            "url": f"gotify://{url.removeprefix('http://')}/token",
            **{"title": "a", "body": "b", "end": "", "type": "info"},
            **{"timeout_s": 3.0, "ca_file": None, "certificate": []},
        }
        worker = [sys.executable, "-I", apprise_worker.__file__]
        done = ends(lambda: subprocess.run(worker, input=json.dumps(given).encode(), check=False))
    assert done.returncode == -signal.SIGALRM


def test_a_service_that_takes_less_is_told_less_and_the_address_stays() -> None:
    came: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:
            """Be quiet."""

    many = news(*(alert(n, summary=f"t{n} {'x' * 900}") for n in range(1, 20)))
    with serving(Handler) as url:
        place = url.removeprefix("http://")
        for address, own in (
            (f"rocket://{'w' * 24}/{'t' * 24}@{place}/#a?mode=webhook", None),
            (f"mmost://{place}/tok3ntok3n", {"body": "y" * 9_000}),
        ):
            found = service("apprise", url=address)
            assert found.send(found.message(many, own), "key", 60.0) == "taken"
    shortened, of_template = (json.loads(body)["text"] for body in came)
    assert 900 < len(shortened) <= 1_000
    assert "warning: t1 x" in shortened
    assert shortened.endswith(f"…\n{many.url}")
    assert 3_900 < len(of_template) <= 4_000
    assert of_template.endswith("y…")


def test_texts_fit_into_what_each_service_takes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import apprise
        from apprise.manager_plugins import NotificationManager

        plugins = NotificationManager()  # type: ignore[no-untyped-call]
        limits = {scheme: (plugins[scheme].title_maxlen, plugins[scheme].body_maxlen) for scheme in sorted(SCHEMES)}
    shortened = set()
    for scheme, (title_most, body_most) in limits.items():
        if not isinstance(title_most, int) or not isinstance(body_most, int):
            continue  # it depends on the address
        one = SimpleNamespace(
            title_maxlen=title_most, body_maxlen=body_most, overflow_mode=apprise.OverflowMode.UPSTREAM
        )
        title, body = apprise_worker.fitted(one, "t" * 250, "b" * 10_000, "http://dash:8501/alerts")
        assert len(title) <= (title_most or body_most), scheme
        assert len(body) + (0 if title_most else len(title) + 2) <= body_most, scheme
        if len(body) < 10_000:
            shortened.add(scheme)
    assert {"tgram", "discord", "pover", "vonage", "slack", "matrix"} & shortened == {
        "tgram",
        "discord",
        "pover",
        "vonage",
    }


def test_who_wants_several_messages_has_them() -> None:
    import apprise

    one = SimpleNamespace(title_maxlen=0, body_maxlen=160, overflow_mode=apprise.OverflowMode.SPLIT)
    assert apprise_worker.fitted(one, "t", "b" * 500, "http://dash") == ("t", "b" * 500)
    assert one.overflow_mode == apprise.OverflowMode.SPLIT


def test_its_certificates_are_those_of_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, ca_file = certificate(tmp_path)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(ca_file)
    key_file = tmp_path / "key.pem"
    with serving_slowly(answer, context) as url:
        address = f"gotifys://{url.removeprefix('https://')}/token"
        shown = {"cert_file": str(ca_file), "key_file": str(key_file)}

        def tell(**own: str) -> str:
            found = service("apprise", url=address, **own)
            return ends(lambda: found.send(found.message(news(alert()), None), "key", 60.0))

        assert tell(ca_file=str(ca_file), **shown) == "taken"
        for less in ({"ca_file": str(ca_file)}, shown):
            with pytest.raises(TemporaryDeliveryError, match="did not take it"):
                tell(**less)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(ca_file))
        assert tell(**shown) == "taken"
    with pytest.raises(ConfigError, match=r"receivers\.ops\.ca_file: "):
        service("apprise", ca_file=str(tmp_path / "nowhere"))


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
