"""The stream on a topic of a real broker: what files give, through kills, with bad records, and who is let in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from app.store.api import open_store
from spark_jobs.session import SparkJobError, spark_session
from spark_jobs.stream.alerts import AlertSink, Written
from spark_jobs.stream.kafka import KafkaInput
from spark_jobs.stream.sources import read_events
from tests.live.broker import PASSWORD, Broker, client_properties, running_broker, source_jars
from tests.live.process import ROOT
from tests.spark_jobs import killed_stream
from tests.spark_jobs.stream.test_job import lines_of_small_stream, run_to_end, stored
from tests.spark_jobs.stream_fixtures import small_job, small_stream

TOPIC = "events"
MASTER = "local[2]"
PACE = {"maxOffsetsPerTrigger": "6"}
"""Three micro-batches; what is late is late in the last one, as among the files."""

NO_EVENTS = [b'{"event_id": "\xff\xfe", "type": "JobStart", "t_lo_ms": 1}', None, b"\xff", b"[1]", b'"text"']
KILLED = "import sys; from tests.live.test_stream_from_kafka import killed; killed(*sys.argv[1:])"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    conf = killed_stream.SMALL | {
        "spark.jars": source_jars(),
        "spark.local.dir": str(tmp_path_factory.mktemp("local")),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with spark_session("kafka", MASTER, conf) as session:
        yield session


def killed(folder: str, name: str, batch_id: str, moment: str, servers: str) -> None:
    """In a process of its own: a stream that dies before or after the transaction of a micro-batch."""

    def die(number: int) -> None:
        if number == int(batch_id):
            os.kill(os.getpid(), signal.SIGKILL)

    write = AlertSink.write

    def written(sink: AlertSink, rows: pa.Table, number: int) -> Written:
        if moment == "before":
            die(number)
        return write(sink, rows, number)

    AlertSink.write = written  # type: ignore[method-assign]
    after = (lambda done: die(done.batch_id)) if moment == "after" else (lambda _done: None)
    source = KafkaInput(servers, TOPIC, PACE, Path(folder, "client.properties"))
    conf = killed_stream.SMALL | {"spark.jars": source_jars()}
    with spark_session("killed", MASTER, conf) as spark, open_store(f"sqlite:///{folder}/{name}.db") as store:
        spark.sparkContext.setLogLevel("OFF")
        small_job(Path(folder), name, store, source, after=after).start(spark).awaitTermination()


def make_topic(spark: SparkSession, servers: str, name: str) -> None:
    jvm: Any = spark._jvm
    given = jvm.java.util.HashMap()
    given.put("bootstrap.servers", servers)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(given)
    topic = jvm.org.apache.kafka.clients.admin.NewTopic(name, 1, 1)
    admin.createTopics(jvm.java.util.Collections.singletonList(topic)).all().get()
    admin.close()


def produce(spark: SparkSession, servers: str, topic: str, values: Sequence[str | bytes | None]) -> None:
    """Append records, in this order."""
    jvm: Any = spark._jvm
    given = jvm.java.util.HashMap()
    given.put("bootstrap.servers", servers)
    for part in ("key", "value"):
        given.put(f"{part}.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer")
    producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(given)
    for value in values:
        content = bytearray(value.encode() if isinstance(value, str) else value) if value is not None else None
        producer.send(jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, content))
    producer.close()


def test_a_topic_gives_what_files_give_through_kills(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    lines = lines_of_small_stream()
    small_stream(tmp_path, lines)
    (tmp_path / "client.properties").write_text(client_properties())
    with open_store(f"sqlite:///{tmp_path / 'files'}.db") as store:
        job = small_job(tmp_path, "files", store)
        run_to_end(job, spark)
        job.heartbeat(60_000)
        run_to_end(job, spark)
        expected = stored(store)
    make_topic(spark, broker.plain, TOPIC)
    produce(spark, broker.plain, TOPIC, [line for part in lines for line in part])

    for moment in ("before", "after"):
        words = [sys.executable, "-c", KILLED, str(tmp_path), "topic", "1", moment, broker.sasl]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == -9, done.stderr[-2000:]
        assert PASSWORD not in done.stdout + done.stderr
    told: list[Written] = []
    source = KafkaInput(broker.sasl, TOPIC, PACE, tmp_path / "client.properties")
    with open_store(f"sqlite:///{tmp_path / 'topic'}.db") as store:
        job = small_job(tmp_path, "topic", store, source, after=told.append)
        run_to_end(job, spark)
        job.heartbeat(60_000)
        run_to_end(job, spark)
        assert stored(store) == expected
        (before,) = [p for p in store.problems() if p.kind == "no_event"]
        produce(spark, broker.plain, TOPIC, NO_EVENTS)
        run_to_end(job, spark)
        after = stored(store)
        (problem,) = [p for p in store.problems() if p.kind == "no_event"]
    assert [written.is_repeated for written in told][:2] == [True, False]
    assert (before.n_times, problem.n_times) == (1, 2)
    assert f"{len(NO_EVENTS)} records are no events: {TOPIC}/0/16: no JSON object in UTF-8" in problem.message
    assert {name: after[name] for name in ("alerts", "late")} == {name: expected[name] for name in ("alerts", "late")}
    written = "".join(p.read_text("utf-8", "replace") for p in (tmp_path / "topic").rglob("*") if p.is_file())
    assert PASSWORD not in written


def test_what_cannot_be_read_is_told_at_once(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.properties"
    wrong.write_text(client_properties("a-wrong-password"))
    for source, said in (
        (KafkaInput(broker.plain, "nothing"), "there is no such topic; create it"),
        (KafkaInput(broker.plain, "no topic"), "name another with --topic"),
        (KafkaInput("127.0.0.1:1", TOPIC), r"127\.0\.0\.1:1: no broker answered within 10 s; start it"),
        (KafkaInput("no-port", TOPIC), "no-port"),
        (KafkaInput(broker.sasl, TOPIC, config=wrong), "does not let us in: .*--kafka-config"),
        (KafkaInput(broker.plain, TOPIC, config=tmp_path / "absent"), "absent: No such file"),
    ):
        with pytest.raises(SparkJobError, match=said) as told:
            read_events(spark, source)
        assert "wrong-password" not in str(told.value)


def test_the_command_says_it(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text(client_properties())
    words = ["stream", "--kafka", broker.sasl, "--topic", "nothing", "--checkpoint", str(tmp_path / "checkpoint")]
    words += ["--conf", f"spark.jars={source_jars()}", "--once"]
    environment = os.environ | {
        "CLUSTERCEP__SPARK__KAFKA_CONFIG": str(tmp_path / "client.properties"),
        "CLUSTERCEP__STORE__DIRECTORY": str(tmp_path / "data"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", *words],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "there is no such topic" in done.stderr
    assert PASSWORD not in done.stdout + done.stderr
