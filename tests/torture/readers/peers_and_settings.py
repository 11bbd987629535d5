"""What reads the bytes of those who are told, of Prometheus, and of who pastes a configuration; see `every_reader`."""

from __future__ import annotations

import json
import socket
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from app.alerting.dispatch.routes import Routing
from app.alerting.links import Links
from app.alerting.receivers.errors import DeliveryError
from app.alerting.receivers.sample import sample_news
from app.config import load_settings
from app.errors import ConfigError
from app.process.serving.write_receiver import PATH
from collectors.base import ProblemLog
from collectors.history.job_conf import read_settings
from collectors.network.http import Answer
from collectors.prometheus.targets import TargetDefaults, TargetsError, parse_list
from tests.app.alerting.receivers.told import SETTINGS, service
from tests.app.process.serving.test_write_receiver import HEADERS, LOAD
from tests.app.process.serving.test_write_receiver import running as receiving
from tests.collectors.prometheus import writes as write
from tests.slow_servers import serving
from tests.torture.processes import pages

WAIT_S = 2.0
APPRISE_S = 20.0
"""Of one attempt through apprise, whose process has to begin."""
THROUGH_APPRISE = "answers of services to apprise"
CONFIGURATION = b"""<?xml version="1.0" encoding="UTF-8"?>
<configuration><property><name>mapreduce.map.memory.mb</name><value>1024</value><final>false</final></property>
<property><name>mapreduce.map.java.opts</name><value>-Dx=1 -Xmx800m</value><source>job.xml</source></property>
<property><name>mapreduce.job.reduces</name><value>${a.b}</value></property>
<property><name>a.b</name><value>7</value></property>
<property><name>mapreduce.job.cache.files</name><value>hdfs://u:p@nn:8020/x/a.jar?b=1#c,s3a://k/y</value></property>
</configuration>"""
MAIL = b"220 ready\r\n250-here\r\n250 SIZE 1000\r\n250 fine\r\n250 fine\r\n354 go on\r\n250 taken\r\n221 bye\r\n"
PASTED = {
    "alerting": {
        "receivers": {"ops": {"url": "http://127.0.0.1:9/ops"}},
        "time_intervals": [
            {
                "name": "nights",
                "time_intervals": [
                    {
                        "times": [{"start_time": "22:00", "end_time": "24:00"}],
                        "weekdays": ["monday:friday"],
                        "days_of_month": ["1:5", "-3:-1"],
                        "months": ["january:march"],
                        "years": ["2026:2030"],
                        "location": "Europe/Berlin",
                    }
                ],
            }
        ],
        "inhibit_rules": [
            {"source_matchers": ['a="b"'], "target_match_re": {"alertname": "x.*"}, "equal": ["host", "job"]}
        ],
        "route": {
            "receiver": "ops",
            "group_by": ["alertname"],
            "group_wait": "1h30m",
            "routes": [
                {"matchers": ['host=~"n[0-9]+|x"', "b!=c"], "mute_time_intervals": ["nights"], "continue": True},
                {"match": {"severity": "critical"}, "match_re": {"job": "a|b"}, "repeat_interval": "1d"},
            ],
        },
    }
}
PASTED_ROUTES = "pasted routes"
"""A configuration is its own user's: what is hostile about it is its form, not its length, as YAML is slow."""
Read = Callable[[bytes, Path], None]


@contextmanager
def others(folder: Path) -> Iterator[Mapping[str, tuple[list[bytes], Read]]]:
    """By name: what is right, and who reads it."""
    http = [
        b"HTTP/1.1 429 Later\r\nRetry-After: 7\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n"
        b'{"a": ["b", 1]}',
        b'HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n3\r\n1}\n\r\n0\r\n\r\n',
        b"HTTP/1.1 307 There\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 400 Bad\r\nConnection: close\r\n\r\ninvalid_payload",
    ]
    lists = [json.dumps([{"targets": ["n1:9100"], "labels": {"__scheme__": "https", "a": "b"}}]).encode()]
    pasted = [yaml.safe_dump(PASTED).encode(), json.dumps(PASTED).encode()]
    with _told() as (told, mailed, through_apprise), _written(folder) as written, pages.written(folder) as opened:
        yield {
            "job configurations": ([CONFIGURATION], _configuration),
            "target servers": (lists, _targets),
            "answers of services": (http, told),
            THROUGH_APPRISE: (http, through_apprise),
            "answers of smarthosts": ([MAIL], mailed),
            "remote write": (_requests(), written),
            "pages": (list(pages.REQUESTS), opened),
            PASTED_ROUTES: (pasted, _pasted),
        }


def _configuration(data: bytes, folder: Path) -> None:
    problems = ProblemLog("job_history")
    read_settings(data, "/x/job_1700000000000_0007_conf.xml", problems)
    found = problems.drain()
    assert len(found) <= 100
    assert all(problem.message.isprintable() for problem in found)


def _targets(data: bytes, folder: Path) -> None:
    with suppress(TargetsError):
        found = parse_list(Answer("http://sd", 200, "application/json", data), TargetDefaults())
        assert all(target.url.isprintable() and target.host.isprintable() for target in found)


def _pasted(data: bytes, folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_bytes(data)
    said = ""
    try:
        settings = load_settings(path, {})
    except ConfigError as error:
        said = str(error)
    assert said.replace("\n", "").isprintable(), repr(said)
    if said:
        return
    routing = Routing.of(settings.alerting)
    if routing is not None:
        for labels in ({"host": "n1", "b": "d"}, {"severity": "critical", "job": "a", "alertname": "x" * 100}):
            for target in routing.targets(labels):
                target.route.muted(1_790_000_000_000)


@contextmanager
def _told() -> Iterator[tuple[Read, Read, Read]]:
    """Services over HTTP, and smarthosts, that say these bytes."""
    said = [b""]
    kinds = [kind for kind in SETTINGS if kind not in ("email", "apprise")]
    news = sample_news("ops", Links(""), 0)

    def serve(connection: socket.socket) -> None:
        connection.settimeout(WAIT_S)
        with suppress(OSError):
            connection.recv(65_536)
            connection.sendall(said[0])

    def serve_mail(connection: socket.socket) -> None:
        """At once, whatever is asked."""
        connection.settimeout(WAIT_S)
        with suppress(OSError):
            connection.sendall(said[0])
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65_536):
                pass

    with serving(serve) as url, serving(serve_mail) as mail_url:

        def told(data: bytes, folder: Path) -> None:
            said[0] = data
            of = service(kinds[zlib.crc32(data) % len(kinds)], url=url)
            with suppress(DeliveryError):
                answered = of.send(of.message(news, None), "key", WAIT_S, ask=True)
                assert answered.isprintable(), answered
                assert len(answered) < 2_000

        def mailed(data: bytes, folder: Path) -> None:
            said[0] = data
            of = service("email", smarthost=mail_url.removeprefix("http://"))
            with suppress(DeliveryError):
                answered = of.send(of.message(news, None), "key", WAIT_S, ask=True)
                assert answered.isprintable(), answered

        def through_apprise(data: bytes, folder: Path) -> None:
            said[0] = data
            of = service("apprise", url=f"gotify://{url.removeprefix('http://')}/token")
            with suppress(DeliveryError):
                assert of.send(of.message(news, None), "key", APPRISE_S) == "taken"

        yield told, mailed, through_apprise


def _requests() -> list[bytes]:
    body = write.request(LOAD)
    head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    given = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n{head}"
    return [
        f"{given}Content-Length: {len(body)}\r\n\r\n".encode() + body,
        f"{given}Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body,
        f"{given}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n",
    ]


@contextmanager
def _written(folder: Path) -> Iterator[Read]:
    """The receiver of remote write: whatever it is sent, it takes what is right after it."""
    place = folder / "written"
    place.mkdir()
    right = write.request(LOAD)
    with receiving(place) as site:

        def send(data: bytes, _folder: Path) -> None:
            answer = b""
            with socket.create_connection(("127.0.0.1", site.receiver.port), WAIT_S) as connection, suppress(OSError):
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(65_536):
                    answer += part
            assert not answer.startswith(b"HTTP/1.1 5"), answer
            assert site.post(right).status_code == 204

        yield send


__all__ = ["CONFIGURATION", "PASTED_ROUTES", "THROUGH_APPRISE", "others"]
