"""The folder of histories: growing files, renames, copies, restarts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from collectors.base import Collected, OptionError, PositionError, SourceUnavailableError
from collectors.files_left_out import MAX_PER_POLL
from collectors.history.job_history import JobHistoryCollector, JobHistoryOptions
from tests.collectors import histories as h
from tests.collectors.history.test_hadoop1_history import HISTORY as HADOOP1_HISTORY

NOW = h.T0 + 60_000
JOB = "job_1700000000000_0007"
RUMEN = b'{"priority": "NORMAL", "jobID": "job_1_1"}'


def collector(root: Path, **options: object) -> JobHistoryCollector:
    return JobHistoryCollector(JobHistoryOptions((root,), **options))  # type: ignore[arg-type]


def collect(root: Path) -> Collected:
    return collector(root).poll(NOW)


def restarted(old: JobHistoryCollector, root: Path) -> JobHistoryCollector:
    new = collector(root)
    new.restore(json.loads(json.dumps(old.checkpoint())))
    return new


def kinds(polled: Collected) -> list[str]:
    return [problem.kind for problem in polled.problems]


def test_a_finished_history_goes_out_once(tmp_path: Path) -> None:
    (tmp_path / "2023" / "11").mkdir(parents=True)
    (tmp_path / "2023" / "11" / f"{JOB}-x.jhist").write_bytes(h.whole_history())
    (tmp_path / f"{JOB}_conf.xml").write_text("<configuration/>")
    history = collector(tmp_path)
    first, second = history.poll(NOW), history.poll(NOW + 1)
    assert [(f.job_id, len(f.events)) for f in first.finished] == [(JOB, 9)]
    assert first.watermark_ms == NOW - 5_000
    assert len(first.events) == 0
    assert second.finished == ()


def test_growing_file_waits_for_its_end(tmp_path: Path) -> None:
    path, data = tmp_path / f"{JOB}_1.jhist", h.whole_history()
    history = collector(tmp_path)
    for size in (0, 10, len(data) // 2, len(data) - 40):
        path.write_bytes(data[:size])
        polled = history.poll(NOW)
        assert (polled.finished, polled.problems) == ((), ())
    path.write_bytes(data)
    assert [len(f.events) for f in history.poll(NOW).finished] == [9]


def test_every_size_of_a_growing_file_gives_the_same_events(tmp_path: Path) -> None:
    path, data = tmp_path / f"{JOB}_1.jhist", h.whole_history()
    path.write_bytes(data)
    expected = collect(tmp_path).finished[0].events.table
    history = collector(tmp_path)
    for size in range(0, len(data) - 30, 97):
        path.write_bytes(data[:size])
        assert history.poll(NOW).finished == ()
    path.write_bytes(data)
    assert history.poll(NOW).finished[0].events.table.equals(expected)


def test_rename_and_copy_are_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "intermediate").mkdir()
    (tmp_path / "done").mkdir()
    path = tmp_path / "intermediate" / f"{JOB}-a.jhist"
    path.write_bytes(h.whole_history())
    history = collector(tmp_path)
    assert len(history.poll(NOW).finished) == 1
    path.rename(tmp_path / "done" / f"{JOB}-b.jhist")
    assert history.poll(NOW).finished == ()
    (tmp_path / "done" / f"{JOB}-c.jhist").write_bytes(h.whole_history())
    copied = history.poll(NOW)
    assert (copied.finished, copied.problems) == ((), ())


def test_restart_neither_loses_nor_repeats(tmp_path: Path) -> None:
    (tmp_path / f"{JOB}.jhist").write_bytes(h.whole_history())
    open_path = tmp_path / "job_1700000000000_0008.jhist"
    other = h.whole_history().replace(b"1700000000000_0007", b"1700000000000_0008")
    open_path.write_bytes(other[:900])
    first = collector(tmp_path)
    assert len(first.poll(NOW).finished) == 1
    second = restarted(first, tmp_path)
    assert second.poll(NOW).finished == ()
    open_path.write_bytes(other)
    third = restarted(second, tmp_path)
    assert [f.job_id for f in third.poll(NOW).finished] == ["job_1700000000000_0008"]


def test_problems_are_reported_once_across_polls_and_restarts(tmp_path: Path) -> None:
    (tmp_path / "foreign.jhist").write_bytes(b"\x7fELF\x00\x00{\n")
    (tmp_path / "folder.jhist").mkdir()
    history = collector(tmp_path, quiet_ms=0)
    assert kinds(history.poll(NOW)) == ["not_jhist"]
    assert kinds(history.poll(NOW)) == []
    assert kinds(restarted(history, tmp_path).poll(NOW)) == []


def test_two_histories_of_one_job(tmp_path: Path) -> None:
    (tmp_path / f"{JOB}-a.jhist").write_bytes(h.history(h.start_records(), h.map_records(), h.end_records()))
    (tmp_path / f"{JOB}-b.jhist").write_bytes(h.whole_history())
    polled = collect(tmp_path)
    assert [len(f.events) for f in polled.finished] == [9]  # the fuller one
    assert [(p.kind, p.place) for p in polled.problems] == [("second_history", str(tmp_path / f"{JOB}-a.jhist"))]


def test_a_quiet_file_without_an_end_is_used(tmp_path: Path) -> None:
    path = tmp_path / f"{JOB}.jhist"
    path.write_bytes(h.history(h.start_records(), h.map_records()))
    history = collector(tmp_path, quiet_ms=1_000)
    assert history.poll(NOW).finished == ()
    quiet = history.poll(NOW + 1_000)
    assert [len(f.events) for f in quiet.finished] == [5]
    assert kinds(quiet) == ["unfinished"]
    path.write_bytes(h.whole_history())  # its master went on after all
    assert [len(f.events) for f in history.poll(NOW + 2_000).finished] == [9]


def test_replay_holds_a_history_until_its_job_has_finished(tmp_path: Path) -> None:
    (tmp_path / f"{JOB}.jhist").write_bytes(h.whole_history())
    history = collector(tmp_path)
    assert history.poll(h.T0 + 12_499).finished == ()
    assert len(history.poll(h.T0 + 12_500).finished) == 1
    assert len(collector(tmp_path, hold_future=False).poll(h.T0).finished) == 1


def test_missing_root(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match="nowhere"):
        collect(tmp_path / "nowhere")
    (tmp_path / "there").mkdir()
    both = JobHistoryCollector(JobHistoryOptions((tmp_path / "nowhere", tmp_path / "there")))
    assert kinds(both.poll(NOW)) == ["unreadable"]
    assert kinds(both.poll(NOW)) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / f"{JOB}.jhist"
    path.write_bytes(h.whole_history())
    path.chmod(0)
    assert kinds(collect(tmp_path)) == ["unreadable"]


def test_links_and_pipes_do_not_hang_or_loop(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.jhist")
    (tmp_path / "broken.jhist").symlink_to(tmp_path / "nowhere")
    (tmp_path / f"{JOB}.jhist").write_bytes(h.whole_history())
    assert [f.job_id for f in collect(tmp_path).finished] == [JOB]


def test_limit_of_bytes_per_poll_spreads_the_work(tmp_path: Path) -> None:
    for i in range(3):
        data = h.whole_history().replace(b"_0007", b"_000%d" % i)
        (tmp_path / f"job_1700000000000_000{i}.jhist").write_bytes(data)
    history = collector(tmp_path, max_bytes_per_poll=1)
    assert [[f.job_id[-1] for f in history.poll(NOW).finished] for _ in range(4)] == [["0"], ["1"], ["2"], []]


@pytest.mark.parametrize("position", [{}, {"version": 99}, {"version": 1}, {"version": 1, "files": 3, "jobs": {}}])
def test_foreign_positions_are_refused(tmp_path: Path, position: dict[str, object]) -> None:
    with pytest.raises(PositionError):
        collector(tmp_path).restore(position)


def test_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="quiet_ms"):
        JobHistoryOptions((tmp_path,), quiet_ms=-1)
    with pytest.raises(OptionError, match="no folder"):
        JobHistoryOptions(())


def test_files_of_other_kinds_are_told_once_with_what_to_do(tmp_path: Path) -> None:
    trace = (
        b"2009-04-21 17:45:00,1 INFO org.apache.hadoop.hdfs.server.datanode.DataNode.clienttrace: src: /10.0.0.1:5, x"
    )
    for name, data in {
        f"{JOB}.jhist": h.whole_history(), "host_1_job_201001020304_0007_u_x": HADOOP1_HISTORY, "trace.json": RUMEN,
        f"{JOB}.jhist.bak": h.whole_history(), "clienttrace.log": trace, "notes.txt": b"buy milk", "empty": b"",
        f"{JOB}_conf.xml": b"<configuration/>", f".{JOB}.jhist.crc": b"crc", "_SUCCESS": b"x",
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(data)
    history = collector(tmp_path)
    first, second = history.poll(NOW), history.poll(NOW + 1)
    assert [f.job_id for f in first.finished] == [JOB]
    told = {problem.place.rpartition("/")[2]: problem.message for problem in first.problems}
    assert {name: message.partition(";")[0].partition(":")[0] for name, message in told.items()} == {
        "clienttrace.log": "no job history (a log of ClientTrace lines (who read and wrote which blocks) whose name "
        "tells no daemon and host)",
        "host_1_job_201001020304_0007_u_x": "found a job history (Hadoop 1)",
        f"{JOB}.jhist.bak": "a job history whose name does not end in .jhist",
        "notes.txt": "no job history (no kind that is known)",
        "trace.json": "found a Rumen trace",
    }
    assert "clustercep ingest" in told["trace.json"]
    assert second.problems == ()
    (tmp_path / "empty").write_bytes(b"no longer")
    assert [problem.place for problem in history.poll(NOW + 2).problems] == [str(tmp_path / "empty")]


def test_what_a_job_has_beside_its_history_is_no_problem(tmp_path: Path) -> None:
    for folder, names in {
        "alice/.staging/job_1_0001": ("job.jar", "job.split", "job.splitmetainfo", "job.xml", "libjars"),
        "done": ("job.xml", "COMMIT_STARTED"),
    }.items():
        (tmp_path / folder).mkdir(parents=True)
        for name in names:
            (tmp_path / folder / name).write_bytes(b"PK")
    assert collector(tmp_path).poll(NOW).problems == ()


def test_thousands_of_other_files_are_looked_into_little_by_little(tmp_path: Path) -> None:
    for number in range(MAX_PER_POLL + 5):
        (tmp_path / f"{number:04}.txt").write_bytes(b"x")
    history = collector(tmp_path)
    opened: list[int] = []
    for now_ms in (NOW, NOW + 1, NOW + 2):
        before = len(history._left_out._looked_at)
        history.poll(now_ms)
        opened.append(len(history._left_out._looked_at) - before)
    assert opened == [MAX_PER_POLL, 5, 0]


def test_counters_and_configuration_when_asked(tmp_path: Path) -> None:
    (tmp_path / f"{JOB}-x.jhist").write_bytes(h.whole_history())
    conf = "<property><name>mapreduce.map.memory.mb</name><value>512</value></property>"
    (tmp_path / f"{JOB}_conf.xml").write_text(f"<configuration>{conf}</configuration>")
    kept = JobHistoryCollector(JobHistoryOptions((tmp_path,), counters=True)).poll(NOW).finished[0].events
    plain = JobHistoryCollector(JobHistoryOptions((tmp_path,))).poll(NOW).finished[0].events
    rows, own = list(kept.rows()), list(plain.rows())
    settings = [row for row in rows if row["type"] == "JobSettings"]
    end_ms = next(row["t_lo_ms"] for row in own if row["type"] == "JobEnd")
    assert [(row["settings"], row["t_lo_ms"]) for row in settings] == [('{"mapreduce.map.memory.mb":"512"}', end_ms)]
    assert {row["t_hi_ms"] for row in rows if row["type"] in BESIDE_ORDER} == {end_ms}  # earlier they would be late
    others = {row["event_id"]: row["source_seq"] for row in rows if row["type"] not in BESIDE_ORDER}
    assert others == {row["event_id"]: row["source_seq"] for row in own}


BESIDE_ORDER = {"AttemptCounters", "JobCounters", "JobSettings"}


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "xml"])
def test_a_hostile_configuration_holds_nothing_up(tmp_path: Path, kind: str) -> None:
    (tmp_path / f"{JOB}-x.jhist").write_bytes(h.whole_history())
    conf = tmp_path / f"{JOB}_conf.xml"
    if kind == "link":
        conf.symlink_to("/etc/passwd")
    elif kind == "pipe":
        os.mkfifo(conf)
    elif kind == "folder":
        conf.mkdir()
    else:
        conf.write_bytes(b"<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><configuration>&e;</configuration>")
    polled = JobHistoryCollector(JobHistoryOptions((tmp_path,), counters=True)).poll(NOW)
    assert len(polled.finished) == 1
    assert "JobSettings" not in {row["type"] for row in polled.finished[0].events.rows()}
