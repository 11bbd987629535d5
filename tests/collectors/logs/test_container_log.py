"""Fetches of reducers: periods, hosts, sizes; logs that grow, rotate, shrink, lie or break off."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from collectors.base import Collected, OptionError, PositionError, SourceUnavailableError
from collectors.identity import lifecycle_id
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.logs.times import parse_record, parse_time, zone_named
from tests.collectors import reducer_logs as logs
from tests.collectors.positions import saved

NOW = logs.DAY_MS + 60_000


def collector(root: Path, **options: object) -> ContainerLogCollector:
    return ContainerLogCollector(ContainerLogOptions(root, **options))  # type: ignore[arg-type]


def collect(root: Path, **options: object) -> Collected:
    return collector(root, **options).poll(NOW)


def pulls(*polls: Collected) -> list[tuple[Any, ...]]:
    found = []
    for polled in polls:
        for row in polled.events.rows():
            if row["type"] == "DataPull":
                number = int(row["map_attempt_id"].split("_")[4])
                values = (row.get("source_host"), row.get("bytes"), row["t_lo_ms"] - logs.DAY_MS, row.get("period_ms"))
                found.append((number, *values))
    return sorted(found)


def of_type(polled: Collected, event_type: str) -> list[dict[str, Any]]:
    return [row for row in polled.events.rows() if row["type"] == event_type]


def ids(*polls: Collected) -> list[str]:
    return sorted(i for polled in polls for i in polled.events.strings("event_id").to_pylist())


def test_pulls_of_interleaved_fetchers(tmp_path: Path) -> None:
    logs.write_log(tmp_path, logs.hadoop2_log())
    polled = collect(tmp_path)
    assert pulls(polled) == logs.PULLS
    assert polled.problems == ()
    assert polled.watermark_ms == NOW - 5_000
    for row in of_type(polled, "DataPull"):
        assert row["attempt_id"] == logs.REDUCER
        assert row["task_id"] == "task_1700000000000_0007_r_000000"
        assert row["job_id"] == "job_1700000000000_0007"
        assert row["clock_id"] == "host:node4"
        assert row["t_lo_ms"] == row["t_hi_ms"]
        assert "from map-output for" in row["raw"]


def test_logs_without_assignments_give_the_same(tmp_path: Path) -> None:
    for role, text in logs.hadoop3_logs().items():
        logs.write_log(tmp_path, text, role)
    polled = collect(tmp_path)
    assert pulls(polled) == logs.PULLS
    assert len(of_type(polled, "ReducerEnd")) == 1


def test_every_fetch_takes_its_bytes_from_the_queue(tmp_path: Path) -> None:
    logs.write_log(tmp_path, logs.hadoop2_log())
    rows = of_type(collect(tmp_path), "DataIO")
    assert sorted(row["size_bytes"] for row in rows) == [-5_000, -400, -300]
    assert {row["attempt_id"] for row in rows} == {logs.REDUCER}


def test_start_and_end_that_the_log_proves(tmp_path: Path) -> None:
    logs.write_log(tmp_path, logs.hadoop2_log())
    polled = collect(tmp_path)
    ((start,), (end,)) = of_type(polled, "ReducerStart"), of_type(polled, "ReducerEnd")
    assert (start["event_id"], start["t_lo_ms"]) == (lifecycle_id("ReducerStart", logs.REDUCER), logs.DAY_MS + 1_000)
    assert (end["event_id"], end["t_lo_ms"]) == (lifecycle_id("ReducerEnd", logs.REDUCER), logs.DAY_MS + 12_000)
    assert (end["status"], end["period_ms"], end["host"]) == ("SUCCEEDED", 11_000, "node4")
    assert of_type(collect(tmp_path, life_cycle=False), "ReducerEnd") == []


def test_a_master_that_names_attempts_is_no_attempt(tmp_path: Path) -> None:
    text = logs.line(5, "IPC", "org.apache.hadoop.mapred.TaskAttemptListenerImpl", f"Done from {logs.REDUCER}") + "\n"
    logs.write_log(tmp_path, text)
    assert len(collect(tmp_path).events) == 0


@pytest.mark.parametrize("hadoop", [2, 3])
def test_bytes_by_bytes_and_restarts_change_nothing(tmp_path: Path, hadoop: int) -> None:
    texts = {"syslog": logs.hadoop2_log()} if hadoop == 2 else logs.hadoop3_logs()
    for role, text in texts.items():
        logs.write_log(tmp_path / "whole", text, role)
    expected = collect(tmp_path / "whole", life_cycle=False)
    reader, polls = collector(tmp_path / "slow", life_cycle=False), []
    for role, text in texts.items():
        for size in range(0, len(text) + 60, 61):
            logs.write_log(tmp_path / "slow", text[:size], role)
            polls.append(reader.poll(NOW))
            again = collector(tmp_path / "slow", life_cycle=False)
            again.restore(saved(reader.checkpoint()))
            reader = again
    assert pulls(*polls) == logs.PULLS
    assert ids(*polls) == ids(expected)
    assert [p for polled in polls for p in polled.problems] == []


def test_crlf(tmp_path: Path) -> None:
    logs.write_log(tmp_path / "a", logs.hadoop2_log())
    logs.write_log(tmp_path / "b", logs.hadoop2_log().replace("\n", "\r\n"))
    assert pulls(collect(tmp_path / "b")) == logs.PULLS
    assert ids(collect(tmp_path / "a")) == ids(collect(tmp_path / "b"))


def test_rotation_loses_and_repeats_nothing(tmp_path: Path) -> None:
    lines = logs.hadoop2_log().splitlines(keepends=True)
    path = logs.write_log(tmp_path, "".join(lines[:7]))
    reader = collector(tmp_path)
    polls = [reader.poll(NOW)]
    with path.open("a") as file:
        file.write("".join(lines[7:9]))  # not read yet when it is renamed
    path.rename(path.with_name("syslog.1"))
    logs.write_log(tmp_path, "".join(lines[9:]))
    polls.append(reader.poll(NOW))
    assert [p[0] for p in pulls(*polls)] == [0, 1, 2]
    assert len(ids(*polls)) == len(set(ids(*polls)))


def test_a_file_that_was_cut_is_read_again(tmp_path: Path) -> None:
    logs.write_log(tmp_path, logs.hadoop2_log())
    reader = collector(tmp_path)
    first = reader.poll(NOW)
    logs.write_log(tmp_path, logs.hadoop2_log()[:-400])
    second = reader.poll(NOW)
    assert [p.kind for p in second.problems] == ["truncated"]
    assert set(ids(second)) <= set(ids(first))  # the same events have the same ids
    assert [p.kind for p in reader.poll(NOW).problems] == []


def test_a_file_that_was_replaced_by_a_longer_one_is_read_again(tmp_path: Path) -> None:
    logs.write_log(tmp_path, logs.hadoop2_log()[:500])
    reader = collector(tmp_path)
    reader.poll(NOW)
    logs.write_log(tmp_path, "x" * 600 + "\n" + logs.hadoop2_log())
    polled = reader.poll(NOW)
    assert [p.kind for p in polled.problems] == ["truncated"]
    assert pulls(polled) == logs.PULLS


def test_records_wait_until_the_reducer_is_known(tmp_path: Path) -> None:
    lines = logs.hadoop2_log().splitlines(keepends=True)
    nameless = "".join(text for text in lines[:-1] if "EventFetcher" not in text)
    logs.write_log(tmp_path, nameless)
    reader = collector(tmp_path)
    now_ms = logs.DAY_MS + 12_000
    waiting = reader.poll(now_ms)
    assert len(waiting.events) == 0
    assert waiting.watermark_ms == logs.DAY_MS + 2_720  # nothing that waits may come late
    logs.write_log(tmp_path, nameless + lines[-1])
    assert pulls(reader.poll(now_ms)) == logs.PULLS
    other = collector(tmp_path, hold_ms=1_000)
    logs.write_log(tmp_path, nameless)
    assert other.poll(now_ms).watermark_ms == now_ms - 5_000


def test_a_reducer_that_is_never_named_is_reported(tmp_path: Path) -> None:
    lines = logs.hadoop2_log().splitlines(keepends=True)
    logs.write_log(tmp_path, "".join(text for text in lines[:-1] if "EventFetcher" not in text))
    reader = collector(tmp_path, abandon_ms=1_000)
    reader.poll(NOW)
    polled = reader.poll(NOW + 1_000)
    assert [(p.kind, p.place) for p in polled.problems] == [("unattributed", logs.CONTAINER)]
    assert len(polled.events) == 0


def test_a_log_that_breaks_off_has_no_invented_periods(tmp_path: Path) -> None:
    text = "".join(f"{t}\n" for part in logs.fetches()[:6] for t in part if "ssign" not in t and "#1 freed" not in t)
    logs.write_log(tmp_path, text)
    reader = collector(tmp_path, abandon_ms=1_000)
    assert pulls(reader.poll(NOW)) == [logs.PULLS[2]]
    assert pulls(reader.poll(NOW + 1_000)) == [(0, None, 300, 9_010, None)]


def test_replay_does_not_read_ahead_of_the_clock(tmp_path: Path) -> None:
    logs.write_log(tmp_path, logs.hadoop2_log())
    reader, polls = collector(tmp_path), []
    for now_ms in range(logs.DAY_MS, logs.DAY_MS + 13_000, 500):
        polls.append(reader.poll(now_ms))
        assert all(row["t_hi_ms"] <= now_ms for row in polls[-1].events.rows())
    assert pulls(*polls) == logs.PULLS
    assert pulls(collector(tmp_path, hold_future=False).poll(logs.DAY_MS)) == logs.PULLS


def test_size_that_was_not_logged(tmp_path: Path) -> None:
    text = "\n".join([logs.named(1), *logs.assigned(2, 1, "n"), logs.read(9, 1, 0, 77)]) + "\n"
    logs.write_log(tmp_path, text)
    polled = collect(tmp_path)
    assert pulls(polled) == [(0, "n", None, 9, 7)]
    assert of_type(polled, "DataIO") == []
    assert [p.kind for p in polled.problems] == ["missing_len"]


def test_binary_and_endless_lines(tmp_path: Path) -> None:
    path = logs.write_log(tmp_path, "")
    path.write_bytes(b"\x00\xff" * 3_000_000 + b"\n" + logs.hadoop2_log().encode())
    polled = collect(tmp_path)
    assert pulls(polled) == logs.PULLS
    assert [p.kind for p in polled.problems] == ["oversized_record"]


def test_layouts(tmp_path: Path) -> None:
    path = tmp_path / logs.APPLICATION / f"{logs.CONTAINER}.log"
    path.parent.mkdir()
    path.write_text(logs.hadoop2_log())
    polled = collect(tmp_path, layout="{application}/{container}.log", host="here")
    assert pulls(polled) == logs.PULLS
    assert of_type(polled, "ReducerStart")[0]["host"] == "here"
    logs.write_log(tmp_path / "by_host", logs.hadoop2_log(), host="127.0.0.9")
    renamed = collect(tmp_path / "by_host", hosts={"127.0.0.9": "node9"})
    assert of_type(renamed, "ReducerStart")[0]["host"] == "node9"
    path.rename(path.with_name(f"{logs.CONTAINER}-log"))  # the dot is a dot
    assert len(collect(tmp_path, layout="{application}/{container}.log").events) == 0
    for layout in ("{application}/{role}", "{container}/{container}", "{container}/{nobody}"):
        with pytest.raises(OptionError, match="layout"):
            collect(tmp_path, layout=layout)


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    for role in ("stdout", "syslog.gz", "prelaunch.out"):
        logs.write_log(tmp_path, logs.hadoop2_log(), role)
    (tmp_path / "syslog").write_text(logs.hadoop2_log())
    assert len(collect(tmp_path).events) == 0


def test_bad_positions_and_roots(tmp_path: Path) -> None:
    with pytest.raises(PositionError):
        collector(tmp_path).restore({"version": 1, "files": {"1:2": [1]}, "containers": {}, "watermark_ms": None})
    with pytest.raises(SourceUnavailableError, match="nowhere"):
        collect(tmp_path / "nowhere")
    with pytest.raises(OptionError, match="time zone"):
        collector(tmp_path, zone="Mars/Phobos")


def test_time_stamps() -> None:
    utc, paris = zone_named("UTC"), zone_named("Europe/Paris")
    assert parse_time("2023-11-15 00:00:01,250 INFO", utc) == (logs.DAY_MS + 1_250, logs.DAY_MS + 1_250, 23)
    assert parse_time("23/11/15 00:00:01 INFO", utc) == (logs.DAY_MS + 1_000, logs.DAY_MS + 1_999, 17)
    assert parse_time("2023-11-15 01:00:01,250 INFO", paris) == (logs.DAY_MS + 1_250, logs.DAY_MS + 1_250, 23)
    assert parse_time("2023-07-15 02:00:00,000 INFO", paris) == (1_689_379_200_000, 1_689_379_200_000, 23)
    assert parse_time("2023-02-30 00:00:01,250 INFO", utc) is None
    assert parse_time("\tat x.Y(Z.java:1)", utc) is None
    short = parse_record("17/04/22 12:48:51 INFO client.RMProxy: Connecting to ResourceManager at x:1", utc)
    assert short is not None
    assert (short.logger, short.thread, short.message[:10]) == ("RMProxy", "", "Connecting")


@pytest.mark.parametrize("n_digits", [16, 30, 5_000])
@pytest.mark.parametrize("number", [r"len: \d+", r"Read \d+", r"in \d+ms"])
def test_numbers_that_no_size_or_duration_has(tmp_path: Path, number: str, n_digits: int) -> None:
    def lengthened(found: re.Match[str]) -> str:
        return re.sub(r"\d+", "9" * n_digits, found[0])

    logs.write_log(tmp_path, re.sub(number, lengthened, "\n".join(logs.hadoop3_logs().values())))
    found = pulls(collect(tmp_path))
    assert [(at, host) for _, host, _, at, _ in found] == [(at, host) for _, host, _, at, _ in logs.PULLS]
    if number.startswith("in"):
        assert [period for *_, period in found] == [None, 100, None]
    if number.startswith("len"):
        assert [n_bytes for _, _, n_bytes, _, _ in found] == [None, None, 5_000]


@pytest.mark.parametrize(
    ("line", "thread"),
    [
        ("2023-11-15 00:00:12,000 INFO [main] org.apache.hadoop.mapred.Task: Done.", "main"),
        ("2023-11-15 00:00:12,000 [main] INFO  org.apache.hadoop.mapred.Task: Done.", "main"),
        ("2023-11-15 00:00:12,000 INFO org.apache.hadoop.mapred.Task: Done.", ""),
        ("2023-11-15 00:00:12,000 INFO [pool[7] of 9] org.apache.hadoop.mapred.Task: Done.", "pool[7] of 9"),
        ("2023-11-15 00:00:12,000 INFO  [main] mapred.Task (Task.java:sendDone(1083)) - Done.", "main"),
        ("2023-11-15T00:00:12,000 INFO  mapred.Task (Task.java:1083) - Done.", ""),
        ("2023-11-15 00:00:12.000 INFO Task - Done.", ""),
    ],
)
def test_layouts_of_log_lines(line: str, thread: str) -> None:
    record = parse_record(line, zone_named("UTC"))
    assert record is not None
    assert (record.t_lo_ms, record.level, record.thread) == (logs.DAY_MS + 12_000, "INFO", thread)
    assert (record.logger, record.message) == ("Task", "Done.")


def test_a_line_made_to_be_hard_to_read_is_no_record() -> None:
    assert parse_record("2023-11-15 00:00:12,000 " + "[] A " * 200_000, zone_named("UTC")) is None


def told(root: Path, times_ms: tuple[int, ...] = (NOW, NOW + 500, NOW + 1_000, NOW + 9_000)) -> list[tuple[str, str]]:
    reader = collector(root, abandon_ms=1_000)
    return [(p.kind, p.place) for now_ms in times_ms for p in reader.poll(now_ms).problems]


@pytest.mark.parametrize(
    "data",
    [b"a log of\nsomething else\n", b"\x1f\x8b\x08\x00\x00binary", bytes(range(256)) * 40, b"\xff\xfe2\x000\x00\n"],
)
def test_a_file_that_is_no_log_is_reported_once(tmp_path: Path, data: bytes) -> None:
    path = logs.write_log(tmp_path, "")
    path.write_bytes(data)
    assert told(tmp_path) == [("not_log", str(path))]


def test_an_empty_file_is_reported_once_it_has_stayed_so(tmp_path: Path) -> None:
    path = logs.write_log(tmp_path, "")
    assert told(tmp_path, (NOW, NOW + 500)) == []
    assert told(tmp_path) == [("empty", str(path))]


def test_a_log_that_breaks_off_is_reported_and_given_up(tmp_path: Path) -> None:
    text = logs.hadoop3_logs()["syslog.shuffle"]
    broken = text[: text.index("node2:13562 freed")]
    path = logs.write_log(tmp_path, broken)
    n_lines = broken.count("\n")
    assert told(tmp_path) == [("truncated", f"{path}:{n_lines + 1}")]
    reader = collector(tmp_path, abandon_ms=1_000)
    found = pulls(reader.poll(NOW), reader.poll(NOW + 500), reader.poll(NOW + 1_000), reader.poll(NOW + 9_000))
    # The line that would tell the host and the start of two pulls is missing: they go out without.
    assert found == [(0, None, 300, 9_010, None), (1, None, 400, 9_110, None), logs.PULLS[2]]


def test_a_reducers_log_that_just_stops_is_an_event(tmp_path: Path) -> None:
    text = logs.hadoop3_logs()["syslog.shuffle"]
    logs.write_log(tmp_path, text[: text.index("node2:13562 freed")])
    reader = collector(tmp_path, abandon_ms=10_000)
    before = reader.poll(NOW), reader.poll(NOW + 9_000)
    reader.restore(saved(reader.checkpoint()))
    polls = reader.poll(NOW + 12_000), reader.poll(NOW + 40_000), reader.poll(NOW + 90_000)
    assert [row for polled in before for row in polled.events.rows() if row["type"] == "ReducerSilent"] == []
    (silent,) = [row for polled in polls for row in polled.events.rows() if row["type"] == "ReducerSilent"]
    assert silent["attempt_id"] == logs.REDUCER
    assert (silent["host"], silent["container_id"]) == ("node4", logs.CONTAINER)
    assert silent["t_hi_ms"] - silent["t_lo_ms"] == silent["silent_ms"] - 10_000
    assert before[1].watermark_ms <= silent["t_lo_ms"] <= silent["t_hi_ms"]


def test_a_reducer_that_is_done_and_a_map_are_not_missed(tmp_path: Path) -> None:
    """The recorded log says at its end that its task is done."""
    logs.write_log(tmp_path, logs.hadoop2_log())
    reader = collector(tmp_path, abandon_ms=1_000)
    types = [row["type"] for ms in (0, 500, 5_000) for row in reader.poll(NOW + ms).events.rows()]
    assert "ReducerEnd" in types
    assert "ReducerSilent" not in types


def test_lines_of_the_future_do_not_break_off(tmp_path: Path) -> None:
    logs.write_log(tmp_path, logs.hadoop2_log())
    early = logs.DAY_MS + 5_000
    assert told(tmp_path, (early, early + 1_000, early + 2_000)) == []


def test_a_byte_order_mark_before_the_first_line(tmp_path: Path) -> None:
    path = logs.write_log(tmp_path, logs.hadoop2_log())
    expected = ids(collect(tmp_path))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert ids(collect(tmp_path)) == expected
    assert told(tmp_path) == []


def test_a_position_of_the_json_form_is_still_read(tmp_path: Path) -> None:
    """As the version before saved it, in the middle of a container's log."""
    lines = logs.hadoop2_log().splitlines(keepends=True)
    path = logs.write_log(tmp_path, "".join(lines[:7]))
    reader = collector(tmp_path)
    first = reader.poll(NOW)
    position = saved(reader.checkpoint())
    (row,) = position["containers"].to_pylist()
    (file,) = position["files"]["changed"].to_pylist()
    before = {
        "version": 1,
        "watermark_ms": position["watermark_ms"],
        "files": {
            f"{file['device']}:{file['inode']}": [
                file["offset"], file["n_lines"], file["fingerprint"].hex(), file["n_fingerprint"], file["skipping"]
            ]
        },
        "containers": {
            row["key"]: [row["host"], row["container_id"], row["grown_ms"], json.loads(row["log"]), row["start_done"]]
        },
    }  # fmt: skip
    again = collector(tmp_path)
    again.restore(json.loads(json.dumps(before)))
    assert (saved(again.checkpoint())["containers"].equals(position["containers"])) is True
    with path.open("a") as log:
        log.write("".join(lines[7:]))
    assert pulls(first, again.poll(NOW)) == logs.PULLS


def test_positions_that_did_not_change_are_the_same_table(tmp_path: Path) -> None:
    for number in range(1_300):
        logs.write_log(tmp_path, logs.stamp(number) + " INFO [main] x.Y: z\n", host=f"node{number}")
    reader = collector(tmp_path)
    reader.poll(NOW)
    files = reader.checkpoint()["files"]
    assert (files["settled"].table.num_rows, files["changed"].num_rows) == (1_300, 0)
    for number in (7, 8):
        with (tmp_path / f"node{number}" / logs.APPLICATION / logs.CONTAINER / "syslog").open("a") as file:
            file.write(logs.stamp(99_000) + " INFO [main] x.Y: z\n")
    (tmp_path / "node9" / logs.APPLICATION / logs.CONTAINER / "syslog").unlink()
    reader.poll(NOW)
    later = reader.checkpoint()["files"]
    assert later["settled"].table is files["settled"].table
    assert later["changed"].num_rows == 3
    again = collector(tmp_path)
    again.restore(saved(reader.checkpoint()))
    assert len(again.poll(NOW).events) == 0
    assert again.checkpoint()["files"]["changed"].equals(later["changed"])


def test_logs_of_containers_that_are_over_are_read_within_their_time(tmp_path: Path) -> None:
    text = logs.hadoop2_log()
    path = logs.write_log(tmp_path, text[: text.index(logs.stamp(9_000))])
    times = (logs.DAY_MS * 1_000_000,) * 2
    for place in (path, *path.parents[:4]):
        os.utime(place, ns=times)
    now_ms = logs.DAY_MS + 86_400_000
    reader = collector(tmp_path, abandon_ms=60_000, revisit_ms=300_000)
    polls = [reader.poll(now_ms)]
    assert saved(reader.checkpoint())["containers"].num_rows == 0  # a log of yesterday is of a container that is over
    path.write_text(text)
    for place in (path, *path.parents[:4]):
        os.utime(place, ns=times)
    polls += [reader.poll(now_ms + passed_ms) for passed_ms in range(10_000, 310_000, 10_000)]
    assert [number for number, *_ in pulls(*polls)] == [0, 1, 2]


def test_a_clock_that_was_ahead_does_not_hold_the_promise(tmp_path: Path) -> None:
    logs.write_log(tmp_path, logs.hadoop2_log())
    reader = collector(tmp_path)
    assert reader.poll(NOW + 86_400_000).watermark_ms == NOW + 86_400_000 - 5_000
    assert reader.poll(NOW).watermark_ms == NOW - 5_000
    assert saved(reader.checkpoint())["containers"]["grown_ms"].to_pylist() in ([], [NOW])
