"""What nobody would write: it is told with its place, bounded, and keeps nothing else from being read."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from collectors.spark import codecs
from collectors.spark import lines as reading_lines
from collectors.spark.codecs import PIECES, DamagedError, zstd_frame_end
from collectors.spark.lines import LinePosition, read_lines
from tests.collectors.spark.logs import (
    CODECS,
    LATER_MS,
    NAME,
    T0_MS,
    collector,
    ended,
    lines,
    recorded,
    rows_of,
    stage,
    started,
)

SECRET = "hunter2"


def problems_of(root: Path, data: bytes, name: str = NAME) -> list[tuple[str, str]]:
    (root / name).write_bytes(data)
    polled = collector(root).poll(LATER_MS)
    return [(problem.place.removeprefix(f"{root}/"), problem.kind) for problem in polled.problems]


def test_secrets_of_the_settings_are_never_kept(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "Event": "SparkListenerEnvironmentUpdate",
        "Spark Properties": [
            ["spark.yarn.queue", "research"],
            ["spark.my.password", SECRET],
            ["spark.driver.host", "d1"],
            ["spark.executor.memory", SECRET],
            ["spark.executor.cores", f"4 {SECRET}"],
            ["spark.speculation", ["true", SECRET]],
            [SECRET],
        ],
        "Hadoop Properties": [["fs.s3a.secret.key", SECRET]],
        "System Properties": {"x": SECRET},
    }
    job = {"Event": "SparkListenerJobStart", "Job ID": 0, "Submission Time": T0_MS, "Stage IDs": [0],
           "Properties": {"spark.my.password": SECRET}}  # fmt: skip
    broken = lines(settings)[:-30] + b"\n"
    text = lines(started()[0], settings, started()[1], job) + broken + lines(stage(0, T0_MS))
    for cut in (len(text), len(lines(started()[0], settings)) - 3, text.index(broken) + 60):
        root = tmp_path / str(cut)
        root.mkdir()
        (root / f"{NAME}.inprogress").write_bytes(text[:cut])
        reading = collector(root, quiet_ms=1)
        polled = [reading.poll(LATER_MS), reading.poll(LATER_MS + 10)]
        kept = [rows_of(polled), [one.problems for one in polled], {**reading.checkpoint(), "held": None}]
        assert SECRET not in str(kept)
    (start,) = (row for row in rows_of([collector(tmp_path / str(len(text))).poll(LATER_MS)]) if "Job" in row["type"])
    assert (start["queue"], start["clock_id"]) == ("research", "host:d1")


@pytest.mark.parametrize(
    "line",
    [
        b"x",
        b"[1]",
        b"\xff\xfe",
        b'{"Event":"SparkListenerTaskEnd"',
        b'{"Event":"SparkListenerTaskEnd"}',
        b'{"Event":"SparkListenerTaskEnd","Stage ID":0,"Task Info":{"Task ID":1,"Finish Time":-5}}',
        b'{"Event":"SparkListenerTaskEnd","Stage ID":true,"Task Info":[],"Task End Reason":7}',
        b'{"Event":"SparkListenerStageSubmitted","Stage Info":{"Stage ID":1e99}}',
        b'{"Event":"SparkListenerJobEnd","Job ID":99999999999999999999999,"Job Result":[]}',
        b'{"Event":"SparkListenerJobEnd","Job ID":0,"Job Result":' + b"[" * 200_000,
        b'{"Event":"SparkListenerJobEnd","Job ID":' + b"[0," * 2_100_000,
        b'{"Event":"SparkListenerExecutorAdded","Executor ID":5}',
        b'{"Event":"SparkListenerApplicationEnd","Timestamp":NaN}',
        b'{"Event":"SparkListenerApplicationStart"}',
    ],
    ids=lambda line: str(line[:60]),
)
def test_a_line_that_cannot_be_read_costs_itself_alone(tmp_path: Path, line: bytes) -> None:
    text = lines(*started()) + line + b"\n" + lines(stage(0, T0_MS), ended(T0_MS))
    assert problems_of(tmp_path, text) == [(f"{NAME}:3", "bad_record")]
    rows = rows_of([collector(tmp_path).poll(LATER_MS)])
    assert [row["type"] for row in rows] == ["SparkApplicationStart", "SparkStageStart", "SparkApplicationEnd"]


def test_hostile_texts_are_escaped_and_short(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(lines(*started("\x1b[2J\ud800" + "x" * 9_000, User="a\nb"), ended(T0_MS)))
    start = rows_of([collector(tmp_path).poll(LATER_MS)])[0]
    assert start["application_name"].startswith("\\x1b[2J\ufffdxxx")
    assert len(start["application_name"]) < 400
    assert start["user"] == "a\\nb"


def test_bad_lines_are_counted_not_told_without_end(tmp_path: Path) -> None:
    told = problems_of(tmp_path, lines(*started()) + b"x\n" * 100_000 + lines(ended(T0_MS)))
    assert len(told) <= 50
    assert told[-1][1] in ("more_bad_records", "more_problems", "bad_record")


def test_a_line_that_is_too_long_is_skipped() -> None:
    taken = list[tuple[bytes, int]]()

    def take(line: bytes, number: int) -> bool:
        taken.append((line, number))
        return True

    position = LinePosition()
    read = read_lines("", b"a\n" + b"x" * 5_000_000 + b"\nb\n", position, take, max_bytes=1 << 30, max_line_bytes=1_000)
    assert taken == [(b"a", 1), (b"b", 3)]
    assert read.n_oversized == 1
    assert (position.block, position.n_lines) == (5_000_005, 3)


@pytest.mark.parametrize("max_bytes", [1, 100, 10_000])
@pytest.mark.parametrize("form", CODECS)
def test_shares_of_a_file_are_the_file(form: str, max_bytes: int) -> None:
    data, position, taken = recorded(form), LinePosition(), list[bytes]()

    def take(line: bytes, number: int) -> bool:
        taken.append(line)
        assert number == len(taken)
        return True

    for _ in range(1_000):
        codec, begin = codecs.codec_of(data), position.block
        if read_lines(codec, data[begin:], position, take, max_bytes=max_bytes).is_at_end:
            break
    assert b"\n".join([*taken, b""]) == recorded()
    assert (position.block, position.skip) == (len(data), 0) or form == ".lz4"  # whose end is a block of its own


@pytest.mark.parametrize("form", CODECS[1:])
def test_any_byte_that_is_changed_raises_nothing_but_that_it_is_damaged(form: str) -> None:
    data = recorded(form)
    for place in range(0, len(data), 7):
        changed = data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :]
        with_codec = codecs.codec_of(data)
        with suppress(DamagedError):
            read_lines(with_codec, changed, LinePosition(), lambda *_: True, is_over=True, max_bytes=1 << 24)


def test_blocks_that_claim_to_be_huge_are_refused() -> None:
    lz4 = struct.pack("<8sBiii", codecs.LZ4_MAGIC, 0x2F, 10, (1 << 31) - 1, 0) + b"x" * 10
    snappy = codecs.SNAPPY_MAGIC + b"\0" * 8 + struct.pack(">I", 6) + b"\xff\xff\xff\xff\x07x"
    for codec, data in (("lz4", lz4), ("snappy", snappy)):
        with pytest.raises(DamagedError):
            list(PIECES[codec](data, False))


def test_a_frame_that_unpacks_to_far_more_is_read_in_pieces_and_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for _ in range(64):
            stream.write(b"\0" * (1 << 20))
    bomb = sink.getvalue().to_pybytes()
    assert len(bomb) < 20_000
    assert zstd_frame_end(bomb, 0) == len(bomb)
    assert zstd_frame_end(bomb[:-1], 0) is None
    sizes = [len(piece.text) for piece in PIECES["zstd"](bomb, False)]
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= codecs.PIECE_BYTES
    monkeypatch.setattr(codecs, "MAX_FRAME_BYTES", 1 << 22)
    with pytest.raises(DamagedError, match="more than 4,194,304 bytes"):
        list(PIECES["zstd"](bomb, False))
    position = LinePosition()
    monkeypatch.setattr(codecs, "MAX_FRAME_BYTES", 1 << 32)
    assert read_lines("zstd", bomb, position, lambda *_: True, max_bytes=1 << 30).n_oversized == 1
    assert position.skipping
    assert reading_lines.MAX_LINE_BYTES < 64 << 20


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"ZV\x01\x00\x05\x00\x09abcde", "lzf"),
        (b"not a log\n", "does not begin"),
        (json.dumps({"jobID": "job_1_1"}).encode(), "does not begin"),
        (pa.compress(b"other\n" * 100, "zstd", asbytes=True), "compressed"),
    ],
)
def test_what_is_no_log_is_told_once(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "other").write_bytes(data)
    reading = collector(tmp_path)
    (problem,) = reading.poll(LATER_MS).problems
    assert problem.kind == "not_spark_log"
    assert said in problem.message
    again = collector(tmp_path)
    again.restore(reading.checkpoint())
    assert again.poll(LATER_MS + 1).problems == ()


def test_a_damaged_log_tells_what_stands_before_and_is_read_on_when_it_is_mended(tmp_path: Path) -> None:
    data = recorded(".zstd")
    second = zstd_frame_end(data, 0) or 0
    broken = data[: second + 4] + b"\xff" * 40 + data[second + 44 :]
    log = tmp_path / f"{NAME}.zstd.inprogress"
    log.write_bytes(broken)
    reading = collector(tmp_path)
    polled = [reading.poll(LATER_MS)]
    assert [problem.kind for problem in polled[0].problems] == ["damaged"]
    log.write_bytes(data + pa.compress(b"\n", "zstd", asbytes=True))
    polled.append(reading.poll(LATER_MS))
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / NAME).write_bytes(recorded())
    assert len(rows_of(polled)) == len(rows_of([collector(tmp_path / "whole").poll(LATER_MS)]))


@pytest.mark.parametrize("n_cuts", [2, 10])
def test_blank_lines_are_counted_and_cost_no_call_each(n_cuts: int) -> None:
    """A mebibyte of them took more than a second of processor time."""
    text = b"first\n" + b"\n" * 10_000 + b" \t\r\n" * 3 + b"  \nsecond\n" + b"\n" * 5 + b" third\n"
    cuts = [0, 3, 6, 7, 500, 10_006, 10_009, 10_020, len(text) - 9, len(text)]
    edges = [0, *cuts[-n_cuts + 1 :]]
    taken: list[tuple[bytes, int]] = []
    position, base = LinePosition(), 0

    def take(line: bytes, number: int) -> bool:
        taken.append((line, number))
        return True

    for end in edges[1:]:
        read_lines("", text[base:end], position, take, max_bytes=1 << 30)
        base = position.block
    assert [(line, number) for line, number in taken if line.strip()] == [
        (b"first", 1),
        (b"second", 10_006),
        (b" third", 10_012),
    ]
    assert len(taken) < 20
    assert (position.block, position.n_lines) == (len(text), text.count(b"\n"))
