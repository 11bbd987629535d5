"""Every page of the demo in a browser: what it tells is there, nothing of it acts, and it is where its address says."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import OwnVisitor, Site
from tests.browser.hostile import HOSTILE, JOB, QUERY
from tests.examples import PROFILE

ALSO_CALLED = {"Asia/Kolkata": "Asia/Calcutta"}
"""By Chromium."""

EVERY_PAGE = PROFILE == "thorough"

HOSTS = [f"node{i}" for i in range(1, 7)]

CUT_BUTTON = """() => [...document.querySelectorAll('[data-testid=stMain] button p')]
    .filter(each => each.textContent.includes('Older') && each.scrollWidth > each.clientWidth).length"""
TITLE_BEGINS = """start => (document.querySelector('h1')?.innerText ?? '').replace(/[\\u2060\\u2068\\u2069]/g, '')
    .startsWith(start)"""


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("width", [1_440, 800])
def test_the_first_page_shows_what_the_demo_found(visitor: OwnVisitor, served: Site, width: int) -> None:
    own = visitor(width=width)
    page = own.open("", "What the demo found")
    expect(page).to_have_url(f"{served.url}demo")
    ended = f"{datetime.fromtimestamp(served.manifest.ended_ms / 1000, UTC):%Y-%m-%d %H:%M}"
    own.reads("5 of 5 faults found, no false alarm.", f"as of {ended}")
    own.reads(*{fault.fault.replace("_", " ") for fault in served.manifest.ground_truth})
    own.at_ease()
    page.get_by_role("link", name="Its job").click()
    own.settled(re.compile("streaming"))
    own.reads("A recording, as of", "Attempts by host")
    page.get_by_role("link", name="What the demo found").click()
    own.settled("What the demo found")


def test_alerts_that_fire_and_those_that_found_the_faults(visitor: OwnVisitor, served: Site) -> None:
    own = visitor()
    page = own.open("alerts", "Alerts")
    expect(page.get_by_role("heading", name=re.compile("^Open: "))).to_have_text(f"Open: {len(served.alert_of)} alerts")
    n_over = len(served.summary["incidents"])  # with the alerts behind them
    n_incidents = sum(told["is_incident"] for told in served.summary["incidents"])
    expect(page.get_by_role("heading", name=re.compile("^Over: "))).to_have_text(
        f"Over: {n_incidents} incidents, {n_over - n_incidents} other alerts"
    )
    assert len(served.found) == 6
    assert len(served.summary["alerts"]) == 6 + 1 + 4  # those of faults, a pause of node5's NodeManager, incidents
    incidents = served.summary["incidents"]
    assert {alert["id"] for alert in served.found} <= {alert_id for told in incidents for alert_id in told["alerts"]}
    own.reads(*(told["query"] for told in incidents))
    for told in incidents:
        row = page.locator(f'.clustercep-alerts a[href="alert?id={told["id"]}"]')
        expect(row).to_have_count(1)
        assert told["summary"] in (row.get_attribute("title"), row.inner_text())
    expect(page.get_by_test_id("stSidebar")).to_contain_text(f"{len(served.alert_of)} firing")


def test_each_alert_with_its_events_and_what_to_do(visitor: OwnVisitor, served: Site) -> None:
    own = visitor()
    for alert in served.found:
        page = own.open(f"alert?id={alert['id']}", re.compile(re.escape(alert["summary"][:60])))
        chart = page.get_by_test_id("stVegaLiteChart").first
        expect(chart.locator("svg")).to_be_visible()
        expect(chart.locator("svg [role=graphics-symbol]").nth(1)).to_be_visible()
        for section in ("What to do", "What happened", "Values", "History", "Notifications"):
            expect(page.get_by_role("heading", name=section, exact=True)).to_be_visible()
        is_alone = any(alert["id"] == told["id"] for told in served.summary["incidents"])
        is_earlier = "imbalance" in alert["query"]  # told one look before their incident is found
        told = (
            "delivered" if is_alone or is_earlier else "Nobody was told of this alert alone: it is part of an incident"
        )
        own.reads(alert["query"], "no match for longer than the gap", told)
        assert "No runbook paragraph" not in own.text()
        own.at_ease()


def test_jobs_of_the_recording(visitor: OwnVisitor, served: Site) -> None:
    own = visitor()
    own.open("jobs", "Jobs")
    assert len(served.manifest.jobs) == 13
    own.reads(*(job.name for job in served.manifest.jobs))
    own.reads(f"{13 + len(HOSTILE)} jobs in the event log")


def test_a_job_from_the_list_with_its_straggler(visitor: OwnVisitor, served: Site) -> None:
    fault = next(fault for fault in served.manifest.ground_truth if fault.fault == "reducer_straggler")
    name = next(job.name for job in served.manifest.jobs if job.job_id == fault.job_id)
    own = visitor()
    page = own.open(f"jobs?name={name}", "Jobs")
    table = page.get_by_test_id("stDataFrame")
    expect(table.locator("td").filter(has_text=name)).to_have_count(1)
    table.locator(".dvn-scroller").first.click(position={"x": 17, "y": 52})
    own.settled(name)
    expect(page).to_have_url(f"{served.url}job?id={fault.job_id}")
    own.reads("1 straggler", "Attempts by host", "Queued data", "Life times", "reducer-straggler-running", *HOSTS)
    expect(page.get_by_test_id("stVegaLiteChart").locator("svg")).to_have_count(6)


def test_charts_are_drawn_when_they_are_scrolled_to(visitor: OwnVisitor, served: Site) -> None:
    """What is far below has its place until then, so that the page is as long as before."""
    own = visitor()
    page = own.page
    page.goto(f"{served.url}job?id={served.manifest.ground_truth[0].job_id}")
    own.still()
    lives = page.locator("[class*=st-key-unseen-lives-]")
    expect(lives).to_contain_text("Drawn when it is scrolled to.")
    own.still()  # before its script began the page stood still, too; what is below is there now
    before = page.locator("[class*=st-key-unseen-]").count()
    height = page.evaluate("() => document.querySelector('[data-testid=stMain]').scrollHeight")
    page.get_by_role("heading", name="Heuristics").scroll_into_view_if_needed()
    expect(lives).to_have_count(0)
    expect(page.get_by_text("Attempts that succeeded; what runs")).to_be_visible()
    assert page.locator("[class*=st-key-unseen-]").count() in range(1, before), "those between were not seen"
    own.look_through()
    expect(page.get_by_test_id("stVegaLiteChart").locator("svg")).to_have_count(6)
    grown = f"[document.querySelector('[data-testid=stMain]').scrollHeight - {height}]"
    assert own.lasting(f"() => {grown}.filter(px => Math.abs(px) >= 600)") == []
    own.at_ease()


def test_the_cluster_with_its_hosts_load_and_alerts(visitor: OwnVisitor, served: Site) -> None:
    own = visitor()
    page = own.open("cluster?host=node1", "Cluster")
    expect(page.get_by_role("link", name="Alerts of node1")).to_be_visible()
    expect(page.get_by_test_id("stVegaLiteChart").locator("svg").nth(4)).to_be_visible()
    page = own.open("cluster", "Cluster")
    expect(page.get_by_role("heading", name="cpu_user by host")).to_be_visible()
    expect(page.get_by_test_id("stVegaLiteChart").locator("svg, canvas")).to_have_count(3)
    own.reads(
        *served.summary["alerts"], f"{len(HOSTS) + len(HOSTILE)} hosts", "2 episodes of imbalance of at least 1 min"
    )


def test_charts_have_all_of_their_legends_in_a_narrow_window(visitor: OwnVisitor, served: Site) -> None:
    fault = next(fault for fault in served.manifest.ground_truth if fault.fault == "reducer_straggler")
    own = visitor(width=800)
    for path, n_legends in ((f"job?id={fault.job_id}", 6), ("cluster?host=node1", 3)):
        page = own.open(path, re.compile("."))
        legends = page.get_by_test_id("stVegaLiteChart").locator("svg .role-legend")
        expect(legends.nth(n_legends - 1)).to_be_attached()
        own.at_ease()


def test_a_narrow_window_cuts_neither_queries_nor_buttons(visitor: OwnVisitor) -> None:
    """Columns that would be too narrow stand beneath each other, and a button is as wide as its words."""
    own = visitor(width=800)
    page = own.open("query?name=queued-data", "queued-data")
    expect(page.get_by_role("button", name="Older")).to_be_visible()
    assert not own.lasting(CUT_BUTTON)
    for address, heading, wide in (
        ("query?name=queued-data", "queued-data", page.locator("pre").first),
        ("editor?name=queued-data", "Query editor", page.get_by_role("textbox", name="Text of the query")),
    ):
        own.open(address, heading)
        expect(wide).to_be_visible()
        box = wide.bounding_box()
        assert box is not None
        assert box["width"] > 350
        own.at_ease()


def test_queries_and_one_with_its_alerts(visitor: OwnVisitor, served: Site) -> None:
    own = visitor()
    page = own.open("query?name=load-imbalance-task", "load-imbalance-task")
    page.get_by_text("Explain: how it is read").click()
    expect(page.get_by_text(re.compile("skip_till_any_match")).first).to_be_visible()
    own.reads("PATTERN", "Runbook", "drifts apart", "min_rise")
    page = own.open("query?name=mapper-lifetimes", "mapper-lifetimes")
    expect(page.get_by_role("heading", name="Report rows")).to_be_visible()
    own.reads(served.manifest.jobs[-1].job_id)
    own.open("queries", "Queries")
    names = [path.stem for path in served.settings.queries.directory.glob("*.cep")]
    assert len(names) >= 9
    own.reads(*names)


def test_reports_in_all_their_parts_with_hostile_names(visitor: OwnVisitor, served: Site) -> None:
    own = visitor()
    facts = {
        "Queued data": ("By job", "Queued map output", "At most waited"),
        "Stragglers": ("Worst attempts", "Hosts, the slowest first", "90 % below"),
        "Life times": ("By user", "By job", "95 % within"),
    }
    for part, told in facts.items():
        page = own.open(f"reports?part={part}", "Reports")
        own.reads(*told, *(seen(name, 10) for name in HOSTILE[:6]))
        if part != "Life times":
            expect(page.get_by_test_id("stVegaLiteChart").locator("svg")).to_be_visible()
        own.at_ease()
    page = own.open("reports", "Reports")
    page.get_by_test_id("stDataFrame").first.locator(".dvn-scroller").first.click(position={"x": 17, "y": 52})
    expect(page).to_have_url(f"{served.url}job?id={JOB.format(0)}")
    own.settled(re.compile("."))


def test_health_in_all_its_parts(visitor: OwnVisitor, served: Site) -> None:
    own = visitor()
    facts = {
        "Storage": "Event log",
        "Sources": "Events",
        "Problems": "unreadable",
        "Engine": "mapper-straggler-running",
        "Notifications": "demo",
    }
    for part, fact in facts.items():
        page = own.open(f"health?part={part}", "Health")
        expect(page.get_by_role("radio", name=part)).to_be_checked()
        own.reads(fact)
        own.at_ease()
    own.resize(800, 900)
    own.at_ease()
    own.open("health?part=Storage", "Health")


# --------------------------------------------------------------------- hostile


def seen(name: str, n_chars: int = 30) -> str:
    """How a name is shown, without the place where it is cut."""
    return " ".join(name.replace("\u202e", "").replace("\u202c", "").split())[:n_chars]


def test_hostile_names_are_text_in_lists(visitor: OwnVisitor, served: Site) -> None:
    """In a wide window, and when it is made narrow."""
    own = visitor()
    pages = {
        "alerts?state=firing": "Alerts", "jobs": "Jobs", "cluster": "Cluster", f"query?name={QUERY}": QUERY,
        "health?part=Problems&source=container_log": "Health",
    }  # fmt: skip
    for path, title in pages.items():
        own.open(path, title)
        if path.startswith(("jobs", "health")):
            own.reads(*(seen(name, 15) for name in HOSTILE))
        own.at_ease()
        own.resize(800, 900)
        own.at_ease()
        own.resize(1400, 900)


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("page", ["alert", "job"])
def test_hostile_names_are_text_on_the_pages_about_them(visitor: OwnVisitor, served: Site, page: str) -> None:
    """Each name is on one of both pages every day, and on both in the thorough profile."""
    own = visitor()
    for i, name in enumerate(HOSTILE):
        if not EVERY_PAGE and page != ("alert", "job")[i % 2]:
            continue
        job = JOB.format(i)
        if page == "alert":
            own.open(f"alert?id={served.alert_of[job]}", re.compile("mapper attempt_"))
            own.reads(seen(name))
            expect(own.page.get_by_text("Suspected:", exact=True)).to_be_visible()
            expect(own.page.get_by_test_id("stMain").locator("a[href*='host=']").first).to_be_visible()
        else:
            own.open(f"job?id={job}", re.compile("."))
            own.page.wait_for_function(TITLE_BEGINS, arg=seen(name))
        own.at_ease()


# ----------------------------------------------------------- addresses, zones


def test_what_is_not_there_is_told_with_what_to_do(visitor: OwnVisitor) -> None:
    """What such an address says on the other pages: `tests/dashboard/test_absent.py`."""
    own = visitor()
    for path, title, told in (
        ("alert?id=0000", "Alert", "retention.alerts"),
        ("job?id=job_1_0001", "Job", "It may be misspelt"),
        ("cluster?from=1000&to=2000", "Cluster", "There is no sample between"),
        ("alerts?query=" + QUERY + "&host=nohost", "Alerts", "No alert fits"),
    ):
        own.open(path, title)
        expect(own.page.get_by_test_id("stMain")).to_contain_text(told)
        own.at_ease()


def began(page: Page) -> Locator:
    """Where the page of an alert shows when it began."""
    return page.get_by_text("Began", exact=True).locator("xpath=ancestor::*[@data-testid='stVerticalBlock'][1]")


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("zone", ["America/St_Johns", *(["Asia/Kolkata"] if EVERY_PAGE else [])])
def test_times_are_those_of_the_viewers_zone(visitor: OwnVisitor, served: Site, zone: str) -> None:
    alert = served.found[0]
    own = visitor(timezone=zone)
    page = own.open(f"alert?id={alert['id']}", re.compile("mapper attempt_"))
    start = datetime.fromisoformat(alert["began"]).astimezone(ZoneInfo(zone))
    expect(began(page)).to_contain_text(f"{start:%Y-%m-%d %H:%M:%S}")
    expect(page.get_by_test_id("stSidebar")).to_contain_text(f"Times are in {ALSO_CALLED.get(zone, zone)}.")
    own.reads(f"\n{start:%H:%M}:")  # the axis of the time line
