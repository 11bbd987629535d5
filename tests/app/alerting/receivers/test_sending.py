"""Telling services on loopback: statuses, what they answer, certificates, smarthosts, and what is told again."""

from __future__ import annotations

import gc
import ssl
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app.alerting.delivery import Courier, endpoint_of
from app.alerting.receivers.errors import DeliveryError, PermanentDeliveryError, TemporaryDeliveryError
from app.alerting.receivers.kinds import BUILDERS
from app.alerting.receivers.secrecy import NOT_SHOWN, without_secrets
from app.alerting.receivers.service import Message
from app.alerting.recording.recorder import Recorder
from app.clock import SetClock
from app.config import load_settings
from app.errors import ConfigError
from app.settings import Alerting
from app.store import Store
from tests.app.alerting.dispatch.world import START_MS, World
from tests.app.alerting.receivers.told import SETTINGS, alert, news, service
from tests.app.alerting_fixtures import FakeMatch, kept, options
from tests.app.smarthost import smarthost
from tests.app.webhook import webhook
from tests.certificate_authority import Authority
from tests.slow_servers import HEADS, answer, certificate, ends, serving

TOLD = news(alert())
OVER_HTTP = [kind for kind in BUILDERS if kind not in ("email", "apprise")]


def told(kind: str, timeout_s: float = 20.0, *, ask: bool = False, **settings: Any) -> str:
    found = service(kind, **settings)
    return found.send(found.message(TOLD, None), "key", timeout_s, ask=ask)


@pytest.mark.parametrize("kind", OVER_HTTP)
def test_statuses_decide_whether_it_is_tried_again(kind: str) -> None:
    with webhook(202, 429, 503, 400, 404, 301, retry_after="7") as hook:
        assert told(kind, url=hook.url) == "answered 202"
        for error_kind, status in ((TemporaryDeliveryError, 429), (TemporaryDeliveryError, 503),
                                   (PermanentDeliveryError, 400), (PermanentDeliveryError, 404),
                                   (PermanentDeliveryError, 301)):  # fmt: skip
            with pytest.raises(error_kind, match=f"answered {status}") as failed:
                told(kind, url=hook.url)
            assert failed.value.retry_after == ("7" if error_kind is TemporaryDeliveryError else None)
    assert len(hook.received) == 6


def answers(raw: bytes) -> Any:
    return lambda connection: (connection.recv(65_536), connection.sendall(raw))


def says(text: bytes) -> Any:
    return answers(b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 502 Bad\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 503 Bad\r\nContent-Length: 5, 6\r\n\r\nhello",
        b"HTTP/1.1 nonsense\r\n\r\n",
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # urllib3 leaves the socket of such an answer to the collector
def test_after_an_answer_that_cannot_be_read_it_is_tried_again(raw: bytes) -> None:
    with serving(answers(raw)) as url, pytest.raises(TemporaryDeliveryError) as failed:
        told("webhook", url=url)
    assert failed.value.reason == "connection"
    del failed
    gc.collect()


def test_what_a_service_says_is_told_but_no_secret() -> None:
    for body, expected in (
        (b"invalid_payload\r\n\x1b[31m", "answered 400: invalid_payload \\[31m|answered 400: invalid_payload  \\[31m"),
        (b"<p>/T0/B0/XSECRETX not found", "answered 400: \\(not shown"),
        (b"<p>%58SECRETX not found", "answered 400: \\(not shown"),
    ):
        with serving(says(body)) as url, pytest.raises(PermanentDeliveryError, match=expected):
            told("slack", url=f"{url}/T0/B0/XSECRETX")
    with serving(says(b'{"errors": ["R0123456789 is unknown"]}')) as url, pytest.raises(DeliveryError) as failed:
        told("pagerduty", url=url)
    assert "R0123456789" not in str(failed.value)


def test_an_answer_that_never_ends_takes_no_time_of_its_own_unless_it_is_asked_for() -> None:
    def endless(connection: Any) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65_536)

    with serving(endless) as url:
        assert ends(lambda: told("slack", 60.0, url=url)) == "answered 200"
    with serving(endless) as url:
        assert ends(lambda: told("slack", 60.0, url=url, ask=True)).startswith("answered 200: xxx")


def test_secrets_are_recognised_in_parts() -> None:
    assert without_secrets("all is well", ["http://h/T012345/x"]) == "all is well"
    assert without_secrets("at T012345!", ["http://h/T012345/x"]) == NOT_SHOWN


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("http://bob:swordfish@h/x", "bad password: swordfish yes"),
        ("http://bob:pw@h/x", "bad password: pw"),
        ("http://bob:S3cret%40Pass@h/x", "you sent S3cret@Pass"),
        ("http://bob:S3cret%40Pass@h/x", "Authorization: Basic Ym9iOlMzY3JldEBQYXNz"),
        ("http://bob:S3cret%40Pass@h/x", "Ym9iOlMzY3\r\n JldEBQYXNz"),
        ("http://token@h/x", "unknown token"),
        ("Basic Ym9iOlMzY3JldEBQYXNz", "S3cret@Pass is wrong"),
    ],
)
def test_logins_of_addresses_are_recognised_in_every_form(secret: str, said: str) -> None:
    assert without_secrets(said, [secret]) == NOT_SHOWN
    assert without_secrets("all is well", [secret]) == "all is well"


@pytest.mark.parametrize("said", ["hunter22", "aHVudGVyMjI=", "AG1lAGh1bnRlcjIy"])
def test_a_smarthost_that_repeats_a_login_is_not_shown(tmp_path: Path, said: str) -> None:
    context, ca_file = certificate(tmp_path)
    login = {"username": "me", "password": "hunter22", "ca_file": str(ca_file), "tls": "starttls"}
    with (
        smarthost(context, offers=("STARTTLS", "AUTH PLAIN"), MAIL=f"550 {said}") as host,
        pytest.raises(PermanentDeliveryError) as failed,
    ):
        told("email", smarthost=f"127.0.0.1:{host.port}", **login)
    assert str(failed.value) == f"answered 550: {NOT_SHOWN}"


def test_a_certificate_is_shown_to_who_asks_for_it(tmp_path: Path) -> None:
    context, ca_file = certificate(tmp_path)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(ca_file)
    key_file = next(path for path in tmp_path.iterdir() if b"PRIVATE KEY" in path.read_bytes())
    with serving(answer, context) as url:
        own = {"url": url, "ca_file": str(ca_file), "cert_file": str(ca_file), "key_file": str(key_file)}
        assert ends(lambda: told("webhook", **own)) == "answered 200"
        with pytest.raises(TemporaryDeliveryError):
            ends(lambda: told("webhook", url=url, ca_file=str(ca_file)))
    with pytest.raises(ConfigError, match=r"receivers\.ops\.key_file: found .*expected a PEM certificate and its key"):
        service("webhook", cert_file=str(ca_file), key_file=str(ca_file))
    with pytest.raises(ConfigError, match=r"receivers\.ops\.cert_file: found .*gone.pem: No such file"):
        service("webhook", cert_file=str(tmp_path / "gone.pem"))


# ---------------------------------------------------------------------- e-mail


def test_a_mail_is_taken() -> None:
    with smarthost() as host:
        said = told("email", smarthost=f"127.0.0.1:{host.port}", to="a@x.org, b@x.org")
    assert said == "taken for 2 of 2 recipients"
    assert [line for line in host.commands if line.startswith(("mail", "rcpt"))] == [
        "mail FROM:<cep@example.org>",
        "rcpt TO:<a@x.org>",
        "rcpt TO:<b@x.org>",
    ]
    assert host.mails[0].startswith(b"Subject: warning: t1 took 65 s on node5\r\n")


@pytest.mark.parametrize("on_connect", [False, True])
def test_a_login_goes_over_tls_alone(tmp_path: Path, on_connect: bool) -> None:
    context, ca_file = certificate(tmp_path)
    login = {"username": "me", "password": "hunter22", "ca_file": str(ca_file)}
    tls = "on connect" if on_connect else "starttls"
    with smarthost(context, offers=("STARTTLS", "AUTH PLAIN"), on_connect=on_connect) as host:
        place = f"127.0.0.1:{host.port}"
        assert told("email", smarthost=place, tls=tls, **login).startswith("taken")
        with pytest.raises(TemporaryDeliveryError, match="answered 535") as failed:
            told("email", smarthost=place, tls=tls, **{**login, "password": "hunter33"})
        assert "hunter33" not in str(failed.value)
    assert host.secure == [True]
    with smarthost(offers=("AUTH PLAIN",)) as host:
        with pytest.raises(TemporaryDeliveryError, match="does not offer"):
            told("email", smarthost=f"127.0.0.1:{host.port}", **{**login, "tls": "starttls"})
        assert not [line for line in host.commands if line.startswith("AUTH")]
    with smarthost(context, offers=("STARTTLS",)) as host, pytest.raises(TemporaryDeliveryError, match="TLS: "):
        told("email", smarthost=f"127.0.0.1:{host.port}", tls="starttls")  # nobody trusts its certificate


@pytest.mark.parametrize("tls", ["on connect", "starttls"])
def test_a_smarthost_that_wants_a_certificate_gets_it(tmp_path: Path, tls: str) -> None:
    """Of one authority are the smarthost and whoever may send by it; a mail of somebody else never leaves."""
    own, others = Authority(tmp_path, "own"), Authority(tmp_path, "others")
    cert_file, key_file = own.sign("clustercep")
    both = tmp_path / "both.pem"
    both.write_bytes(cert_file.read_bytes() + key_file.read_bytes())
    wrong_cert, wrong_key = others.sign("clustercep")
    with smarthost(own.server(clients=own), offers=("STARTTLS",), on_connect=tls == "on connect") as host:

        def mail(**options: Path) -> str:
            files = {name: str(path) for name, path in options.items()}
            return told("email", smarthost=f"127.0.0.1:{host.port}", tls=tls, **files)

        assert mail(ca_file=own.ca_file, cert_file=cert_file, key_file=key_file).startswith("taken")
        assert mail(ca_file=own.ca_file, cert_file=both).startswith("taken")
        for refused in (
            {"ca_file": own.ca_file},
            {"ca_file": own.ca_file, "cert_file": wrong_cert, "key_file": wrong_key},
            {"ca_file": others.ca_file, "cert_file": cert_file, "key_file": key_file},
            {"cert_file": cert_file, "key_file": key_file},
        ):
            # Whoever refuses closes with what it has not read: the system may drop the reason that it gave.
            with pytest.raises(TemporaryDeliveryError, match=r"^TLS: |the smarthost closed the connection"):
                mail(**refused)
    assert host.secure == [True, True]
    with (
        smarthost(own.server("node7"), offers=("STARTTLS",), on_connect=tls == "on connect") as host,
        pytest.raises(TemporaryDeliveryError, match="TLS: CERTIFICATE_VERIFY_FAILED"),
    ):
        told("email", smarthost=f"127.0.0.1:{host.port}", tls=tls, ca_file=str(own.ca_file))
    assert host.mails == []


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({"HELLO": "421 busy"}, TemporaryDeliveryError),
        ({"HELLO": "554 not now"}, TemporaryDeliveryError),
        ({"EHLO": "550 no", "HELO": "550 no"}, TemporaryDeliveryError),
        ({"MAIL": f"250 {'x' * 9_000}"}, TemporaryDeliveryError),
        ({"MAIL": "451 later"}, TemporaryDeliveryError),
        ({"MAIL": "550 not you"}, PermanentDeliveryError),
        ({"DATA_END": "452 full"}, TemporaryDeliveryError),
        ({"DATA_END": "554 spam"}, PermanentDeliveryError),
        ({"RCPT_a": "550 unknown", "RCPT_b": "450 later"}, TemporaryDeliveryError),
        ({"RCPT_a": "550 unknown", "RCPT_b": "550 unknown"}, PermanentDeliveryError),
        ({"MAIL": "what?"}, TemporaryDeliveryError),
    ],
)
def test_answers_of_a_smarthost_decide_whether_it_is_tried_again(
    answers: dict[str, str], kind: type[Exception]
) -> None:
    with smarthost(**answers) as host, pytest.raises(kind):
        told("email", smarthost=f"127.0.0.1:{host.port}", to="a@x.org, b@x.org")


def test_some_recipients_are_enough() -> None:
    with smarthost(RCPT_a="550 unknown") as host:
        assert told("email", smarthost=f"127.0.0.1:{host.port}", to="a@x.org, b@x.org") == "taken for 1 of 2 recipients"


@pytest.mark.parametrize("name", ["accepts and never answers", "drips its status line"])
def test_a_smarthost_that_drips_has_its_time(name: str) -> None:
    with serving(HEADS[name]) as url, pytest.raises(TemporaryDeliveryError):
        ends(lambda: told("email", 0.3, smarthost=url.removeprefix("http://")))


# ---------------------------------------------------------------------- told again


def test_an_alertmanager_hears_again_what_fires(store: Store) -> None:
    clock = SetClock(1_000_000)
    sent: list[Message] = []
    am = Alerting.model_validate({"receivers": {"am": SETTINGS["alertmanager"]}}).receivers["am"]

    def step(watermark_ms: int, *matches: FakeMatch) -> None:
        with store.transaction() as writer:
            Recorder(options(am=am), writer, kept, clock.now_ms()).live(matches, watermark_ms)

    told_by = Courier(store, endpoint_of("am", am, ""), clock, post=lambda _, message, __: sent.append(message))

    def messages() -> list[list[str]]:
        told_by.deliver_pending()
        bodies = [str(message.body) for message in sent]
        sent.clear()
        return [[task for task in ("t1", "t2") if f'"task_id": "{task}"' in body] for body in bodies]

    match = FakeMatch(999_990, 1_000_000)
    step(0, match)
    assert messages() == [["t1"], ["t1"]]  # the message, and what fires at the start of a process
    assert messages() == []
    clock.advance_to(clock.now_ms() + 59_999)
    assert messages() == []
    clock.advance_to(clock.now_ms() + 1)
    step(0, FakeMatch(999_990, 1_000_000, key=(("task_id", "t2"),), values={"task_id": "t2", "period_ms": 1}))
    assert messages() == [["t2"], ["t1", "t2"]]
    step(2_000_000)
    assert sorted(messages()) == [["t1"], ["t2"]]
    clock.advance_to(clock.now_ms() + 60_000)
    assert messages() == []


def test_what_fires_is_told_again_while_others_are_told_for_the_first_time(store: Store) -> None:
    clock, told_ms = SetClock(1_000_000), [1_000_000]
    am = Alerting.model_validate({"receivers": {"am": SETTINGS["alertmanager"]}}).receivers["am"]

    def post(_endpoint: Any, message: Message, _key: str) -> None:
        if b'"task_id": "first"' in message.body:
            told_ms.append(clock.now_ms())
        clock.advance_to(clock.now_ms() + 5_000)  # it is slow

    def fire(*names: str) -> None:
        matches = [FakeMatch(999_990, 1_000_000, key=(("task_id", n),), values={"task_id": n}) for n in names]
        with store.transaction() as writer:
            Recorder(options(am=am), writer, kept, clock.now_ms()).live(matches, 0)

    told_by = Courier(store, endpoint_of("am", am, ""), clock, post=post)
    fire("first")
    told_by.deliver_pending()
    fire(*(f"t{n}" for n in range(60)))
    told_by.deliver_pending()
    assert clock.now_ms() > 1_000_000 + 60 * 5_000
    assert max(later - before for before, later in pairwise([*told_ms, clock.now_ms()])) <= 2 * 60_000


def test_of_a_group_an_alertmanager_hears_again_what_it_was_told(store: Store) -> None:
    world = World(store)
    world.fire("t1")
    endpoint = endpoint_of(
        "ops", Alerting.model_validate({"receivers": {"ops": SETTINGS["alertmanager"]}}).receivers["ops"], ""
    )
    sent: list[bytes] = []
    told_by = Courier(store, endpoint, world.clock, post=lambda _, message, __: sent.append(message.body))
    told_by.deliver_pending()
    assert sent == []
    world.takes = False
    world.wait(30_000)
    late = FakeMatch(START_MS, START_MS, key=(("task_id", "t2"),), values={"task_id": "t2"})
    world.step(late, watermark_ms=START_MS)
    world.clock.advance_to(world.now_ms + 60_000)
    told_by.deliver_pending()
    assert [b"t1" in body for body in sent] == [True, True]
    assert not any(b'"t2"' in body for body in sent)


# ---------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("receiver", "message"),
    [
        ("{kind: slakc}", "receivers.ops: found .* a kind of receiver: webhook, alertmanager, slack"),
        ("{kind: slack}", "receivers.ops: found .* neither url nor url_file"),
        ("{kind: slack, url_file: u, chanel: x}", "receivers.ops.chanel: found an unknown key.*did you mean 'channel'"),
        ('{kind: slack, url: "http://x"}', "receivers.ops.url: found a secret in the file.*url_file"),
        ("{kind: pagerduty, routing_key: x}", "receivers.ops.routing_key: found a secret in the file"),
        ("{kind: opsgenie, api_key: x}", "receivers.ops.api_key: found a secret in the file"),
        ("{kind: email, smarthost: h, from: a@b.c, to: [x]}", "receivers.ops.to: .*an address such as"),
        (
            '{kind: email, smarthost: h, from: "a@b.c\\nBcc: x", to: [a@b.c]}',
            "receivers.ops.from: .*an address such as",
        ),
        ("{kind: email, smarthost: h, from: a@b.c, to: [a@b.c], tls: none, username: u, password_file: p}", "readably"),
        ("{kind: alertmanager, url_file: u, template: t}", "expected none"),
        ("{key_file: k, url: 'http://x'}", "key_file without cert_file"),
    ],
)
def test_mistakes_in_settings_name_key_and_remedy(tmp_path: Path, receiver: str, message: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"alerting:\n  receivers:\n    ops: {receiver}\n")
    with pytest.raises(ConfigError, match=message):
        load_settings(file, {})


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:99999/x", "http://h:0/x", "http://:80/x", "http://a b/x", "http://[::1/x", "http://*.org/x",
     f"http://{'a' * 70}.org/", "http://a..b/", "ftp://h/x", "http://h/\x1b", "http://b\u20acb:pw\u20acx@h/"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["webhook", "alertmanager", "slack", "teams", "pagerduty", "opsgenie"])
def test_an_address_to_which_nothing_can_be_sent_is_refused_at_the_start(kind: str, url: str) -> None:
    with pytest.raises(ConfigError, match=r"receivers\.ops\.url: found .*expected http://"):
        service(kind, url=url)


@pytest.mark.parametrize(
    "url", ["http://[::1]:80/x", "http://b\u00fccher.de/x", "https://a_b.c:8443/?x=y", "http://u:p@h"]
)
def test_other_addresses_are_not(url: str) -> None:
    assert service("webhook", url=url)


@pytest.mark.parametrize("secret", ["Bearer tok\u20acen7", "Bearer tok7\x7fb", " Bearer tok7", "Bearer tok7\r\nX: y"])
def test_secrets_that_no_header_and_no_login_takes_are_refused_at_the_start(secret: str) -> None:
    login = {"username": "me", "tls": "starttls", "password": secret.strip()}
    for kind, name, given in (
        ("webhook", "authorization", {"authorization": secret}),
        ("alertmanager", "authorization", {"authorization": secret}),
        ("opsgenie", "api_key", {"api_key": secret}),
        *([] if secret[0] == " " else [("email", "password", login)]),
    ):
        with pytest.raises(ConfigError, match=rf"receivers\.ops\.{name}: found .*not shown") as failed:
            service(kind, **given)
        assert "tok" not in str(failed.value)


def test_the_environment_gives_secrets_of_every_kind(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("alerting:\n  receivers:\n    ops: {kind: pagerduty}\n")
    settings = load_settings(file, {"CLUSTERCEP__ALERTING__RECEIVERS__OPS__ROUTING_KEY": "R-hunter2"})
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in repr(endpoint_of("ops", settings.alerting.receivers["ops"], ""))
