"""Hand-written container logs of reducers, in the forms of Hadoop 2 and 3."""

from __future__ import annotations

from pathlib import Path

REDUCER = "attempt_1700000000000_0007_r_000000_0"
APPLICATION = "application_1700000000000_0007"
CONTAINER = "container_e11_1700000000000_0007_01_000005"
DAY_MS = 1_700_006_400_000
"""2023-11-15 00:00:00 UTC."""

PACKAGE = "org.apache.hadoop.mapreduce.task.reduce."


def stamp(ms: int) -> str:
    """Milliseconds of the day as Hadoop prints them."""
    seconds, millis = divmod(ms, 1000)
    return f"2023-11-15 {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02},{millis:03}"


def line(ms: int, thread: str, logger: str, message: str) -> str:
    """One record."""
    return f"{stamp(ms)} INFO [{thread}] {logger}: {message}"


def map_attempt(number: int) -> str:
    """Id of a map attempt."""
    return f"attempt_1700000000000_0007_m_{number:06}_0"


def named(ms: int) -> str:
    """The line that names the reducer."""
    thread = "EventFetcher for fetching Map Completion Events"
    return line(ms, thread, PACKAGE + "EventFetcher", f"{REDUCER}: Got 2 new map-outputs")


def assigned(ms: int, fetcher: int, host: str) -> list[str]:
    """Hadoop 2 prints these at INFO, Hadoop 3 at DEBUG."""
    name = f"fetcher#{fetcher}"
    logger = PACKAGE + "ShuffleSchedulerImpl"
    return [
        line(ms, name, logger, f"Assigning {host}:13562 with 2 to {name}"),
        line(ms, name, logger, f"assigned 2 of 2 to {host}:13562 to {name}"),
    ]


def about(ms: int, fetcher: int, number: int, size: int, where: str = "MEMORY") -> str:
    """The header of a map output has come."""
    name = f"fetcher#{fetcher}"
    text = f"{name} about to shuffle output of map {map_attempt(number)} decomp: {size - 4} len: {size} to {where}"
    return line(ms, name, PACKAGE + "Fetcher", text)


def read(ms: int, fetcher: int, number: int, n_bytes: int, logger: str = "InMemoryMapOutput") -> str:
    """A map output is there."""
    return line(
        ms, f"fetcher#{fetcher}", PACKAGE + logger, f"Read {n_bytes} bytes from map-output for {map_attempt(number)}"
    )


def freed(ms: int, fetcher: int, host: str, for_ms: int) -> str:
    """A fetcher gives its host back."""
    name = f"fetcher#{fetcher}"
    return line(ms, name, PACKAGE + "ShuffleSchedulerImpl", f"{host}:13562 freed by {name} in {for_ms}ms")


def done(ms: int, attempt_id: str = REDUCER) -> str:
    """The task's last word."""
    return line(ms, "main", "org.apache.hadoop.mapred.Task", f"Task '{attempt_id}' done.")


def fetches() -> list[list[str]]:
    """Two fetchers at once: #1 pulls maps 0 and 1 from node2 (the first after a stall), #2 pulls map 2 from node3."""
    return [
        [named(2_000)],
        assigned(2_010, 1, "node2"),
        assigned(2_020, 2, "node3"),
        [about(2_500, 2, 2, 5_000, "DISK"), read(2_720, 2, 2, 5_000, "OnDiskMapOutput")],
        [freed(2_730, 2, "node3", 710)],
        [about(9_000, 1, 0, 300), read(9_010, 1, 0, 296)],
        ["java.io.IOException: not a record", "\tat x.Y.read(Y.java:1) bytes from map-output for attempt_1_1_m_1_1"],
        [about(9_015, 1, 1, 400), read(9_110, 1, 1, 396)],
        [freed(9_120, 1, "node2", 7_110)],
    ]


def hadoop2_log() -> str:
    """Everything in one syslog."""
    lines = [line(1_000, "main", "org.apache.hadoop.metrics2.impl.MetricsSystemImpl", "ReduceTask metrics started")]
    lines += [text for part in fetches() for text in part]
    return "\n".join([*lines, done(12_000)]) + "\n"


def hadoop3_logs() -> dict[str, str]:
    """Fetchers in a file of their own, assignments not printed."""
    lines = [text for part in fetches() for text in part if "ssign" not in text]
    first = line(1_000, "main", "org.apache.hadoop.metrics2.impl.MetricsSystemImpl", "ReduceTask metrics started")
    return {"syslog": f"{first}\n{done(12_000)}\n", "syslog.shuffle": "\n".join(lines) + "\n"}


PULLS = [
    # (map, host, bytes, end, period): the first of a fetcher runs from its assignment, the next from the one before.
    (0, "node2", 300, 9_010, 7_000),
    (1, "node2", 400, 9_110, 100),
    (2, "node3", 5_000, 2_720, 700),
]


def write_log(root: Path, text: str, role: str = "syslog", host: str = "node4") -> Path:
    """Put a log where a NodeManager's logs are collected by host."""
    path = root / host / APPLICATION / CONTAINER / role
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path
