"""`alerting.receivers`: the settings of each kind of receiver; without `kind` it is a webhook."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, SecretStr, Tag, field_validator, model_validator

from app.anchored_path import AnchoredPath
from app.durations import DurationMs
from app.section import Section
from app.severity import Severity
from collectors.time_units import DAY_MS, MINUTE_MS, SECOND_MS

MAX_GIVE_UP_MS = 30 * DAY_MS
"""Who is told of an alert after a month is told of history."""

DEFAULT_KIND = "webhook"


class Receiver(Section):
    """What every kind has: who is told, of what, and how long it is tried."""

    kind: str
    enabled: bool = True
    timeout_ms: DurationMs = Field(default=10_000, ge=100)
    min_severity: Severity = Severity.INFO
    send_resolved: bool = True
    template: AnchoredPath | None = None
    give_up_after_ms: DurationMs = Field(default=DAY_MS, ge=0, le=MAX_GIVE_UP_MS)
    max_attempts: int | None = Field(default=None, ge=1, le=100_000)
    first_retry_ms: DurationMs = Field(default=1_000, ge=1)
    max_retry_ms: DurationMs = Field(default=300_000, ge=1)

    NEEDED: ClassVar[tuple[str, ...]] = ()
    """Secrets that it cannot do without, each given as NAME or NAME_file."""
    SECRETS: ClassVar[tuple[str, ...]] = ()
    """All secrets: at most one of NAME and NAME_file is given."""

    @model_validator(mode="after")
    def _one_of_each(self) -> Receiver:
        for name in self.SECRETS:
            value, file = getattr(self, name), getattr(self, f"{name}_file")
            is_needed = name in self.NEEDED
            if value is not None and file is not None:
                raise ValueError(
                    f"{name} and {name}_file are both given; expected {'one of them' if is_needed else 'at most one'}"
                )
            if is_needed and self.enabled and value is None and file is None:
                raise ValueError(f"neither {name} nor {name}_file is given; expected one of them")
        return self


class CertifiedReceiver(Receiver):
    """One that is told over connections that may be over TLS."""

    ca_file: AnchoredPath | None = None
    cert_file: AnchoredPath | None = None
    """A certificate to show, PEM."""
    key_file: AnchoredPath | None = None
    """Its key; None: it stands in `cert_file` too."""

    @model_validator(mode="after")
    def _certificate_with_key(self) -> CertifiedReceiver:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file without cert_file; expected the certificate, too")
        return self


class HttpReceiver(CertifiedReceiver):
    """One that is told over HTTP."""


class UrlReceiver(HttpReceiver):
    """One whose address is a secret, as it may hold a token."""

    url: SecretStr | None = None
    url_file: AnchoredPath | None = None

    NEEDED: ClassVar[tuple[str, ...]] = ("url",)
    SECRETS: ClassVar[tuple[str, ...]] = ("url",)


class _Authorized(UrlReceiver):
    authorization: SecretStr | None = None
    authorization_file: AnchoredPath | None = None

    SECRETS = ("url", "authorization")


class WebhookReceiver(_Authorized):
    """Alertmanager's webhook, version 4, or JSON of one's own."""

    kind: Literal["webhook"] = "webhook"


class AlertmanagerReceiver(_Authorized):
    """An Alertmanager that takes alerts over its API v2; `url` is its address, without /api/v2/alerts."""

    kind: Literal["alertmanager"] = "alertmanager"
    resend_delay_ms: DurationMs = Field(default=MINUTE_MS, ge=SECOND_MS, le=DAY_MS)
    """What fires is told again so often; it is over there when it was not told again four times."""

    @model_validator(mode="after")
    def _no_template(self) -> AlertmanagerReceiver:
        if self.template is not None:
            raise ValueError("template: an Alertmanager takes alerts in its own form; expected none")
        return self


def _line(value: str | None) -> str | None:
    if value is not None and (not value or len(value) > 500 or not value.isprintable()):
        raise ValueError("expected one line of 1 to 500 characters")
    return value


class SlackReceiver(UrlReceiver):
    """An incoming webhook of Slack, or of what is compatible with it (Mattermost, Rocket.Chat)."""

    kind: Literal["slack"] = "slack"
    channel: str | None = None
    username: str | None = None
    icon_emoji: str | None = None

    _lines = field_validator("channel", "username", "icon_emoji")(_line)


class TeamsReceiver(UrlReceiver):
    """A workflow of Microsoft Teams that is started by an HTTP request."""

    kind: Literal["teams"] = "teams"


class PagerDutyReceiver(HttpReceiver):
    """PagerDuty's Events API, version 2."""

    kind: Literal["pagerduty"] = "pagerduty"
    routing_key: SecretStr | None = None
    routing_key_file: AnchoredPath | None = None
    url: str = "https://events.pagerduty.com/v2/enqueue"
    """https://events.eu.pagerduty.com/v2/enqueue in the EU."""
    component: str | None = None
    group: str | None = None
    class_: str | None = Field(default=None, alias="class")

    NEEDED = ("routing_key",)
    SECRETS = ("routing_key",)
    _lines = field_validator("component", "group", "class_")(_line)


def _listed(value: object) -> object:
    """`a, b` of the environment as a list."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


TextList = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class Responder(Section):
    """Whom Opsgenie tells."""

    type: Literal["team", "user", "escalation", "schedule"]
    id: str | None = None
    name: str | None = None
    username: str | None = None

    @model_validator(mode="after")
    def _named(self) -> Responder:
        given = [name for name in ("id", "name", "username") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("expected one of id, name and username")
        return self


class OpsgenieReceiver(HttpReceiver):
    """Opsgenie's Alert API, or that of Jira Service Management behind the same address."""

    kind: Literal["opsgenie"] = "opsgenie"
    api_key: SecretStr | None = None
    api_key_file: AnchoredPath | None = None
    url: str = "https://api.opsgenie.com/"
    """https://api.eu.opsgenie.com/ in the EU."""
    responders: tuple[Responder, ...] = Field(default=(), max_length=50)
    tags: TextList = Field(default=(), max_length=18)

    NEEDED = ("api_key",)
    SECRETS = ("api_key",)

    @field_validator("tags")
    @classmethod
    def _short(cls, tags: tuple[str, ...]) -> tuple[str, ...]:
        for tag in tags:
            if not tag or len(tag) > 50 or not tag.isprintable():
                raise ValueError("expected tags of one line, 1 to 50 characters each")
        return tags


_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253}[A-Za-z0-9])?")


def _address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise ValueError("expected an address such as ops@example.org, without a name beside it")
    return value


class EmailReceiver(CertifiedReceiver):
    """E-mail through a smarthost."""

    kind: Literal["email"] = "email"
    smarthost: str
    """host:port; 587 where it names no port, 465 with `tls: on connect`."""
    from_: str = Field(alias="from")
    to: TextList = Field(min_length=1, max_length=100)
    tls: Literal["starttls", "on connect", "none"] = "starttls"
    username: str | None = None
    password: SecretStr | None = None
    password_file: AnchoredPath | None = None
    hello: str | None = None

    SECRETS = ("password",)
    _sender = field_validator("from_")(_address)
    _named = field_validator("hello")(_line)

    @field_validator("to")
    @classmethod
    def _addresses(cls, to: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_address, to))

    @field_validator("smarthost")
    @classmethod
    def _host_and_port(cls, smarthost: str) -> str:
        match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?", smarthost)
        if match is None or (match[2] is not None and not 0 < int(match[2]) < 65536):
            raise ValueError("expected host or host:port")
        return smarthost

    @model_validator(mode="after")
    def _safe_login(self) -> EmailReceiver:
        has_password = self.password is not None or self.password_file is not None
        if has_password != (self.username is not None):
            raise ValueError("expected username and password_file together, or neither")
        if has_password and self.tls == "none":
            raise ValueError("tls: none with a password, which would travel readably; expected starttls or on connect")
        return self


class AppriseReceiver(CertifiedReceiver):
    """One that the optional package apprise tells; `url` is an address of its form."""

    kind: Literal["apprise"] = "apprise"
    timeout_ms: DurationMs = Field(default=30_000, ge=1_000)
    url: SecretStr | None = None
    url_file: AnchoredPath | None = None

    NEEDED = ("url",)
    SECRETS = ("url",)


KINDS: tuple[type[Receiver], ...] = (
    WebhookReceiver,
    AlertmanagerReceiver,
    SlackReceiver,
    TeamsReceiver,
    PagerDutyReceiver,
    OpsgenieReceiver,
    EmailReceiver,
    AppriseReceiver,
)
BY_KIND: dict[str, type[Receiver]] = {str(kind.model_fields["kind"].default): kind for kind in KINDS}

SECRET_URLS = frozenset({"slack", "teams", "apprise"})
"""Kinds whose address is nothing but a secret."""


def kind_of(value: Any) -> str:
    """The kind of a receiver's settings."""
    kind = value.get("kind", DEFAULT_KIND) if isinstance(value, dict) else getattr(value, "kind", DEFAULT_KIND)
    return str(kind)


AnyReceiver = Annotated[
    Annotated[WebhookReceiver, Tag("webhook")]
    | Annotated[AlertmanagerReceiver, Tag("alertmanager")]
    | Annotated[SlackReceiver, Tag("slack")]
    | Annotated[TeamsReceiver, Tag("teams")]
    | Annotated[PagerDutyReceiver, Tag("pagerduty")]
    | Annotated[OpsgenieReceiver, Tag("opsgenie")]
    | Annotated[EmailReceiver, Tag("email")]
    | Annotated[AppriseReceiver, Tag("apprise")],
    Discriminator(
        kind_of,
        custom_error_type="receiver_kind",
        custom_error_message=f"expected a kind of receiver: {', '.join(BY_KIND)}",
    ),
]

__all__ = [
    "BY_KIND",
    "SECRET_URLS",
    "AlertmanagerReceiver",
    "AnyReceiver",
    "AppriseReceiver",
    "EmailReceiver",
    "HttpReceiver",
    "OpsgenieReceiver",
    "PagerDutyReceiver",
    "Receiver",
    "SlackReceiver",
    "TeamsReceiver",
    "UrlReceiver",
    "WebhookReceiver",
    "kind_of",
]
