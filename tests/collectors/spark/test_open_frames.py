"""A frame of zstd that takes several polls is read and unpacked once, however it grows and is shared out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from collectors.spark import codecs, spark_events
from collectors.spark.open_frames import MAX_OPEN
from tests.collectors.positions import saved
from tests.collectors.spark.logs import (
    LATER_MS,
    NAME,
    T0_MS,
    collector,
    ended,
    lines,
    rows_of,
    stage,
    started,
    task,
    told,
)

N_TASKS = 12_000
BYTES_PER_POLL = 1 << 20


def one_frame(data: bytes) -> bytes:
    """Compressed by the stream's writer, which never ends the frame before the end."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for at in range(0, len(data), 1 << 16):
            stream.write(data[at : at + (1 << 16)])
    packed = bytes(sink.getvalue().to_pybytes())
    assert codecs.zstd_frame_end(packed, 0) == len(packed)
    return packed


@pytest.fixture(scope="module")
def text() -> bytes:
    chosen = random.Random(7)
    tasks = [
        task(n, 0, T0_MS + n, T0_MS + n + 500, **{"Host": f"n{chosen.getrandbits(800):x}"}) for n in range(N_TASKS)
    ]
    whole = [*started(), stage(0, T0_MS), *tasks, stage(0, T0_MS + 60_000, "Completed"), ended(T0_MS + 61_000)]
    return lines(*whole)


class Counted:
    """Bytes that were unpacked, and that were read from files."""

    def __init__(self) -> None:
        self.n_unpacked = self.n_read = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    count, stream_of, chunks_of = Counted(), pa.CompressedInputStream, spark_events.read_chunks

    class Stream:
        def __init__(self, *given: Any) -> None:
            self._stream = stream_of(*given)

        def __enter__(self) -> Stream:
            return self

        def __exit__(self, *_: object) -> None:
            self._stream.close()

        def read(self, n_bytes: int) -> bytes:
            data: bytes = self._stream.read(n_bytes)
            count.n_unpacked += len(data)
            return data

    def read_chunks(*given: Any) -> Iterator[bytes]:
        for data in chunks_of(*given):
            count.n_read += len(data)
            yield data

    monkeypatch.setattr(codecs.pa, "CompressedInputStream", Stream)
    monkeypatch.setattr(spark_events, "read_chunks", read_chunks)
    return count


def test_a_frame_that_takes_many_polls_is_unpacked_and_read_once(tmp_path: Path, text: bytes, counted: Counted) -> None:
    packed = one_frame(text)
    (tmp_path / f"{NAME}.zstd").write_bytes(packed)
    reading, polls = collector(tmp_path, max_bytes_per_poll=BYTES_PER_POLL), []
    n_polls = len(text) // BYTES_PER_POLL
    assert n_polls >= 5
    for number in range(3 * n_polls):
        polls.append(reading.poll(LATER_MS + number))
    n_begins = codecs.PIECE_BYTES  # the begin alone, to know what the file is, and a piece ahead
    assert len(text) <= counted.n_unpacked <= len(text) + 2 * n_begins
    assert counted.n_read <= len(packed) + spark_events.BEGIN_BYTES + 16 * 3 * n_polls
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / NAME).write_bytes(text)
    assert rows_of(polls) == told(whole)


def test_a_frame_that_grows_is_read_no_more_than_twice(tmp_path: Path, text: bytes, counted: Counted) -> None:
    """Once while it is written, to see whether it is whole, and once when it is."""
    packed = one_frame(text)
    step = len(packed) // 60
    growing, reading, polls = tmp_path / f"{NAME}.zstd.inprogress", collector(tmp_path), []
    for end in range(step, len(packed) + step, step):
        growing.write_bytes(packed[:end])
        polls.append(reading.poll(LATER_MS + end))
    n_heads = spark_events.BEGIN_BYTES + 50_000 * len(polls)  # a block that is not whole is looked at again
    assert len(packed) <= counted.n_read <= 2 * len(packed) + n_heads
    assert counted.n_read < len(packed) * len(polls) / 8
    assert counted.n_unpacked <= len(text) + 2 * codecs.PIECE_BYTES
    assert len(rows_of(polls)) == N_TASKS + 4


@pytest.mark.parametrize("seed", range(3))
def test_restarts_anywhere_tell_the_same(tmp_path: Path, text: bytes, seed: int) -> None:
    chosen, packed = random.Random(seed), one_frame(text)
    (tmp_path / "live").mkdir()
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / NAME).write_bytes(text)
    growing, end, polls = tmp_path / "live" / f"{NAME}.zstd.inprogress", 0, []
    reading = collector(tmp_path / "live", max_bytes_per_poll=BYTES_PER_POLL)
    for number in range(60):
        end = min(len(packed), end + chosen.randrange(len(packed) // 8))
        growing.write_bytes(packed[:end])
        polls.append(reading.poll(LATER_MS + number))
        if not chosen.randrange(4):
            position = saved(reading.checkpoint())
            reading = collector(tmp_path / "live", max_bytes_per_poll=BYTES_PER_POLL)
            reading.restore(position)
    growing.rename(tmp_path / "live" / f"{NAME}.zstd")
    polls += [reading.poll(LATER_MS + 100 + number) for number in range(20)]
    assert rows_of(polls) == told(tmp_path / "whole")
    assert [problem for polled in polls for problem in polled.problems] == []


def test_few_frames_are_kept_open(tmp_path: Path, text: bytes) -> None:
    """What is held beyond the first lines that are later than now is little, however many logs there are."""
    packed = one_frame(text)
    for number in range(MAX_OPEN + 3):
        (tmp_path / f"application_1795748346000_{number:04}_1.zstd").write_bytes(packed)
    reading = collector(tmp_path, hold_future=True)
    for number in range(4):
        reading.poll(T0_MS + 5_000 + number)
    assert 1 <= len(reading._frames._open) <= MAX_OPEN


def test_a_damaged_frame_is_kept_by_nobody(tmp_path: Path, text: bytes) -> None:
    whole = one_frame(text)
    packed = bytearray(whole)
    packed[len(packed) // 2 : len(packed) // 2 + 60_000] = b"\xff" * 60_000
    path = tmp_path / f"{NAME}.zstd.inprogress"
    path.write_bytes(packed)
    reading = collector(tmp_path, max_bytes_per_poll=BYTES_PER_POLL)
    polls = [reading.poll(LATER_MS + number) for number in range(20)]
    kinds = {problem.kind for polled in polls for problem in polled.problems}
    assert "damaged" in kinds
    path.write_bytes(whole[:-1])
    reading.poll(LATER_MS + 50)
    path.write_bytes(whole)
    polls += [reading.poll(LATER_MS + 100 + number) for number in range(20)]
    assert sum(row["type"] == "SparkApplicationEnd" for row in rows_of(polls)) == 1
