"""The event log: steps, columns, crashes, damage, retention and merging, case by case."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from app.errors import EventLogError
from app.event_log import EventLog, EventLogReader, layout, writer
from app.event_log.files import Listing, LogFile, list_folder
from app.settings import Retention
from engine.events import EventBatch
from tests.app.pipeline_fixtures import batch, event

E1, E2 = "1" * 16, "2" * 16
KEEP = Retention()

Row = dict[str, Any]


def ids(events: EventBatch | pa.Table) -> list[str]:
    table = events.table if isinstance(events, EventBatch) else events
    return list(table.column("event_id").to_pylist())


def started(folder: Path, epoch: str = E1, number: int = 0) -> EventLog:
    log = EventLog(folder, durable=False)
    log.begin(epoch, number)
    return log


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ------------------------------------------------------------------- one step


def test_a_step_is_there_once_it_is_committed(tmp_path: Path) -> None:
    log, position = started(tmp_path), {E1: 0}
    reader = EventLogReader(tmp_path, lambda: position)
    log.write(1, batch(event("b", 20), event("a", 10, host="h")), 100)
    assert (len(reader.read()), reader.span(), reader.count()) == (0, None, 0)
    position[E1] = 1
    assert ids(reader.read()) == ["a", "b"]
    assert (reader.span(), reader.count()) == ((10, 20), 2)


def test_a_number_that_is_written_again_replaces_what_was_there(tmp_path: Path) -> None:
    log = started(tmp_path)
    log.write(1, batch(event("a", 1)), 1, [batch(event("h", 1))])
    log.write(1, batch(event("b", 1)), 2)
    reader = EventLogReader(tmp_path, lambda: {E1: 1})
    assert ids(reader.read()) == ["b"]
    log.write(1, batch(), 3)
    assert names(tmp_path) == []


def test_an_absent_folder_is_an_empty_log(tmp_path: Path) -> None:
    reader = EventLogReader(tmp_path / "no", lambda: {E1: 9})
    assert (len(reader.read()), list(reader.batches()), reader.count(), reader.span()) == (0, [], 0, None)
    assert reader.read(columns=["host", "t_lo_ms"]).column_names == ["host", "t_lo_ms"]


def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EventLogError, match="cannot be read"):
        EventLogReader(tmp_path / "file", lambda: {}).read()


def test_what_the_disk_refuses_is_a_problem_and_detection_goes_on(tmp_path: Path) -> None:
    log = started(tmp_path / "x")
    shutil.rmtree(tmp_path / "x")
    (tmp_path / "x").write_text("in the way")
    log.write(1, batch(event("a", 1)), 1)
    (problem,) = log.problems()
    assert (problem.kind, problem.message.startswith("1 events are not in the log")) == ("unwritable", True)
    assert log.problems() == []


# ------------------------------------------------------------ what is asked for


def filled(folder: Path, n_steps: int = 40, per_step: int = 10) -> EventLogReader:
    """Metrics and task ends over time, merged."""
    log = started(folder)
    for number in range(1, n_steps + 1):
        rows = [event(f"m{number}-{i}", 100 * number + i, "Metric", host=f"n{i}", value=0.5) for i in range(per_step)]
        rows.append({**event(f"e{number}", 100 * number - 30, task_id=f"t{number}"), "t_hi_ms": 100 * number + 30})
        log.write(number, batch(*rows), 1_000 + number)
        log.tidy(number, 1_000 + number, KEEP)
    assert log.problems() == []
    return EventLogReader(folder, lambda: {E1: n_steps})


def test_types_times_columns_and_conditions(tmp_path: Path) -> None:
    reader = filled(tmp_path)
    assert len(reader.read()) == 440
    assert ids(reader.read(types=["MapEnd"], from_ms=330, to_ms=470)) == ["e3", "e4", "e5"]
    assert ids(reader.read(types=["MapEnd"], from_ms=331, to_ms=469)) == ["e4"]
    assert ids(reader.read(types=[])) == []
    table = reader.read(types=["Metric"], to_ms=101, columns=["host", "value", "reason"])
    assert table.to_pydict() == {"host": ["n0", "n1"], "value": [0.5, 0.5], "reason": [None, None]}
    assert table.schema.field("reason").type == pa.string()
    assert len(reader.read(where=pc.field("host") == "n3")) == 40
    assert len(reader.read(where=pc.field("reason") == "n3")) == 0
    assert "reason" not in reader.read(where=pc.field("host") == "n3").table.column_names
    with pytest.raises(ValueError, match="does not fit"):
        reader.read(where=pc.field("host") > 3)


def test_batches_are_small_ordered_and_complete(tmp_path: Path) -> None:
    reader = filled(tmp_path)
    parts = list(reader.batches(types=["Metric"], from_ms=500, to_ms=3_000, rows=33))
    assert max(len(part) for part in parts) <= 33
    whole = reader.read(types=["Metric"], from_ms=500, to_ms=3_000)
    assert ids(EventBatch.concat(parts)) == ids(whole)
    assert reader.count(types=["Metric"], from_ms=500, to_ms=3_000) >= len(whole)


def test_what_was_not_asked_for_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "GROUP_ROWS", 50)
    reader = filled(tmp_path)
    read: list[int] = []
    whole_group = pq.ParquetFile.read_row_group

    def counted(self: pq.ParquetFile, index: int, **options: Any) -> pa.Table:
        table = whole_group(self, index, **options)
        read.append(table.num_rows)
        return table

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    assert len(reader.read(types=["MapEnd"], to_ms=1_500)) == 15
    assert sum(read) <= 60  # of 440: merged files hold one type per row group
    read.clear()
    assert len(reader.read(from_ms=100, to_ms=300)) == 24
    assert sum(read) <= 150
    read.clear()
    assert ids(reader.read(from_ms=10**9)) == []
    assert read == []


def test_columns_that_no_row_of_a_group_has_are_not_there(tmp_path: Path) -> None:
    reader = filled(tmp_path)
    assert "host" not in reader.read(types=["MapEnd"], to_ms=1_000).table.column_names


def test_numbers_of_two_versions_become_doubles(tmp_path: Path) -> None:
    log = started(tmp_path)
    for number, value in ((1, pa.array([1], pa.int64())), (2, pa.array([0.5]))):
        events = batch(event(f"e{number}", number, "Metric"))
        log.write(number, EventBatch(events.table.append_column("value", value)), 1)
    reader = EventLogReader(tmp_path, lambda: {E1: 2})
    assert reader.read().numbers("value").tolist() == [1.0, 0.5]


# ------------------------------------------------------------ epochs, crashes


def test_another_epoch_does_not_meet_the_numbers_of_the_one_before(tmp_path: Path) -> None:
    log = started(tmp_path)
    log.write(1, batch(event("a", 1)), 1)
    log.write(2, batch(event("uncommitted", 2)), 1)
    log = started(tmp_path, E2)
    for number in (1, 2, 3):
        log.write(number, batch(event(f"new{number}", 10 + number)), 1)
    reader = EventLogReader(tmp_path, lambda: {E1: 1, E2: 3})
    assert ids(reader.read()) == ["a", "new1", "new2", "new3"]
    assert ids(EventLogReader(tmp_path, lambda: {E2: 3}).read()) == ["new1", "new2", "new3"]  # E1: another database's


def test_what_a_dead_process_left_goes(tmp_path: Path) -> None:
    log = started(tmp_path)
    log.write(1, batch(event("a", 1)), 1)
    log.write(2, batch(event("b", 2)), 1)
    (tmp_path / (LogFile("live", E1, 3, 3).name + ".part")).write_text("half")
    started(tmp_path, E1, 1)
    assert names(tmp_path) == [LogFile("live", E1, 1, 1).name]


def test_a_store_that_is_older_than_its_log_goes_on(tmp_path: Path) -> None:
    log = started(tmp_path)
    for number in range(1, 17):
        log.write(number, batch(event(f"e{number}", number)), 1)
    log.tidy(16, 1, KEEP)
    assert len(names(tmp_path)) == 1
    log = started(tmp_path, E1, 10)  # restored from a backup
    log.write(11, batch(event("e11", 11), event("other", 12)), 1)
    found = ids(EventLogReader(tmp_path, lambda: {E1: 11}).read())
    assert sorted(found) == sorted([*(f"e{n}" for n in range(1, 17)), "other"])


def test_a_name_that_goes_between_listing_and_opening_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = started(tmp_path)
    for number in range(1, 17):
        log.write(number, batch(event(f"e{number}", number)), 1)
    merging = iter([True])

    def position() -> dict[str, int]:
        if next(merging, False):  # after the listing, before the first file is opened
            log.tidy(16, 1, KEEP)
        return {E1: 16}

    assert len(EventLogReader(tmp_path, position).read()) == 16
    assert len(names(tmp_path)) == 1


def test_a_reader_finishes_on_files_that_are_merged_away(tmp_path: Path) -> None:
    log = started(tmp_path)
    for number in range(1, 17):
        log.write(number, batch(event(f"e{number}", number)), 1)
    parts = EventLogReader(tmp_path, lambda: {E1: 16}).batches(rows=1)
    first = next(parts)
    log.tidy(16, 1, KEEP)
    assert len(names(tmp_path)) == 1
    assert ids(EventBatch.concat([first, *parts])) == [f"e{n}" for n in range(1, 17)]


def test_files_that_vanish_all_the_time_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "app.event_log.reader.list_folder", lambda _: type("L", (), {"files": (LogFile("live", E1, 1, 1),)})()
    )
    with pytest.raises(EventLogError, match="vanish"):
        EventLogReader(tmp_path, lambda: {E1: 1}).read()


# ------------------------------------------------------------ damage, retention


def test_too_many_open_files_are_no_damage(tmp_path: Path) -> None:
    reader = filled(tmp_path)
    expected = ids(reader.read())
    fresh = EventLogReader(tmp_path, reader._committed)
    assert len(names(tmp_path)) > 3
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 3, before[1]))
    try:
        with pytest.raises(EventLogError, match="too many files are open"):
            fresh.read()
        told = fresh.span(), fresh.count()  # footers need one open file at a time
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert fresh.problems == []
    assert told == (reader.span(), reader.count())
    assert ids(fresh.read()) == expected


@pytest.mark.parametrize("refused", ["footer", "data"])
def test_what_the_system_refuses_for_a_while_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    reader = filled(tmp_path)
    expected, span = ids(reader.read()), reader.span()
    fresh = EventLogReader(tmp_path, reader._committed)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        if refused == "footer":
            patch.setattr(layout, "read_summary", refuse)
        else:
            patch.setattr("app.event_log.reader._Part.read", refuse)
        assert ids(fresh.read()) == []
    assert {problem.kind for problem in fresh.problems} == {"unreadable"}
    assert len(fresh.problems) == len(names(tmp_path))
    assert fresh.span() == span
    assert ids(fresh.read()) == expected
    assert fresh.problems == []


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    """Also in place, where the inode stays."""
    log = started(tmp_path)
    log.write(1, batch(event("e1", 1)), 1)
    reader = EventLogReader(tmp_path, lambda: {E1: 1})
    path = tmp_path / LogFile("live", E1, 1, 1).name
    whole = path.read_bytes()
    path.write_bytes(b"PAR1 no columns PAR1")
    assert reader.span() is None
    before = path.stat().st_ino
    path.write_bytes(whole)
    os.utime(path, ns=(7, 7))
    assert path.stat().st_ino == before
    assert reader.span() == (1, 1)
    changed = batch(event("e2", 2))
    layout.write(path, changed.table, 1)
    os.utime(path, ns=(8, 8))
    assert reader.span() == (2, 2)
    assert ids(reader.read()) == ["e2"]


def damaged(folder: Path, number: int, at: int) -> str:
    """Overwrite some bytes of a step's file."""
    name = LogFile("live", E1, number, number).name
    content = bytearray((folder / name).read_bytes())
    content[at : at + 8] = b"\xff" * 8
    (folder / name).write_bytes(bytes(content))
    return name


@pytest.mark.parametrize("at", [-8, -40, 4], ids=["length of the footer", "footer", "data"])
def test_a_damaged_file_is_told_and_left_out(tmp_path: Path, at: int) -> None:
    log = started(tmp_path)
    for number in range(1, 20):
        log.write(number, batch(*(event(f"e{number}-{i}", number) for i in range(50))), 1)
    path = tmp_path / LogFile("live", E1, 5, 5).name
    name = damaged(tmp_path, 5, at % path.stat().st_size)
    reader = EventLogReader(tmp_path, lambda: {E1: 19})
    assert len(reader.read()) == 18 * 50
    assert [(p.place, p.kind) for p in reader.problems] == [(name, "damaged")]
    log.tidy(19, 1, KEEP)
    assert [(p.place, p.kind) for p in log.problems()] == [(name, "damaged")]
    for number in range(20, 40):
        log.write(number, batch(event(f"e{number}", number)), 1)
        log.tidy(number, 1, KEEP)
    assert len(names(tmp_path)) < 30
    log = started(tmp_path, E1, 39)
    if at < 0:  # a new process reads the footers; damaged data is found by who reads them
        assert [(p.place, p.kind) for p in log.problems()] == [(name, "damaged")]
    assert (tmp_path / name).exists()
    assert len(EventLogReader(tmp_path, lambda: {E1: 39}).read()) == 18 * 50 + 20


def test_foreign_files_are_told_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    pq.write_table(pa.table({"x": [1]}), tmp_path / LogFile("live", E1, 1, 1).name)
    log = started(tmp_path, E1, 1)
    assert sorted(p.kind for p in log.problems()) == ["damaged", "foreign"]
    assert len(EventLogReader(tmp_path, lambda: {E1: 1}).read()) == 0
    assert len(names(tmp_path)) == 2


def test_a_pipe_with_the_name_of_a_file_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LogFile("live", E1, 1, 1).name)
    log = started(tmp_path, E1, 1)
    log.tidy(1, 1, KEEP)
    assert [p.kind for p in log.problems()] == ["foreign"]
    assert len(EventLogReader(tmp_path, lambda: {E1: 1}).read()) == 0


def test_retention_by_age_and_by_size(tmp_path: Path) -> None:
    log = started(tmp_path)
    for number in range(1, 6):
        log.write(number, batch(event(f"e{number}", 7)), number * 1_000)
    reader = EventLogReader(tmp_path, lambda: {E1: 5})
    log.tidy(5, 5_000, Retention.model_validate({"events": "3 s"}))
    assert ids(reader.read()) == ["e2", "e3", "e4", "e5"]
    two = 2 * (tmp_path / LogFile("live", E1, 5, 5).name).stat().st_size
    log.tidy(5, 5_000, KEEP.model_copy(update={"events_size_bytes": two}))
    assert ids(reader.read()) == ["e4", "e5"]


def test_merging_bounds_the_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "LEVEL_ROWS", 20)
    monkeypatch.setattr(writer, "MAX_FILE_ROWS", 1_000)
    log = started(tmp_path)
    most = 0
    for number in range(1, 601):
        log.write(number, batch(*(event(f"e{number}-{i}", number) for i in range(number % 11))), 1)
        log.tidy(number, 1, KEEP)
        most = max(most, len(names(tmp_path)))
    assert most <= 3 * writer.MERGE_AT + 3
    assert len(EventLogReader(tmp_path, lambda: {E1: 600}).read()) == sum(n % 11 for n in range(601))


def test_merging_in_the_background_is_the_same(tmp_path: Path) -> None:
    log = EventLog(tmp_path, durable=False, in_background=True)
    log.begin(E1, 0)
    for number in range(1, 101):
        log.write(number, batch(event(f"e{number}", number)), 1)
        log.tidy(number, 1, KEEP)
    log.close()
    assert log.problems() == []
    assert len(EventLogReader(tmp_path, lambda: {E1: 100}).read()) == 100
    assert len(names(tmp_path)) < 100


def test_a_step_that_is_written_while_the_folder_is_looked_at_is_not_merged_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that merges looks, the thread of the steps writes."""
    log = started(tmp_path)
    log.write(1, batch(event("e1", 1)), 1)

    def slow(folder: Path) -> Listing:
        found = list_folder(folder)
        log.write(2, batch(event("e2", 2)), 1)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(writer, "list_folder", slow)
        log._look()
    for number in range(3, 20):
        log.write(number, batch(event(f"e{number}", number)), 1)
    log.tidy(19, 1, KEEP)
    assert len(names(tmp_path)) < 19
    assert ids(EventLogReader(tmp_path, lambda: {E1: 19}).read()) == [f"e{n}" for n in range(1, 20)]


def test_a_defect_in_the_thread_that_merges_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog(tmp_path, durable=False, in_background=True)
    log.begin(E1, 0)
    monkeypatch.setattr(log, "_merge", lambda _run: 1 // 0)
    for number in range(1, 20):
        log.write(number, batch(event(f"e{number}", number)), 1)
        log.tidy(number, 1, KEEP)
        log.settle()
    assert {(p.kind, "ZeroDivisionError" in p.message) for p in log.problems()} == {("unmerged", True)}
    log.close()


def test_the_folder_of_a_store_that_was_moved_away_is_not_made_anew(tmp_path: Path) -> None:
    log = started(tmp_path / "away" / "events")
    log.write(1, batch(event("a", 1)), 1)
    assert {problem.kind for problem in log.problems()} == {"unreadable", "unwritable"}
    assert not (tmp_path / "away").exists()


# ----------------------------------------------------------------------- skew


def off(event_id: str, t_ms: int, skew_ms: int) -> Row:
    """An event of a clock that may be off by so much."""
    return {**event(event_id, t_ms), "t_hi_ms": t_ms + 2 * skew_ms, "clock_id": "host:n1", "skew_ms": skew_ms}


def test_steps_with_and_without_skew_are_one_log(tmp_path: Path) -> None:
    log, reader = started(tmp_path), EventLogReader(tmp_path, lambda: {E1: 3})
    log.write(1, batch(event("a", 10)), 100)
    log.write(2, batch(off("b", 20, 5), event("c", 30)), 200)
    assert [row.get("skew_ms") for row in reader.read().rows()] == [None, 5, None]
    assert [row.get("skew_ms") for part in reader.batches(rows=1) for row in part.rows()] == [None, 5, None]
    log.write(3, batch(off("d", 40, 7)), 300)  # the setting has been changed meanwhile
    read = reader.read()
    assert read.strings("clock_id").to_pylist() == [None, "host:n1 within 5 ms", None, "host:n1"]


def test_a_file_that_somebody_removed_is_told_once(tmp_path: Path) -> None:
    log = started(tmp_path)
    for number in (1, 2, 3):
        log.write(number, batch(event(f"e{number}", number)), number)
        log.tidy(number, number, KEEP)
    assert log.problems() == []
    (tmp_path / LogFile("live", E1, 2, 2).name).unlink()
    for now_ms in (writer.LOOK_EVERY_MS, writer.LOOK_EVERY_MS + 1, 2 * writer.LOOK_EVERY_MS + 2):
        log.tidy(3, now_ms, KEEP)
    (problem,) = log.problems()
    assert (problem.place, problem.kind) == (LogFile("live", E1, 2, 2).name, "removed")


def test_many_files_that_somebody_removed_are_counted(tmp_path: Path) -> None:
    log = started(tmp_path)
    for number in range(1, 101):
        log.write(number, batch(*(event(f"e{number}-{i}", number) for i in range(2))), number)
    for path in tmp_path.iterdir():
        path.unlink()
    log.tidy(100, 0, KEEP)
    problems = log.problems()
    assert len(problems) == writer.MAX_REMOVED_TOLD + 1
    assert problems[-1].message == f"{100 - writer.MAX_REMOVED_TOLD} more files that somebody has removed"


def test_what_the_log_itself_removes_is_no_problem(tmp_path: Path) -> None:
    log = started(tmp_path)
    for number in range(1, 200):
        log.write(number, batch(event(f"e{number}", number)), number)
        log.tidy(number, number * writer.LOOK_EVERY_MS, Retention(events="100 min"))
    assert log.problems() == []


def test_a_file_that_would_stand_for_others_and_cannot_be_read_is_set_aside(tmp_path: Path) -> None:
    log, position = started(tmp_path), {E1: 3}
    for number in (1, 2, 3):
        log.write(number, batch(event(f"e{number}", number)), number)
    wide = tmp_path / LogFile("live", E1, 1, 3).name
    wide.write_bytes(b"PAR1 and no more")
    again = started(tmp_path, number=3)
    (problem, foreign) = again.problems()
    assert (problem.place, problem.kind) == (wide.name, "damaged")
    assert (foreign.place, foreign.kind) == (wide.name + writer.DAMAGED_SUFFIX, "foreign")
    assert ids(EventLogReader(tmp_path, lambda: position).read()) == ["e1", "e2", "e3"]


def test_halves_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "download.part").write_text("of somebody else")
    (tmp_path / "folder.part").mkdir()
    log = started(tmp_path)
    assert sorted(p.place for p in log.problems()) == ["download.part", "folder.part"]
    assert names(tmp_path) == ["download.part", "folder.part"]
