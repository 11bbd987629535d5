"""The system's Chromium: where it is, how it is started, and what tests do where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

FLAGS = (
    "--no-sandbox",  # it is started by root in containers
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium_or_skip() -> str:
    """Its path. Without it the test is skipped, and fails with CI=true: nothing may pass there by being left out."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        reason = "there is no chromium on the PATH; deploy/setup/for-tests.sh installs it"
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    return path


@contextmanager
def started(path: str) -> Iterator[Browser]:
    """A headless browser with a profile of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
