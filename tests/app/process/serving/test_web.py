"""The endpoints over real loopback sockets: answers, refusals, limits."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from app.errors import AppError
from app.process.serving.web import HEADERS, Endpoints, Limits, host_of
from app.settings import Web

TIMEOUT_S = 120.0


@dataclass
class Reply:
    """What came back until the connection was closed."""

    raw: bytes
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""

    @classmethod
    def of(cls, raw: bytes) -> Reply:
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return cls(raw, int(first.split()[1]) if raw else 0, headers, body.decode())


@dataclass
class Outcome:
    """What a reload gives."""

    ok: bool = True
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class Process:
    """A process whose state tests set."""

    health: tuple[bool, str] = (True, "")
    readiness: tuple[bool, str] = (True, "")
    outcome: Outcome = field(default_factory=Outcome)
    n_reloads: int = 0
    during: Callable[[], None] = lambda: None

    def healthy(self) -> tuple[bool, str]:
        return self.health

    def ready(self) -> tuple[bool, str]:
        return self.readiness

    def reload(self) -> Outcome:
        self.n_reloads += 1
        self.during()
        return self.outcome


@dataclass
class Site:
    """Running endpoints and how to talk to them."""

    endpoints: Endpoints
    process: Process
    registry: CollectorRegistry

    @property
    def port(self) -> int:
        return self.endpoints.address[1]

    def connect(self) -> socket.socket:
        return socket.create_connection(self.endpoints.address, TIMEOUT_S)

    def send(self, raw: bytes) -> Reply:
        with self.connect() as connection:
            connection.sendall(raw)
            return Reply.of(everything(connection))

    def is_ready(self) -> bool:
        try:
            return self.ask("GET", "/-/ready").status == 200
        except ConnectionError:
            return False

    def ask(self, method: str, path: str, *headers: str, host: str | None = None, body: bytes = b"") -> Reply:
        host = f"127.0.0.1:{self.port}" if host is None else host
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers]
        return self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)


def everything(connection: socket.socket) -> bytes:
    received = bytearray()
    while part := connection.recv(65_536):
        received += part
    return bytes(received)


def until_hung_up(connection: socket.socket) -> bytes:
    """As `everything`, of a client that is hung up on while it sends: what it sent too late resets the connection."""
    try:
        return everything(connection)
    except ConnectionResetError:
        return b""


@contextmanager
def site(limits: Limits | None = None, address: str = "127.0.0.1", allowed: Sequence[str] = ()) -> Iterator[Site]:
    process, registry = Process(), CollectorRegistry()
    web = Web(address=address, port=0, allowed_hosts=tuple(allowed))
    # A request of a test may take its time on a busy machine, unless that is what the test is about.
    limits = limits or Limits(request_s=TIMEOUT_S)
    endpoints = Endpoints(web, registry, process, process.reload, limits=limits)
    endpoints.start()
    try:
        yield Site(endpoints, process, registry)
    finally:
        endpoints.stop()


@pytest.fixture
def here() -> Iterator[Site]:
    with site() as running:
        yield running


# ------------------------------------------------------------------ what they say


def test_health_and_readiness_are_the_process_s_own_words(here: Site) -> None:
    assert [(r.status, r.body) for r in (here.ask("GET", "/-/healthy"), here.ask("GET", "/-/ready"))] == [
        (200, "ok\n")
    ] * 2
    here.process.readiness = (False, "no step yet:\nthe store is locked")
    here.process.health = (False, "no step for 90 s")
    ready, healthy = here.ask("GET", "/-/ready"), here.ask("GET", "/-/healthy")
    assert (ready.status, ready.body) == (503, "no step yet: the store is locked\n")
    assert (healthy.status, healthy.body) == (503, "no step for 90 s\n")


def test_metrics_are_the_registry_s_in_the_format_that_is_asked_for(here: Site) -> None:
    Counter("seen", "Things.", registry=here.registry).inc(3)
    reply = here.ask("GET", "/metrics?name[]=x")
    assert reply.headers["content-type"].startswith("text/plain; version=")
    samples = [sample for family in text_string_to_metric_families(reply.body) for sample in family.samples]
    assert [sample.value for sample in samples if sample.name == "seen_total"] == [3.0]
    modern = here.ask("GET", "/metrics", "Accept: application/openmetrics-text; version=1.0.0")
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    assert modern.body.endswith("# EOF\n")


def test_a_reload_tells_what_became_of_it_one_problem_per_line(here: Site) -> None:
    here.process.outcome = Outcome(notes=("2 queries are new",))
    reply = here.ask("POST", "/-/reload", "Content-Length: 0")
    assert (reply.status, reply.body) == (200, "reloaded\n2 queries are new\n")
    here.process.outcome = Outcome(False, ("config.yaml: web.port: found x;\n expected y", "q.cep: line 1"))
    reply = here.ask("POST", "/-/reload")
    assert (reply.status, reply.body) == (400, "config.yaml: web.port: found x; expected y\nq.cep: line 1\n")
    assert here.process.n_reloads == 2


def test_a_second_reload_does_not_wait_for_the_first(here: Site) -> None:
    during: list[Reply] = []
    here.process.during = lambda: during.append(here.ask("POST", "/-/reload"))
    assert here.ask("POST", "/-/reload").status == 200
    assert [(reply.status, reply.body) for reply in during] == [(409, "a reload is under way\n")]
    here.process.during = lambda: None
    assert here.ask("POST", "/-/reload").status == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/-/reload", 405, "POST"),
        ("HEAD", "/-/reload", 405, "POST"),
        ("POST", "/metrics", 405, "GET"),
        ("DELETE", "/-/ready", 405, "GET"),
        ("GET", "/", 404, None),
        ("GET", "/-/ready/", 404, None),
        ("GET", "/../etc/passwd", 404, None),
        ("GET", "http://127.0.0.1/metrics", 404, None),
        ("BREW", "/pot", 404, None),
    ],
)
def test_other_methods_and_paths(here: Site, method: str, path: str, status: int, allow: str | None) -> None:
    reply = here.ask(method, path)
    assert (reply.status, reply.headers.get("allow")) == (status, allow)
    assert here.process.n_reloads == 0


def test_head_is_get_without_its_body(here: Site) -> None:
    reply = here.ask("HEAD", "/-/healthy")
    assert (reply.status, reply.headers["content-length"], reply.body) == (200, "3", "")


def test_a_defect_is_told_to_the_log_alone(here: Site) -> None:
    def break_down() -> None:
        raise RuntimeError("secret of the inside")

    here.process.during = break_down
    reply = here.ask("POST", "/-/reload")
    assert reply.status == 500
    assert b"secret" not in reply.raw
    assert b"Traceback" not in reply.raw
    here.process.during = lambda: None
    assert here.ask("POST", "/-/reload").status == 200


def test_answers_name_neither_program_nor_version(here: Site) -> None:
    for reply in (here.ask("GET", "/-/ready"), here.send(b"nonsense\r\n\r\n"), here.ask("GET", "/", host="evil")):
        assert "server" not in reply.headers
        assert b"ython" not in reply.raw


def test_every_answer_has_the_headers_errors_too(here: Site) -> None:
    def break_down() -> None:
        raise RuntimeError

    asked: dict[int, Callable[[], Reply]] = {
        200: lambda: here.ask("GET", "/metrics"),
        400: lambda: here.send(b"nonsense\r\n\r\n"),
        403: lambda: here.ask("GET", "/", host="evil"),
        404: lambda: here.ask("GET", "/"),
        405: lambda: here.ask("DELETE", "/-/ready"),
        411: lambda: here.ask("POST", "/-/reload", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        431: lambda: here.ask("GET", "/" + "x" * 20_000),
        500: lambda: here.ask("POST", "/-/reload"),
        503: lambda: here.ask("GET", "/-/ready"),
    }
    here.process.during = break_down
    here.process.readiness = (False, "no step yet")
    for status, ask in asked.items():
        reply = ask()
        assert reply.status == status
        assert {name: reply.headers.get(name.lower()) for name in HEADERS} == HEADERS
    assert HEADERS["X-Frame-Options"] == "DENY"
    assert HEADERS["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert HEADERS["Cache-Control"] == "no-store"


# ------------------------------------------------------------------- who may ask


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:9477", "[::1]:9477", "localhost:1"])
def test_names_of_this_machine_are_let_in(here: Site, host: str) -> None:
    assert here.ask("GET", "/-/ready", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:9477", "localhost@evil", "",
     "[::1].evil", "127.0.0.1:9477:evil", "localhost evil"],
)  # fmt: skip
def test_a_page_that_points_its_name_at_loopback_is_refused(here: Site, host: str) -> None:
    for method, path in (("GET", "/metrics"), ("POST", "/-/reload"), ("GET", "/nothing")):
        reply = here.ask(method, path, host=host)
        assert reply.status == 403
        assert "evil" not in reply.body
    assert here.process.n_reloads == 0


def test_exactly_one_host_header(here: Site) -> None:
    assert here.send(b"GET /-/ready HTTP/1.1\r\n\r\n").status == 403
    assert here.send(b"GET /-/ready HTTP/1.0\r\n\r\n").status == 403
    assert here.ask("GET", "/-/ready", "Host: localhost").status == 403


def test_further_names_are_a_setting() -> None:
    with site(allowed=["Monitor.example", "[fd00::7]"]) as running:
        assert running.ask("GET", "/-/ready", host="monitor.EXAMPLE:9477").status == 200
        assert running.ask("GET", "/-/ready", host="[fd00::7]:9477").status == 200
        assert running.ask("GET", "/-/ready", host="example").status == 403


def test_host_of() -> None:
    assert [host_of(h) for h in ("A:1", "[::1]:80", "[::1]", "a:b", ":80")] == ["a", "::1", "::1", "", ""]


@pytest.mark.parametrize(
    "header",
    ["Origin: http://localhost:9477", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"],
)
def test_pages_cannot_reload(here: Site, header: str) -> None:
    assert here.ask("POST", "/-/reload", header).status == 403
    assert here.process.n_reloads == 0
    assert here.ask("GET", "/-/ready", header).status == 200


def test_a_user_who_opens_the_metrics_in_a_browser_sees_them(here: Site) -> None:
    assert here.ask("GET", "/metrics", "Sec-Fetch-Site: none").status == 200


# -------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1 x y\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"GET / HTTP/x\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_told_so_without_an_echo(here: Site, raw: bytes, status: int) -> None:
    reply = here.send(raw)
    assert reply.status == status
    assert b"nonsense" not in reply.raw
    assert here.ask("GET", "/-/ready").status == 200


def test_heads_and_bodies_have_limits(here: Site) -> None:
    assert here.ask("GET", "/" + "x" * 20_000).status == 431
    assert here.ask("GET", "/-/ready", *(f"X-{i}: {'y' * 500}" for i in range(40))).status == 431
    assert here.ask("GET", "/-/ready", *(f"X-{i}: y" for i in range(150))).status == 431
    assert here.ask("POST", "/-/reload", "Content-Length: 999999999", body=b"z" * 100_000).status == 413
    assert here.ask("POST", "/-/reload", "Content-Length: -1").status == 400
    assert here.ask("POST", "/-/reload", "Content-Length: \xb2").status == 400
    assert here.ask("POST", "/-/reload", "Transfer-Encoding: chunked", body=b"5\r\nhello\r\n").status == 411
    assert here.process.n_reloads == 0
    assert here.ask("POST", "/-/reload", "Content-Length: 5", body=b"hello").status == 200


def test_a_slow_client_is_hung_up_on() -> None:
    with site(Limits(request_s=0.2)) as running, running.connect() as slow, running.connect() as slower:
        with suppress(ConnectionError):  # hung up on before it sent anything
            slow.sendall(b"GET /-/ready HTT")
            slower.sendall(b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhe")
        assert until_hung_up(slow) == b""
        assert until_hung_up(slower) == b""
        assert running.process.n_reloads == 0
        assert any(running.is_ready() for _ in range(1_000))  # a busy machine may need longer for a request, too


def test_drips_do_not_make_a_request_longer() -> None:
    with site(Limits(request_s=1.0)) as running, running.connect() as slow:
        slow.settimeout(0.02)
        for _ in range(6_000):  # two minutes at least
            try:
                slow.sendall(b"x")
                if slow.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("the connection outlived its time")


def test_the_number_of_connections_is_bounded_and_the_oldest_makes_room() -> None:
    limits = Limits(n_connections=2, request_s=TIMEOUT_S)
    with site(limits) as running, running.connect() as first, running.connect() as second:
        first.sendall(b"GET")
        second.sendall(b"GET")
        with running.connect() as third:
            assert everything(first) == b""
            second.sendall(b" /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            third.sendall(b"GET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert [Reply.of(everything(open_one)).status for open_one in (second, third)] == [200, 200]


def test_whoever_is_being_answered_does_not_make_room() -> None:
    refused: list[bytes] = []
    with site(Limits(n_connections=1, request_s=TIMEOUT_S)) as running:

        def another() -> None:
            with running.connect() as connection:
                refused.append(everything(connection))

        running.process.during = another
        assert running.ask("POST", "/-/reload").status == 200
    assert refused == [b""]


@pytest.mark.parametrize("start", [b"", b"GET /-/ready HTTP/1.1\r\nHost: "])
def test_health_answers_beside_many_that_send_nothing_or_slowly(start: bytes) -> None:
    with site(Limits(request_s=600.0)) as running, ExitStack() as opened:
        for _ in range(500):
            opened.enter_context(running.connect()).sendall(start)
        for path in ("/-/healthy", "/-/ready", "/metrics"):
            assert running.ask("GET", path).status == 200


def test_clients_that_do_not_read_their_answer_make_room() -> None:
    limits = Limits(n_connections=2, request_s=600.0)
    with site(limits) as running, ExitStack() as opened:
        Counter("long_" + "x" * 1_000, "y" * 20_000_000, registry=running.registry)
        for _ in range(4):
            opened.enter_context(running.connect()).sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert any(running.is_ready() for _ in range(10_000))


def test_a_client_that_goes_away_harms_nobody(here: Site) -> None:
    for raw in (b"", b"GET / HT", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        with here.connect() as connection:
            connection.sendall(raw)
    assert here.ask("GET", "/-/ready").status == 200


# ------------------------------------------------------------------------ listening


def test_a_taken_port_is_told_with_its_key_and_remedy(here: Site) -> None:
    second = Endpoints(Web(port=here.port), CollectorRegistry(), here.process, here.process.reload)
    with pytest.raises(AppError, match=rf"web\.port: found {here.port}, which is taken .*choose another one"):
        second.start()
    second.stop()


@pytest.mark.parametrize("address", ["192.0.2.1", "no such name.invalid"])
def test_an_address_of_another_machine_is_told_with_its_key(address: str) -> None:
    process = Process()
    with pytest.raises(AppError, match=r"web\.address: found .* expected an address of this machine"):
        Endpoints(Web(address=address, port=0), CollectorRegistry(), process, process.reload).start()


def test_after_the_stop_nobody_answers() -> None:
    with site() as running:
        address = running.endpoints.address
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, TIMEOUT_S)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6_loopback() -> None:
    try:
        with site(address="::1") as running:
            assert running.ask("GET", "/-/ready", host=f"[::1]:{running.port}").status == 200
    except AppError:
        pytest.skip("no IPv6 loopback here")
