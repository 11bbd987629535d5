"""Exporters made of recorded answers, and a clock that moves as they answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from collectors.base import Collected, SourceUnavailableError
from collectors.network.http import Answer, HttpOptions
from collectors.prometheus.prometheus import PrometheusCollector, PrometheusOptions
from collectors.prometheus.readings import READINGS

RECORDED = Path(__file__).parents[2] / "fixtures" / "prometheus"
T0 = 1_795_693_010_724
STEP_MS = 15_052
"""Between the two recorded answers."""
ALL = tuple(READINGS.values())


def recorded(number: int = 1) -> str:
    """What node_exporter 1.5.0 told of this machine, 15 s apart (1 and 2), without most of its families."""
    return (RECORDED / f"node_exporter-{number}.txt").read_text(encoding="utf-8")


def changed(text: str, **values: float) -> str:
    """With other values in the lines of these metrics."""
    for metric, value in values.items():
        text, n = re.subn(rf"(?m)^({metric}(?:\{{[^}}]*\}})?) \S+$", rf"\g<1> {value}", text)
        assert n
    return text


class Exporter:
    """Answers with its text; `failure` in place of any answer; each answer takes `takes_s` of the clock."""

    def __init__(self, text: str, clock: Clock | None = None, takes_s: float = 0.0) -> None:
        self.text, self.clock, self.takes_s = text, clock, takes_s
        self.content_type = "text/plain; version=0.0.4; charset=utf-8"
        self.status, self.location = 200, ""
        self.failure: str | None = None
        self.n_requested = 0

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        """As collectors.network.http.Transport."""
        self.n_requested += 1
        if self.clock is not None:
            self.clock.seconds += self.takes_s
        if self.failure is not None:
            raise SourceUnavailableError(self.failure)
        return Answer(base_url + path, self.status, self.content_type, self.text.encode(), now_ms, self.location)


class RawExporter(Exporter):
    """Answers with bytes that may be no text."""

    def __init__(self, body: bytes, content_type: str) -> None:
        super().__init__("")
        self.body, self.content_type = body, content_type

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        """As Exporter."""
        return replace(super().get(base_url, path, now_ms), body=self.body)


class Clock:
    """Monotonic seconds, by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def collector_of(exporters: Mapping[str, Exporter], clock: Clock | None = None, **options: Any) -> PrometheusCollector:
    """Over these, by address (HOST:PORT); asked one after the other."""

    def connect(url: str, _http: HttpOptions) -> Exporter:
        return exporters[url.removeprefix("http://").removesuffix("/metrics")]

    given = {"targets": tuple(exporters), "readings": ALL, "n_workers": 1, **options}
    return PrometheusCollector(PrometheusOptions(**given), connect, clock or Clock())


def values(polled: Collected) -> dict[tuple[str, str], float]:
    """Value of each Metric by host and name."""
    return {(row["host"], row["name"]): row["value"] for row in polled.events.rows() if row["type"] == "Metric"}


def kinds(polled: Collected) -> list[str]:
    """Of the problems."""
    return [problem.kind for problem in polled.problems]
