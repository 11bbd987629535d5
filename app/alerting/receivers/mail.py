"""E-mail through a smarthost: text and HTML, the messages about one alert or group in one thread."""

from __future__ import annotations

import html
import re
import smtplib
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.errors import MessageError
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP, EmailPolicy
from email.utils import formatdate
from pathlib import Path
from typing import Any, ClassVar

import structlog

from app.alerting.links import runbook_of
from app.alerting.notices import Snapshot
from app.alerting.receivers.causes import told_cause
from app.alerting.receivers.errors import (
    CONNECTION,
    MESSAGE,
    REFUSED,
    SERVER,
    TIMEOUT,
    TLS,
    DeliveryError,
    PermanentDeliveryError,
    TemporaryDeliveryError,
)
from app.alerting.receivers.news import News, facts_of, state_word
from app.alerting.receivers.secrecy import in_base64, without_secrets
from app.alerting.receivers.service import Message, as_it_is
from app.alerting.receivers.settings import EmailReceiver
from app.alerting.text import cut, one_line, plain
from app.certificates import check_client_certificate, checked_ca_file
from app.config import read_secret
from app.errors import ConfigError, ConfigProblem
from collectors.network import http_attempt
from collectors.network.deadlines import remaining_s

log = structlog.get_logger(__name__)

MAX_SUBJECT_CHARS = 200
MAX_PART_CHARS = 100_000
MAX_ANSWER_BYTES = 1 << 16
"""Of all that the smarthost says during one message."""
SUBMISSION, SUBMISSIONS = 587, 465
_POLICY = SMTP.clone(cte_type="7bit")
_READABLE = re.compile(r"[!-~]+(?: [!-~]+)*")
_COLORS = {"critical": "#a30200", "warning": "#8a6100", "info": "#1f5f8b", "resolved": "#1a7f4b"}


class _Subject(str):
    """A subject that the parser of headers never sees: it decodes encoded words, and with them line ends."""

    __slots__ = ()
    name = "Subject"

    def fold(self, *, policy: EmailPolicy) -> str:
        """The header as it is sent; what could be read as an encoded word is encoded as a whole."""
        is_readable = _READABLE.fullmatch(self) and "=?" not in self
        header = Header(str(self), "us-ascii" if is_readable else "utf-8", header_name=self.name)
        return f"{self.name}: {header.encode(linesep=policy.linesep)}{policy.linesep}"


@dataclass(frozen=True, repr=False)
class Email:
    """A smarthost, and who is told through it."""

    host: str
    port: int
    from_: str
    to: tuple[str, ...]
    tls: str
    username: str | None
    password: str | None
    ca_file: Path | None
    certificate: tuple[Path, Path | None] | None
    hello: str

    escape = staticmethod(as_it_is)
    escape_parts: ClassVar[Mapping[str, Callable[[str], str]]] = {"html": html.escape}

    def message(self, news: News, own: Any | None) -> Message:
        """The mail; a template gives subject, text or html."""
        given = {name: _joined(part) for name, part in own.items()} if isinstance(own, dict) else {}
        mail = EmailMessage(policy=_POLICY)
        domain = self.from_.rpartition("@")[2]
        subject = one_line(given.get("subject", "")).strip() or one_line(news.headline(MAX_SUBJECT_CHARS)).strip()
        mail["Subject"] = _Subject(cut(subject, MAX_SUBJECT_CHARS))
        mail["From"] = self.from_
        mail["To"] = ", ".join(self.to)
        mail["Date"] = formatdate(news.now_ms / 1000)
        key, thread = _readable(news.idempotency_key), _readable(news.dedup_key)
        mail["Message-ID"] = f"<{key}@{domain}>"
        for name in ("References", "In-Reply-To"):
            mail[name] = f"<{thread}.alerts@{domain}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail["Idempotency-Key"] = key
        mail.set_content(cut(given.get("text") or _text(news), MAX_PART_CHARS), cte="quoted-printable")
        if "html" in given or "text" not in given:
            markup = given.get("html") or _html(news)
            mail.add_alternative(markup, subtype="html", cte="quoted-printable")
        return Message(_serialized(mail))

    def send(self, message: Message, idempotency_key: str, timeout_s: float, *, ask: bool = False) -> str:  # noqa: ARG002
        """One session with the smarthost; returns what it said to the mail."""
        with http_attempt.limited(timeout_s, MAX_ANSWER_BYTES):
            try:
                return self._send(message.body, timeout_s)
            except smtplib.SMTPRecipientsRefused as error:
                refusals = [(code, text) for code, text in error.recipients.values()]
                worst = next((r for r in refusals if r[0] < 500), refusals[0])
                raise self._refusal(*worst) from None
            except smtplib.SMTPResponseException as error:
                raise self._refusal(error.smtp_code, error.smtp_error) from None
            except (smtplib.SMTPException, OSError, UnicodeError) as error:
                raise _failure(error) from None

    def _send(self, mail: bytes, timeout_s: float) -> str:
        context = None if self.tls == "none" else http_attempt.limited_tls(self.ca_file, self.certificate)
        smtp = _Smtp(self.hello, timeout_s, context if self.tls == "on connect" else None)
        try:
            try:
                smtp.connect_to(self.host, self.port)
                smtp.ehlo_or_helo_if_needed()
                if self.tls == "starttls":
                    smtp.starttls(context=context)  # raises when it is not offered: nothing is said readably
                    smtp.ehlo_or_helo_if_needed()
                if self.username is not None and self.password is not None:
                    smtp.login(self.username, self.password)
            except smtplib.SMTPResponseException as error:  # it is no mail that is refused here
                refusal = self._refusal(error.smtp_code, error.smtp_error)
                raise TemporaryDeliveryError(str(refusal), refusal.reason) from None
            refused = smtp.sendmail(self.from_, list(self.to), mail)
        finally:
            with suppress(smtplib.SMTPException, OSError):
                smtp.close()
        if refused:
            code, text = next(iter(refused.values()))
            log.warning(
                "some recipients were refused", n_refused=len(refused), n_recipients=len(self.to),
                error=self._said(code, text),
            )  # fmt: skip
        return f"taken for {len(self.to) - len(refused)} of {len(self.to)} recipients"

    def _said(self, code: int, text: bytes | str) -> str:
        said = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        secrets = []
        if self.password is not None:  # also as AUTH LOGIN and AUTH PLAIN send it
            logins = (self.password, f"\0{self.username}\0{self.password}")
            secrets = [self.password, *map(in_base64, logins)]
        return f"answered {code}: {without_secrets(said, secrets)}"

    def _refusal(self, code: int, text: bytes | str) -> DeliveryError:
        """4xx: for the moment (RFC 5321, 4.2.1); -1 and the like, and texts of smtplib: no answer that can be read."""
        if 500 <= code < 600 and isinstance(text, bytes):
            return PermanentDeliveryError(self._said(code, text), REFUSED)
        return TemporaryDeliveryError(self._said(code, text), SERVER)


class _Smtp(smtplib.SMTP):
    """A session over sockets that end with the attempt."""

    def __init__(self, hello: str, silence_s: float, context: ssl.SSLContext | None) -> None:
        self._context, self._silence_s = context, silence_s
        super().__init__(local_hostname=hello, timeout=silence_s)  # a name is given: it looks up none

    def connect_to(self, host: str, port: int) -> None:
        """As connect, and the name is the one that the certificate must have."""
        self._host = host
        code, text = self.connect(host, port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, text)

    def _get_socket(self, host: str, port: int, timeout: float) -> Any:  # noqa: ARG002  # smtplib calls it so
        found = http_attempt.connected(host, port, self._silence_s)
        return found if self._context is None else self._context.wrap_socket(found, server_hostname=host)


def _failure(error: Exception) -> DeliveryError:
    if remaining_s() <= 0 or isinstance(error, TimeoutError):
        return TemporaryDeliveryError("no answer in time", TIMEOUT)
    if isinstance(error, ssl.SSLError):
        return TemporaryDeliveryError(f"TLS: {plain(error.reason or type(error).__name__)}", TLS)
    if isinstance(error, smtplib.SMTPServerDisconnected):
        return _hung_up(error)
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return TemporaryDeliveryError("the smarthost does not offer what is needed: STARTTLS, or a login", TLS)
    if isinstance(error, UnicodeError):
        return PermanentDeliveryError(type(error).__name__, MESSAGE)
    return TemporaryDeliveryError(told_cause(error), CONNECTION)


def _hung_up(error: smtplib.SMTPServerDisconnected) -> DeliveryError:
    """Under TLS 1.3 who refuses a client's certificate says so after the handshake, to the first answer that is read:
    smtplib has the reason as what it met."""
    met = error.__context__
    if isinstance(met, ssl.SSLError):
        reason = plain(met.reason or type(met).__name__)
        return TemporaryDeliveryError(f"TLS: {reason}; see cert_file where it asks for a certificate", TLS)
    return TemporaryDeliveryError("the smarthost closed the connection before it had answered", CONNECTION)


def _readable(value: str) -> str:
    """A value that a header has as it is; raises ValueError for what the parser of headers might decode. What it makes
    of that differs between versions of Python: several headers, a part of the value, or an error."""
    if not _READABLE.fullmatch(value) or "=?" in value:
        raise ValueError(f"a header's value: found {value!r}; expected readable ASCII without encoded words")
    return value


def _joined(part: Any) -> str:
    return "\n".join(map(str, part)) if isinstance(part, list) else str(part)


def _serialized(mail: EmailMessage) -> bytes:
    """A mail with the headers that were set and no others; raises ValueError where a value has begun one of its own."""
    try:
        body = mail.as_bytes()
    except MessageError as error:
        raise ValueError(f"a header cannot be written: {type(error).__name__}") from None
    lines = re.sub(rb"\r\n(?=[ \t])", b"", body.partition(b"\r\n\r\n")[0]).split(b"\r\n")
    names = [line.partition(b":")[0].decode("ascii", "replace") for line in lines]
    if names != mail.keys() or any(re.search(rb"[\r\n\0]", line) for line in lines):
        raise ValueError("a header's value has a line end or NUL; expected one line")
    return body


# ---------------------------------------------------------------------- what it says


def _text(news: News) -> str:
    if news.is_alone:
        alert = news.alerts[0]
        links = news.links.others(alert).items()
        lines = [news.headline(1_000), "", *(f"{name}: {value}" for name, value in facts_of(alert)), ""]
        lines += [f"dashboard: {news.url}", *(f"{name}: {url}" for name, url in links), "", runbook_of(alert)]
        return "\n".join(lines).strip() + "\n"
    lines = [news.headline(1_000), ""]
    for alert in news.told():
        lines += [f"- {state_word(alert)}: {plain(alert.summary, 1_000)}", f"  {news.links.alert(alert)}"]
    lines += [f"and {news.n_more:,} more"] if news.n_more else []
    return "\n".join([*lines, "", f"all alerts: {news.url}", ""])


def _html(news: News) -> str:
    color = _COLORS["resolved" if news.is_resolved else news.severity.value]
    body = [f'<h2 style="color:{color}">{_e(news.headline(1_000))}</h2>']
    if news.is_alone:
        body += _html_of_alert(news, news.alerts[0])
    else:
        rows = [f"<li>{_e(state_word(alert))}: {_linked(news, alert)}</li>" for alert in news.told()]
        body += ["<ul>", *rows, "</ul>", f"<p>and {news.n_more:,} more</p>" if news.n_more else ""]
        body.append(f'<p><a href="{_e(news.url)}">all alerts</a></p>')
    return f'<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>{"".join(body)}</body></html>\n'


def _linked(news: News, alert: Snapshot) -> str:
    return f'<a href="{_e(news.links.alert(alert))}">{_e(plain(alert.summary, 1_000))}</a>'


def _html_of_alert(news: News, alert: Snapshot) -> Sequence[str]:
    rows = [f"<tr><th align=left>{_e(name)}</th><td>{_e(value)}</td></tr>" for name, value in facts_of(alert)]
    links = [("dashboard", news.url), *news.links.others(alert).items()]
    shown = " · ".join(f'<a href="{_e(url)}">{_e(name)}</a>' for name, url in links)
    runbook = runbook_of(alert)
    return ["<table>", *rows, "</table>", f"<p>{shown}</p>", f"<pre>{_e(runbook)}</pre>" if runbook else ""]


def _e(text: str) -> str:
    return html.escape(text, quote=True)


def email_of(key: str, receiver: EmailReceiver) -> Email:
    """Read its secrets; raises ConfigError."""
    check_client_certificate(receiver.cert_file, receiver.key_file, key)
    password = read_secret(receiver.password, receiver.password_file, f"{key}.password_file")
    host, _, port = receiver.smarthost.rpartition(":") if receiver.smarthost[-1] != "]" else ("", "", "")
    if not host or (host.count(":") and not host.startswith("[")):
        host, port = receiver.smarthost, ""
    word = None if password is None else password.get_secret_value()
    _check_session(key, receiver, host, word)
    return Email(
        host=host.strip("[]"),
        port=int(port) if port else SUBMISSIONS if receiver.tls == "on connect" else SUBMISSION,
        from_=receiver.from_,
        to=receiver.to,
        tls=receiver.tls,
        username=receiver.username,
        password=word,
        ca_file=checked_ca_file(receiver.ca_file, f"{key}.ca_file"),
        certificate=None if receiver.cert_file is None else (receiver.cert_file, receiver.key_file),
        hello=receiver.hello or socket.gethostname() or "localhost",
    )


def _check_session(key: str, receiver: EmailReceiver, host: str, password: str | None) -> None:
    """Raise ConfigError where what SMTP takes as ASCII alone has other characters; it shows no password."""
    problems = []
    name = "password" if receiver.password_file is None else "password_file"
    if password is not None and not (password.isascii() and password.isprintable() and password):
        problems.append(ConfigProblem(f"{key}.{name}", "other characters (not shown)", "printable ASCII"))
    for name, value in (("username", receiver.username), ("hello", receiver.hello)):
        if value is not None and not (value.isascii() and value.isprintable() and value):
            problems.append(ConfigProblem(f"{key}.{name}", repr(value[:100]), "printable ASCII"))
    try:
        host.encode("idna")
    except UnicodeError:
        problems.append(ConfigProblem(f"{key}.smarthost", repr(host[:100]), "host or host:port"))
    if problems:
        raise ConfigError("configuration", tuple(problems))


__all__ = ["Email", "email_of"]
