"""One dashboard and one browser for all tests; every visitor has a window without a past."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from app.config import load_settings
from app.replay.demo import DemoResult, with_demo_parameters
from app.replay.recording import Manifest, Recording
from app.settings import Settings
from tests.browser import hostile, site
from tests.browser.site import Visitor

OwnVisitor = Callable[..., Visitor]


@dataclass(frozen=True)
class Site:
    """A running dashboard over the demo's store, to which alerts that fire and hostile names were added."""

    url: str
    store_folder: Path
    settings: Settings
    manifest: Manifest
    summary: Mapping[str, Any]
    alert_of: Mapping[str, str]
    """Ids of the alerts that fire, by job."""

    @property
    def found(self) -> list[Mapping[str, Any]]:
        """The alerts that found the demo's faults."""
        return [row["alert"] for row in self.summary["ground_truth"]["found"]]


@pytest.fixture(scope="session")
def served(chromium: str, demo: DemoResult, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The dashboard, over a copy of the demo's store."""
    folder = tmp_path_factory.mktemp("browser") / "store"
    shutil.copytree(demo.store_directory, folder)
    settings = with_demo_parameters(load_settings(site.ROOT / "config.yaml", {}))
    recording = Recording.open(demo.store_directory.parent / "recording/recording", Path(), settings.replay)
    alert_of = hostile.add_alerts(folder, settings, recording.manifest.ended_ms)
    hostile.add_events(folder, settings, recording.manifest.ended_ms)
    hostile.add_reports(folder)
    with site.dashboard(folder) as url:
        yield Site(url, folder, settings, recording.manifest, demo.summary, alert_of)


@pytest.fixture(scope="session")
def windows(browser: Browser) -> site.Windows:
    """Those of all tests; they end with the browser."""
    return site.Windows(browser)


@pytest.fixture
def visitor(windows: site.Windows, served: Site) -> Iterator[OwnVisitor]:
    """Makes visitors, each with a window of their own that has no past; in the end all must be at ease."""
    expect.set_options(timeout=site.WAIT_MS)
    with ExitStack() as visits:
        yield lambda **window: visits.enter_context(windows.visit(served.url, **window))
    expect.set_options(timeout=5_000)
