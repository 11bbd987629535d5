"""The list of alerts under the hands of somebody on call: one click, keys, back; and what is hard to read on a page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import OwnVisitor, Site
from tests.browser.site import Visitor

CUT = """() => {
    const cut = [];
    const ofScreenReaders = node => node.clientWidth <= 1;
    const hasText = node => [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    const scrolls = style => ['auto', 'scroll'].includes(style.overflowX);
    const canvas = document.createElement('canvas').getContext('2d');
    for (const node of document.querySelectorAll('[data-testid=stMain] *, [data-testid=stSidebar] *')) {
        const style = getComputedStyle(node);
        if (node instanceof HTMLInputElement && node.placeholder && !node.value && node.clientWidth > 1) {
            canvas.font = style.font;
            const room = node.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
            if (canvas.measureText(node.placeholder).width > room + 1) cut.push(`placeholder: ${node.placeholder}`);
        }
        if (!hasText(node) || node.closest('svg') || style.visibility === 'hidden' || scrolls(style)) continue;
        const text = node.textContent.trim().slice(0, 80);
        const range = document.createRange();
        range.selectNodeContents(node);
        const box = range.getBoundingClientRect();
        if (!box.width || (style.display !== 'inline' && ofScreenReaders(node))) continue;
        if (style.display !== 'inline' && style.overflowX !== 'visible' && node.scrollWidth > node.clientWidth + 1)
            cut.push(text);
        let around = node.parentElement;
        const isOpen = look => look.overflowX === 'visible' || look.display === 'inline';
        while (around && isOpen(getComputedStyle(around))) around = around.parentElement;
        if (around && (scrolls(getComputedStyle(around)) || ofScreenReaders(around))) continue;
        const place = around ? around.getBoundingClientRect() : { left: 0, right: innerWidth };
        if (box.right > place.right + 1 || box.left < place.left - 1) cut.push(`by what is around it: ${text}`);
    }
    return [...new Set(cut)];
}"""
"""Texts that cannot be read to their end: of elements that hide what does not fit, of fields that are empty; what can
be scrolled is whole."""
UNFADED = "[data-stale] { opacity: 1 !important; transition: none !important }"
"""Streamlit lets what is about to be told anew fade, which parts of a page do every few seconds."""
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
LOOKS = 3
"""What is found as often lasts: between two of them are seconds, and the page stands still."""


def rows(page: Page, label: str = "Over alerts") -> Any:
    """The rows of a list that are shown, in their order."""
    return page.get_by_role("list", name=label, exact=True).get_by_role("link")


def unreadable(own: Visitor) -> list[str]:
    """Texts of the page whose colours are too much alike, and stay so: parts that are drawn anew fade for a moment."""
    found: list[str] = []
    own.page.add_style_tag(content=UNFADED)
    for _ in range(LOOKS):
        own.still()
        found = [
            f"{node['html'][:160]} {node['any'][0]['message']}"
            for violation in Axe().run(own.page, options=CONTRAST).response["violations"]
            for node in violation["nodes"]
        ]
        if not found:
            break
    return found


def test_one_click_opens_an_alert_and_back_keeps_the_filters(visitor: OwnVisitor) -> None:
    own = visitor()
    page = own.open("alerts?state=resolved&text=node5", "Alerts")
    expect(page.get_by_label("Search", exact=True)).to_have_value("node5")
    expect(rows(page).first).to_be_visible()
    n = rows(page).count()
    title = rows(page).first.get_attribute("title") or rows(page).first.inner_text()
    rows(page).first.click()
    own.settled(re.compile(re.escape(title[:40])))
    expect(page).to_have_url(re.compile(r"/alert\?id="))
    assert len(page.context.pages) == 1
    page.go_back()
    own.settled("Alerts")
    expect(page).to_have_url(re.compile("text=node5"))
    expect(page.get_by_label("Search", exact=True)).to_have_value("node5")
    expect(rows(page)).to_have_count(n)


def test_rows_are_walked_and_opened_by_keys(visitor: OwnVisitor, served: Site) -> None:
    own = visitor()
    page = own.open("alerts?state=resolved", "Alerts")
    incidents = {told["id"]: told for told in served.summary["incidents"]}
    shown = rows(page)
    expect(shown).to_have_count(len(incidents))
    shown.first.focus()
    page.keyboard.press("ArrowDown")
    expect(shown.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(shown.first).to_be_focused()
    page.keyboard.press("End")
    expect(shown.last).to_be_focused()
    page.keyboard.press("Home")
    folded = page.get_by_role("button", name=re.compile("behind it$")).first
    expect(folded).to_have_attribute("aria-expanded", "false")
    incident = page.locator(".clustercep-alerts .row:has(button)").get_by_role("link").first
    incident.focus()
    page.keyboard.press("ArrowRight")
    expect(folded).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    behind = page.get_by_role("list", name=re.compile("^Behind: ")).get_by_role("link").first
    expect(behind).to_be_focused()
    page.keyboard.press("Enter")
    own.settled(re.compile("."))
    expect(page).to_have_url(re.compile(r"/alert\?id="))
    own.reads("Part of the")


def pages_of(served: Site) -> list[tuple[str, Any]]:
    """(Address, title) of every page, of alerts one that found a fault and one that can still be acted on."""
    alert = served.found[0]["id"]
    fires = next(iter(served.alert_of.values()))  # it can be acknowledged, silenced and assigned
    return [
        ("alerts", "Alerts"), (f"alert?id={alert}", re.compile(".")),
        (f"alert?id={fires}", re.compile("mapper attempt_")), ("jobs", "Jobs"), ("cluster", "Cluster"),
        ("reports", "Reports"), ("queries", "Queries"), ("health", "Health"),
        (f"job?id={served.manifest.ground_truth[0].job_id}", re.compile(".")),
        ("query?name=queued-data", "queued-data"), ("editor?name=queued-data", "Query editor"),
        ("demo", "What the demo found"),
    ]  # fmt: skip


@pytest.mark.in_turn(of=4)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1_440, 800])
def test_no_text_is_cut(visitor: OwnVisitor, served: Site, width: int, scheme: Any) -> None:
    own = visitor(width=width)
    own.page.emulate_media(color_scheme=scheme)
    cut = []
    for path, title in pages_of(served):
        own.open(path, title)
        cut += [f"{path}: {text}" for text in own.lasting(CUT)]
        own.at_ease()
    own.page.emulate_media(color_scheme="light")
    assert not cut, "\n".join(cut)


def test_what_is_cut_is_found(visitor: OwnVisitor) -> None:
    own = visitor(width=800)
    page = own.open("alerts", "Alerts")
    expect(page.get_by_placeholder("Any text", exact=True)).to_be_visible()
    assert own.lasting(CUT) == []
    page.add_style_tag(content="h1 { width: 3rem; overflow: hidden; white-space: nowrap }")
    own.finds(CUT, ["by what is around it: Alerts"])
    page.add_style_tag(content="h1 { display: none } input[placeholder='Any text'] { max-width: 2rem; padding: 0 }")
    own.finds(CUT, ["placeholder: Any text"])
    page.reload()


def test_the_decisive_line_and_the_commands_are_there_to_copy(visitor: OwnVisitor, served: Site) -> None:
    own = visitor(width=1_440)
    alert = next(alert for alert in served.found if alert["query"] == "data-pull-straggler")
    page = own.open(f"alert?id={alert['id']}", re.compile("slow fetch"))
    decisive = page.locator(".clustercep-copied").first
    expect(decisive).to_contain_text("from map-output for attempt_")
    expect(decisive).to_be_in_viewport(ratio=1)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.get_by_role("button", name="Copy: How the application stands", exact=True)
    button.click()
    expect(button).to_have_text("Copied")
    command = page.evaluate("() => navigator.clipboard.readText()")
    assert re.fullmatch(r"yarn application -status application_\d+_0010", command)
    expect(page.get_by_test_id("stVegaLiteChart").first.locator("svg")).to_contain_text("▶")


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_is_readable(visitor: OwnVisitor, served: Site, scheme: Any) -> None:
    own = visitor()
    own.page.emulate_media(color_scheme=scheme)
    faults = []
    for path, title in pages_of(served):
        own.open(path, title)
        faults += [f"{path}: {found}" for found in unreadable(own)]
    own.page.emulate_media(color_scheme="light")
    assert not faults, "\n".join(faults)
