"""Reading a store without Spark: what a look at all its events gives, from no more files and row groups than needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.event_store.errors import StoreError
from app.event_store.reader import EventStoreReader
from collectors.time_units import DAY_MS
from engine.events import EventBatch
from spark_jobs.event_store.local_append import LocalEventStore
from spark_jobs.event_store.schema import to_rows
from tests.dashboard.query_fixtures import CLUSTER

T0_MS = 1_700_000_000_000
COLUMNS = ("event_id", "type", "t_lo_ms", "t_hi_ms", "job_id", "host", "value")


def rows_of(n: int) -> list[Mapping[str, Any]]:
    """Samples and starts of attempts over three days, in no order."""
    found: list[Mapping[str, Any]] = []
    for i in range(n):
        at_ms = T0_MS + (i * 7_919 % n) * 3 * DAY_MS // n
        times = {"event_id": f"e{i:05}", "t_lo_ms": at_ms, "t_hi_ms": at_ms + (i % 3) * 15_000}
        if i % 2:
            found.append({**times, "type": "MapStart", "job_id": f"job_1_{i % 5}", "host": f"node{i % 4}"})
        else:
            found.append({**times, "type": "Metric", "name": "cpu_user", "host": f"node{i % 4}", "value": float(i)})
    return found


def filled(folder: Path, *parts: list[Mapping[str, Any]]) -> str:
    store = LocalEventStore(str(folder), ("job_history",))
    for rows in parts:
        store.append(to_rows(EventBatch.from_rows(rows, CLUSTER), "job_history"), {})
    return str(folder)


def test_what_a_look_at_all_events_gives(tmp_path: Path) -> None:
    rows = rows_of(600)
    reader = EventStoreReader(filled(tmp_path / "store", rows[:400], rows[400:]))
    assert reader.span() == (min(row["t_lo_ms"] for row in rows), max(row["t_hi_ms"] for row in rows))
    for types in (None, ("Metric",), ("MapStart", "Metric"), ("JobEnd",)):
        for from_ms, to_ms in ((None, None), (T0_MS + DAY_MS, None), (T0_MS + DAY_MS, T0_MS + DAY_MS + 10**7), (0, 5)):
            for equal in ({}, {"host": "node1"}, {"job_id": "job_1_3", "host": "node1"}, {"job_id": "none"}):
                found = reader.read(types=types, from_ms=from_ms, to_ms=to_ms, equal=equal, columns=COLUMNS)
                expected = sorted(
                    (row["t_lo_ms"], row["event_id"])
                    for row in rows
                    if (types is None or row["type"] in types)
                    and (from_ms is None or row["t_hi_ms"] >= from_ms)
                    and (to_ms is None or row["t_lo_ms"] <= to_ms)
                    and all(row.get(name) == value for name, value in equal.items())
                )
                got = [(row["t_lo_ms"], row["event_id"]) for row in found.to_pylist()]
                assert sorted(got) == expected
                assert [time for time, _ in got] == [time for time, _ in expected]
                assert found.column_names == list(COLUMNS)
                last_ms: dict[str, int] = {}
                for row in found.to_pylist():
                    last_ms[row["host"]] = max(row["t_hi_ms"], last_ms.get(row["host"], 0))
                assert equal or reader.last_seen("host", types=types, from_ms=from_ms, to_ms=to_ms) == last_ms
                assert reader.count(types=types, from_ms=from_ms, to_ms=to_ms) >= len(
                    reader.read(types=types, from_ms=from_ms, to_ms=to_ms, columns=("t_lo_ms",))
                )


def test_files_of_other_types_and_days_are_not_opened(tmp_path: Path) -> None:
    """They may be gone: nobody notices."""
    folder = tmp_path / "store"
    reader = EventStoreReader(filled(folder, rows_of(300)))
    expected = reader.read(types=("Metric",), to_ms=T0_MS, columns=COLUMNS)
    first = min(folder.glob("data/*"))
    for path in folder.glob("data/*/*/*.parquet"):
        if path.parents[1] != first or path.parent.name != "type=Metric":
            path.unlink()
    assert reader.read(types=("Metric",), to_ms=T0_MS, columns=COLUMNS) == expected
    assert len(expected)


def test_no_store_and_an_empty_one(tmp_path: Path) -> None:
    assert EventStoreReader(str(tmp_path / "absent")).span() is None
    reader = EventStoreReader(filled(tmp_path / "store"))
    assert (reader.span(), reader.count()) == (None, 0)
    table = reader.read(columns=("job_id", "t_lo_ms"))
    assert (table.num_rows, table.schema.types) == (0, [pa.string(), pa.int64()])


def test_what_was_appended_since_is_seen(tmp_path: Path) -> None:
    rows = rows_of(20)
    url = filled(tmp_path / "store", rows[:10])
    reader = EventStoreReader(url)
    assert reader.count() == 10
    LocalEventStore(url, ("job_history",)).append(to_rows(EventBatch.from_rows(rows[10:], CLUSTER), None), {})
    assert reader.read(columns=("t_lo_ms",)).num_rows == 20


def test_too_much_is_refused_with_the_remedy(tmp_path: Path) -> None:
    reader = EventStoreReader(filled(tmp_path / "store", rows_of(300)), max_bytes=2_000)
    with pytest.raises(StoreError, match="choose a shorter one"):
        reader.read(columns=COLUMNS)
    assert reader.read(types=("Metric",), equal={"host": "node9"}, columns=COLUMNS).num_rows == 0


def test_damage_is_told_with_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    reader = EventStoreReader(filled(folder, rows_of(20)))
    path = min(folder.glob("data/*/type=Metric/*.parquet"))
    path.write_bytes(b"no Parquet")
    with pytest.raises(StoreError, match=rf"{path}.*restore the file"):
        reader.read(types=("Metric",), columns=COLUMNS)
    path.unlink()
    with pytest.raises(StoreError, match=rf"{path}.*no such file.*restore the file"):
        reader.read(types=("Metric",), columns=COLUMNS)


def test_a_file_without_a_needed_column_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    reader = EventStoreReader(filled(folder, rows_of(20)))
    path = min(folder.glob("data/*/type=Metric/*.parquet"))
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["source_seq"]), path)
    with pytest.raises(StoreError, match="no column source_seq"):
        reader.read(types=("Metric",), columns=COLUMNS)


@pytest.mark.parametrize("column", ["t_hi_ms", "host"])
def test_columns_of_another_type_are_damage(tmp_path: Path, column: str) -> None:
    """Their statistics cannot be compared with what is asked for."""
    folder = tmp_path / "store"
    reader = EventStoreReader(filled(folder, rows_of(20)))
    path = min(folder.glob("data/*/type=Metric/*.parquet"))
    table = pq.read_table(path, partitioning=None)
    other = pa.array(["x"] * len(table)) if column == "t_hi_ms" else pa.array([1] * len(table))
    pq.write_table(table.set_column(table.schema.get_field_index(column), column, other), path)
    with pytest.raises(StoreError, match=rf"{path}.*restore the file"):
        reader.read(types=("Metric",), from_ms=0, equal={"host": "node1"}, columns=COLUMNS)


def test_a_nested_column_before_the_others_changes_nothing(tmp_path: Path) -> None:
    """It has several columns in the file's statistics."""
    folder = tmp_path / "store"
    reader = EventStoreReader(filled(folder, rows_of(20)))
    asked: dict[str, Any] = {"types": ("Metric",), "from_ms": T0_MS, "columns": COLUMNS}
    expected = reader.read(**asked)
    assert expected.num_rows
    for path in folder.glob("data/*/type=Metric/*.parquet"):
        table = pq.read_table(path, partitioning=None)
        pq.write_table(table.add_column(0, "of_later", pa.array([{"a": "x", "b": "y"}] * len(table))), path)
    assert reader.read(**asked) == expected
