"""The kinds of receivers and what makes each of its settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.alerting.receivers.alertmanager import alertmanager_of
from app.alerting.receivers.mail import email_of
from app.alerting.receivers.opsgenie import opsgenie_of
from app.alerting.receivers.pagerduty import pagerduty_of
from app.alerting.receivers.service import Service
from app.alerting.receivers.settings import Receiver
from app.alerting.receivers.slack import slack_of
from app.alerting.receivers.teams import teams_of
from app.alerting.receivers.through_apprise import apprise_of
from app.alerting.receivers.webhook import webhook_of

Builder = Callable[[str, Any], Service]
"""Of the receiver's key in the configuration and its settings; raises ConfigError."""

BUILDERS: dict[str, Builder] = {
    "webhook": webhook_of,
    "alertmanager": alertmanager_of,
    "slack": slack_of,
    "teams": teams_of,
    "pagerduty": pagerduty_of,
    "opsgenie": opsgenie_of,
    "email": email_of,
    "apprise": apprise_of,
}


def service_of(key: str, receiver: Receiver) -> Service:
    """The service of a receiver, with its secrets read; raises ConfigError naming the key."""
    return BUILDERS[receiver.kind](key, receiver)


__all__ = ["BUILDERS", "service_of"]
