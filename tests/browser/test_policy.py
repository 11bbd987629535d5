"""The server's policy as Chromium keeps it: our pages lack nothing under it, pages of other origins get nothing."""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from app.process.serving.loopback import serving
from dashboard.main import PAGES
from tests.browser.conftest import OwnVisitor, Site
from tests.browser.site import WAIT_MS, Windows

VIOLATIONS = """window.violations = [];
document.addEventListener('securitypolicyviolation', event =>
    window.violations.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}`));"""

DONE_WITHOUT = re.compile(r"script-src wasm-eval \S+/static/js/protobuf\.[^/]*$")
"""Of Streamlit's Protocol Buffers: where it may not compile its arithmetic of 64 bits, it has the same as a script."""

TRY = """async ([page, stream]) => {
    const of = promise => promise.then(() => 'read', () => 'refused');
    const opened = make => new Promise(end => {
        const made = make();
        made.onopen = () => end('open');
        made.onload = () => end('loaded');
        made.onerror = () => end('refused');
    });
    const framed = await new Promise(end => {
        const frame = document.createElement('iframe');
        frame.onload = () => end(frame);
        frame.src = page;
        document.body.append(frame);
    });
    return {
        websocket: await opened(() => new WebSocket(stream)),
        named: await opened(() => new WebSocket(stream, ['streamlit', 'token', 'session'])),
        health: await of(fetch(page + '_stcore/health')),
        page: await of(fetch(page)),
        script: await opened(() => document.head.appendChild(
            Object.assign(document.createElement('script'), {src: page + '_stcore/host-config'}))),
        image: await opened(() => Object.assign(new Image(), {src: page + 'favicon.png'})),
        frames: frames.length,
        inside: await of((async () => frames[0].document.body.innerText)()),
    };
}"""


class Blank(BaseHTTPRequestHandler):
    """Somebody else's server."""

    def do_GET(self) -> None:
        body = b"<!doctype html><title>other</title><body>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def elsewhere(windows: Windows) -> Iterator[Page]:
    """An empty page in a window of its own, on another port of this machine."""
    with serving(Blank) as url, closing(windows.browser.new_context()) as context:
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.goto(f"{url}/")
        yield page


def address_of(name: str, served: Site) -> tuple[str, str]:
    """A page by its name, with something on it to show: its path, and what it says then."""
    job = served.manifest.jobs[0]
    alert = served.found[0]
    addresses = {
        "alerts": ("alerts", "mapper-straggler-running"),
        "alert": (f"alert?id={alert['id']}", "What happened"),
        "jobs": ("jobs", job.name),
        "job": (f"job?id={job.job_id}", "Attempts by host"),
        "cluster": ("cluster", "episodes of imbalance"),
        "reports": ("reports?part=Stragglers", "Worst attempts"),
        "queries": ("queries", "load-imbalance-task"),
        "query": ("query?name=load-imbalance-task", "PATTERN"),
        "editor": ("editor?name=queued-data", "Rows appear here"),
        "health": ("health?part=Engine", "mapper-straggler-running"),
        "demo": ("demo", "faults found"),
    }
    return addresses[name]


DRAWN = {"alert": 1, "job": 3, "cluster": 3, "reports": 1}
"""Charts that a page has at least."""


def test_every_page_is_whole_under_its_policy(visitor: OwnVisitor, served: Site) -> None:
    """Each loaded anew: its HTML, scripts, styles, fonts, websocket. What is blocked is an error of the console too."""
    own = visitor()
    own.page.add_init_script(VIOLATIONS)
    for spec in PAGES:
        path, told = address_of(spec.name, served)
        answer = own.page.goto(f"{served.url}{path}")
        assert answer is not None
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self' 'sha256-")
        assert answer.headers["cache-control"] == "no-store"
        expect(own.page.locator("h1").first).to_be_visible()
        own.still()
        own.look_through()
        own.reads(told)
        if spec.name == "editor":
            expect(own.page.get_by_role("status").filter(has_text="Valid. It reads ")).to_be_visible()
        n_charts = DRAWN.get(spec.name, 0)
        if n_charts:
            charts = own.page.get_by_test_id("stVegaLiteChart").locator("svg, canvas")
            expect(charts.nth(n_charts - 1)).to_be_visible()
        assert [told for told in own.page.evaluate("window.violations") if not DONE_WITHOUT.match(told)] == [], path
        own.at_ease()


def test_what_a_page_must_not_run_is_blocked(visitor: OwnVisitor) -> None:
    """The policy is in force: it is not one that lets everything through."""
    own = visitor()
    page = own.open("alerts", "Alerts")
    ran = page.evaluate("""() => {
        const script = document.createElement('script');
        script.textContent = 'window.ran = true';
        document.head.append(script);
        // Later: what is run here directly is run by the test's tool, for which the policy does not hold.
        return new Promise(end => setTimeout(() => {
            let evaluated = true;
            try { Function('return 1')() } catch { evaluated = false }
            end([window.ran === true, evaluated]);
        }));
    }""")
    assert ran == [False, False]
    assert own.complaints
    assert all("Content Security Policy" in complaint for complaint in own.complaints)
    own.complaints.clear()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_on_another_port_of_this_machine_gets_nothing(elsewhere: Page, served: Site, name: str) -> None:
    port = urlsplit(served.url).port
    own = elsewhere.evaluate("location.port")
    elsewhere.goto(f"http://{name}:{own}/")
    tried = elsewhere.evaluate(TRY, [f"http://{name}:{port}/", f"ws://{name}:{port}/_stcore/stream"])
    assert tried == {
        "websocket": "refused", "named": "refused", "health": "refused", "page": "refused", "script": "refused",
        "image": "refused", "frames": 1, "inside": "refused",
    }  # fmt: skip
    assert elsewhere.frames[1].url.startswith("chrome-error:")


def test_a_link_from_another_port_opens_the_page(elsewhere: Page, served: Site) -> None:
    make = "url => document.body.append(Object.assign(document.createElement('a'), {href: url, text: 'x'}))"
    elsewhere.evaluate(make, f"{served.url}alerts")
    elsewhere.get_by_role("link", name="x").click()
    expect(elsewhere.locator("h1").first).to_have_text("Alerts", timeout=WAIT_MS)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 101),
        ({"Origin": "http://{own}"}, 101),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
    ],
)
def test_the_handshake_of_the_websocket(served: Site, headers: dict[str, str], expected: int) -> None:
    """As a page's browser would make it, and as DNS rebinding would."""
    own = urlsplit(served.url).netloc
    given = {
        "Host": own, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    } | {name: value.format(own=own) for name, value in headers.items()}  # fmt: skip
    lines = [f"{name}: {value}" for name, value in given.items()]
    place = urlsplit(served.url)
    with socket.create_connection((place.hostname, place.port), 120) as connection:
        connection.sendall("\r\n".join(["GET /_stcore/stream HTTP/1.1", *lines, "", ""]).encode())
        with closing(http.client.HTTPResponse(connection)) as answer:
            answer.begin()
            assert answer.status == expected


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/favicon.png", 200),
        ("GET", "/_stcore/health", 200),
        ("GET", "/_stcore/agent/openapi.json", 404),
        ("POST", "/_stcore/agent/mcp", 404),
        ("GET", "/_stcore/metrics", 404),
        ("TRACE", "/", 405),
        ("GET", "/alerts/", 301),
        ("GET", "//evil.example/", 400),
        ("GET", "/media/none", 404),
        ("DELETE", "/", 405),
    ],
)
def test_answers_of_all_kinds_have_the_headers(served: Site, method: str, path: str, status: int) -> None:
    place = urlsplit(served.url)
    with closing(http.client.HTTPConnection(str(place.hostname), place.port, timeout=120)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        answer.read()
    assert answer.status == status
    assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert "frame-ancestors 'self'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Access-Control-Allow-Origin"] is None
