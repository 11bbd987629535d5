"""Every other service, through apprise: one process for each attempt, killed when its time is over."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.alerting.receivers.errors import (
    CONNECTION,
    MESSAGE,
    TIMEOUT,
    PermanentDeliveryError,
    TemporaryDeliveryError,
)
from app.alerting.receivers.http import secret_of
from app.alerting.receivers.news import News, facts_of, state_word
from app.alerting.receivers.service import Message, encoded
from app.alerting.receivers.settings import AppriseReceiver
from app.alerting.text import cut, one_line, plain
from app.certificates import check_client_certificate, checked_ca_file
from app.errors import ConfigError, ConfigProblem

MAX_TITLE_CHARS = 250
MAX_BODY_CHARS = 10_000
_WORKER = Path(__file__).with_name("apprise_worker.py")
_KEPT_OF_ENVIRONMENT = (
    *("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
_NAMES = """
discord fcm gchat gotify gotifys guilded jsons line matrix matrixs mmost mmosts msg91 msgbird ncloud nclouds
notifiarr ntfy ntfys o365 onesignal pbul pover pushy rocket rockets sendgrid ses signals signl4 slack sns
splunk tgram threema twilio victorops vonage webex wxteams whatsapp zulip
"""
SCHEMES = frozenset(_NAMES.split())
"""Services in the network, over TLS where they are not the user's own. Not: what runs a program or talks to this
machine (dbus, gnome, macosx, windows, syslog, custom plugins), and addresses of files."""


def inert(text: str) -> str:
    """Text in which no service that apprise knows finds a mention: it looks for them in texts itself."""
    return text.replace("@", "@\u200b").replace("<", "<\u200b")


@dataclass(frozen=True, repr=False)
class ThroughApprise:
    """An address of apprise."""

    url: str
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    escape = staticmethod(inert)

    def message(self, news: News, own: Any | None) -> Message:
        """Title and text; a template gives `title` or `body`."""
        given = own if isinstance(own, dict) else {}
        kinds = {"critical": "failure", "warning": "warning", "info": "info"}
        content = {
            "title": cut(one_line(str(given.get("title") or inert(news.headline(MAX_TITLE_CHARS)))), MAX_TITLE_CHARS),
            "body": cut(str(given.get("body") or _body(news)), MAX_BODY_CHARS),
            "end": "" if "body" in given else news.url,
            "type": "success" if news.is_resolved else kinds[news.severity.value],
        }
        return Message(encoded(content))

    def send(self, message: Message, idempotency_key: str, timeout_s: float, *, ask: bool = False) -> str:  # noqa: ARG002
        """One attempt in a process of its own; apprise tells only whether it was taken."""
        certificate = [str(file) for file in (self.cert_file, self.key_file) if file is not None]
        given = encoded(
            {
                "end": "",  # messages of earlier versions have none
                **json.loads(message.body),
                "url": self.url,
                "timeout_s": timeout_s,
                "ca_file": None if self.ca_file is None else str(self.ca_file),
                "certificate": certificate,
            }
        )
        environment = {name: os.environ[name] for name in _KEPT_OF_ENVIRONMENT if name in os.environ}
        try:
            done = subprocess.run(  # noqa: S603  # our own file
                [sys.executable, "-I", str(_WORKER)],
                input=given,
                stdout=subprocess.DEVNULL,  # it may hold the address
                stderr=subprocess.DEVNULL,
                env=environment,
                timeout=timeout_s,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise TemporaryDeliveryError("no answer in time", TIMEOUT) from None
        except OSError as error:
            raise TemporaryDeliveryError(f"no process: {error.strerror}", CONNECTION) from None
        if done.returncode == 0:
            return "taken"
        if done.returncode == 4:
            raise PermanentDeliveryError("apprise does not know the address (not shown)", MESSAGE)
        raise TemporaryDeliveryError("apprise: the service did not take it", CONNECTION)


def _body(news: News) -> str:
    if news.is_alone:
        alert = news.alerts[0]
        told = [plain(alert.summary, 1_000), *(f"{name}: {value}" for name, value in facts_of(alert))]
        lines = [*map(inert, told), news.url]
        return "\n".join([*lines, *(f"{name}: {url}" for name, url in news.links.others(alert).items())])
    lines = [inert(f"{state_word(alert)}: {plain(alert.summary)}") for alert in news.told()]
    return "\n".join([*lines, *([f"and {news.n_more:,} more"] if news.n_more else []), news.url])


def apprise_of(key: str, receiver: AppriseReceiver) -> ThroughApprise:
    """Read its secrets; raises ConfigError."""
    url = secret_of(key, "url", receiver.url, receiver.url_file)
    match = re.match(r"([a-z0-9]+)://[^\s,;]+\Z", url)
    problem = None
    if match is None or match[1] not in SCHEMES:
        found = "an address of another kind (not shown)" if match is None else f"{match[1]}://..."
        problem = ConfigProblem(f"{key}.url", found, f"one address of apprise: {', '.join(sorted(SCHEMES))}")
    elif importlib.util.find_spec("apprise") is None:
        remedy = "install it: pip install 'clustercep[apprise]', or requirements/apprise.txt"
        problem = ConfigProblem(
            f"{key}.kind", "apprise, which is not installed", "the optional package apprise", remedy
        )
    if problem is not None:
        raise ConfigError("configuration", (problem,))
    ca_file = checked_ca_file(receiver.ca_file, f"{key}.ca_file")
    check_client_certificate(receiver.cert_file, receiver.key_file, key)
    return ThroughApprise(url, ca_file, receiver.cert_file, receiver.key_file)


__all__ = ["SCHEMES", "ThroughApprise", "apprise_of"]
