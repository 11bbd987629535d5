"""Pages of the dashboard in headless Chromium over a store of 1,000,000 alerts, and over one of 1,000 in the same run.

    CLUSTERCEP_BENCH_ALERTS=1000000    how many alerts the large store has
    CLUSTERCEP_BENCH_SMALL=1000        how many the small one has; 0: none is measured
    CLUSTERCEP_BENCH_REPEATS=7         page loads per page; figures are their medians
    CLUSTERCEP_BENCH_COLD=1            of the large store each page once by a server that has just started; 0: none
    CLUSTERCEP_BENCH_PAGES=jobs,job    which pages, by the beginnings of their names; all by default

A load is what a colleague waits who opens an address: a new tab of 1440 x 900 pixels, until the page's script has run
and all that is in the window is drawn. Warm: another tab of this browser has shown the page before, so the server has
too. Cold: neither has the browser anything of the dashboard, nor has the server shown any page, nor are the database
and the events in the system's memory; the server has done what it does by itself when it starts. Beside each wall time
stand the processor time of the server and the that of the page's own thread in the browser, which are what
to compare on a machine that others use, and what came over the websocket. "A word" is a script of Streamlit's own that
shows one: what no page can fall below. The stores are those of `store_pages`, the events those of `large_log`. "First
rows" is what a viewer waits at the editor: from the press of Run, with the page open for some seconds, until rows of a
query over all events stand there; "from computed to shown" is that without the worker's time.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from playwright.sync_api import BrowserContext, CDPSession, Playwright, ViewportSize, sync_playwright

from app.commands.dashboard import free_port
from app.event_log import EventLogReader
from app.store.api import AlertFilter, Store, open_store
from benchmarks.measure import resident_mib, show, size
from benchmarks.pages.store_pages import INCIDENT, NOW_MS, large_store
from benchmarks.workloads.large_log import commit, large_log
from collectors.time_units import DAY_MS, HOUR_MS

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
WAIT_MS = 120_000
LOOK_MS = 20
WINDOW: ViewportSize = {"width": 1440, "height": 900}
WORD = "a word"
FIRST_ROW = re.compile(r"the first came after ([\d.]+) s")
ROWS, SHOWN = "first rows", "first rows, from computed to shown"
EDITED = (
    "PATTERN MapEnd a\nWHERE skip_till_any_match { a.period_ms > 0 }\nWITHIN 1 second\nRETURN a.host, a.period_ms\n"
)
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


DRAWN = """() => {
  const app = document.querySelector('[data-testid=stApp]');
  const seen = (element) => {
    const at = element.getBoundingClientRect();
    return at.width > 0 && at.top < innerHeight && at.bottom > 0;
  };
  const all = (chosen) => [...document.querySelectorAll(chosen)].filter(seen);
  return app?.dataset.testScriptState === 'notRunning' && document.querySelector('h1') !== null
    && !all('[data-testid=stSkeleton], [class*=st-key-unseen-]').length
    && all('[data-testid=stVegaLiteChart]').every((chart) => chart.querySelector('svg, canvas'));
}"""
"""Whether the page stands still under its heading, and what is in the window is drawn."""


class Load(NamedTuple):
    """What one took, in seconds: as the browser sees it, of the server's processor, of the page's thread in the
    browser; and how much the server sent over the websocket."""

    wall_s: float
    cpu_s: float
    browser_s: float
    sent_kb: float


def main() -> dict[str, Any]:
    """Measure both stores, print a table, return the figures."""
    repeats, figures = size("REPEATS", 7), {}
    if shutil.which("chromium") is None:
        raise SystemExit("no chromium on the PATH; deploy/setup/for-tests.sh installs it")
    n_large = size("ALERTS", 1_000_000)
    with sync_playwright() as playwright:
        for n_alerts in dict.fromkeys((size("SMALL", 1_000), n_large)):
            if n_alerts:
                is_cold = bool(n_alerts == n_large and size("COLD", 1))
                figures[f"{n_alerts} alerts"] = _measure(playwright, n_alerts, repeats, is_cold)
    for name, found in figures.items():
        rows = [
            [page, *(value for kind in ("warm", "cold") if kind in loads for value in loads[kind])]
            for page, loads in found["pages"].items()
        ]
        parts = ("server, s", "browser, s", "sent, KB")
        columns = ("page", "warm, s", *parts, "cold, s", *parts)
        show(f"{name}: from the address to the page, and the server's part of it", columns[: len(rows[0])], rows)
        print(f"the server's memory: {found['server_mib']} MiB; load {found['load']}")
    return figures


def _measure(playwright: Playwright, n_alerts: int, repeats: int, is_cold: bool) -> dict[str, Any]:
    folder = _folder_of(large_store(n_alerts).resolve())
    addresses = _chosen(_addresses(folder))
    loads: dict[str, dict[str, Load]] = {page: {} for page in addresses}
    with _dashboard(folder) as (url, pid):
        with _context(playwright) as context:
            for page, address in addresses.items():
                loads[page]["warm"] = _warm(context, page, f"{url}{address}", pid, repeats)
        if "editor" in addresses:
            both = [_edited(playwright, f"{url}editor", pid) for _ in range(min(3, repeats))]
            loads[ROWS] = {"warm": _told(ROWS, "warm", [run for run, _ in both])}
            loads[SHOWN] = {"warm": _told(SHOWN, "warm", [shown for _, shown in both])}
        server_mib = round(resident_mib(pid), 1)
    for page, address in addresses.items() if is_cold else ():
        _forget(folder)
        with _dashboard(folder) as (url, pid), _context(playwright) as context:
            _wait_until_idle(pid)
            loads[page]["cold"] = _told(page, "cold", [_load(context, f"{url}{address}", pid)])
    loads[WORD] = {}
    with _one_word(folder) as (url, pid), _context(playwright) as context:
        if is_cold:
            loads[WORD]["cold"] = _told(WORD, "cold", [_load(context, url, pid)])
        loads[WORD]["warm"] = _warm(context, WORD, url, pid, repeats)
    return {"pages": loads, "server_mib": server_mib, "load": os.getloadavg()}


def _warm(context: BrowserContext, page: str, address: str, pid: int, repeats: int) -> Load:
    _load(context, address, pid)
    return _told(page, "warm", [_load(context, address, pid) for _ in range(repeats)])


def _told(page: str, kind: str, loads: list[Load]) -> Load:
    """Their medians; told at once, as all pages take a quarter of an hour."""
    found = Load(*(round(statistics.median(times), 3) for times in zip(*loads, strict=True)))
    told = f"{found.wall_s} s, of the server's processor {found.cpu_s} s, of the browser's {found.browser_s} s"
    print(f"{page}, {kind}: {told}, {found.sent_kb} KB; load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    return found


def _folder_of(file: Path) -> Path:
    """A store's folder with the database and the events."""
    folder = file.with_suffix("")
    folder.mkdir(exist_ok=True)
    own = folder / "clustercep.db"
    own.unlink(missing_ok=True)
    os.link(file, own)
    large_log(folder.parent / "events", NOW_MS)
    events = folder / "events"
    if not events.is_symlink():
        events.symlink_to(folder.parent / "events")
    with open_store(f"sqlite:///{own}") as store:
        commit(store)
    return folder


def _addresses(folder: Path) -> dict[str, str]:
    """By the names of pages."""
    with open_store(f"sqlite:///{folder / 'clustercep.db'}") as store:
        alert = store.alerts(AlertFilter(limit=1, to_ms=NOW_MS - DAY_MS))[0]
        incident = _largest_incident(store)
        log = EventLogReader(folder / "events", store.event_log_positions)
        ends = log.read(types=("MapEnd",), columns=("job_id",)).column("job_id").value_counts().to_pylist()
    by_size = sorted((end["counts"], end["values"]) for end in ends)
    hour = f"from={NOW_MS - HOUR_MS}&to={NOW_MS}"
    return {
        "alerts": "alerts",
        "alerts of one query": f"alerts?query={alert.query}",
        "alerts of one day": f"alerts?from={NOW_MS - 31 * DAY_MS}&to={NOW_MS - 30 * DAY_MS}",
        "alerts of one host": "alerts?host=node1",
        "alerts of one severity": "alerts?severity=info",
        "alerts that say a word": "alerts?text=node17",
        "alerts that say what none does": "alerts?text=nothing-says-so",
        "one alert": f"alert?id={alert.id}",
        "an incident of many": f"alert?id={incident}",
        "jobs": "jobs",
        "job": f"job?id={by_size[len(by_size) // 2][1]}",
        "job, the largest": f"job?id={by_size[-1][1]}",
        "cluster": "cluster",
        "cluster, one host": f"cluster?{hour}&host=node7",
        "cluster, all that is known": f"cluster?from={NOW_MS - DAY_MS}&to={NOW_MS}",
        "reports": "reports",
        "queries": "queries",
        "query": f"query?name={alert.query}",
        "editor": "editor",
        "health": "health",
    }


def _largest_incident(store: Store) -> str:
    """Among the latest."""
    found = store.alerts(AlertFilter(queries=(INCIDENT,), limit=500))
    members = store.members_of([alert.id for alert in found])
    return max(members, key=lambda alert_id: len(members[alert_id]))


def _chosen(addresses: dict[str, str]) -> dict[str, str]:
    wanted = tuple(filter(None, os.environ.get("CLUSTERCEP_BENCH_PAGES", "").split(",")))
    return {page: address for page, address in addresses.items() if not wanted or page.startswith(wanted)}


def _forget(folder: Path) -> None:
    """Let the system forget what it keeps in memory of the store: of nothing else."""
    for path in (folder / "clustercep.db", *(folder / "events").iterdir()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def _context(playwright: Playwright) -> Iterator[BrowserContext]:
    """A browser that knows nothing yet, with a profile on the disk: as that of users it keeps what it has compiled."""
    with TemporaryDirectory() as profile:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=shutil.which("chromium"), args=list(FLAGS), headless=True
        )
        context.set_default_timeout(WAIT_MS)
        yield context
        context.close()


def _load(context: BrowserContext, address: str, pid: int) -> Load:
    """Until all that is in the window is drawn."""
    page = context.new_page()
    page.set_viewport_size(WINDOW)
    received: list[int] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda data: received.append(len(data))))
    thread = context.new_cdp_session(page)
    thread.send("Performance.enable")
    started, cpu_s = time.perf_counter(), _processor_s(pid)
    page.goto(address)
    page.wait_for_function(DRAWN, polling=LOOK_MS)
    seconds = time.perf_counter() - started
    cpu_s, browser_s = _processor_s(pid) - cpu_s, _busy_s(thread)
    if page.get_by_test_id("stException").count() or page.get_by_text("This page cannot be shown").count():
        raise SystemExit(f"{address}: the page shows an error")
    page.close()
    return Load(seconds, cpu_s, browser_s, sum(received) / 1000)


def _busy_s(thread: CDPSession) -> float:
    """Processor time of the page's thread, which is a new one for each tab."""
    found = {metric["name"]: metric["value"] for metric in thread.send("Performance.getMetrics")["metrics"]}
    return float(found["ThreadTime"])


def _edited(playwright: Playwright, address: str, pid: int) -> tuple[Load, Load]:
    """From the press of Run to the first rows; and the same without the time that the worker took for the first one,
    by what the page says: at most so long after it was computed it is on the page."""
    with _context(playwright) as context:
        page = context.new_page()
        page.goto(address)
        page.get_by_role("textbox", name="Text of the query").fill(EDITED)
        page.get_by_role("status").filter(has_text="Valid. It reads MapEnd").wait_for()
        page.wait_for_timeout(5_000)  # as long as it takes to write one
        thread = context.new_cdp_session(page)
        thread.send("Performance.enable")
        started, cpu_s, busy_s = time.perf_counter(), _processor_s(pid), _busy_s(thread)
        page.get_by_test_id("stMainBlockContainer").get_by_role("button", name="Run").click()
        caption = page.get_by_text(re.compile(r"^(The first [\d,]+ of )?[\d,]+ rows (so far|from [\d,]+ events)")).first
        caption.wait_for()
        ended, cpu_s, busy_s = time.perf_counter(), _processor_s(pid) - cpu_s, _busy_s(thread) - busy_s
        told = FIRST_ROW.search(caption.inner_text())
        first_s = float(told[1]) if told else 0.0
        return Load(ended - started, cpu_s, busy_s, 0.0), Load(ended - started - first_s, cpu_s, busy_s, 0.0)


def _wait_until_idle(pid: int) -> None:
    before = -1.0
    while (now := _processor_s(pid)) != before:
        before = now
        time.sleep(1.0)


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


@contextmanager
def _dashboard(folder: Path) -> Iterator[tuple[str, int]]:
    """Its address, and the process of its server."""
    command = [sys.executable, "-c", "from app.cli import main; main()", "dashboard"]
    command += ["--store", str(folder), "--port", str(free_port("127.0.0.1"))]
    with _server(command, "Dashboard: ") as (process, address):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield address, int(children[0])


@contextmanager
def _one_word(folder: Path) -> Iterator[tuple[str, int]]:
    """As `_dashboard`."""
    script = folder / "word.py"
    script.write_text('import streamlit as st\n\nst.title("Word")\n')
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.headless", "true"]
    command += ["--server.address", "127.0.0.1", "--server.port", str(free_port("127.0.0.1"))]
    with _server(command, "  URL: ") as (process, address):
        yield address, process.pid


@contextmanager
def _server(command: list[str], announced: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Once it has said its address."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next((line for line in process.stdout if line.startswith(announced)), None)
            if line is None:
                raise SystemExit(f"{command}: ended with {process.wait()} before it answered")
            yield process, line.removeprefix(announced).strip()
        finally:
            process.terminate()
            process.communicate()  # it has a last word, which somebody must read
