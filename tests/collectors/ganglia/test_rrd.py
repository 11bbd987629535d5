"""RRDs that grow while they are read, hosts that vanish, files that are none."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from collectors.base import Collected, OptionError, PositionError, SourceUnavailableError
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.ganglia.rrd_header import RrdError, read_header
from tests.collectors import rrds
from tests.collectors.rrds import STEP_S, T0_MS, T0_S

STEP_MS = STEP_S * 1000


def collector(root: Path, **options: object) -> GangliaRrdCollector:
    return GangliaRrdCollector(GangliaRrdOptions(root, **options))  # type: ignore[arg-type]


def samples(polled: Collected) -> list[tuple[str, int, float]]:
    return sorted((row["host"], (row["t_hi_ms"] - T0_MS) // STEP_MS, row["value"]) for row in polled.events.rows())


def kinds(polled: Collected) -> list[str]:
    return [problem.kind for problem in polled.problems]


def test_samples_and_their_intervals(tmp_path: Path) -> None:
    rrds.write_rrd(tmp_path / "prod" / "node1" / "cpu_user.rrd", [10.0, 20.5])
    polled = collector(tmp_path).poll(T0_MS + 40_000)
    rows = list(polled.events.rows())
    assert [(row["t_lo_ms"], row["t_hi_ms"]) for row in rows] == [
        (T0_MS + 1, T0_MS + 15_000),
        (T0_MS + 15_001, T0_MS + 30_000),
    ]
    assert [row["value"] for row in rows] == [10.0, 20.5]
    assert {(row["host"], row["name"], row["unit"], row["clock_id"]) for row in rows} == {
        ("node1", "cpu_user", "%", "ganglia:prod")
    }
    assert polled.watermark_ms == T0_MS + 30_001
    assert kinds(polled) == []


def test_same_rows_as_the_command_line_tool(tmp_path: Path) -> None:
    path = tmp_path / "c" / "h" / "cpu_user.rrd"
    generator = random.Random(7)
    values = [None if generator.random() < 0.2 else generator.uniform(0, 100) for _ in range(200)]
    rrds.write_rrd(path, values)
    now_ms = T0_MS + 200 * STEP_MS
    polled = collector(tmp_path).poll(now_ms)
    expected = rrds.rrdtool_rows(path, T0_S, now_ms // 1000)
    assert len(expected) > 100
    found = {row["t_hi_ms"] // 1000: row["value"] for row in polled.events.rows()}
    assert found == pytest.approx(expected)


def test_growing_file_gives_each_row_once(tmp_path: Path) -> None:
    path = tmp_path / "c" / "h" / "cpu_user.rrd"
    rrds.write_rrd(path, [1.0, 2.0])
    ganglia = collector(tmp_path)
    found = samples(ganglia.poll(T0_MS + 30_000))
    assert ganglia.poll(T0_MS + 31_000).events.table.num_rows == 0
    rrds.extend_rrd(path, [3.0, 4.0], start_s=T0_S + 30)
    found += samples(ganglia.poll(T0_MS + 60_000))
    assert found == [("h", 1, 1.0), ("h", 2, 2.0), ("h", 3, 3.0), ("h", 4, 4.0)]


def test_replay_of_complete_files_follows_the_clock(tmp_path: Path) -> None:
    values = [float(i) for i in range(1, 41)]
    rrds.write_rrd(tmp_path / "c" / "h" / "cpu_user.rrd", values)
    ganglia, at_once = collector(tmp_path), collector(tmp_path).poll(T0_MS + 40 * STEP_MS)
    found, ids = [], []
    for now_ms in range(T0_MS, T0_MS + 41 * STEP_MS, 4_000):
        polled = ganglia.poll(now_ms)
        assert all(row["t_hi_ms"] <= now_ms for row in polled.events.rows())
        found += samples(polled)
        ids += polled.events.strings("event_id").to_pylist()
    assert found == samples(at_once)
    assert ids == at_once.events.strings("event_id").to_pylist()


def test_restart_continues(tmp_path: Path) -> None:
    path = tmp_path / "c" / "h" / "cpu_user.rrd"
    rrds.write_rrd(path, [1.0, 2.0])
    first = collector(tmp_path)
    first.poll(T0_MS + 30_000)
    rrds.extend_rrd(path, [3.0], start_s=T0_S + 30)
    second = collector(tmp_path)
    second.restore(json.loads(json.dumps(first.checkpoint())))
    assert samples(second.poll(T0_MS + 45_000)) == [("h", 3, 3.0)]
    with pytest.raises(PositionError):
        second.restore({"version": 1, "watermark_ms": 0, "files": {"c/h/x.rrd": "soon"}})


def test_unknown_samples_are_left_out_and_reported_per_gap(tmp_path: Path) -> None:
    rrds.write_rrd(tmp_path / "c" / "h" / "cpu_user.rrd", [1.0, None, None, 4.0, None, 6.0, None])
    polled = collector(tmp_path).poll(T0_MS + 105_000)
    assert samples(polled) == [("h", 1, 1.0), ("h", 4, 4.0), ("h", 6, 6.0)]
    assert kinds(polled) == ["unknown_samples"] * 3


def test_a_gap_over_several_polls_is_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "c" / "h" / "cpu_user.rrd"
    rrds.write_rrd(path, [1.0])
    ganglia = collector(tmp_path)
    reported = kinds(ganglia.poll(T0_MS + 15_000))
    for step in range(1, 5):
        rrds.extend_rrd(path, [None], start_s=T0_S + step * STEP_S)
        reported += kinds(ganglia.poll(T0_MS + (step + 1) * STEP_MS))
    assert reported == ["unknown_samples"]


def test_before_the_first_value_of_a_new_file_there_is_no_gap(tmp_path: Path) -> None:
    rrds.write_rrd(tmp_path / "c" / "h" / "cpu_user.rrd", [5.0], start_s=T0_S)
    polled = collector(tmp_path, backfill_ms=3_600_000).poll(T0_MS + 15_000)
    assert kinds(polled) == []


def test_vanished_host_is_reported_once_and_frees_the_watermark(tmp_path: Path) -> None:
    quiet, busy = tmp_path / "c" / "quiet" / "cpu_user.rrd", tmp_path / "c" / "busy" / "cpu_user.rrd"
    rrds.write_rrd(quiet, [1.0, 1.0])
    rrds.write_rrd(busy, [2.0, 2.0])
    ganglia = collector(tmp_path, silent_ms=60_000, vanished_steps=3)
    ganglia.poll(T0_MS + 30_000)
    reported, watermarks = [], []
    for step in range(2, 12):
        rrds.extend_rrd(busy, [2.0], start_s=T0_S + step * STEP_S)
        polled = ganglia.poll(T0_MS + (step + 1) * STEP_MS)
        reported += [(p.kind, p.place, step) for p in polled.problems]
        watermarks.append(polled.watermark_ms)
    assert reported == [("host_vanished", "quiet", 5)]
    assert watermarks[0] == T0_MS + 30_001  # waits for the quiet host
    assert watermarks[-1] == T0_MS + 12 * STEP_MS - 5_000  # and no longer
    assert watermarks == sorted(watermarks)
    rrds.extend_rrd(quiet, [None] * 9 + [3.0], start_s=T0_S + 2 * STEP_S)  # it is back
    assert "host_vanished" not in kinds(ganglia.poll(T0_MS + 12 * STEP_MS))


def test_a_host_whose_folder_is_removed_is_missed_and_then_forgotten(tmp_path: Path) -> None:
    gone, here = tmp_path / "c" / "gone" / "cpu_user.rrd", tmp_path / "c" / "here" / "cpu_user.rrd"
    rrds.write_rrd(gone, [1.0])
    rrds.write_rrd(here, [1.0] * 20)
    ganglia = collector(tmp_path, forget_ms=200_000)
    ganglia.poll(T0_MS + 15_000)
    gone.unlink()
    assert [(p.kind, p.place) for p in ganglia.poll(T0_MS + 120_000).problems] == [("host_vanished", "gone")]
    assert set(ganglia.checkpoint()["files"]) == {"c/gone/cpu_user.rrd", "c/here/cpu_user.rrd"}
    ganglia.poll(T0_MS + 300_000)
    assert set(ganglia.checkpoint()["files"]) == {"c/here/cpu_user.rrd"}


def test_a_host_that_never_had_a_sample_in_sight_is_reported(tmp_path: Path) -> None:
    rrds.write_rrd(tmp_path / "c" / "old" / "cpu_user.rrd", [1.0], start_s=T0_S - 86_400)
    rrds.write_rrd(tmp_path / "c" / "new" / "cpu_user.rrd", [1.0])
    polled = collector(tmp_path).poll(T0_MS + 15_000)
    assert [(p.kind, p.place) for p in polled.problems] == [("host_vanished", "old")]


def test_bad_files_are_reported_once_and_stop_nothing(tmp_path: Path) -> None:
    host = tmp_path / "c" / "h"
    rrds.write_rrd(host / "cpu_user.rrd", [1.0])
    good = (host / "cpu_user.rrd").read_bytes()
    (host / "empty.rrd").write_bytes(b"")
    (host / "text.rrd").write_text("hello")
    (host / "cut.rrd").write_bytes(good[:1000])
    (host / "short.rrd").write_bytes(good[:-100])
    rrds.write_rrd(host / "twofold.rrd", [1.0], sources=("a", "b"))
    (host / "folder.rrd").mkdir()
    (tmp_path / "stray.rrd").write_bytes(good)
    ganglia = collector(tmp_path, metric_pattern=".*")
    polled = ganglia.poll(T0_MS + 15_000)
    assert samples(polled) == [("h", 1, 1.0)]
    assert sorted((p.kind, p.place.rpartition("/")[2]) for p in polled.problems) == [
        ("misplaced", tmp_path.name),
        *[("not_rrd", name) for name in ("cut.rrd", "empty.rrd", "short.rrd", "text.rrd", "twofold.rrd")],
    ]
    assert ganglia.poll(T0_MS + 16_000).problems == ()


def test_a_file_that_recovers_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c" / "h" / "cpu_user.rrd"
    rrds.write_rrd(path, [1.0])
    good = path.read_bytes()
    path.write_bytes(good[:500])
    ganglia = collector(tmp_path)
    assert kinds(ganglia.poll(T0_MS + 15_000)) == ["not_rrd"]
    path.write_bytes(good)
    assert samples(ganglia.poll(T0_MS + 15_000)) == [("h", 1, 1.0)]


def test_summaries_are_read_on_demand_only(tmp_path: Path) -> None:
    rrds.write_rrd(tmp_path / "c" / "__SummaryInfo__" / "cpu_user.rrd", [9.0], sources=("sum", "num"))
    rrds.write_rrd(tmp_path / "__SummaryInfo__" / "cpu_user.rrd", [9.0], sources=("sum", "num"))
    assert samples(collector(tmp_path).poll(T0_MS + 15_000)) == []
    found = collector(tmp_path, include_summary=True).poll(T0_MS + 15_000)
    assert samples(found) == [("__SummaryInfo__", 1, 9.0)]
    assert kinds(found) == []


def test_metric_filter_host_names_and_units(tmp_path: Path) -> None:
    for metric in ("cpu_user", "disk_used", "load_one"):
        rrds.write_rrd(tmp_path / "c" / "127.0.0.2" / f"{metric}.rrd", [1.0])
    ganglia = collector(
        tmp_path,
        metrics=("load_one",),
        metric_pattern="disk_.*",
        hosts={"127.0.0.2": "node2"},
        units={"disk_used": "GB"},
    )
    rows = list(ganglia.poll(T0_MS + 15_000).events.rows())
    assert sorted((row["host"], row["name"], row.get("unit")) for row in rows) == [
        ("node2", "disk_used", "GB"),
        ("node2", "load_one", None),
    ]


def test_hostile_folder_names(tmp_path: Path) -> None:
    names = [b"h\xff\xfe", b"x'; DROP TABLE--", b"-s", "\u202e\n".encode()]
    good = tmp_path / "good.rrd"
    rrds.write_rrd(good, [1.0])
    for name in names:
        folder = tmp_path / "root" / "c:1" / os.fsdecode(name)
        folder.mkdir(parents=True)
        (folder / "cpu_user.rrd").write_bytes(good.read_bytes())
    ganglia = collector(tmp_path / "root")
    polled = ganglia.poll(T0_MS + 15_000)
    found = {row["host"] for row in polled.events.rows()}
    assert found | {p.place for p in polled.problems} >= {"x'; DROP TABLE--", "-s", "\u202e\n"}
    assert json.loads(json.dumps(ganglia.checkpoint()))["version"] == 1
    for problem in polled.problems:
        assert problem.message.isprintable()


def test_root_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match="nowhere"):
        collector(tmp_path / "nowhere").poll(0)
    with pytest.raises(OptionError, match="regular expression"):
        collector(tmp_path, metric_pattern="(")


def test_damaged_headers_are_refused_before_librrd_sees_them(tmp_path: Path) -> None:
    path = tmp_path / "c" / "h" / "cpu_user.rrd"
    rrds.write_rrd(path, [float(i) for i in range(30)])
    sound = path.read_bytes()
    header = read_header(str(path))
    assert (header.step_s, header.updated_s, header.sources) == (15, T0_S + 450, ("sum",))
    assert header.archives == (("AVERAGE", 1, 240), ("AVERAGE", 24, 244))
    generator = random.Random(3)
    n_refused = 0
    for _ in range(200):
        damaged = bytearray(sound)
        for _ in range(generator.randint(1, 5)):
            damaged[generator.randrange(900)] = generator.randrange(256)
        path.write_bytes(damaged)
        try:
            read_header(str(path))
        except RrdError:
            n_refused += 1
        collector(tmp_path).poll(T0_MS + 450_000)  # neither crashes nor raises
    assert n_refused > 50


def test_a_file_that_may_not_be_read_is_read_once_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c" / "h" / "cpu_user.rrd"
    rrds.write_rrd(path, [10.0, 20.5])

    def refuse(*_args: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    reader = collector(tmp_path)
    with monkeypatch.context() as refused:
        refused.setattr("collectors.ganglia.rrd_header.open", refuse, raising=False)
        found = [problem for now_ms in (40_000, 41_000) for problem in reader.poll(T0_MS + now_ms).problems]
    assert [(problem.kind, problem.place) for problem in found] == [("unreadable", str(path))]
    assert samples(reader.poll(T0_MS + 42_000)) == [("h", 1, 10.0), ("h", 2, 20.5)]
