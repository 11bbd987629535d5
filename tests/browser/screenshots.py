"""`python -m tests.browser.screenshots FOLDER`: pictures for the README, of the store that `clustercep demo` leaves."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import expect

from app.store.api import AlertFilter, open_store
from tests.browser import site
from tests.chromium import chromium_or_skip, started

STORE = site.ROOT / "build/demo/store"
WIDTH_PX = 1400
N_COLOURS = 256
"""Text and charts need no more, and the files stay small."""


def main(into: Path) -> None:
    """Write alert.png and cluster.png."""
    expect.set_options(timeout=site.WAIT_MS)
    with open_store(f"sqlite:///{STORE / 'clustercep.db'}") as store:
        (alert,) = store.alerts(AlertFilter(queries=("mapper-straggler-running",), limit=1))
    into.mkdir(parents=True, exist_ok=True)
    with started(chromium_or_skip()) as browser, site.dashboard(STORE) as url:
        for name, path, title, height in (
            ("alert", f"alert?id={alert.id}", "mapper attempt_", 1_260),
            ("cluster", "cluster", "Cluster", 1_400),
        ):
            with site.Windows(browser).visit(url, width=WIDTH_PX, height=height) as visitor:
                page = visitor.open(path, re.compile(title))
                visitor.reads("node6")
                expect(page.get_by_test_id("stVegaLiteChart").last.locator("svg")).to_be_visible()
                small = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
                small.quantize(N_COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
                    into / f"{name}.png", optimize=True
                )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
