"""What people do on the pages: filter, acknowledge, silence, write a query and run it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import expect

from app.store.api import AlertDetails, open_store
from tests.browser.conftest import OwnVisitor, Site
from tests.browser.hostile import HOSTILE, OPEN_JOBS

LONG = """PATTERN SEQ(Metric a, Metric b, Metric c)
WHERE skip_till_any_match { a.value * b.value * c.value < 0 }
WITHIN 1 day
RETURN a.host"""
"""No sample is negative: every triple of thousands of them is looked at, and none fits."""


def kept(served: Site, alert_id: str) -> AlertDetails:
    """The alert as the database has it."""
    with open_store(f"sqlite:///{served.store_folder / 'clustercep.db'}") as store:
        return store.alert(alert_id)


def test_filters_stand_in_the_address_and_show_a_colleague_the_same(visitor: OwnVisitor) -> None:
    own = visitor()
    page = own.open("alerts", "Alerts")
    page.get_by_test_id("stButtonGroup").get_by_role("button", name="resolved").click()
    page.get_by_label("Host", exact=True).fill("node5")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("state=resolved"))
    expect(page).to_have_url(re.compile("host=node5"))
    own.still()  # the address is the new one before what is shown is
    found = page.get_by_role("heading", name=re.compile("^Over: "))
    expect(found).to_have_count(1)  # a rerun shows old and new one together for a moment
    colleague = visitor()
    colleague.page.goto(page.url)
    colleague.settled("Alerts")
    expect(colleague.page.get_by_role("heading", name=re.compile("^Over: "))).to_have_text(found.inner_text())
    expect(colleague.page.get_by_label("Host", exact=True)).to_have_value("node5")


def test_an_alert_is_acknowledged_with_a_comment(visitor: OwnVisitor, served: Site) -> None:
    alert_id, note = served.alert_of[OPEN_JOBS[0]], f"I look after it {HOSTILE[0]}"
    own = visitor()
    page = own.open(f"alert?id={alert_id}", re.compile("mapper attempt_"))
    page.get_by_label("Comment").fill(note)
    page.get_by_role("button", name="Acknowledge", exact=True).click()
    expect(page.get_by_text("Acknowledged 1 alert.")).to_be_visible()
    own.reads(note, "acknowledged")
    details = kept(served, alert_id)
    assert details.alert.state == "acknowledged"
    assert (details.changes[-1].to_state, details.changes[-1].reason) == ("acknowledged", note)


def test_an_alert_is_silenced_for_a_time(visitor: OwnVisitor, served: Site) -> None:
    alert_id = served.alert_of[OPEN_JOBS[1]]
    own = visitor()
    page = own.open(f"alert?id={alert_id}", re.compile("mapper attempt_"))
    page.get_by_label("Comment").fill("known, being replaced")
    page.get_by_role("button", name="Silence for").click()
    expect(page.get_by_text("Made 1 silence for 2 h: 1 alert silenced.")).to_be_visible()
    own.reads("known, being replaced", "firing, silenced")
    assert kept(served, alert_id).alert.silenced
    page = own.open("alerts", "Alerts")
    page.get_by_text("Silences: 1").click()
    expect(page.get_by_text(re.compile("known, being replaced.*by "))).to_be_visible()


def test_a_query_is_judged_while_it_is_typed_and_run(visitor: OwnVisitor, served: Site) -> None:
    own = visitor()
    page = own.open("editor?name=queued-data", "Query editor")
    field = page.get_by_role("textbox", name="Text of the query")
    text = (served.settings.queries.directory / "queued-data.cep").read_text(encoding="utf-8")
    expect(field).to_have_value(text)
    expect(page.get_by_role("status").filter(has_text="Valid. It reads ")).to_be_visible()
    field.fill(text.replace("PATTERN", "PATERN"))
    expect(page).to_have_url(re.compile(r"editor\?text="))
    field.fill(text)
    expect(page).to_have_url(re.compile("name=queued-data"))
    field.fill("WITHIN 1 hour\nRETURN a.task_id, a.period_ms\n")
    field.press("End")
    field.press_sequentially("WHERE skip_till_next_match { a.period_ms > 100000 }\nPATTERN SEQ(MapEn")
    field.press_sequentially(" a)")
    verdict = page.get_by_role("status").filter(has_text="Line 4, column 13")
    expect(verdict).to_contain_text("^^^^^")
    expect(verdict).to_contain_text("did you mean MapEnd?")
    run = page.get_by_test_id("stMainBlockContainer").get_by_role("button", name="Run")
    expect(run).to_be_disabled()
    for _ in range(3):
        field.press("Backspace")
    field.press_sequentially("d a)")
    expect(page.get_by_role("status").filter(has_text="Valid. It reads MapEnd")).to_be_visible()
    expect(run).to_be_enabled()
    field.press("Control+Enter")
    expect(page.get_by_text(re.compile(r"^1 rows? from \d+ events"))).to_be_visible()
    task = "task_1795178134302_0005_m_000000"
    own.reads(task)
    with page.expect_download() as downloading:
        page.get_by_role("button", name="JSON lines").click()
    (row,) = Path(downloading.value.path()).read_text(encoding="utf-8").splitlines()
    values = json.loads(row)["values"]
    assert values["task_id"] == task
    assert values["period_ms"] > 100_000


def test_a_long_query_shows_progress_and_is_stopped(visitor: OwnVisitor) -> None:
    own = visitor()
    page = own.open("editor", "Query editor")
    field = page.get_by_role("textbox", name="Text of the query")
    field.fill(LONG)
    expect(page.get_by_role("status").filter(has_text="Valid. It reads Metric")).to_be_visible()
    field.press("Control+Enter")
    expect(page.get_by_test_id("stProgress")).to_be_visible()
    page.get_by_role("button", name="Stop the query").click()
    expect(page.get_by_text(re.compile("^Stopped. "))).to_be_visible()
