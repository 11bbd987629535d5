"""Samples at several resolutions: what counts, by definition, in whatever order they come, in both kinds of writers."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from app.event_store.commits import Appended, Commit, CommitLog, NotCommittedError, State
from collectors.schema import load_event_types
from engine.events import EventBatch
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.local_append import LocalEventStore
from spark_jobs.event_store.on_this_machine import read_few
from spark_jobs.event_store.schema import EVENTS, SOURCE, to_rows

S = 1_000
T0_S = 1_700_006_400
"""A multiple of all steps of NESTED."""
NESTED = (15, 60, 360, 7_200, 172_800)

Row = tuple[str, int, int]
"""Series, when the row ends (seconds), its length (seconds)."""


def table(rows: Sequence[Row], *, skew_s: int = 0, told: bool = True, source: str = "ganglia_rrd") -> pa.Table:
    """As ingests give them; `told`: with their resolution, as versions before did not."""
    made = []
    for series, end_s, step_s in rows:
        made.append(
            {
                "event_id": f"{series}-{end_s}-{step_s}", "type": "Metric", "source_rank": 0, "source_seq": 0,
                "t_lo_ms": (end_s - step_s - skew_s) * S + 1, "t_hi_ms": (end_s + skew_s) * S,
                "clock_id": "ganglia:c", "origin": "o", "raw": None, "host": series, "name": "cpu_user", "value": 1.0,
                "skew_ms": skew_s * S, "resolution_ms": step_s * S if told else None,
            }
        )  # fmt: skip
    return to_rows(EventBatch.from_rows(made, load_event_types()), source)


def content(url: Path) -> set[str]:
    found = read_few(str(url), ("Metric",), ("event_id",), None, None, 1_000_000)
    assert found is not None
    ids = found.column("event_id").to_pylist() if found.num_columns else []
    assert len(set(ids)) == len(ids)
    return set(ids)


def names(rows: Sequence[Row]) -> set[str]:
    return {f"{series}-{end_s}-{step_s}" for series, end_s, step_s in rows}


def counting(rows: set[Row]) -> set[Row]:
    """By definition."""

    def touch(one: Row, other: Row) -> bool:
        return one[0] == other[0] and one[1] - one[2] < other[1] and other[1] - other[2] < one[1]

    return {row for row in rows if not any(other[2] < row[2] and touch(row, other) for other in rows)}


@st.composite
def rows_of(draw: st.DrawFn) -> Row:
    step_s = draw(st.sampled_from(NESTED))
    if step_s > 60:
        end_s = draw(st.integers(1, 400_000))
    else:  # near each other
        end_s = draw(st.sampled_from((0, 360, 7_200, 100_000))) + draw(st.integers(0, 30)) * step_s
    return draw(st.sampled_from("ab")), T0_S + end_s // step_s * step_s, step_s


@settings(max_examples=12, deadline=None)
@given(st.lists(rows_of(), min_size=1, max_size=25), st.randoms(use_true_random=False), st.sampled_from((0, 7)))
def test_the_order_of_ingests_changes_nothing(rows: list[Row], order: random.Random, skew_s: int) -> None:
    expected = names(list(counting(set(rows))))
    for _ in range(2):
        order.shuffle(rows)
        cuts = sorted(order.randint(0, len(rows)) for _ in range(order.randint(0, 3)))
        parts = [rows[low:high] for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True) if low < high]
        with tempfile.TemporaryDirectory() as folder:
            store = LocalEventStore(f"{folder}/s", ("ganglia_rrd",))
            n_kept = 0
            for part in parts:
                # Some are of an earlier version, which had no resolution.
                done = store.append(table(part, skew_s=skew_s, told=order.random() < 0.7), {})
                assert done is not None
                assert done.n_events == done.n_new + done.n_duplicate + done.n_replaced + done.n_overlapped
                n_kept += done.n_new - done.n_superseded
            assert content(Path(folder) / "s") == expected
            assert n_kept == len(expected)
            version = store.version
            for part in parts:
                assert store.append(table(part, skew_s=skew_s), {}) is not None
            assert (content(Path(folder) / "s"), store.version) == (expected, version)  # not even a commit


def test_samples_of_other_series_and_sources_stay(tmp_path: Path) -> None:
    store = LocalEventStore(str(tmp_path / "s"), ("ganglia_rrd",))
    coarse: Row = ("a", T0_S + 360, 360)
    store.append(table([coarse]), {})
    store.append(table([("b", T0_S + 15, 15)]), {})
    store.append(table([("a", T0_S + 30, 15)], source="gmond"), {})
    store.append(table([("a", T0_S + 375, 15), ("a", T0_S, 15)]), {})  # its neighbours
    assert len(content(tmp_path / "s")) == 5
    done = store.append(table([("a", T0_S + 345, 15)]), {})
    assert done == Appended(1, 1, 0, 0, 1, 0, 1)
    assert names([coarse]).isdisjoint(content(tmp_path / "s"))
    assert store.append(table([coarse]), {}) == Appended(1, 0, 0, 0, 0, 1)


def test_a_sample_of_several_days_makes_way(tmp_path: Path) -> None:
    store = LocalEventStore(str(tmp_path / "s"), ("ganglia_rrd",))
    store.append(table([("a", T0_S + 7 * 172_800, 7 * 172_800)]), {})
    done = store.append(table([("a", T0_S + 6 * 172_800 + 30, 15)]), {})  # other days' folders, far from its begin
    assert done is not None
    assert (done.n_new, done.n_superseded) == (1, 1)


def test_a_store_of_a_version_before_is_as_fine_as_its_intervals(tmp_path: Path) -> None:
    store = LocalEventStore(str(tmp_path / "s"), ("ganglia_rrd",))
    store.append(table([("a", T0_S + 15, 15)], told=False), {})
    for path in (tmp_path / "s").rglob("*.parquet"):  # which did not know the column
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns("resolution_ms"), path)
    done = store.append(table([("a", T0_S + 15, 15), ("a", T0_S + 30, 15), ("a", T0_S + 360, 360)]), {})
    assert done == Appended(3, 1, 1, 0, 1, 1)
    assert content(tmp_path / "s") == names([("a", T0_S + 15, 15), ("a", T0_S + 30, 15)])


@pytest.mark.parametrize("committed", [False, True])
def test_a_commit_that_fails_leaves_the_old_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, committed: bool
) -> None:
    store, coarse, fine = LocalEventStore(str(tmp_path / "s"), ()), ("a", T0_S + 360, 360), ("a", T0_S + 30, 15)
    store.append(table([coarse]), {})
    real = CommitLog.try_commit

    def fail(log: CommitLog, base: State, commit: Commit) -> State | None:
        assert (len(commit.added), len(commit.removed)) == (1, 1)  # the coarse one goes as the fine one comes
        if committed:
            real(log, base, commit)
        raise NotCommittedError("the disk is full")

    monkeypatch.setattr(CommitLog, "try_commit", fail)
    monkeypatch.setattr(store, "_discard", lambda _made: None)  # as if killed
    with pytest.raises(NotCommittedError):
        store.append(table([fine]), {})
    assert content(tmp_path / "s") == names([fine if committed else coarse])


def test_who_comes_second_looks_again(tmp_path: Path) -> None:
    first, second = (LocalEventStore(str(tmp_path / "s"), ()) for _ in range(2))
    first.append(table([("a", T0_S + 30, 15)]), {})
    assert second.append(table([("a", T0_S + 360, 360)]), {}) == Appended(1, 0, 0, 0, 0, 1)
    assert content(tmp_path / "s") == names([("a", T0_S + 30, 15)])


def test_on_spark_as_here(spark: SparkSession, tmp_path: Path) -> None:
    generator = random.Random(5)
    parts: list[tuple[list[Row], bool, int]] = []
    for told, skew_s in ((True, 0), (False, 0), (True, 3)):
        rows = []
        for _ in range(40):
            step_s = generator.choice(NESTED if told else (15,))
            reach_s = {15: 900 if told else 40_000, 60: 4_000, 360: 20_000, 7_200: 90_000, 172_800: 180_000}[step_s]
            rows.append((generator.choice("abc"), T0_S + generator.randint(1, reach_s) // step_s * step_s, step_s))
        parts.append((rows, told, skew_s))
    parts.append(parts[2])
    here = LocalEventStore(str(tmp_path / "here"), ("ganglia_rrd",))
    there = EventStore.create(spark, str(tmp_path / "there"), precedence=("ganglia_rrd",))
    told_of_all = [0, 0]
    for rows, told, skew_s in parts:
        made = table(rows, told=told, skew_s=skew_s)
        frame = spark.createDataFrame(made.to_pylist(), EVENTS).repartition(3)
        expected, found = here.append(made, {}), there.append(frame)
        assert expected is not None
        counts = ("n_events", "n_new", "n_duplicate", "n_replaced", "n_overlapped", "n_superseded")
        assert [getattr(found, name) for name in counts] == [getattr(expected, name) for name in counts]
        assert content(tmp_path / "there") == content(tmp_path / "here")
        told_of_all = [told_of_all[0] + found.n_overlapped, told_of_all[1] + found.n_superseded]
    assert min(told_of_all) > 3
    assert content(tmp_path / "here") == names(list(counting({row for rows, *_ in parts for row in rows})))
    version = there.version
    there.append(spark.createDataFrame(table(parts[1][0]).to_pylist(), EVENTS))
    assert there.version == version
    assert there.read(columns=[SOURCE, "resolution_ms"]).where("resolution_ms IS NULL").count() > 0
