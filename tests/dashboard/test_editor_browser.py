"""The text field in a real browser, alone, with a clock of its own; in the whole dashboard: `tests/browser`."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.components import query_editor as editor_component
from tests.browser.site import WAIT_MS
from tests.dashboard.query_fixtures import HOSTILE, SLOW

FOLDER = Path(editor_component.__file__).parent

MOUNT = """async ([html, css, js, data]) => {
  const host = document.createElement("div");
  document.body.replaceChildren(host);
  const root = host.attachShadow({mode: "open"});
  root.innerHTML = `<style>${css}</style>${html}`;
  window.sent = [];
  window.component = {
    data, parentElement: root,
    setStateValue: (name, value) => window.sent.push([name, value]),
    setTriggerValue: (name, value) => window.sent.push([name, value]),
  };
  window.before = root.querySelector("textarea").readOnly;
  window.mount = (await import(js)).default;
  window.stop = window.mount(window.component);
}"""
UPDATE = "data => { window.mount({...window.component, data: {...window.component.data, ...data}}) }"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page whose clock stands still until it is told to go on; nothing may be loaded from elsewhere."""
    expect.set_options(timeout=WAIT_MS)
    context = browser.new_context()
    context.set_default_timeout(WAIT_MS)
    opened = context.new_page()
    requested: list[str] = []
    opened.on("request", lambda request: requested.append(request.url))
    opened.clock.install(time=0)
    opened.clock.pause_at(1_000)
    yield opened
    assert [url for url in requested if not url.startswith("data:")] == []
    context.close()
    expect.set_options(timeout=5_000)


def mount(page: Page, text: str = "", **data: Any) -> None:
    names = ("editor.html", "editor.css", "script/editor.js")
    html, css, js = ((FOLDER / name).read_text(encoding="utf-8") for name in names)
    module = f"data:text/javascript;base64,{base64.b64encode(js.encode()).decode()}"
    given = {
        "checked": text, "problem": None, "verdict": "Valid.", "types": ["MapEnd"], "max_chars": 65_536,
        **data,
    }  # fmt: skip
    page.evaluate(MOUNT, [html, css, module, given])


def sent(page: Page) -> list[list[str]]:
    found: list[list[str]] = page.evaluate("window.sent")
    return found


def problem(line: int, column: int, end_column: int, **changes: Any) -> dict[str, Any]:
    return {
        "message": "no such type", "line": line, "column": column, "end_line": line, "end_column": end_column,
        "excerpt": ["the line", " ^^"], "expected": "MapEnd", "remedy": "did you mean MapEnd?", **changes,
    }  # fmt: skip


def test_nothing_can_be_typed_before_the_field_has_its_text(page: Page) -> None:
    mount(page, "abc")
    assert page.evaluate("window.before") is True
    expect(page.get_by_role("textbox")).to_be_editable()


def test_the_text_is_sent_once_some_time_after_the_last_key(page: Page) -> None:
    mount(page)
    field = page.get_by_role("textbox", name="Text of the query")
    for key in "abc":
        field.press(key)
        page.clock.run_for(299)
    assert sent(page) == []
    page.clock.run_for(1)
    assert sent(page) == [["text", "abc"]]
    page.clock.run_for(5_000)
    assert len(sent(page)) == 1


def test_nothing_is_sent_when_nothing_changed(page: Page) -> None:
    mount(page, "abc")
    field = page.get_by_role("textbox")
    field.press("End")
    field.press("x")
    field.press("Backspace")
    page.clock.run_for(1_000)
    assert sent(page) == []


def test_leaving_sends_at_once_and_unmounting_sends_nothing(page: Page) -> None:
    mount(page)
    field = page.get_by_role("textbox")
    field.fill("left")
    field.blur()
    assert sent(page) == [["text", "left"]]
    field.fill("gone")
    page.evaluate("window.stop()")
    page.clock.run_for(1_000)
    assert len(sent(page)) == 1


def test_control_enter_sends_and_runs(page: Page) -> None:
    mount(page)
    field = page.get_by_role("textbox")
    field.fill("query")
    field.press("Control+Enter")
    assert sent(page) == [["text", "query"], ["run", "query"]]
    expect(field).to_have_value("query")


def test_tab_indents_and_escape_lets_it_leave(page: Page) -> None:
    mount(page, "ab")
    field = page.get_by_role("textbox")
    field.press("Home")
    field.press("Tab")
    expect(field).to_have_value("  ab")
    field.press("Shift+Tab")
    expect(field).to_have_value("ab")
    expect(field).to_be_focused()
    field.press("Escape")
    field.press("Tab")
    expect(field).not_to_be_focused()
    expect(field).to_have_value("ab")


def test_tab_can_be_undone(page: Page) -> None:
    mount(page, "ab")
    field = page.get_by_role("textbox")
    field.press("Home")
    field.press("Tab")
    field.press("Control+z")
    expect(field).to_have_value("ab")


def test_a_problem_is_marked_at_its_place_with_the_engines_words(page: Page) -> None:
    text = "PATTERN SEQ(\n  \U0001f600 MapEn a)"  # columns count characters, not UTF-16 units
    mount(page, text, problem=problem(2, 5, 10))
    assert page.locator(".wrong").all_inner_texts() == ["MapEn"]
    assert page.locator(".gutter .at").all_inner_texts() == ["2"]
    verdict = page.get_by_role("status")
    for words in ("Line 2, column 5", "no such type", "the line\n ^^", "Expected: MapEnd", "Remedy: did you mean"):
        expect(verdict).to_contain_text(words)
    field = page.get_by_role("textbox")
    expect(field).to_have_attribute("aria-invalid", "true")
    page.get_by_role("button", name="Line 2, column 5").click()
    start = page.evaluate("document.querySelector('div').shadowRoot.querySelector('textarea').selectionStart")
    assert start == len("PATTERN SEQ(\n  ") + 3  # the face takes two units, then a space


def test_what_is_missing_at_the_end_is_marked_before_it(page: Page) -> None:
    mount(page, "PATTERN (", problem=problem(1, 10, 10))
    assert page.locator(".wrong").all_inner_texts() == ["("]


def test_a_problem_without_a_place_marks_nothing(page: Page) -> None:
    nowhere = dict.fromkeys(("line", "column", "end_line", "end_column"))
    mount(page, "x", problem={**problem(1, 1, 1), **nowhere, "excerpt": []})
    assert page.locator(".wrong").count() == 0
    expect(page.get_by_role("status")).to_contain_text("no such type")


def test_a_verdict_on_an_older_text_is_not_shown(page: Page) -> None:
    mount(page, "old", problem=problem(1, 1, 4))
    field = page.get_by_role("textbox")
    field.fill("new")
    assert page.locator(".wrong").count() == 0
    expect(page.get_by_role("status")).to_have_text("Checking …")
    page.evaluate(UPDATE, {"checked": "old", "problem": problem(1, 1, 4)})
    expect(page.get_by_role("status")).to_have_text("Checking …")
    page.evaluate(UPDATE, {"checked": "new", "problem": None})
    expect(page.get_by_role("status")).to_have_text("Valid.")
    expect(field).to_have_value("new")


def test_hostile_text_never_becomes_markup(page: Page) -> None:
    page.on("dialog", lambda _: pytest.fail("a script ran"))
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>\n" + HOSTILE
    told = dict.fromkeys(("message", "expected", "remedy"), hostile)
    mount(page, hostile, verdict=hostile, problem=problem(1, 1, 5, **told, excerpt=[hostile, hostile]))
    assert page.locator("img, script, b, a").count() == 0
    shown = page.locator(".shown").evaluate("node => node.textContent")
    assert shown.rstrip("\n") == hostile.rstrip("\n")
    page.evaluate(UPDATE, {"checked": hostile, "problem": None, "verdict": hostile})
    assert page.locator("img, script").count() == 0


def test_colours_never_change_the_text(page: Page) -> None:
    for text in (SLOW, "'open text", ":p :: a.count(b) COUNT(*) 1.5e3 -- x", "\t\u202eabc", "x" * 30_000):
        mount(page, text)
        assert page.locator(".shown").evaluate("node => node.textContent") == f"{text}\n"
    mount(page, SLOW)
    assert page.locator(".keyword").first.inner_text() == "PARAMETERS"
    assert "MapEnd" in page.locator(".type").all_inner_texts()
    assert page.locator(".parameter").all_inner_texts() == [":least"]


def test_both_layers_lie_on_each_other(page: Page) -> None:
    mount(page, SLOW)
    place = "node => { const s = getComputedStyle(node), b = node.getBoundingClientRect();" \
        " return [s.font, s.lineHeight, s.padding, s.whiteSpace, s.tabSize, b.left, b.top] }"  # fmt: skip
    assert page.locator(".shown").evaluate(place) == page.locator(".typed").evaluate(place)
