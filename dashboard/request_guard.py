"""Which requests the dashboard's server answers, and the headers that every answer has, whatever Streamlit says.

A page of another origin must neither read the dashboard nor act through it: not one of another site, nor one that some
other server of this machine gave (another port of localhost is another origin, which Streamlit alone lets in).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.process.serving.web import host_of

HEALTH = "/_stcore/health"
"""Says `ok` and nothing else: load balancers ask for it by whatever name they know."""

UNUSED = ("/_stcore/agent/", "/_stcore/metrics", "/_stcore/upload_file/")
"""Of Streamlit: a way in for programs, figures about itself, and files from browsers. No page has a use for them."""

_SCRIPT, _END_OF_SCRIPT = "<script>", "</script>"
_POLICY_VIOLATION = 1008
"""Code of a closed websocket (RFC 6455, 7.4.1)."""


def content_security_policy(first_page: str) -> str:
    """What a page may load and run, given the HTML that every page begins with: all of it from this server.

    Of the `unsafe-*` words only `unsafe-inline` of styles is there: Streamlit's styles (Emotion), its tables and the
    query editor write style sheets into the page while it lives, so neither a hash nor a nonce can name them.
    `unsafe-eval` is not needed, as Streamlit has Vega's expressions interpreted, and scripts need no `blob:`, as the
    query editor's has an address; what would compile WebAssembly does without. The one script within the HTML is named
    by its hash.
    """
    scripts = "".join(f" 'sha256-{_sha256(script)}'" for script in _inline_scripts(first_page))
    return "; ".join((
        "default-src 'none'",
        f"script-src 'self'{scripts}",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",  # the icon, symbols in style sheets, charts that are saved as pictures
        "font-src 'self' data:",  # one stands in Streamlit's style sheet
        "connect-src 'self'",  # the websocket, and whether the server is there
        "frame-ancestors 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    ))  # fmt: skip


def security_headers(first_page: str) -> dict[str, str]:
    """Of every answer, by name."""
    return {
        "Content-Security-Policy": content_security_policy(first_page),
        "X-Frame-Options": "SAMEORIGIN",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",  # addresses name jobs, hosts and queries
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }


@dataclass(frozen=True)
class RequestHead:
    """Of a request, what decides whether it is answered."""

    kind: str
    """`http` or `websocket`."""
    method: str
    path: str
    is_encrypted: bool
    headers: dict[str, str]
    """By name in lower case; of several with one name, all, with a comma between."""

    @classmethod
    def of(cls, scope: Scope) -> RequestHead:
        """From the connection's scope."""
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            headers[key] = f"{headers[key]},{text}" if key in headers else text
        is_encrypted = scope["scheme"] in ("https", "wss")
        return cls(scope["type"], scope.get("method", "GET"), scope["path"], is_encrypted, headers)


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered."""

    status: HTTPStatus
    reason: str


def unknown_name(request: RequestHead, known: Sequence[str]) -> Refusal | None:
    """A page may point a name of its own at this machine (DNS rebinding): the browser takes both for one origin."""
    if request.path.endswith(HEALTH) and request.kind == "http":
        return None
    name = host_of(request.headers.get("host", "")).rstrip(".")
    if name and any(_fits(name, pattern.strip().strip("[]").lower().rstrip(".")) for pattern in known):
        return None
    remedy = "open it under the name of alerting.external_url, or add this name to dashboard.allowed_hosts"
    return Refusal(HTTPStatus.MISDIRECTED_REQUEST, f"The dashboard is not known by the name it was asked by: {remedy}.")


def other_origin(request: RequestHead, known: Sequence[str]) -> Refusal | None:
    """Requests that a page of another origin makes. Whoever follows a link from there opens a page, and may."""
    del known
    origin = request.headers.get("origin")
    if (origin is None or _is_own(origin, request)) and (_is_from_here(request) or _is_link(request)):
        return None
    return Refusal(HTTPStatus.FORBIDDEN, "The dashboard answers its own pages alone; this is a request of another one.")


def unused(request: RequestHead, known: Sequence[str]) -> Refusal | None:
    """What no page needs is not there."""
    del known
    is_unused = any(path in f"{request.path}/" for path in UNUSED)
    return Refusal(HTTPStatus.NOT_FOUND, "not found") if is_unused else None


CHECKS: tuple[Callable[[RequestHead, Sequence[str]], Refusal | None], ...] = (unknown_name, other_origin, unused)
"""In order; the first refusal counts."""


class RequestGuard:
    """Around an ASGI application: refuses before it is asked, and sets headers on all that it answers."""

    def __init__(self, app: ASGIApp, first_page: str, known_hosts: Iterable[str]) -> None:
        self._app = app
        self._headers = [
            (name.lower().encode(), value.encode()) for name, value in security_headers(first_page).items()
        ]
        self._known_hosts = tuple(known_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request = RequestHead.of(scope)
        refusal = self.refusal(request)
        send_on = self._with_headers(send, request.is_encrypted)
        if refusal is None:
            await self._app(scope, receive, send_on)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            await _refuse(refusal, send_on)

    def refusal(self, request: RequestHead) -> Refusal | None:
        """Why it is not answered, if it is not."""
        return next((refusal for check in CHECKS if (refusal := check(request, self._known_hosts))), None)

    def _with_headers(self, send: Send, is_encrypted: bool) -> Send:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = self._replaced(message.get("headers", ()))
                message = {**message, "headers": [*map(_secured, headers)] if is_encrypted else headers}
            await send(message)

        return sent

    def _replaced(self, given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Ours in place of those of the same name; nobody else is given leave to read."""
        own = {name for name, _ in self._headers}
        kept = [
            (name, value)
            for name, value in given
            if name.lower() not in own and not name.lower().startswith(b"access-control-")
        ]
        # Files whose name changes with their content may be kept; pages and downloads tell of the cluster.
        if not any(name.lower() == b"cache-control" and b"immutable" in value for name, value in kept):
            kept = [(name, value) for name, value in kept if name.lower() != b"cache-control"]
            kept.append((b"cache-control", b"no-store"))
        return kept + self._headers


def _secured(header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """A cookie that was given over TLS comes back over TLS alone: Streamlit knows nothing of the proxy that ends it."""
    name, value = header
    if name.lower() == b"set-cookie" and b"; secure" not in value.lower():
        return name, value + b"; Secure"
    return header


async def _refuse(refusal: Refusal, send: Send) -> None:
    body = f"{refusal.reason}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _is_own(origin: str, request: RequestHead) -> bool:
    """Scheme is compared where it is known to be https: a proxy that ends TLS need not have told us."""
    found = urlsplit(origin)
    schemes = ("https",) if request.is_encrypted else ("http", "https")
    return found.scheme in schemes and found.netloc.lower() == request.headers.get("host", "").lower()


def _is_from_here(request: RequestHead) -> bool:
    """Browsers tell whose page asks where they trust the connection (https, localhost); tools say nothing."""
    return request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")


def _is_link(request: RequestHead) -> bool:
    """A page is opened in a window, not in a frame."""
    told = request.headers
    is_opened = (told.get("sec-fetch-mode"), told.get("sec-fetch-dest")) == ("navigate", "document")
    return request.kind == "http" and request.method in ("GET", "HEAD") and is_opened


def _fits(name: str, pattern: str) -> bool:
    return pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:]))


def _inline_scripts(page: str) -> Iterator[str]:
    at = 0
    while (begin := page.find(_SCRIPT, at)) >= 0 and (at := page.find(_END_OF_SCRIPT, begin)) >= 0:
        yield page[begin + len(_SCRIPT) : at]


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
