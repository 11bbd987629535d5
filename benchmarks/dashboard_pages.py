"""Pages of the dashboard in headless Chromium over a store of 1,000,000 alerts, and over one of 1,000 in the same run.

    CLUSTERCEP_BENCH_ALERTS=1000000    how many alerts the large store has
    CLUSTERCEP_BENCH_REPEATS=7         page loads per page; figures are their medians

A load is what a colleague waits who opens an address: a new tab, until the page's script has run. The browser and the
server are warm; the first load of all is given apart. The stores are those of `store_pages`.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from app.commands.dashboard import free_port
from app.store.api import AlertFilter, open_store
from benchmarks.measure import resident_mib, show, size
from benchmarks.store_pages import NOW_MS, large_store
from collectors.time_units import DAY_MS

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
WAIT_MS = 120_000


def main() -> dict[str, Any]:
    """Measure both stores, print a table, return the figures."""
    repeats, figures = size("REPEATS", 7), {}
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no chromium on the PATH; deploy/setup/for-tests.sh installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for n_alerts in (1_000, size("ALERTS", 1_000_000)):
            figures[f"{n_alerts} alerts"] = _measure(browser, n_alerts, repeats)
        browser.close()
    small, large = figures.values()
    rows = [[page, small["pages"][page], seconds] for page, seconds in large["pages"].items()]
    show("seconds from the address to the page, median", ["page", *figures], rows)
    show("", ["", *figures], [[name, small[name], large[name]] for name in ("first_load_seconds", "server_mib")])
    return figures


def _measure(browser: Browser, n_alerts: int, repeats: int) -> dict[str, Any]:
    file = large_store(n_alerts).resolve()
    folder = file.with_suffix("")
    folder.mkdir(exist_ok=True)
    own = folder / "clustercep.db"
    own.unlink(missing_ok=True)
    os.link(file, own)
    with open_store(f"sqlite:///{own}") as store:
        alert = store.alerts(AlertFilter(limit=1, to_ms=NOW_MS - DAY_MS))[0]
    addresses = {
        "alerts": "alerts",
        "alerts of one query": f"alerts?query={alert.query}",
        "alerts of one day": f"alerts?from={NOW_MS - 31 * DAY_MS}&to={NOW_MS - 30 * DAY_MS}",
        "alerts of one host": "alerts?host=node1",
        "one alert": f"alert?id={alert.id}",
        "queries": "queries",
        "health": "health",
    }
    with _dashboard(folder) as (url, pid):
        first = _load(browser, f"{url}alerts")
        pages = {}
        for page, address in addresses.items():
            _load(browser, f"{url}{address}")
            pages[page] = round(statistics.median(_load(browser, f"{url}{address}") for _ in range(repeats)), 3)
        return {"pages": pages, "first_load_seconds": round(first, 3), "server_mib": round(resident_mib(pid), 1)}


def _load(browser: Browser, address: str) -> float:
    """Seconds until the page stands still under its heading."""
    context = browser.new_context()
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    started = time.perf_counter()
    page.goto(address)
    page.locator("h1").first.wait_for()
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
    seconds = time.perf_counter() - started
    if page.get_by_test_id("stException").count() or page.get_by_text("This page cannot be shown").count():
        raise SystemExit(f"{address}: the page shows an error")
    context.close()
    return seconds


@contextmanager
def _dashboard(folder: Path) -> Iterator[tuple[str, int]]:
    """Its address, and the process of its server."""
    command = [sys.executable, "-c", "from app.cli import main; main()", "dashboard"]
    command += ["--store", str(folder), "--port", str(free_port("127.0.0.1"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next((line for line in process.stdout if line.startswith("Dashboard: ")), None)
            if line is None:
                raise SystemExit(f"the dashboard ended with {process.wait()} before it answered")
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            yield line.removeprefix("Dashboard: ").strip(), int(children[0])
        finally:
            process.terminate()
