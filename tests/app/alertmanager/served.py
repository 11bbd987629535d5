"""A store with alerts, and the API over it on loopback."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.alerting.catalog import QueryInfo
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.alertmanager.api import LIMITS
from app.alertmanager.listener import Listener, listening
from app.clock import Clock, SetClock
from app.process.serving.http_server import Limits
from app.settings import ApiSettings, Settings, Severity
from app.store import Store
from tests.app.alerting_fixtures import FakeMatch, kept

NOW_MS = 1_790_000_000_000
TOKEN = "b" * 32
VIEWER_TOKEN = "v" * 32
TOKENS = f"# who may ask\nmia operator {TOKEN}\nvic viewer {VIEWER_TOKEN}\n"
GAP_MS = 600_000
WAIT_S = 120.0


def infos() -> dict[str, QueryInfo]:
    """Two queries that alert, by task and by host."""
    slow = QueryInfo("slow", "h1", Severity.WARNING, "{task_id} took {period_ms} on {host}", GAP_MS, key=("task_id",))
    lost = QueryInfo("node-lost", "h2", Severity.CRITICAL, "{host} is lost", GAP_MS, key=("host",))
    return {"slow": slow, "node-lost": lost}


def slow(task: str, host: str, at_ms: int = NOW_MS - 60_000) -> FakeMatch:
    values = {"task_id": task, "host": host, "period_ms": 5_000}
    return FakeMatch(at_ms, at_ms + 1_000, key=(("task_id", task),), values=values)


def lost(host: str, at_ms: int = NOW_MS - 60_000) -> FakeMatch:
    return FakeMatch(at_ms, at_ms + 1_000, query="node-lost", key=(("host", host),), values={"host": host})


def fire(store: Store, *matches: FakeMatch, now_ms: int = NOW_MS - 30_000) -> None:
    """Alerts of these."""
    with store.transaction() as writer:
        Recorder(AlertingOptions(infos(), {}), writer, kept, now_ms).live(matches, 0)


def configured(**alerting: Any) -> Settings:
    """Settings with two receivers and a routing tree, unless others are given."""
    given = {
        "receivers": {"ops": {"url": "http://127.0.0.1:9/secret"}, "db": {"url": "http://127.0.0.1:9/secret"}},
        "route": {
            "receiver": "ops",
            "group_by": ["alertname"],
            "routes": [{"matchers": ['severity="critical"'], "receiver": "db", "group_wait": "90s"}],
        },
        "inhibit_rules": [
            {"source_matchers": ['alertname="node-lost"'], "target_matchers": ['alertname="slow"'], "equal": ["host"]}
        ],
    }
    return Settings.model_validate({"alerting": {**given, **alerting} if alerting != {"none": True} else {}})


@dataclass
class Reply:
    """What came back."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """The API while it runs."""

    listener: Listener
    store: Store
    clock: SetClock
    settings: list[Settings]

    @property
    def url(self) -> str:
        host, port = self.listener.address
        return f"{self.listener.scheme}://{host}:{port}"

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        return self.ask("GET", path, None, headers)

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Reply:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, dict(headers or {}), method=method)
        if data is not None and not request.has_header("Content-type"):
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                return Reply(answer.status, answer.read(), dict(answer.headers))
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, error.read(), dict(error.headers))

    def write(self, method: str, path: str, body: object = None, **headers: str) -> Reply:
        """As an operator."""
        return self.ask(method, path, body, {"Authorization": f"Bearer {TOKEN}", **headers})

    def alerts(self, query: str = "") -> list[dict[str, Any]]:
        found = self.get(f"/api/v2/alerts{query}")
        assert found.status == 200, found.body
        return found.json  # type: ignore[no-any-return]


def tokens_file(folder: Path, text: str = TOKENS) -> Path:
    file = folder / "tokens"
    file.write_text(text)
    file.chmod(0o600)
    return file


@contextmanager
def served(
    store: Store,
    folder: Path,
    *,
    limits: Limits | None = None,
    settings: Settings | None = None,
    clock: Clock | None = None,
    **section: Any,
) -> Iterator[Served]:
    """Listening on a free port of loopback; unless limits are given, a request may take as long as whoever asks waits:
    a busy machine may be slow."""
    given = {"port": 0, "tokens_file": tokens_file(folder), **section}
    now, set_clock = [settings or configured()], SetClock(NOW_MS)
    limits = limits or replace(LIMITS, request_s=WAIT_S)
    section_of = ApiSettings.model_validate(given)
    with listening(lambda: now[0], section_of, store, clock or set_clock, limits=limits) as listener:
        yield Served(listener, store, set_clock, now)


def values(alerts: Sequence[Mapping[str, Any]], label: str) -> list[str]:
    return sorted(alert["labels"].get(label, "") for alert in alerts)
