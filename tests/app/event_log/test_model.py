"""The event log against a plain list of what was committed: crashes, rewritten numbers, merging, readers meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.event_log import EventLog, EventLogReader, layout, writer
from app.event_log.files import list_folder
from engine.events import EventBatch
from tests.app.event_log.test_event_log import KEEP, Row, ids, started
from tests.app.pipeline_fixtures import batch
from tests.examples import examples


@dataclass
class World:
    """A log, the store's position, and the oracle: the rows of committed steps as a list."""

    folder: Path
    log: EventLog = field(init=False)
    positions: dict[str, int] = field(default_factory=dict)
    epochs: Iterator[int] = field(default_factory=lambda: count(1))
    epoch: str = ""
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start_afresh()

    def start_afresh(self) -> None:
        """As after --forget-position."""
        self.epoch = f"{next(self.epochs):016x}"
        self.restart()

    def restart(self) -> None:
        self.log = started(self.folder, self.epoch, self.positions.get(self.epoch, 0))

    def step(self, live: list[Row], histories: list[Row], commit: bool) -> None:
        number = self.positions.get(self.epoch, 0) + 1
        self.log.write(number, batch(*live), number, [batch(*histories)])
        if commit:
            self.positions[self.epoch] = number
            self.rows += [*live, *histories]

    def tidy(self) -> None:
        self.log.tidy(self.positions.get(self.epoch, 0), 1, KEEP)

    def killed_while_merging(self) -> None:
        """The wide file has its name already, the narrow ones have theirs still."""
        before = {path: path.read_bytes() for path in self.folder.iterdir()}
        self.tidy()
        for path, content in before.items():
            path.write_bytes(content)

    def asked(self, types: list[str] | None, from_ms: int | None, to_ms: int | None) -> list[Row]:
        return [
            row
            for row in self.rows
            if (types is None or row["type"] in types)
            and (from_ms is None or row["t_hi_ms"] >= from_ms)
            and (to_ms is None or row["t_lo_ms"] <= to_ms)
        ]

    def expected(self, types: list[str] | None, from_ms: int | None, to_ms: int | None) -> list[str]:
        asked = self.asked(types, from_ms, to_ms)
        asked.sort(key=lambda r: (r["t_lo_ms"], r["source_rank"], r["source_seq"], r["event_id"]))
        return list(dict.fromkeys(row["event_id"] for row in asked))


MAX_SNAPSHOTS = 8

TYPES = ["MapEnd", "Metric", "JobStart"]
TIMES = st.integers(0, 300)


@st.composite
def occurrences(draw: st.DrawFn) -> Row:
    lo = draw(TIMES)
    hi = lo + draw(st.sampled_from([0, 0, 5, 100]))
    row = {"type": draw(st.sampled_from(TYPES)), "t_lo_ms": lo, "t_hi_ms": hi}
    return {**row, "source_rank": draw(st.integers(0, 1)), "source_seq": draw(st.integers(0, 2))}


def named(number: int) -> Row:
    """The id of an event, and what its copies agree about."""
    host = {} if number % 3 == 0 else {"host": f"h{number % 3}"}
    return {"event_id": f"e{number}", **host}


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["step", "step", "step", "step", "lost", "restart", "afresh", "tidy", "killed"]),
        st.lists(occurrences(), max_size=5),
        st.lists(st.tuples(st.integers(0, 30), occurrences()), max_size=2),
    ),
    max_size=60,
)
SPANS = st.lists(
    st.tuples(st.none() | st.lists(st.sampled_from(TYPES), unique=True), st.none() | TIMES, st.none() | TIMES),
    min_size=1,
    max_size=4,
)


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    actions=ACTIONS,
    spans=SPANS,
    again=st.booleans(),
    rows=st.integers(1, 20),
    keep_bytes=st.sampled_from((0, 1 << 14, 1 << 20)),
)
def test_readers_see_the_committed_steps_and_nothing_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    actions: list[tuple[str, list[Row], list[tuple[int, Row]]]],
    spans: list[tuple[list[str] | None, int | None, int | None]],
    again: bool,
    rows: int,
    keep_bytes: int,
) -> None:
    monkeypatch.setattr(writer, "MERGE_AT", 3)
    monkeypatch.setattr(writer, "LEVEL_ROWS", 8)
    monkeypatch.setattr(writer, "MAX_FILE_ROWS", 30)
    monkeypatch.setattr(layout, "GROUP_ROWS", 4)
    folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
    world = World(folder)
    reader = EventLogReader(folder, lambda: world.positions, keep_bytes=keep_bytes)
    number = count()
    snapshots: list[tuple[EventLogReader, list[list[str]]]] = []

    def look_again() -> None:
        """A snapshot shows what there was; what there is now, once a file of it has gone."""
        now = [world.expected(*span) for span in spans]
        for taken, then in snapshots:
            seen = [ids(taken.read(types=types, from_ms=lo, to_ms=hi)) for types, lo, hi in spans]
            assert all(one in (before, present) for one, before, present in zip(seen, then, now, strict=True))
        snapshots.append((reader.snapshot(), now))

    def look() -> None:
        look_again()
        for types, from_ms, to_ms in spans:
            expected = world.expected(types, from_ms, to_ms)
            whole = reader.read(types=types, from_ms=from_ms, to_ms=to_ms)
            assert ids(whole) == expected
            own = [row["event_id"] for row in whole.table.to_pylist() if row.get("host") == "h1"]
            asked = {"types": types, "from_ms": from_ms, "to_ms": to_ms}
            assert ids(reader.read(**asked, equal={"host": "h1"}, columns=("event_id",))) == own
            last_ms: dict[str, int] = {}
            for row in world.asked(**asked):
                if "host" in row:
                    last_ms[row["host"]] = max(row["t_hi_ms"], last_ms.get(row["host"], 0))
            assert reader.last_seen("host", **asked) == last_ms
            parts = list(reader.batches(types=types, from_ms=from_ms, to_ms=to_ms, rows=rows))
            assert ids(EventBatch.concat(parts)) == expected
            assert all(0 < len(part) <= rows for part in parts)
            assert reader.count(types=types, from_ms=from_ms, to_ms=to_ms) >= len(expected)

    for what, live, old in actions:
        match what:
            case "killed":
                world.killed_while_merging()
                look()
                world.restart()
            case "restart":
                world.restart()
            case "afresh":
                world.start_afresh()
                number = count() if again else number  # the sources are read from their start: the ids come again
            case "tidy":
                world.tidy()
            case _:
                fresh = [{**row, **named(next(number))} for row in live]
                histories = [{**row, **named(i)} for i, row in old]
                world.step(fresh, histories, commit=what == "step")
                if what == "lost":
                    look()
        if len(snapshots) < MAX_SNAPSHOTS:
            look_again()
    look()
    assert reader.problems == []
    assert list_folder(folder).foreign == ()


def test_a_snapshot_asks_once_which_files_count(tmp_path: Path) -> None:
    world = World(tmp_path / "log")
    row = {"type": "MapEnd", "t_lo_ms": 5, "t_hi_ms": 5, "source_rank": 0, "source_seq": 0}
    world.step([{**row, **named(0)}], [], commit=True)
    asked = []

    def positions() -> dict[str, int]:
        asked.append(1)
        return dict(world.positions)

    taken = EventLogReader(world.folder, positions).snapshot()
    world.step([{**row, **named(1)}], [], commit=True)
    assert [ids(taken.read()) for _ in range(3)] == [["e0"]] * 3
    assert taken.span() == (5, 5)
    assert len(asked) == 1


def test_what_could_not_be_read_is_there_when_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer without it is not remembered; the next one is, and makes no row group be read again."""
    world = World(tmp_path / "log")
    row = {"type": "MapEnd", "t_lo_ms": 5, "t_hi_ms": 5, "source_rank": 0, "source_seq": 0}
    for number in range(2):
        world.step([{**row, **named(number)}], [], commit=True)
    reader = EventLogReader(world.folder, lambda: world.positions, keep_bytes=1 << 20)
    found, reads = pq.ParquetFile.read_row_group, list[int]()

    def read(file: pq.ParquetFile, *args: Any, **keywords: Any) -> pa.Table:
        reads.append(1)
        if len(reads) == 2:
            raise OSError(errno.EIO, "the disk does not give it")
        return found(file, *args, **keywords)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", read)
    assert [ids(reader.read(columns=("event_id",))) for _ in range(3)] == [["e0"], ["e0", "e1"], ["e0", "e1"]]
    assert len(reads) == 3
