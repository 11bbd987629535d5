"""The list of alerts when nothing was found, and on a bad day: in wide and narrow windows, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.config import load_settings
from app.queries.loading import load_queries
from app.store.api import open_store
from tests.app.alerting_fixtures import FakeMatch
from tests.browser import site
from tests.browser.test_alert_list import CUT, rows, unreadable

N_ALERTS, PAGE_ROWS = 157, 50
NOW_MS = 1_795_178_134_302
QUERY = "mapper-straggler-running"
SCHEMES: tuple[Any, ...] = ("light", "dark")
WIDTHS = (1_440, 800)
FIRST_ALERT_PX = {1_440: 600, 800: 720}
"""Of a window 900 high: more than the first alert is to be seen without scrolling."""
LEAST_TITLE = 0.55
"""Of the width of a row."""
MISPLACED = """() => {
    const row = document.querySelector('.clustercep-alerts .row')?.getBoundingClientRect();
    const title = document.querySelector('ul[aria-label="Open alerts"] a')?.getBoundingClientRect();
    if (!row || !title) return ['there is no alert'];
    const wrong = [];
    if (title.y >= %d) wrong.push(`the first alert is below what is seen at once: ${title.y}`);
    if (title.width <= %g * row.width) wrong.push(`the width is not used for what was found: ${title.width}`);
    return wrong;
}"""


@pytest.fixture(scope="module")
def stores(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, str]]:
    """The addresses of dashboards over stores with no alert and with N_ALERTS that fire."""
    folder = tmp_path_factory.mktemp("many")
    with (
        site.dashboard(_store(folder / "none", 0)) as none,
        site.dashboard(_store(folder / "many", N_ALERTS)) as many,
    ):
        yield {0: none, N_ALERTS: many}


def _store(folder: Path, n_alerts: int) -> Path:
    folder.mkdir()
    settings = load_settings(site.ROOT / "config.yaml", {})
    infos = load_queries(settings.queries, settings.alerting.group_gap_ms).infos
    with open_store(f"sqlite:///{folder / 'clustercep.db'}") as store, store.transaction() as writer:
        recorder = Recorder(AlertingOptions(infos, {}), writer, lambda _ids: {}, NOW_MS)
        recorder.live([_match(number) for number in range(n_alerts)], NOW_MS)
    return folder


def _match(number: int) -> FakeMatch:
    task = f"task_1795178134302_{number:04}_m_000000"
    job_id = f"job_1795178134302_{number:04}"
    values = {
        "attempt_id": task.replace("task", "attempt") + "_0", "host": f"node{number:03}.rack{number % 7}.example.org",
        "elapsed_ms": 63_665, "n_finished": 9, "avg_finished_ms": 15_363.0, "progress": 0.5, "user": "etl",
        "job_name": f"hourly sessions of all customers, part {number}",
    }  # fmt: skip
    key = (("job_id", job_id), ("task_id", task))
    return FakeMatch(NOW_MS - 60_000, NOW_MS - number, QUERY, key, {"a": (f"{task}-a",)}, values=values)


@pytest.mark.parametrize("n_alerts", [0, N_ALERTS])
def test_the_list_of_alerts_can_be_read(windows: site.Windows, stores: dict[int, str], n_alerts: int) -> None:
    expect.set_options(timeout=site.WAIT_MS)
    for width in WIDTHS:
        with windows.visit(stores[n_alerts], width=width) as own:
            for scheme in SCHEMES:
                own.page.emulate_media(color_scheme=scheme)
                page = own.open("alerts", "Alerts")
                if n_alerts:
                    own.reads(f"Open: {n_alerts} alerts", f"1 to {PAGE_ROWS} of {n_alerts}")
                    expect(page.get_by_test_id("stSidebar")).to_contain_text(f"{n_alerts} firing")
                    expect(rows(page, "Open alerts")).to_have_count(PAGE_ROWS)
                    assert own.lasting(MISPLACED % (FIRST_ALERT_PX[width], LEAST_TITLE)) == []
                else:
                    own.reads("Open: 0 alerts", "Over: 0 alerts")
                    expect(page.get_by_role("button", name="Next")).to_have_count(0)
                assert own.lasting(CUT) == []
                assert unreadable(own) == []
                own.at_ease()
            own.page.emulate_media(color_scheme="light")
    expect.set_options(timeout=5_000)


def test_all_alerts_are_on_their_pages_once(windows: site.Windows, stores: dict[int, str]) -> None:
    expect.set_options(timeout=site.WAIT_MS)
    with windows.visit(stores[N_ALERTS], width=800) as own:
        page = own.open("alerts", "Alerts")
        found: list[str] = []
        for first in range(1, N_ALERTS + 1, PAGE_ROWS):
            last = min(N_ALERTS, first + PAGE_ROWS - 1)
            own.reads(f"{first} to {last} of {N_ALERTS}")
            own.still()  # the line above the list may be new while its rows are yet the page's before
            expect(rows(page, "Open alerts")).to_have_count(last - first + 1)
            if found:
                expect(rows(page, "Open alerts").first).not_to_have_attribute("href", found[-PAGE_ROWS])
                expect(rows(page, "Open alerts").last).not_to_have_attribute("href", found[-1])
            found += rows(page, "Open alerts").evaluate_all("rows => rows.map(row => row.getAttribute('href'))")
            assert own.lasting(CUT) == []
            if last < N_ALERTS:
                page.get_by_role("button", name="Next").click()
        expect(page.get_by_role("button", name="Next")).to_be_disabled()
        assert len(set(found)) == len(found) == N_ALERTS
    expect.set_options(timeout=5_000)
