"""Daemons made of recorded answers: a transport that selects beans as `/jmx` does."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from collectors.base import SourceUnavailableError
from collectors.jmx.jmx import JmxCollector, JmxOptions
from collectors.network.http import Answer, HttpOptions, Transport

RECORDED = Path(__file__).parents[2] / "fixtures" / "jmx"
T0 = 1_795_484_000_000

URLS = {
    "NameNode": "http://nn1:9870",
    "DataNode": "http://node1:9864",
    "ResourceManager": "http://rm1:8088",
    "NodeManager": "http://node1:8042",
}


def recorded(kind: str) -> list[dict[str, Any]]:
    """Beans that a daemon of Hadoop 3.4.2 told, of those that are asked for."""
    beans: list[dict[str, Any]] = json.loads((RECORDED / f"{kind.lower()}.json").read_text(encoding="utf-8"))["beans"]
    return beans


class Daemon:
    """Answers `?qry=` and `?get=` from beans; `failure` in place of any answer; `pages` by path before all."""

    def __init__(self, beans: list[dict[str, Any]]) -> None:
        self.beans = beans
        self.failure: str | None = None
        self.pages: dict[str, tuple[int, bytes]] = {}
        self.asked: list[str] = []

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        """As collectors.network.http.Transport."""
        self.asked.append(path)
        if self.failure is not None:
            raise SourceUnavailableError(self.failure)
        status, body = self.pages.get(path, (200, b""))
        body = body or json.dumps({"beans": self._chosen(path)}).encode()
        return Answer(base_url + path, status, "application/json", body, now_ms)

    def bean(self, name: str) -> dict[str, Any]:
        """The one with this in its name, to be changed."""
        return next(bean for bean in self.beans if bean["name"].endswith(f"name={name}"))

    def _chosen(self, path: str) -> list[dict[str, Any]]:
        asked = parse_qs(urlsplit(path).query)
        if "qry" in asked:
            return [bean for bean in self.beans if _matches(bean["name"], asked["qry"][0])]
        name, _, attribute = asked["get"][0].partition("::")
        return [
            {"name": name, attribute: bean[attribute]}
            for bean in self.beans
            if bean["name"] == name and attribute in bean
        ]


def _matches(name: str, pattern: str) -> bool:
    """As javax.management.ObjectName: the same keys, others too where the pattern ends in `,*`; values with `*`."""
    keys = dict(part.split("=", 1) for part in name.split(":", 1)[1].split(","))
    wanted = dict(part.split("=", 1) for part in pattern.removesuffix(",*").split(":", 1)[1].split(","))
    if not (wanted.keys() <= keys.keys() if pattern.endswith(",*") else wanted.keys() == keys.keys()):
        return False
    return all(fnmatch.fnmatchcase(keys[key], value) for key, value in wanted.items())


def cluster(*kinds: str) -> dict[str, Daemon]:
    """By kind, as recorded."""
    return {kind: Daemon(recorded(kind)) for kind in kinds or URLS}


def collector_of(daemons: dict[str, Daemon], **options: Any) -> JmxCollector:
    """Over these daemons, by kind."""
    by_url = {URLS[kind]: daemon for kind, daemon in daemons.items()}
    connect: Callable[[str, HttpOptions], Transport] = lambda url, _http: by_url[url]  # noqa: E731
    return JmxCollector(JmxOptions({kind: (URLS[kind],) for kind in daemons}, **options), connect)
