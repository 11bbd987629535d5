"""Any cut of events into batches, any order, repeated batches, a crash before any change of a file: one content."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from collectors.schema import load_event_types
from engine.events import EventBatch
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.file_system import StoreFiles
from spark_jobs.event_store.schema import EVENTS, to_rows
from spark_jobs.event_store.staging import Staging
from tests.examples import PROFILE
from tests.spark_jobs.event_store.test_store import DAY_MS, frame, job_start, metric, stored

CHANGES = ((StoreFiles, "create_new"), (StoreFiles, "move"), (StoreFiles, "remove"), (Staging, "_write"))
COLUMNS = ("event_id", "type", "t_lo_ms", "t_hi_ms", "source", "user", "value")
SOURCES = ("yarn_rest", "job_history", "container_log")

N_HISTORIES = 12 if PROFILE == "thorough" else 1


class Killed(BaseException):
    """The process ends here; whatever it would do afterwards does not happen."""


class Killing:
    """Lets the first `n_left` changes of files happen, and none after them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n_left: int) -> None:
        self.n_left = n_left
        for owner, name in CHANGES:
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            self.n_left -= 1
            if self.n_left < 0:
                raise Killed
            return change(*args, **named)

        return counted


def event(number: int, source: str) -> dict[str, Any]:
    """One of two types, on two days; sources tell different times."""
    lo_ms = number * DAY_MS // 4 + SOURCES.index(source)
    if number % 2:
        return job_start(str(number), lo_ms, user=f"{source}'s")
    return metric(str(number), lo_ms, lo_ms + 5)


def expected(told: dict[tuple[int, str], None]) -> list[tuple[Any, ...]]:
    """By the definition: of each event the copy of the best source."""
    best: dict[int, str] = {}
    for number, source in told:
        if number not in best or rank(source) < rank(best[number]):
            best[number] = source
    rows = [{**event(number, source), "source": source} for number, source in best.items()]
    return sorted(tuple({"t_hi_ms": row["t_lo_ms"], **row}.get(name) for name in COLUMNS) for row in rows)


def rank(source: str) -> int:
    return ("job_history", "yarn_rest", "container_log").index(source)


@pytest.mark.in_turn(of=2, together=True)
@pytest.mark.parametrize("seed", range(N_HISTORIES))
def test_the_content_does_not_depend_on_the_history(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    told = [(number, source) for number in range(8) for source in SOURCES if draw.random() < 0.7]
    batches: list[list[tuple[int, str]]] = [[], [], []]
    for one in draw.sample(told, len(told)):
        draw.choice(batches).append(one)
    EventStore.create(spark, str(tmp_path))
    for batch in [*batches, batches[0]]:
        # A batch has one source per frame in practice; here they come together.
        rows = [to_rows(EventBatch.from_rows([event(*one)], load_event_types()), one[1]) for one in batch]
        if not rows:
            continue
        together = spark.createDataFrame(pa.concat_tables(rows).combine_chunks(), EVENTS)
        for attempt in range(3):
            with pytest.MonkeyPatch.context() as patched:
                if attempt < 2 and draw.random() < 0.7:
                    Killing(patched, draw.randrange(10))
                try:
                    appended = EventStore.open(spark, str(tmp_path)).append(together)
                except Killed:
                    continue
            assert appended.n_events == appended.n_new + appended.n_duplicate + appended.n_replaced == len(batch)
            break
        if draw.random() < 0.5:
            with pytest.MonkeyPatch.context() as patched:
                Killing(patched, draw.randrange(6))
                with suppress(Killed):
                    EventStore.open(spark, str(tmp_path)).compact()
    store = EventStore.open(spark, str(tmp_path))
    assert stored(store, *COLUMNS) == expected(dict.fromkeys(told))
    # What is left over is swept, and nothing else; compacted, each type and date is one file.
    store.compact()
    groups = Counter((file.date, file.type) for file in store.files())
    assert set(groups.values()) == {1}
    later = EventStore.open(spark, str(tmp_path), clock=lambda: 2**42)
    later.sweep(older_than_ms=0)
    kept = {str(path.relative_to(tmp_path)) for path in (tmp_path / "data").rglob("*.parquet")}
    assert kept == {file.path for file in store.files()}
    assert stored(later, *COLUMNS) == stored(store, *COLUMNS) == expected(dict.fromkeys(told))
    assert EventStore.open(spark, str(tmp_path)).files() == store.files()


@pytest.mark.in_turn(of=2, together=True)
def test_an_append_that_lost_the_race_looks_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = EventStore.create(spark, str(tmp_path))
    fast = EventStore.open(spark, str(tmp_path))
    place = Staging.place
    overtaking = [frame(spark, [event(1, "job_history"), event(3, "yarn_rest")], "job_history")]

    def overtaken(self: Staging, *args: Any) -> None:
        place(self, *args)
        if overtaking:
            fast.append(overtaking.pop())

    monkeypatch.setattr(Staging, "place", overtaken)
    mine = frame(spark, [event(1, "yarn_rest"), event(3, "job_history"), event(5, "job_history")], "yarn_rest")
    appended = slow.append(mine)
    assert (appended.n_new, appended.n_duplicate, appended.n_replaced) == (1, 2, 0)
    assert [row[0] for row in stored(slow, "event_id", "source")] == ["1", "3", "5"]
    # What was in its place when the race was lost is not left there.
    replaced = {path for _, commit in slow._log.commits(0) for path in commit.removed}
    in_place = {str(path.relative_to(tmp_path)) for path in (tmp_path / "data").rglob("*.parquet")}
    assert in_place == {file.path for file in slow.files()} | replaced
    # A compaction that is overtaken keeps what came meanwhile.
    bundles = Staging.write_bundles
    overtaking.append(frame(spark, [event(7, "job_history")]))

    def overtaken_bundles(self: Staging, *args: Any) -> Any:
        made = bundles(self, *args)
        if overtaking:
            fast.append(overtaking.pop())
        return made

    monkeypatch.setattr(Staging, "write_bundles", overtaken_bundles)
    fast.append(frame(spark, [event(9, "job_history"), job_start("11", 1)]))
    slow.compact()
    slow.refresh()
    assert [row[0] for row in stored(slow, "event_id")] == ["1", "11", "3", "5", "7", "9"]
