"""Kafka as the stream's source: how it is reached, and what is wrong with that, told before the stream starts.

How a broker is spoken to (security.protocol, SASL, TLS) stands in a file of properties as Kafka's own tools take it
(`--command-config`): a secret on a command line or in config.yaml would be read by others. No message has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.session import SparkJobError

ANSWERED_WITHIN_MS = 10_000

BOUNDS = {
    "kafka.socket.connection.setup.timeout.max.ms": "30000",
    "kafka.request.timeout.ms": "30000",
    "kafka.default.api.timeout.ms": "60000",
    "kafkaConsumer.pollTimeoutMs": "60000",
    "fetchOffset.numRetries": "3",
}
"""How long a broker is waited for once the stream runs: for a connection, an answer, a call with all its attempts, the
records of a task, and how often for the offsets of a micro-batch. What is not said here would be bounded by Spark's
settings for its own network, or by nobody."""

_OF_KAFKA = "kafka."
_OWN = {
    "kafka.bootstrap.servers": "--kafka",
    "subscribe": "--topic",
    "subscribePattern": "--topic",
    "assign": "--topic",
}
_SECRET = re.compile(r"password|secret|jaas|\.key$|token", re.IGNORECASE)
_VALUE = re.compile(r"=\s*(?:\"([^\"]+)\"|'([^']+)'|([^\s;]+))")
"""Of an option within the text of sasl.jaas.config."""
_LEAST_CHARS = 3


@dataclass(frozen=True)
class KafkaInput:
    """A topic whose values are events, each a JSON object in UTF-8 with the names of the store's columns."""

    servers: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further ones of Spark's Kafka source, as startingOffsets or kafka.client.id."""
    config: Path | None = None
    """A file of Kafka's client properties, of this machine."""

    def describe(self) -> dict[str, object]:
        """What must not change between two runs on one checkpoint."""
        return {"kafka": self.servers, "topic": self.topic}


def check_options(options: Mapping[str, str]) -> None:
    """Raise SparkJobError for an option that is said elsewhere, or is a secret: others see command lines."""
    for name in options:
        if name in _OWN:
            raise SparkJobError(f"--kafka-option {name}: this is what {_OWN[name]} says")
        if _SECRET.search(name):
            raise SparkJobError(
                f"--kafka-option {name}: other users of this machine see command lines; put it as "
                f"{name.removeprefix(_OF_KAFKA)}=... into a file that only you can read, and name that with "
                "--kafka-config or spark.kafka_config"
            )


def check_config(config: Path | None) -> None:
    """Raise SparkJobError unless the file can be read."""
    if config is None:
        return
    try:
        config.open("rb").close()
    except OSError as error:
        raise SparkJobError(
            f"{config}: {error.strerror or error}; expected a file of Kafka's client properties (--kafka-config)"
        ) from None


def kafka_records(spark: SparkSession, source: KafkaInput) -> DataFrame:
    """The records of a topic; raises SparkJobError when Spark has no such source, or the topic cannot be read."""
    properties = _properties(spark, source.config)
    options = source_options(source, properties)
    with _told(source, options):
        try:
            records = spark.readStream.format("kafka").options(**options).load()
        except PySparkException as error:
            if "kafka" in str(error).lower() and "find" in str(error).lower():
                raise SparkJobError(
                    "Spark has no Kafka source: it is a package of its own; give it to the job with "
                    f"--conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}, or with "
                    "--packages to spark-submit"
                ) from None
            raise
        _look_at_topic(spark, source.topic, options)
    return records


def source_options(source: KafkaInput, properties: Mapping[str, str]) -> dict[str, str]:
    """Of Spark's source: bounds, then what the file says, then what the command line says."""
    given = {**{f"{_OF_KAFKA}{name}": value for name, value in properties.items()}, **source.options}
    said = {name.lower() for name in given}  # Spark's names are the same in capitals
    bounds = {name: value for name, value in BOUNDS.items() if name.lower() not in said}
    fixed = {"kafka.bootstrap.servers": source.servers, "subscribe": source.topic}
    return {**bounds, "startingOffsets": "earliest", **given, **fixed}


def _properties(spark: SparkSession, config: Path | None) -> dict[str, str]:
    """Of a file, as Java reads it."""
    check_config(config)
    if config is None:
        return {}
    jvm: Any = spark._jvm
    found = jvm.java.util.Properties()
    try:
        found.load(jvm.java.io.StringReader(config.read_text(encoding="utf-8")))
    except UnicodeDecodeError:
        raise SparkJobError(f"{config}: expected Kafka's client properties in UTF-8") from None
    except Py4JJavaError as error:
        message = error.java_exception.getMessage()
        raise SparkJobError(f"{config}: {message}; expected lines NAME=VALUE, as Kafka's tools read them") from None
    return {str(name): str(found.getProperty(name)) for name in found.stringPropertyNames()}


def _look_at_topic(spark: SparkSession, topic: str, options: Mapping[str, str]) -> None:
    """Whether a broker answers, lets us in and has the topic: Spark's source would try for minutes, without a word."""
    jvm: Any = spark._jvm
    given = jvm.java.util.HashMap()
    for name, value in options.items():
        if name.startswith(_OF_KAFKA):
            given.put(name.removeprefix(_OF_KAFKA), value)
    given.put("default.api.timeout.ms", str(ANSWERED_WITHIN_MS))
    given.put("request.timeout.ms", str(ANSWERED_WITHIN_MS // 2))
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(given)
    try:
        admin.describeTopics(jvm.java.util.Collections.singletonList(topic)).allTopicNames().get()
    finally:
        admin.close(jvm.java.time.Duration.ofMillis(0))


@contextmanager
def _told(source: KafkaInput, options: Mapping[str, str]) -> Iterator[None]:
    """What Kafka's client says as one line without secrets that says what to do."""
    place = f"Kafka topic {source.topic} on {source.servers}"
    try:
        yield
    except PySparkException as error:
        message = str(error).strip().partition("\n")[0]
        raise SparkJobError(f"{place}: {without_secrets(message, options)}") from None
    except Py4JJavaError as error:
        name, message = _innermost(error)
        raise SparkJobError(f"{place}: {_meaning(name, without_secrets(message, options))}") from None


def _innermost(error: Py4JJavaError) -> tuple[str, str]:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getClass().getSimpleName()), str(cause.getMessage() or "").strip().partition("\n")[0]


def _meaning(name: str, message: str) -> str:
    if name == "UnknownTopicOrPartitionException":
        return "there is no such topic; create it, or name another with --topic"
    if name == "InvalidTopicException":
        return f"{message}; name another with --topic"
    if name == "TimeoutException":
        return (
            f"no broker answered within {ANSWERED_WITHIN_MS // 1_000} s; start it, or name others with --kafka; one "
            "that wants TLS or SASL does not answer without: --kafka-config, or spark.kafka_config"
        )
    if name.endswith("AuthenticationException") or name in ("SSLHandshakeException", "LoginException"):
        return f"the broker does not let us in: {message}; check the file of --kafka-config, or spark.kafka_config"
    if name.endswith("AuthorizationException"):
        return f"we may not read it: {message}; ask for Describe and Read on the topic, and Read on the group"
    return f"{name}: {message}" if message else name


def without_secrets(message: str, options: Mapping[str, str]) -> str:
    """The message with *** for every value of an option that is a secret, and for the values within one."""
    secrets: set[str] = set()
    for name, value in options.items():
        if _SECRET.search(name):
            secrets.add(value)
            secrets.update("".join(found) for found in _VALUE.findall(value))
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _LEAST_CHARS:
            message = message.replace(secret, "***")
    return message


__all__ = ["KafkaInput", "check_config", "check_options", "kafka_records", "source_options", "without_secrets"]
