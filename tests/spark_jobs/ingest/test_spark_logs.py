"""Event logs of Spark in bulk: by their content and the parts of rolled ones, as live."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from collectors.file_kinds import SPARK_EVENTS, kind_by_content
from spark_jobs.ingest.kinds import IngestOptions, kind_by_name, skipped_by_name
from spark_jobs.ingest.on_this_machine import Limits, listed_here, parsed_here
from spark_jobs.ingest.parse import ReadFile, parse_file, parse_logs
from tests.collectors.spark.logs import CODECS, NAME, RECORDED, ROLLED, ended, lines, recorded, stage, started, told

OPTIONS = IngestOptions()


def rows(tables: Iterable[pa.Table], part: str) -> list[dict[str, Any]]:
    return [row for table in tables for row in table.to_pylist() if row["part"] == part]


def live_ids(root: Path) -> list[str]:
    (root / NAME).write_bytes(recorded())
    return sorted(row["event_id"] for row in told(root))


@pytest.mark.parametrize("form", [*CODECS, ".gz"])
def test_a_log_is_known_by_its_content_and_tells_what_it_tells_live(tmp_path: Path, form: str) -> None:
    data = gzip.compress(recorded()) if form == ".gz" else recorded(form)
    if form != ".gz":
        assert kind_by_content(data) == (SPARK_EVENTS, "")
    tables = list(parse_file(ReadFile("/in/x", (f"x{form}",), data), OPTIONS))
    found = rows(tables, "event")
    assert sorted(row["event_id"] for row in found) == live_ids(tmp_path)
    (file,) = rows(tables, "file")
    assert (file["kind"], file["n_events"], file["message"]) == (SPARK_EVENTS, len(found), None)
    assert rows(tables, "problem") == []


def test_parts_of_a_rolled_log_are_read_in_their_order_by_the_job_without_spark(tmp_path: Path) -> None:
    listing = listed_here([str(RECORDED / ROLLED)], Limits(10, 1 << 20))
    assert listing is not None
    parsed = parsed_here(listing, [file.url for file in listing.files], OPTIONS)
    assert parsed is not None
    assert parsed.problems == []
    assert sorted(parsed.events.column("event_id").to_pylist()) == live_ids(tmp_path)
    assert set(parsed.events.column("user").to_pylist()) == {"ann"}  # known from the first part


def test_names() -> None:
    part = (ROLLED, f"events_2_{NAME}.zstd")
    assert kind_by_name(part, OPTIONS) == SPARK_EVENTS
    assert kind_by_name(part[1:], OPTIONS) == SPARK_EVENTS  # its folder may be what was asked for
    assert kind_by_name(("logs", part[1]), OPTIONS) is None
    assert skipped_by_name((ROLLED, f"appstatus_{NAME}.inprogress"), OPTIONS) is not None
    assert skipped_by_name(part, OPTIONS) is None


def test_a_compact_part_stands_for_those_before_it() -> None:
    texts = {
        f"events_1_{NAME}": lines(*started(), stage(0, 1_000)),
        f"events_2_{NAME}.compact": lines(*started()),
        f"events_10_{NAME}": lines(ended(9_000)),
        f"events_3_{NAME}": lines(stage(1, 2_000)),
    }
    files = [ReadFile(f"/in/{name}", (ROLLED, name), data) for name, data in texts.items()]
    tables = list(parse_logs(files, OPTIONS))
    assert [row["type"] for row in rows(tables, "event")] == [
        "SparkApplicationStart", "SparkStageStart", "SparkApplicationEnd",
    ]  # fmt: skip
    assert [row["place"] for row in rows(tables, "file") if row["message"]] == [f"/in/events_1_{NAME}"]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (recorded(".zstd")[:-3], "truncated"),
        (recorded(".snappy")[:-3], "truncated"),
        (recorded()[:-30], "truncated"),
        (recorded(".lz4")[:6_000] + b"\xff" * 40 + recorded(".lz4")[6_040:], "damaged"),
    ],
)
def test_what_cannot_be_read_is_told(data: bytes, kind: str) -> None:
    tables = list(parse_file(ReadFile("/in/x", ("x",), data), OPTIONS))
    assert [(row["kind"], row["place"].partition(":")[0]) for row in rows(tables, "problem")] == [(kind, "/in/x")]
    assert len(rows(tables, "event")) > 20


def test_no_more_is_read_than_a_file_may_hold() -> None:
    bomb = pa.compress(lines(*started()) + b"x" * (40 << 20), "zstd", asbytes=True)
    tables = list(parse_file(ReadFile("/in/x", ("x",), bomb), IngestOptions(max_bytes=1 << 20)))
    assert [row["kind"] for row in rows(tables, "problem")] == ["oversized"]
    assert [row["type"] for row in rows(tables, "event")] == ["SparkApplicationStart"]


def test_a_log_without_anything_to_tell_says_so() -> None:
    tables = list(parse_file(ReadFile("/in/x", ("x",), lines(started()[0])), OPTIONS))
    (file,) = rows(tables, "file")
    assert file["n_events"] == 0
    assert "no line of it tells of an application" in file["note"]
