"""`clustercep dashboard`: the Streamlit pages in a process of their own, with our signals and its exit code."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from app.alerting.people import Role
from app.chosen_store import STORE_VARIABLE
from app.config import CONFIG_VARIABLE, DEFAULT_FILE
from app.errors import AppError
from app.process.child_process import passing_signals_on
from app.process.signals import exit_code
from app.settings import ENV_PREFIX, DashboardSettings, Settings
from collectors.network.http_attempt import AttemptLimits, AttemptSession, attempt

_LOOK = AttemptLimits(total_s=2.0, connect_s=2.0, silence_s=2.0, max_body_bytes=1 << 16)

_WAIT_S = 0.2
"""Between two looks whether the pages answer."""

OPTIONS: Mapping[str, Any] = {
    "server.headless": True,
    "server.fileWatcherType": "none",
    "server.showEmailPrompt": False,
    "server.maxUploadSize": 1,
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "viewer",
    "client.showErrorDetails": "type",
    "client.showErrorLinks": "false",
    "runner.magicEnabled": False,
    "logger.level": "warning",
    "theme.headingFontSizes": ["1.65rem", "1.3rem", "1.15rem", "1rem"],
    "theme.light.textColor": "#0b0d10",  # captions have six tenths of it, which is 4.5 : 1 on grey ground, too
    "theme.light.primaryColor": "#1f5f99",
    "theme.light.linkColor": "#1f5f99",
    "theme.dark.primaryColor": "#6fb1ea",  # as text; buttons have a ground of their own (`dashboard.looks`)
    "theme.dark.linkColor": "#6fb1ea",
}
"""Of Streamlit, whatever the settings: nothing is sent to anybody; what a defect is about stands in the log alone."""


@dataclass(frozen=True)
class Place:
    """Where the pages are to be found."""

    address: str
    port: int
    base_path: str
    """Without slashes at its ends; empty for the root."""

    @property
    def url(self) -> str:
        """What a browser on this machine opens."""
        path = f"{self.base_path}/" if self.base_path else ""
        return f"http://{_bracketed(_reached_at(self.address))}:{self.port}/{path}"


def place_of(settings: DashboardSettings, port: int | None = None) -> Place:
    """Where the settings want it, `port` before them."""
    return Place(settings.address, settings.port if port is None else port, settings.base_path.strip("/"))


def run_dashboard(
    settings: Settings,
    *,
    config: Path | None = None,
    store_folder: Path | None = None,
    port: int | None = None,
    announce: Callable[[str], None],
) -> int:
    """Run the pages until they end (or a signal ends them); returns their exit code.

    `announce` is given lines to print, the URL once it answers. Raises AppError when they cannot be started.
    """
    place = place_of(settings.dashboard, port)
    check_port(place)
    if not _is_loopback(place.address) and not settings.dashboard.login:
        role = settings.dashboard.anonymous_role
        acts = ", and can silence alerts" if role not in (None, Role.VIEWER) else ""
        announce(
            f"Whoever reaches {place.address} sees everything{acts}: dashboard.login is off; see docs/operations.md."
        )
    with _started(settings, place, environment(settings, config, store_folder)) as process:
        if _answers(place, process):
            announce(f"Dashboard: {place.url}")
        code = process.wait()
    return exit_code(code)


def command(settings: Settings, place: Place) -> list[str]:
    """What is started."""
    options = {
        **OPTIONS,
        "server.address": place.address,
        "server.port": place.port,
        "server.baseUrlPath": place.base_path,
        "server.allowedHosts": hosts(settings, place),
    }
    return [sys.executable, "-m", "dashboard", json.dumps(options)]


def environment(settings: Settings, config: Path | None, store_folder: Path | None) -> dict[str, str]:
    """The same configuration for the pages; `store_folder` names another store, with these settings' parameters."""
    chosen = (config or Path(os.environ.get(CONFIG_VARIABLE, DEFAULT_FILE))).absolute()
    given = {**os.environ, CONFIG_VARIABLE: str(chosen)}
    if store_folder is not None:
        given[STORE_VARIABLE] = str(store_folder.absolute())
        given[f"{ENV_PREFIX}QUERIES__PARAMETERS"] = json.dumps(settings.queries.parameters)
    return given


def hosts(settings: Settings, place: Place) -> list[str]:
    """Names that browsers may call the server by: a page of somebody else's name is not let in (DNS rebinding)."""
    external = urlsplit(settings.alerting.external_url).hostname
    named = ["127.0.0.1", "::1", "localhost", external, *settings.dashboard.allowed_hosts]
    if not _is_any(place.address):
        named.append(place.address)
    return list(dict.fromkeys(name for name in named if name))


def check_port(place: Place) -> None:
    """Raises AppError when the port cannot be listened on."""
    remedy = "stop what listens there, or name another one with --port or dashboard.port"
    try:
        found = socket.getaddrinfo(place.address, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found[:1]:
            with socket.socket(family, kind, protocol) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(address)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise AppError(f"dashboard: port {place.port} of {place.address}: {reason.lower()}; {remedy}") from None


def free_port(address: str) -> int:
    """A port of the address that nobody listens on."""
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
        return int(server.getsockname()[1])


@contextmanager
def _started(settings: Settings, place: Place, given: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The process, with our signals passed on; it never outlives the block."""
    words = command(settings, place)
    # A session of its own: a Ctrl-C reaches it once, through us.
    process = subprocess.Popen(words, env=dict(given), stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603  # our words
    with passing_signals_on(process):
        yield process


def _answers(place: Place, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the pages answer; False when the process ends instead."""
    while process.poll() is None:
        try:
            with AttemptSession() as session:
                if attempt(session, "GET", f"{place.url}_stcore/health", _LOOK).status < HTTPStatus.MULTIPLE_CHOICES:
                    return True
        except requests.RequestException:
            pass  # not yet
        try:
            process.wait(_WAIT_S)
        except subprocess.TimeoutExpired:
            continue
    return False


def _reached_at(address: str) -> str:
    if not _is_any(address):
        return address
    return "::1" if ":" in address else "127.0.0.1"


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _is_any(address: str) -> bool:
    return address in ("", "0.0.0.0", "::")  # noqa: S104  # recognised, not bound


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
