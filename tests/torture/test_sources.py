"""Every registered source has its rows in each of the campaigns that try what others write: drip, poison, parsers."""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from collectors.sources import SOURCE_OF_KIND, SPECS
from tests.torture.campaigns import drip, poison
from tests.torture.inputs import packets
from tests.torture.readers.every_reader import all_readers


@dataclass(frozen=True)
class Rows:
    """What of each campaign is about a source. Empty: the campaign has nothing that it could meet."""

    parsers: tuple[str, ...]
    """Readers that are given any bytes."""
    poison: tuple[str, ...] = ()
    """Kinds of files; of sources that read no files there is none."""
    drip: tuple[str, ...] = ()
    """Functions, or kinds of files, that come without end; of what is read in bulk alone there is none."""


ROWS: Mapping[str, Rows] = {
    "job_history": Rows(
        ("jhist", "hadoop1", "job configurations"),
        ("job history", "Hadoop 1 histories", "job configurations"),
        ("job history",),
    ),
    "yarn_rest": Rows(("yarn_rest", "REST answers"), (), ("poll",)),
    "yarn_timeline": Rows(("yarn_timeline",), (), ("timeline",)),
    "container_log": Rows(("container_log",), ("container logs",), ("container logs",)),
    "daemon_log": Rows(("daemon_log", "daemon_log of HDFS"), ("daemon logs",), ("daemon logs",)),
    "hdfs_audit": Rows(("hdfs_audit",), ("HDFS audit logs",), ("HDFS audit logs",)),
    "job_client_log": Rows(("job_client_log",), ("job client logs",), ("job client logs",)),
    "spark_events": Rows(("spark_events",), ("Spark event logs",), ("Spark event logs",)),
    "ganglia_rrd": Rows(("ganglia_rrd",), ("RRDs",), ("RRDs",)),
    "gmond": Rows(("gmond",), (), ("ganglia",)),
    "gmond_udp": Rows(("gmond packets",), (), ("packets",)),
    "jmx": Rows(("jmx",), (), ("daemons",)),
    "prometheus": Rows(("prometheus", "target lists", "target servers"), ("lists of targets",), ("scrapes",)),
    "remote_write": Rows(("write requests", "remote write"), ("remote write",), ("writes",)),
    "rumen_trace": Rows(("rumen",), ("Rumen traces",)),
}


def test_every_source_has_rows() -> None:
    assert ROWS.keys() == {spec.name for spec in SPECS}
    for spec in SPECS:
        rows = ROWS[spec.name]
        assert rows.parsers
        assert bool(rows.drip) == spec.is_live
        assert rows.poison or not spec.bulk_kinds


def test_the_rows_are_there(tmp_path: Path) -> None:
    with all_readers(tmp_path) as readers:
        assert {name for rows in ROWS.values() for name in rows.parsers} <= readers.keys()
    assert {name for rows in ROWS.values() for name in rows.poison} == poison.KINDS.keys()
    called = called_by(Path(drip.__file__), "run")
    assert {name for rows in ROWS.values() for name in rows.drip} <= called | set(drip.WRITTEN)
    assert packets.SENT


def called_by(module: Path, function: str) -> set[str]:
    """Names of functions that a function calls, of its module or another one."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    (body,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    calls = [node.func for node in ast.walk(body) if isinstance(node, ast.Call)]
    return {call.id if isinstance(call, ast.Name) else call.attr for call in calls if not isinstance(call, ast.Call)}


@pytest.mark.parametrize("name", poison.KINDS)
def test_the_file_of_a_row_is_read_as_what_it_is(name: str) -> None:
    """By an ingest, as one of the source's kinds; what is no history is left alone."""
    told = rows_of_ingest(name)
    kinds = {found["kind"] for found in told if found["part"] == "file"}
    sources = {source for source, rows in ROWS.items() if name in rows.poison}
    expected = {kind for kind, source in SOURCE_OF_KIND.items() if source in sources}
    if expected:
        assert kinds <= expected
        assert any(found["part"] == "event" for found in told)
    else:
        assert kinds == {None}, "what has no kind is no file of an ingest"
    assert not any(found["kind"] == "collector_failed" for found in told if found["part"] == "problem")


def test_every_kind_of_file_is_poisoned() -> None:
    found = {row["kind"] for name in poison.KINDS for row in rows_of_ingest(name) if row["part"] == "file"}
    assert found - {None} == SOURCE_OF_KIND.keys()


def rows_of_ingest(name: str) -> list[dict[str, Any]]:
    """What an ingest makes of a right file of a row."""
    row = poison.KINDS[name]
    below = row.place(0)
    file = poison.ReadFile("/x/" + "/".join(below), below, row.right(random.Random(1)))
    return [found for table in poison.parsed(file) for found in table.to_pylist()]
