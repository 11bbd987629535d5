"""The real `clustercep dashboard` over a store, and a visitor who notices everything that a page must not do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, Response, TimeoutError, expect

from tests.ports import own_port

ROOT = Path(__file__).parents[2]
WAIT_MS = 180_000
"""Generous: nothing waits that long unless it is broken, but a busy machine may be slow."""

LASTING_MS = 60_000
"""What is wrong for so long is no page that is drawn anew, not on a busy machine either."""

_ASKED_BY_STREAMLIT = re.compile(r"/[a-z]+/_stcore/(health|host-config)$")
"""Opened below its root, Streamlit's page first looks for its server there, and finds it one level above."""

_TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll('[data-testid=stMain]')]
    .filter(node => node.scrollWidth > node.clientWidth + 1).length"""
_CUT_LEGENDS = """() => [...document.querySelectorAll('[data-testid=stVegaLiteChart] svg')].flatMap(svg => {
    const chart = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('.role-legend')].filter(legend => {
        const box = legend.getBoundingClientRect();
        return box.left < chart.left - 1 || box.right > chart.right + 1;
    }).map(legend => legend.textContent);
})"""
_CUT_FIGURES = """() => [...document.querySelectorAll('[data-testid=stMetricValue], [data-testid=stMetricValue] *')]
    .filter(node => node.scrollWidth > node.clientWidth + 1).map(node => node.textContent)"""
_MADE_OF_NAMES = """() => [
    ...[...document.querySelectorAll('a[href]')].filter(
        link => link.protocol === 'javascript:' || link.hostname && link.hostname !== location.hostname),
    ...[...document.querySelectorAll('img')].filter(image => /evil|x$/.test(image.src)),
    ...[...document.querySelectorAll('script')].filter(script => script.textContent.includes('alert(1)')),
    ...document.querySelectorAll('.katex'),
].map(node => node.outerHTML)"""
_GO = """address => {
    document.querySelector('[data-testid=stApp]').dataset.testScriptState = 'asked';
    history.pushState({}, '', address);
    dispatchEvent(new PopStateEvent('popstate'));
}"""
"""As 'back' and 'forward' go: only the page's script runs, nothing is loaded anew. Streamlit says anew what state the
script is in as soon as it runs."""
_LOOK_THROUGH = """() => {
    const unseen = document.querySelector('[class*=st-key-unseen-]');
    unseen?.scrollIntoView({ block: 'center' });
    return unseen === null;
}"""
_TO_THE_TOP = "() => document.querySelector('[data-testid=stMain]').scrollTo(0, 0)"
_FORGET = "() => { localStorage.clear(); sessionStorage.clear() }"
_TEXT = """() => {
    const main = document.querySelector('[data-testid=stMain]');
    const cells = [...main.querySelectorAll('th, td, svg text, textarea, input')].map(n => n.value || n.textContent);
    return [main.innerText, ...cells].join('\\n').replace(/[\\u2060\\u2068\\u2069]/g, '');
}"""


@contextmanager
def dashboard(store_folder: Path) -> Iterator[str]:
    """Its URL, with a slash at the end; the settings are those that are shipped."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CLUSTERCEP")}
    command = [sys.executable, "-c", "from app.cli import main; main()", "dashboard"]
    with (
        own_port() as port,
        subprocess.Popen(
            [*command, "--store", str(store_folder), "--port", str(port)],
            stdout=subprocess.PIPE, cwd=ROOT, env=environment, text=True,
        ) as process,
    ):  # fmt: skip
        try:
            assert process.stdout is not None
            line = next((line for line in process.stdout if line.startswith("Dashboard: ")), None)
            assert line is not None, f"the dashboard ended with {process.wait()} before it answered"
            yield line.removeprefix("Dashboard: ").strip()
        finally:
            process.terminate()


@dataclass
class Visitor:
    """One person with a browser window of their own. `complaints`: what no page may do, as it happened."""

    url: str
    page: Page
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str, title: str | re.Pattern[str]) -> Page:
        """A page by its address, once it stands still under its title; the first is loaded, as by a link in a chat."""
        if self.page.url.startswith(self.url):
            self.page.evaluate(_GO, f"{self.url}{path}")
        else:
            self.page.goto(f"{self.url}{path}")
        return self.settled(title)

    def settled(self, title: str | re.Pattern[str]) -> Page:
        """The page, once it stands still under this title and has been looked through."""
        expect(self.page.locator("h1").first).to_have_text(title)
        self.still()
        expect(self.page.locator("h1").first).to_have_text(title)  # the page before may have had the same
        self.look_through()
        return self.page

    def look_through(self) -> None:
        """Scroll to all that is drawn when it is seen, and back to the top."""
        self.page.wait_for_function(_LOOK_THROUGH)
        self.still()
        self.page.evaluate(_TO_THE_TOP)

    def resize(self, width: int, height: int) -> None:
        """Make the window narrower or wider, and wait until all that is drawn fits."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.wait_for_function(f"() => ({_TOO_WIDE})() === 0")

    def still(self) -> None:
        """Wait until the page's script has run."""
        expect(self.page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")

    def text(self) -> str:
        """All that the page says now, in tables and charts too, without characters that are not seen."""
        return str(self.page.evaluate(_TEXT))

    def reads(self, *words: str) -> None:
        """Wait until the page says all of this: tables and charts are drawn after its script has run."""
        try:
            self.page.wait_for_function(
                f"words => {{ const said = ({_TEXT})(); return words.every(w => said.includes(w)) }}", arg=list(words)
            )
        except TimeoutError:
            said = self.text()
            missing = [word for word in words if word not in said]
            raise AssertionError(f"{self.page.url} does not say {missing}; it says: {said}") from None

    def lasting(self, script: str) -> Any:
        """What a script finds wrong with the page's looks, and goes on finding: while parts are drawn anew, they may be
        wider for a moment. `script`: a function that gives a list, or a number; nothing wrong is empty, or 0."""
        try:
            self.page.wait_for_function(
                f"() => {{ const found = ({script})(); return !(found.length ?? found) }}", timeout=LASTING_MS
            )
        except TimeoutError:
            return self.page.evaluate(script)
        return []

    def finds(self, script: str, wrong: list[str]) -> None:
        """Wait until a script that looks for what is wrong gives this: parts that are drawn anew are missing for a
        moment."""
        try:
            self.page.wait_for_function(f"wrong => ({script})().join('\\n') === wrong.join('\\n')", arg=wrong)
        except TimeoutError:
            found = self.page.evaluate(script)
            raise AssertionError(f"{self.page.url}: expected {wrong}, found {found}") from None

    def at_ease(self) -> None:
        """Nothing went wrong on the page as it is now, nor on the way to it."""
        page = self.page
        expect(page.get_by_test_id("stException")).to_have_count(0)
        expect(page.get_by_text("This page cannot be shown")).to_have_count(0)
        assert page.evaluate(_MADE_OF_NAMES) == [], "names became elements"
        assert not self.lasting(_TOO_WIDE), "the page is wider than its window"
        assert not self.lasting(_CUT_LEGENDS), "a legend is wider than its chart"
        assert not self.lasting(_CUT_FIGURES), "a figure is wider than its box"
        assert self.complaints == []

    def listeners(self) -> dict[str, Callable[[Any], None]]:
        """By the name of what happens on a page: who notes it."""
        return {
            "console": self.note_console,
            "pageerror": lambda error: self.complaints.append(f"error: {error}"),
            "dialog": self.note_dialog,
            "request": self.note_request,
            "response": self.note_response,
            "websocket": lambda socket: self.note_url(socket.url),
        }

    def note_console(self, message: ConsoleMessage) -> None:
        """Errors are complaints."""
        if message.type == "error" and not _ASKED_BY_STREAMLIT.search(message.location["url"]):
            self.complaints.append(f"console: {message.text} ({message.location['url']})")

    def note_request(self, request: Request) -> None:
        """Whatever goes to another server is a complaint."""
        self.note_url(request.url)

    def note_response(self, response: Response) -> None:
        """Whatever this server answers has its policy: all but what the page itself made."""
        if urlsplit(response.url).scheme not in ("data", "blob"):
            given = response.headers
            if "frame-ancestors 'self'" not in given.get("content-security-policy", ""):
                self.complaints.append(f"no policy: {response.url}")
            if given.get("x-frame-options") != "SAMEORIGIN":
                self.complaints.append(f"may be framed: {response.url}")

    def note_url(self, url: str) -> None:
        """As `note_request`."""
        found = urlsplit(url)
        if found.scheme not in ("data", "blob") and found.netloc != urlsplit(self.url).netloc:
            self.complaints.append(f"request to {url}")

    def note_dialog(self, dialog: Dialog) -> None:
        """A script of somebody's ran."""
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()


class Windows:
    """Browser windows without a past. One that is free again is given to the next visitor, as what it has loaded of the
    dashboard's own scripts is most of a page's cost; cookies and storage of the visitor before are gone.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._free: dict[tuple[str, int, int], list[Page]] = {}

    @contextmanager
    def visit(self, url: str, timezone: str = "UTC", width: int = 1400, height: int = 900) -> Iterator[Visitor]:
        """A window of one's own, for a visitor who is at ease in the end."""
        free = self._free.setdefault((timezone, width, height), [])
        page = free.pop() if free else self._page(timezone, width, height)
        visitor = Visitor(url, page)
        listeners = visitor.listeners()
        for event, listener in listeners.items():
            page.on(event, listener)  # type: ignore[call-overload]  # declared for each name apart
        try:
            yield visitor
            visitor.at_ease()
            page.evaluate(_FORGET)
            page.context.clear_cookies()
            page.goto("about:blank")  # pages that stay open ask the dashboard again every few seconds
            for event, listener in listeners.items():
                page.remove_listener(event, listener)
        except BaseException:
            page.context.close()
            raise
        free.append(page)

    def _page(self, timezone: str, width: int, height: int) -> Page:
        context = self.browser.new_context(timezone_id=timezone, viewport={"width": width, "height": height})
        context.set_default_timeout(WAIT_MS)
        return context.new_page()
