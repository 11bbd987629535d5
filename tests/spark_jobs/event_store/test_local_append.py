"""Appends without a JVM: the rules for copies as EventStore has them, against a plain model; nothing half-done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from app.event_store.commits import CommitLog, CommitReader, path_of
from app.event_store.errors import StoreError
from collectors.schema import load_event_types
from engine.events import EventBatch
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.local_append import LocalEventStore, WritableLocalFolder
from spark_jobs.event_store.on_this_machine import read_few
from spark_jobs.event_store.schema import to_arrow_schema, to_rows

PRECEDENCE = ("job_history", "yarn_rest")
DAY_MS = 86_400_000
T0 = 1_700_000_000_000
COLUMNS = ("event_id", "type", "t_lo_ms", "source", "host")


def events(*rows: tuple[str, str, int, str | None], host: str = "n1") -> pa.Table:
    """Rows of (type, id, time, source)."""
    tables = []
    for number, (kind, event_id, t_ms, source) in enumerate(rows):
        row = {"event_id": event_id, "type": kind, "t_lo_ms": t_ms, "t_hi_ms": t_ms, "source_rank": 0,
               "source_seq": number, "clock_id": None, "origin": "o", "raw": None, "host": host}  # fmt: skip
        tables.append(to_rows(EventBatch.from_rows([row], load_event_types()), source))
    return pa.concat_tables(tables) if tables else to_arrow_schema().empty_table()


def content(url: Path) -> dict[tuple[str, str], tuple[int, str | None, str]]:
    found = read_few(str(url), ALL_TYPES, COLUMNS, None, None, 1_000_000)
    assert found is not None
    rows = found.to_pylist()
    assert len({(row["type"], row["event_id"]) for row in rows}) == len(rows)
    return {(row["type"], row["event_id"]): (row["t_lo_ms"], row["source"], row["host"]) for row in rows}


ALL_TYPES = ("MapStart", "MapEnd")


def test_copies_count_once_and_better_sources_replace(tmp_path: Path) -> None:
    store = LocalEventStore(str(tmp_path / "s"), PRECEDENCE)
    first = events(("MapStart", "a", T0, "yarn_rest"), ("MapEnd", "a", T0 + 5, "other"), ("MapStart", "b", T0, None))
    done = store.append(first, {})
    assert done is not None
    assert (done.n_new, done.n_duplicate, done.n_replaced, done.n_files) == (3, 0, 0, 2)
    better = events(
        ("MapStart", "a", T0 + 1, "job_history"), ("MapEnd", "a", T0 + 6, None), ("MapStart", "b", T0, "other"),
        ("MapStart", "c", T0 + DAY_MS, "other"), ("MapStart", "c", T0 + DAY_MS, "yarn_rest"), host="n2",
    )  # fmt: skip
    done = store.append(better, {})
    assert done is not None
    assert (done.n_events, done.n_new, done.n_duplicate, done.n_replaced) == (5, 1, 2, 2)
    assert content(tmp_path / "s") == {
        ("MapStart", "a"): (T0 + 1, "job_history", "n2"),
        ("MapEnd", "a"): (T0 + 5, "other", "n1"),
        ("MapStart", "b"): (T0, "other", "n2"),
        ("MapStart", "c"): (T0 + DAY_MS, "yarn_rest", "n2"),
    }
    version = store.version
    again = store.append(better, {})
    assert again is not None
    assert (again.n_new, again.n_duplicate, store.version) == (0, 5, version)  # not even a commit
    assert not list((tmp_path / "s" / "_staging").iterdir())
    named = set(CommitReader(WritableLocalFolder(store.url)).read().files)
    there = {str(path.relative_to(tmp_path / "s")) for path in (tmp_path / "s").rglob("*.parquet")}
    assert named < there  # what was replaced stays for readers, until it is swept


RANKS = {"job_history": 0, "yarn_rest": 1, "a": 2, "b": 3, None: 4}
BATCHES = st.lists(
    st.lists(
        st.tuples(st.sampled_from(ALL_TYPES), st.sampled_from("xyz"), st.integers(0, 50), st.sampled_from(list(RANKS))),
        max_size=8,
    ),
    max_size=4,
)


@given(BATCHES)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
def test_any_batches_leave_what_the_rules_say(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[str, str, int, str | None]]]
) -> None:
    """Of copies the best source's counts; of one source's the stored one, within a batch the first in time."""
    place = tmp_path_factory.mktemp("store") / "s"
    store = LocalEventStore(str(place), PRECEDENCE)
    model: dict[tuple[str, str], tuple[int, str | None]] = {}
    for batch in batches:
        rows = [(kind, event_id, T0 + t_ms, source) for kind, event_id, t_ms, source in batch]
        done = store.append(events(*rows), {})
        own: dict[tuple[str, str], tuple[int, int, int, str | None]] = {}
        for number, (kind, event_id, t_ms, source) in enumerate(rows):
            one = (RANKS[source], t_ms, number, source)
            own[kind, event_id] = min(own.get((kind, event_id), one), one, key=lambda row: row[:3])
        n_new = n_replaced = 0
        for key, (rank, t_ms, _, source) in own.items():
            if key not in model:
                n_new += 1
            elif rank < RANKS[model[key][1]]:
                n_replaced += 1
            else:
                continue
            model[key] = t_ms, source
        assert done is not None
        assert (done.n_new, done.n_replaced, done.n_events) == (n_new, n_replaced, len(rows))
    found = content(place) if model else {}
    assert {key: value[:2] for key, value in found.items()} == model


def test_another_commit_that_comes_first_is_looked_at_again(tmp_path: Path) -> None:
    store = LocalEventStore(str(tmp_path / "s"), PRECEDENCE)
    other = LocalEventStore(str(tmp_path / "s"), PRECEDENCE)
    other.append(events(("MapStart", "a", T0, "job_history")), {})
    done = store.append(events(("MapStart", "a", T0, "job_history"), ("MapStart", "b", T0, "job_history")), {})
    assert done is not None
    assert (done.n_new, done.n_duplicate) == (1, 1)
    assert set(content(tmp_path / "s")) == {("MapStart", "a"), ("MapStart", "b")}


@pytest.fixture
def failing_commit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fail(*_: Any) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(WritableLocalFolder, "create_new", fail)
        yield


def test_a_commit_that_fails_leaves_nothing(tmp_path: Path, failing_commit: None) -> None:
    del failing_commit
    (tmp_path / "s" / "_commits").mkdir(parents=True)
    (tmp_path / "s" / path_of(0)).write_bytes(
        b'{"format": 1, "operation": "create", "time_ms": 1, "added": [], "removed": [], "columns": {}, "info": {}}'
    )
    store = LocalEventStore(str(tmp_path / "s"), PRECEDENCE)
    with pytest.raises(StoreError, match="disk is full"):
        store.append(events(("MapStart", "a", T0, "x")), {})
    assert not list((tmp_path / "s").rglob("*.parquet"))


def test_what_is_no_store_and_no_event_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(StoreError, match=r"found letter\.txt; expected an empty folder"):
        LocalEventStore(str(tmp_path / "mine"), PRECEDENCE)
    store = LocalEventStore(str(tmp_path / "s"), PRECEDENCE)
    for row in (("MapStart", "a", 10**15, "x"), ("no name", "a", T0, "x")):
        with pytest.raises(StoreError, match="cannot be stored"):
            store.append(events(row), {})
    assert store.files == []
    assert CommitLog(WritableLocalFolder(store.url)).latest() == 0


def test_both_kinds_of_writers_read_each_other(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "s")
    local = LocalEventStore(place, PRECEDENCE)
    local.append(events(("MapStart", "a", T0, "yarn_rest"), ("MapStart", "b", T0 - 3 * DAY_MS, "x")), {})
    store = EventStore.open(spark, place, precedence=PRECEDENCE)
    told = store.append(store.read())
    assert (told.n_new, told.n_duplicate) == (0, 2)
    frame = store.read(types=["MapStart"]).replace("yarn_rest", "job_history", "source")
    assert store.append(frame).n_replaced == 1  # Spark rewrites a file that it has not written
    again = LocalEventStore(place, PRECEDENCE)
    done = again.append(events(("MapStart", "b", T0 - 3 * DAY_MS, "yarn_rest"), ("MapEnd", "a", T0, "x")), {})
    assert done is not None
    assert (done.n_new, done.n_replaced) == (1, 1)  # and the other way round
    store.refresh()
    rows = {(row["type"], row["event_id"]): row["source"] for row in store.read().collect()}
    assert rows == {("MapStart", "a"): "job_history", ("MapStart", "b"): "yarn_rest", ("MapEnd", "a"): "x"}
    for file in again.files:
        assert pq.read_schema(tmp_path / "s" / file.path).names == to_arrow_schema().names
