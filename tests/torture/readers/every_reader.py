"""Everything that reads what others write: given any bytes it ends, and raises nothing but what it says it raises."""

from __future__ import annotations

import gzip
import json
import socket
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import requests
import yaml

from app.alertmanager.silences import silence_uuid
from app.event_file import EventFileError, read_event_file
from app.store import open_store
from collectors.base import Collector, OptionError, ProblemLog, SourceUnavailableError
from collectors.client.job_client_log import JobClientLogCollector, JobClientLogOptions
from collectors.ganglia.packets import PacketError, parse_packet
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.history.hadoop1_history import Hadoop1Parser
from collectors.history.jhist import JhistParser
from collectors.history.rumen_trace import RumenParser
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.logs.daemon_log import DaemonLogCollector, DaemonLogOptions
from collectors.logs.hdfs_audit import HdfsAuditCollector, HdfsAuditOptions
from collectors.network.http import HttpOptions, HttpTransport
from collectors.network.http_attempt import post
from collectors.prometheus.spool import Place, SpoolReader
from collectors.prometheus.targets import TargetDefaults, TargetFiles
from collectors.prometheus.write_request import WriteRequestError, parse_write_request, unpacked
from collectors.rest.documents import DocumentError, parse_apps
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from collectors.spark.spark_events import SparkEventsCollector, SparkEventsOptions
from spark_jobs.ingest.kinds import IngestOptions
from spark_jobs.ingest.parse import ReadFile, parse_file
from tests.app.alertmanager.served import TOKEN, fire, served, slow
from tests.app.alertmanager.test_silences import body as silence_body
from tests.app.process.serving.test_web import site
from tests.collectors import histories as h
from tests.collectors import reducer_logs as logs
from tests.collectors import rest_server as rest
from tests.collectors import rrds
from tests.collectors.client import consoles
from tests.collectors.ganglia import reports as ganglia
from tests.collectors.history.test_hadoop1_history import HISTORY
from tests.collectors.history.test_rumen_trace import job, text_of
from tests.collectors.jmx.daemons import T0, cluster, collector_of
from tests.collectors.logs.test_daemon_log import MASTER, NODE
from tests.collectors.positions import saved
from tests.collectors.prometheus import exporters
from tests.collectors.prometheus import writes as write
from tests.collectors.rest import timeline_server
from tests.collectors.spark import logs as spark_logs
from tests.engine.language.test_hostile_text import QUERIES
from tests.fuzz.inputs import look_at_query
from tests.slow_servers import serving
from tests.torture.readers.peers_and_settings import PASTED_ROUTES, THROUGH_APPRISE, others

WAIT_S = 5.0
DAEMON_LOGS = Path(__file__).parents[2] / "fixtures" / "daemon_logs"
AFTER_MS = 1_800_000_000_000
"""Later than those were recorded."""
LATER_MS = logs.DAY_MS + 86_400_000
TARGETS = [{"targets": ["n1:9100", "https://n2:9100/m"], "labels": {"cluster": "c", "__scheme__": "https"}}]
LOAD = write.series("node_load1", 0.5, 1_795_693_010_724)
OPENMETRICS = (
    "# TYPE node_network_receive_bytes counter\n"
    'node_network_receive_bytes_total{device="eth0"} 5 1795693010.5 # {a="b"} 1\n'
    "# TYPE node_load1 gauge\nnode_load1 0.5\n# EOF\n"
)
EVENTS = b'{"type":"A","t":1,"x":2.5,"k":"p"}\n{"type":"B","t_lo":1,"t_hi":9,"s":"\xc3\xa9"}\n'


@dataclass(frozen=True)
class Reader:
    """`read` takes bytes, and an empty folder to put them in."""

    samples: Sequence[bytes]
    """What is right."""
    read: Callable[[bytes, Path], None]
    most_bytes: int = 1 << 20
    one_in: int = 1
    """Of so many turns it has one: for what is dear to begin."""


@contextmanager
def all_readers(folder: Path) -> Iterator[Mapping[str, Reader]]:
    """By name; their servers run meanwhile."""
    rrd = folder / "model.rrd"
    rrds.write_rrd(rrd, [1.0, None, 2.5, 0.0])
    histories = [h.whole_history()]
    told = [json.dumps(document).encode() for document in rest.running_job().documents.values()]
    http = [
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(b), b) for b in told
    ]
    http.append(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"app\r\n4\r\ns":1\r\n1\r\n}\r\n0\r\n\r\n')
    http.append(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/x\r\nAge: 7\r\nContent-Length: 0\r\n\r\n")
    asked = [b"GET /%b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path for path in (b"metrics", b"-/healthy", b"-/ready")]
    asked.append(b"POST /-/reload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}")
    with ExitStack() as opened:
        answers = opened.enter_context(_Answers.running())
        web = opened.enter_context(_site())
        api = opened.enter_context(_api(folder))
        further = opened.enter_context(others(folder))
        yield {
            "jhist": Reader(histories, _jhist),
            "hadoop1": Reader([HISTORY], _hadoop1),
            "rumen": Reader([text_of(job(), job())], _rumen),
            "container_log": Reader(
                [logs.hadoop2_log().encode(), *_bytes(logs.hadoop3_logs().values())], _container_log
            ),
            "daemon_log": Reader([_daemon_lines(MASTER), _daemon_lines(NODE)], _daemon_log),
            "daemon_log of HDFS": Reader(_recorded("hadoop-hdfs-*.log"), _hdfs_daemon_log),
            "hdfs_audit": Reader(_recorded("hdfs-audit.log"), _hdfs_audit),
            "job_client_log": Reader(
                _bytes(consoles.console(told) for told in (consoles.HADOOP3, consoles.HADOOP1, consoles.STREAMING)),
                _job_client_log,
            ),
            "spark_events": Reader([spark_logs.recorded(form) for form in spark_logs.CODECS], _spark_events),
            "ganglia_rrd": Reader([rrd.read_bytes()], _rrd),
            "gmond": Reader([ganglia.recorded(name) for name in ("gmond-1", "gmetad")], _gmond),
            "gmond packets": Reader([data for _, data in ganglia.packets()], _packet),
            "jmx": Reader(_beans(), _jmx),
            "prometheus": Reader(_bytes([exporters.recorded(1), OPENMETRICS]), _prometheus),
            "write requests": Reader(
                [write.message([LOAD]), write.request(LOAD), write.request(*[LOAD] * 50)], _write_request
            ),
            "target lists": Reader([json.dumps(TARGETS).encode(), yaml.safe_dump(TARGETS).encode()], _targets),
            "api": Reader(_api_requests(), api, most_bytes=1 << 17),
            "yarn_rest": Reader(told, _rest),
            "yarn_timeline": Reader(
                [json.dumps(body).encode() for _, body in timeline_server.Timeline().documents.values()], _timeline
            ),
            "queries": Reader(_bytes(QUERIES), _query, most_bytes=1 << 16),
            "event files": Reader([EVENTS, b"type,t,x\nA,1,2\nB,2,\n"], _events),
            "ingest": Reader([*map(gzip.compress, histories), *histories], _ingest),
            "REST answers": Reader(http, answers.ask),
            "webhook answers": Reader(http, answers.tell),
            "web": Reader(asked, web),
            **{
                name: Reader(
                    samples,
                    read,
                    most_bytes=1 << (13 if name == PASTED_ROUTES else 18),
                    one_in=8 if name == THROUGH_APPRISE else 1,
                )
                for name, (samples, read) in further.items()
            },
        }


def _bytes(texts: Iterable[str]) -> list[bytes]:
    return [text.encode("utf-8", "surrogateescape") for text in texts]


def _daemon_lines(records: Sequence[tuple[int, str, str]]) -> bytes:
    return "".join(f"{logs.stamp(ms)} INFO {logger}: {message}\n" for ms, logger, message in records).encode()


def _fed(parser: JhistParser | Hadoop1Parser, data: bytes) -> None:
    size = 1 + zlib.crc32(data) % max(1, len(data))  # some pieces, the same for the same bytes
    for start in range(0, len(data), max(size, len(data) // 50 + 1)):
        parser.feed(data[start : start + max(size, len(data) // 50 + 1)])
    parser.close()


def _jhist(data: bytes, folder: Path) -> None:
    problems = ProblemLog("job_history")
    parser = JhistParser("/x/job_1700000000000_0007.jhist", problems, 0)
    _fed(parser, data)
    parser.events.take_batch()
    _few(problems)


def _hadoop1(data: bytes, folder: Path) -> None:
    problems = ProblemLog("hadoop1")
    parser = Hadoop1Parser("/x/history", problems, 0)
    _fed(parser, data)
    for told in parser.jobs:
        told.events.take_batch()
    _few(problems)


def _rumen(data: bytes, folder: Path) -> None:
    problems = ProblemLog("rumen")
    parser = RumenParser("/x/trace", problems, 0)
    parser.parse(data)
    for told in parser.jobs:
        told.events.take_batch()
    _few(problems)


def _few(problems: ProblemLog) -> None:
    told = problems.drain()
    assert len(told) <= 100, f"{len(told)} problems of one file"
    assert all(problem.message.isprintable() and problem.place.isprintable() for problem in told)


def _polled(collector: Collector, again: Callable[[], Collector], path: Path, data: bytes, now_ms: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data[: len(data) // 2])
    first = collector.poll(now_ms)
    path.write_bytes(data)
    second = collector.poll(now_ms + 15_000)
    restarted = again()
    restarted.restore(saved(collector.checkpoint()))
    third = restarted.poll(now_ms + 86_400_000)
    assert first.watermark_ms <= second.watermark_ms <= third.watermark_ms
    for polled in (first, second, third):
        polled.events.validate()
        assert len(polled.problems) <= 100, f"{len(polled.problems)} problems of one file"


def _container_log(data: bytes, folder: Path) -> None:
    def made() -> Collector:
        return ContainerLogCollector(ContainerLogOptions(folder))

    _polled(made(), made, folder / "node4" / logs.APPLICATION / logs.CONTAINER / "syslog", data, LATER_MS)


def _daemon_log(data: bytes, folder: Path) -> None:
    def made() -> Collector:
        return DaemonLogCollector(DaemonLogOptions(folder))

    _polled(made(), made, folder / "hadoop-yarn-nodemanager-node4.log", data, LATER_MS)


def _recorded(pattern: str) -> list[bytes]:
    return [path.read_bytes()[-20_000:].partition(b"\n")[2] for path in sorted(DAEMON_LOGS.glob(pattern))]


def _hdfs_daemon_log(data: bytes, folder: Path) -> None:
    def made() -> Collector:
        return DaemonLogCollector(DaemonLogOptions(folder))

    _polled(made(), made, folder / "hadoop-hdfs-namenode-nn1.log", data, AFTER_MS)


def _hdfs_audit(data: bytes, folder: Path) -> None:
    def made() -> Collector:
        return HdfsAuditCollector(HdfsAuditOptions(folder))

    _polled(made(), made, folder / "hdfs-audit.log", data, AFTER_MS)


def _job_client_log(data: bytes, folder: Path) -> None:
    def made() -> Collector:
        return JobClientLogCollector(JobClientLogOptions(folder))

    _polled(made(), made, folder / "job.log", data, AFTER_MS)


def _spark_events(data: bytes, folder: Path) -> None:
    def made() -> Collector:
        return SparkEventsCollector(SparkEventsOptions(folder))

    _polled(made(), made, folder / spark_logs.NAME, data, AFTER_MS)


def _rrd(data: bytes, folder: Path) -> None:
    def made() -> Collector:
        return GangliaRrdCollector(GangliaRrdOptions(folder, metrics=("cpu_user",)))

    _polled(made(), made, folder / "c" / "node4" / "cpu_user.rrd", data, rrds.T0_MS + 60_000)


def _gmond(data: bytes, folder: Path) -> None:
    """Beside one that is well: what that one tells is there."""
    answers = ganglia.Answers(g1=data, g2=b"")
    gmond = ganglia.collector_of(answers)
    for number in range(2):
        answers.tell(ganglia.host("well", ganglia.metric("load_one", number)), of="g2")
        polled = gmond.poll(ganglia.T0 + number * 6_006)
        polled.events.validate()
        assert len(polled.problems) <= 100
        assert "well" in polled.events.strings("host").to_pylist()
        gmond.restore(saved(gmond.checkpoint()))


def _packet(data: bytes, folder: Path) -> None:
    with suppress(PacketError):
        found = parse_packet(data)
        assert found is None or (found.host.isprintable() and found.address.isprintable())


def _timeline(data: bytes, folder: Path) -> None:
    timeline = timeline_server.Timeline()
    paths = sorted(timeline.documents)
    timeline.documents[paths[zlib.crc32(data) % len(paths)]] = 200, data
    yarn = timeline_server.collector(timeline)
    for number in range(4):
        with suppress(SourceUnavailableError):
            polled = yarn.poll(timeline_server.AFTER_MS + 30_000 * number)
            polled.events.validate()
            assert len(polled.problems) <= 100, f"{len(polled.problems)} problems of one poll"
        restarted = timeline_server.collector(timeline)
        restarted.restore(saved(yarn.checkpoint()))
        yarn = restarted


def _rest(data: bytes, folder: Path) -> None:
    script = rest.running_job()
    paths = sorted(script.documents)
    script.documents[paths[zlib.crc32(data) % len(paths)]] = data
    yarn = YarnRestCollector(YarnRestOptions(), script)
    for now_ms in (rest.NOW_MS, rest.NOW_MS + 5_000):
        with suppress(SourceUnavailableError):
            polled = yarn.poll(now_ms)
            polled.events.validate()
            yarn.restore(saved(yarn.checkpoint()))


def _beans() -> list[bytes]:
    return [json.dumps({"beans": daemon.beans}).encode() for daemon in cluster().values()]


def _jmx(data: bytes, folder: Path) -> None:
    daemons = cluster()
    jmx = collector_of(daemons)
    jmx.poll(T0)
    for daemon in daemons.values():
        paths = sorted(daemon.asked)
        daemon.pages[paths[zlib.crc32(data) % len(paths)]] = 200, data
    for now_ms in (T0 + 30_000, T0 + 60_000):
        polled = jmx.poll(now_ms)
        polled.events.validate()
        assert len(polled.problems) <= 100
        jmx.restore(saved(jmx.checkpoint()))


def _prometheus(data: bytes, folder: Path) -> None:
    told = {f"n{n}:9100": exporters.Exporter(exporters.recorded(1)) for n in range(2)}
    hostile = exporters.RawExporter(data, ("text/plain", "application/openmetrics-text")[zlib.crc32(data) % 2])
    prometheus = exporters.collector_of({**told, "n2:9100": hostile})
    for number in range(3):
        polled = prometheus.poll(exporters.T0 + number * 15_000)
        polled.events.validate()
        assert len(polled.problems) <= 100
        prometheus.restore(saved(prometheus.checkpoint()))
        assert {"n0", "n1"} <= set(polled.events.strings("host").to_pylist())


def _write_request(data: bytes, folder: Path) -> None:
    """As a message, and as what is packed around one."""
    with suppress(WriteRequestError):
        parse_write_request(data, {"node_load1"})
    with suppress(WriteRequestError):
        parse_write_request(unpacked(data, 1 << 20), {"node_load1"})
    (folder / "spool").mkdir(exist_ok=True)
    (folder / "spool" / "segment-000000000001.jsonl").write_bytes(data)
    SpoolReader(folder / "spool").read(Place(), 1 << 20)


def _targets(data: bytes, folder: Path) -> None:
    problems = ProblemLog("prometheus")
    for name in ("a.json", "a.yml"):
        (folder / name).write_bytes(data)
        found = TargetFiles([folder / name], TargetDefaults()).targets(problems)
        assert all(target.url.isprintable() and target.host.isprintable() for target in found)
    _few(problems)


def _query(data: bytes, folder: Path) -> None:
    look_at_query(data.decode("utf-8", "surrogateescape"))


def _events(data: bytes, folder: Path) -> None:
    path = folder / "events"
    path.write_bytes(data)
    with suppress(EventFileError):
        read_event_file(str(path))


def _ingest(data: bytes, folder: Path) -> None:
    for name in ("job_1700000000000_0007.jhist.gz", "job_1700000000000_0007.jhist", "unknown"):
        list(parse_file(ReadFile(f"file:/x/{name}", (name,), data), IngestOptions()))


class _Answers:
    """A server that gives one answer, whatever it is asked, and hangs up."""

    def __init__(self) -> None:
        self.data = b""
        self.url = ""

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[_Answers]:
        answers = cls()
        with serving(answers.serve) as url:
            answers.url = url
            yield answers

    def serve(self, connection: socket.socket) -> None:
        connection.settimeout(WAIT_S)  # a client that has read enough hangs up when it is collected
        with suppress(OSError):
            connection.recv(65_536)
            connection.sendall(self.data)

    def ask(self, data: bytes, folder: Path) -> None:
        self.data = data
        options = HttpOptions(WAIT_S, WAIT_S, WAIT_S, n_attempts=1, max_answer_bytes=1 << 19)
        with suppress(SourceUnavailableError, DocumentError):
            parse_apps(HttpTransport((self.url,), options).get(self.url, "/ws/v1/cluster/apps", 0))

    def tell(self, data: bytes, folder: Path) -> None:
        self.data = data
        with suppress(requests.RequestException, OptionError, OSError):
            post(self.url, b"{}", {"Content-Type": "application/json"}, WAIT_S)


@contextmanager
def _site() -> Iterator[Callable[[bytes, Path], None]]:
    with site() as running:

        def ask(data: bytes, folder: Path) -> None:
            with running.connect() as connection, suppress(OSError):
                connection.settimeout(WAIT_S)
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass
            assert running.ask("GET", "/-/healthy").status == 200

        yield ask


def _api_requests() -> list[bytes]:
    head = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
    text = json.dumps(silence_body())
    half, rest = text[:60], text[60:]
    chunks = f"{len(half):x}\r\n{half}\r\n{len(rest):x}\r\n{rest}\r\n0\r\n\r\n"
    requests = [
        f"GET /api/v2/alerts?filter=host%3D~%22n.%22&active=false HTTP/1.1\r\n{head}\r\n",
        f"GET /api/v2/alerts/groups?receiver=o.s HTTP/1.1\r\n{head}\r\n",
        f"GET /api/v2/silence/{silence_uuid(1)} HTTP/1.1\r\n{head}\r\n",
        f"DELETE /api/v2/silence/{silence_uuid(1)} HTTP/1.1\r\n{head}\r\n",
        f"POST /api/v2/silences HTTP/1.1\r\n{head}Content-Length: {len(text)}\r\n\r\n{text}",
        f"POST /api/v2/silences HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n{chunks}",
    ]
    return [request.encode() for request in requests]


@contextmanager
def _api(folder: Path) -> Iterator[Callable[[bytes, Path], None]]:
    """Alertmanager's API: whatever it is sent, it is never 500, and goes on answering."""
    place = folder / "api"
    place.mkdir()
    with open_store(f"sqlite:///{place / 'store.db'}", durable=False) as store:
        fire(store, *(slow(f"t{n}", f"n{n}") for n in range(5)))
        with served(store, place) as running:

            def ask(data: bytes, _folder: Path) -> None:
                answer = b""
                with socket.create_connection(running.listener.address, WAIT_S) as connection, suppress(OSError):
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    while part := connection.recv(65_536):
                        answer += part
                assert not answer.startswith(b"HTTP/1.1 500"), answer
                assert running.get("/-/healthy").status == 200

            yield ask


__all__ = ["Reader", "all_readers"]
