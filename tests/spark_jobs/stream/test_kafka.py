"""What Spark's Kafka source is told, without Spark."""

from __future__ import annotations

from spark_jobs.stream.kafka import BOUNDS, KafkaInput, source_options


def test_waiting_for_a_broker_is_bounded() -> None:
    found = source_options(KafkaInput("broker:9092", "events"), {})
    assert found == {
        **BOUNDS,
        "startingOffsets": "earliest",
        "kafka.bootstrap.servers": "broker:9092",
        "subscribe": "events",
    }


def test_bounds_that_are_given_win_however_they_are_written() -> None:
    source = KafkaInput("broker:9092", "events", {"kafkaconsumer.polltimeoutms": "9000", "startingOffsets": "latest"})
    found = source_options(source, {"request.timeout.ms": "7000", "security.protocol": "SSL"})
    assert found["kafka.request.timeout.ms"] == "7000"
    assert {value for name, value in found.items() if name.lower() == "kafkaconsumer.polltimeoutms"} == {"9000"}
    assert found["kafka.security.protocol"] == "SSL"
    assert found["startingOffsets"] == "latest"
