"""A timeline server made of answers that one of Hadoop 3.4.2 gave: it selects applications as that does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from collectors.base import SourceUnavailableError
from collectors.network.http import Answer
from collectors.rest.yarn_timeline import YarnTimelineCollector, YarnTimelineOptions

RECORDED = Path(__file__).parents[2] / "fixtures" / "yarn_timeline" / "applications.json"
"""Of six MapReduce jobs: one was killed, of one a map used too much memory, of one the master was killed. Its
ResourceManager kept two applications."""
APPS = "/ws/v1/applicationhistory/apps"
URL = "http://ats:8188"

FIRST_END_MS = 1_795_806_871_471
LAST_END_MS = 1_795_807_336_430
AFTER_MS = LAST_END_MS + 60_000
KILLED, GREEDY, KILLED_MASTER = (f"application_1795806762812_000{n}" for n in (2, 3, 5))


class Timeline:
    """A transport; `documents` may be changed: path -> (status, body)."""

    def __init__(self, documents: Mapping[str, tuple[int, Any]] | None = None) -> None:
        told = json.loads(RECORDED.read_text(encoding="utf-8"))
        recorded = {path: (answer["status"], answer["body"]) for path, answer in told.items()}
        self.documents: dict[str, tuple[int, Any]] = deepcopy(dict(recorded if documents is None else documents))
        self.failures: dict[str, Exception] = {}
        self.asked: list[str] = []

    @property
    def apps(self) -> list[dict[str, Any]]:
        """The applications that it lists."""
        listed: list[dict[str, Any]] = self.documents[APPS][1]["app"]
        return listed

    def app(self, application_id: str) -> dict[str, Any]:
        """One of them."""
        return next(app for app in self.apps if app["appId"] == application_id)

    def containers(self, application_id: str, attempt: int = 1) -> list[dict[str, Any]]:
        """Those of one of its masters."""
        attempt_id = f"{application_id.replace('application', 'appattempt')}_{attempt:06}"
        path = f"{APPS}/{application_id}/appattempts/{attempt_id}/containers"
        listed: list[dict[str, Any]] = self.documents[path][1]["container"]
        return listed

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        """As collectors.network.http.Transport."""
        self.asked.append(path)
        if path in self.failures:
            raise self.failures[path]
        parts = urlsplit(path)
        status, body = self.documents.get(parts.path, (404, {"exception": "NotFoundException"}))
        if parts.path == APPS and isinstance(body, dict) and isinstance(body.get("app"), list):
            asked = parse_qs(parts.query)
            states, begin_ms = asked["states"][0].split(","), int(asked["finishedTimeBegin"][0])
            body = {"app": [app for app in body["app"] if _selected(app, states, begin_ms)]}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return Answer(base_url + path, status, "application/json;charset=utf-8", data, now_ms)


def _selected(app: Any, states: list[str], begin_ms: int) -> bool:
    if not isinstance(app, dict) or not isinstance(app.get("finishedTime"), int):
        return True
    return app.get("appState") in states and app["finishedTime"] >= begin_ms


def collector(timeline: Timeline, **options: Any) -> YarnTimelineCollector:
    """One that asks it, for all that it knows unless `lookback_ms` says otherwise."""
    return YarnTimelineCollector(YarnTimelineOptions(URL, **{"lookback_ms": 3_600_000, **options}), timeline)


def down() -> SourceUnavailableError:
    """It does not answer."""
    return SourceUnavailableError("connection refused")
