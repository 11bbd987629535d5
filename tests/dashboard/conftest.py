"""A store with alerts, written by the real recorder, that the pages of a test read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner

from app.alerting.catalog import QueryInfo
from app.alerting.recording.evidence import KnownEvent
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.config import load_settings
from app.live.assembly import open_configured_store
from app.settings import Severity, WebhookReceiver
from app.store import Store, open_store
from dashboard import on_sight
from dashboard.queries import panel
from tests.app.alerting_fixtures import FakeMatch
from tests.app.conftest import compiled_kernels
from tests.new_store import closed_file, placed

__all__ = ["compiled_kernels"]  # a fixture

T0_MS = 1_700_000_000_000
"""2023-11-14T22:13:20Z."""

RUNBOOK = "Look at `host`; **then**:\n\n- its disks\n- [its network](javascript:alert(1)) <b>x</b> :red[y] $z$"

HOSTILE = (
    "<script>alert(1)</script>",
    "[x](javascript:alert(1))",
    ":red[x] :smile: :material/star:",
    "$\\LaTeX$ $$x$$",
    "two\nlines\r\n# three",
    "x" * 10_000,
    "abc\u202edcb",
    "nul\x00 half\ud800",
    "`code` **bold** ~~no~~ | a | b |",
    "http://evil.example www.evil.example a@evil.example",
    "-> <- -- >= &lt;b&gt; &amp;",
    "שלום עולם (x)",
)


@pytest.fixture(scope="session", autouse=True)
def _packages_scanned_once() -> Iterator[None]:
    """A server looks for components in all installed packages when it starts; AppTest would for each page: 0.3 s."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        yield


@pytest.fixture(autouse=True)
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """How often the editor had a process made ready; none is, as nobody would end it."""
    times: list[None] = []
    monkeypatch.setattr(panel, "prepare", lambda: times.append(None))
    return times


@pytest.fixture(autouse=True)
def all_in_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are looked at to their ends: there is no window whose place could be told."""
    monkeypatch.setattr(on_sight, "was_seen", lambda _key: True)


@dataclass(frozen=True)
class Raised:
    """A store with alerts of the query `slow` (a warning) and `stuck` (critical)."""

    folder: Path
    store: Store

    def record(self, *matches: FakeMatch, watermark_ms: int, now_ms: int, lookup: Any = None) -> None:
        """A step with these matches."""
        with self.store.transaction() as writer:
            Recorder(_options(), writer, lookup or evidence, now_ms).live(matches, watermark_ms)

    def configure(self, text: str) -> None:
        """More of config.yaml."""
        (self.folder / "config.yaml").write_text(f"store: {{directory: data}}\n{text}\n", encoding="utf-8")


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Raised]:
    """Settings and a store in which nothing ever happened."""
    placed(tmp_path / "data" / "clustercep.db")
    with _opened(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised_once: bytes) -> Iterator[Raised]:
    """Three alerts that fire (two warnings, one critical) and one that is over."""
    database = tmp_path / "data" / "clustercep.db"
    database.parent.mkdir()
    database.write_bytes(raised_once)
    with _opened(tmp_path, monkeypatch) as found:
        yield found


@contextmanager
def _opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Raised]:
    """The store in this folder, which the settings name."""
    st.cache_resource.clear()
    st.cache_data.clear()
    config = folder / "config.yaml"
    config.write_text("store: {directory: data}\n", encoding="utf-8")
    monkeypatch.setenv("CLUSTERCEP_CONFIG", str(config))
    monkeypatch.delenv("CLUSTERCEP_STORE", raising=False)
    with open_configured_store(load_settings(config), durable=False) as store:
        yield Raised(folder, store)


@pytest.fixture(scope="session")
def raised_once(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of the store with these alerts: written once, by the real recorder, then copied for each test."""
    folder = tmp_path_factory.mktemp("raised")
    path = folder / "store.db"
    with open_store(placed(path), durable=False) as store:
        of_all = Raised(folder, store)
        of_all.record(match(1, 0), watermark_ms=T0_MS, now_ms=T0_MS + 1)
        of_all.record(match(2, 100_000), watermark_ms=T0_MS + 100_000, now_ms=T0_MS + 100_001)
        of_all.record(match(3, 101_000, confidence=0.87, count=12, count_exact=False), watermark_ms=T0_MS + 100_000,
                      now_ms=T0_MS + 101_001)  # fmt: skip
        of_all.record(match(4, 102_000, query="stuck"), watermark_ms=T0_MS + 100_000, now_ms=T0_MS + 102_001)
    return closed_file(path)


def match(n: int, after_ms: int, **changes: Any) -> FakeMatch:
    """A match about the n-th task, on host n of job n."""
    start_ms = T0_MS + after_ms
    values = {"task_id": f"t{n}", "job_id": f"job_1_{n:04d}", "host": f"node{n}", "period_ms": 61_000}
    given = {"key": (("task_id", f"t{n}"),), "values": values, **changes}
    return FakeMatch(start_ms, start_ms + 1_000, **given)


def evidence(ids: Sequence[str]) -> dict[str, KnownEvent]:
    """One exact event and intervals, with lines."""
    return {
        event_id: KnownEvent(
            event_id,
            "MapStart" if i == 0 else "LoadStd",
            T0_MS + i * 1_000,
            T0_MS + i * 1_000 + (0 if i == 0 else 900),
            {"host": f"node{i}"},
            f"/logs/{event_id}.log:{i}",
            f"line of {event_id}",
        )
        for i, event_id in enumerate(ids)
    }


def _options() -> AlertingOptions:
    queries = {
        "slow": QueryInfo("slow", "h1", Severity.WARNING, "{task_id} took {period_ms}", 10, runbook=RUNBOOK),
        "stuck": QueryInfo("stuck", "h2", Severity.CRITICAL, "{task_id} stands still", 10, runbook="Kill it."),
    }
    ops = WebhookReceiver.model_validate({"url": "http://127.0.0.1:9/hook"})
    return AlertingOptions(queries, {"ops": ops}, max_age_ms=10**15)
