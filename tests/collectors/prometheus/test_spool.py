"""What was acknowledged is there after any end: torn lines, full disks, segments, a process that is killed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from collectors.prometheus import spool
from collectors.prometheus.exposition import Sample
from collectors.prometheus.spool import Place, Record, RecordError, SpoolError, SpoolReader, SpoolWriter
from tests.slow_servers import ends

ROOT = Path(__file__).parents[3]


def record(number: int, n_samples: int = 1) -> Record:
    return Record(number, "s", tuple(Sample("a", {"i": "ä\n"}, n + 0.5, 1_000 + n) for n in range(n_samples)), 3)


def test_records_are_read_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "SEGMENT_BYTES", 300)
    writer, reader = SpoolWriter(tmp_path / "s", 1 << 20), SpoolReader(tmp_path / "s")
    assert reader.read(Place(), 1_000) == ([], Place(), False, [])
    written = [record(number, number % 3) for number in range(20)]
    for one in written:
        writer.append(one)
    assert len(list((tmp_path / "s").iterdir())) > 3
    for n_bytes in (1, 200, 1 << 20):  # whatever is taken at once
        found, place, more = list[Record](), Place(), True
        while more:
            records, place, more, problems = reader.read(place, n_bytes)
            found += records
            assert problems == []
        assert found == written
    reader.remove_before(place.segment)
    assert len(list((tmp_path / "s").iterdir())) == 1
    writer.append(record(99))
    assert reader.read(place, 1_000)[0] == [record(99)]


def test_another_process_begins_a_segment_and_a_torn_end_is_left_out(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, 1 << 20)
    writer.append(record(1))
    writer.close()
    (segment,) = tmp_path.iterdir()
    with segment.open("ab") as file:
        file.write(b'[2,"s",0,[["a"')  # it was killed before it acknowledged
    SpoolWriter(tmp_path, 1 << 20).append(record(3))
    records, place, more, problems = SpoolReader(tmp_path).read(Place(), 1 << 20)
    assert (records, place.segment, more, problems) == ([record(1), record(3)], 2, False, [])


def test_a_damaged_line_is_told_and_costs_itself_alone(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, 1 << 20)
    writer.append(record(1))
    (segment,) = tmp_path.iterdir()
    segment.write_bytes(b"{}\n[1]\n\xff\n" + segment.read_bytes())
    records, _, _, problems = SpoolReader(tmp_path).read(Place(), 1 << 20)
    assert records == [record(1)]
    assert len(problems) == 3


def test_a_page_of_line_breaks_is_told_in_a_few_words(tmp_path: Path) -> None:
    right = record(1)
    writer = SpoolWriter(tmp_path, 1 << 20)
    writer.append(right)
    writer.close()
    (segment,) = tmp_path.iterdir()
    line = segment.read_bytes()
    segment.write_bytes(line + b"\n" * 4_096 + b"[0]\r[0]\n" + line)

    records, place, more, problems = SpoolReader(tmp_path).read(Place(), 1 << 20)

    assert records == [right, right]
    assert place == Place(1, segment.stat().st_size)
    assert not more
    assert len(problems) == 11
    assert problems[0].startswith(f"{segment}:{len(line)}: ")
    assert "4,087 further lines" in problems[-1]


def test_a_line_too_long_to_be_read_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SpoolWriter(tmp_path, 1 << 20)
    writer.append(record(1))
    (segment,) = tmp_path.iterdir()
    with segment.open("ab") as file:
        file.write(b"x" * 5_000 + b"\n" + segment.read_bytes())
    monkeypatch.setattr(spool, "MAX_LINE_BYTES", 1_000)
    found, told, place, more = list[Record](), list[str](), Place(), True
    for _ in range(10):
        records, place, more, problems = SpoolReader(tmp_path).read(place, 100)
        found, told = found + records, told + problems
    assert (found, more) == ([record(1), record(1)], False)
    assert len(told) == 1
    assert "more than 1,000 bytes" in told[0]


def test_labels_are_kept_once_a_series(tmp_path: Path) -> None:
    """A request of 4 MB would be a line of 26 GB, with all labels beside each sample."""
    labels = {f"l{number}": "x" * 1_000 for number in range(60)}
    written = Record(1, "s", tuple(Sample("a", labels, n + 0.5, n) for n in range(2_000)), 0)
    SpoolWriter(tmp_path, 1 << 20).append(written)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 100_000
    assert SpoolReader(tmp_path).read(Place(), 1 << 20)[0] == [written]


@pytest.mark.parametrize("bound", ["MAX_LINE_BYTES", "MAX_VALUES"])
def test_what_would_not_be_read_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(spool, bound, 200)
    writer = SpoolWriter(tmp_path, 1 << 20)
    with pytest.raises(RecordError, match="send less at once"):
        writer.append(record(1, 200))
    writer.append(record(2))
    assert SpoolReader(tmp_path).read(Place(), 1 << 20)[0] == [record(2)]


def test_a_full_disk_leaves_no_files_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Senders try again for as long as it is full."""
    writer = SpoolWriter(tmp_path, 1 << 20)
    writer.append(record(1))

    def full(_file: int, _data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        for _ in range(5):
            with pytest.raises(SpoolError, match="No space left"):
                writer.append(record(2))
    assert len(list(tmp_path.iterdir())) == 1
    writer.append(record(3))
    assert SpoolReader(tmp_path).read(Place(), 1 << 20)[0] == [record(1), record(3)]


def test_what_cannot_be_flushed_was_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SpoolWriter(tmp_path, 1 << 20)
    writer.append(record(1))
    flush = os.fsync

    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SpoolError, match="No space left"):
        writer.append(record(2))
    monkeypatch.setattr(os, "fsync", flush)
    writer.append(record(3))
    assert SpoolReader(tmp_path).read(Place(), 1 << 20)[0] == [record(1), record(3)]


def test_a_full_spool_takes_nothing_until_it_is_read(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, 100)
    writer.append(record(1))
    with pytest.raises(SpoolError, match="as much as it may"):
        writer.append(record(2, 3))
    assert SpoolReader(tmp_path).read(Place(), 1 << 20)[0] == [record(1)]


def test_a_segment_that_goes_while_a_request_comes_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        SpoolWriter(tmp_path, 1 << 20).append(record(number))  # a segment each
    listed = spool._segments

    def and_gone(folder: Path) -> list[tuple[int, Path]]:
        found = listed(folder)
        found[0][1].unlink(missing_ok=True)
        return found

    monkeypatch.setattr(spool, "_segments", and_gone)
    SpoolWriter(tmp_path, 1 << 20).append(record(9))
    monkeypatch.setattr(spool, "_segments", listed)
    assert SpoolReader(tmp_path).read(Place(), 1 << 20)[0][-1] == record(9)


def test_another_spool_in_its_place_is_read_from_its_begin(tmp_path: Path) -> None:
    for name, n in (("a", 5), ("b", 1)):
        writer = SpoolWriter(tmp_path / name, 1 << 20)
        for number in range(n):
            writer.append(record(number))
    _, place, _, _ = SpoolReader(tmp_path / "a").read(Place(), 1 << 20)
    other = SpoolReader(tmp_path / "b")
    for stood in (place, Place(7, 0)):
        records, found, _, problems = other.read(stood, 1 << 20)
        assert (records, found.segment, len(problems)) == ([record(0)], 1, 1)
        assert other.read(found, 1 << 20) == ([], found, False, [])


WRITING = """
import sys
from pathlib import Path
from collectors.prometheus.spool import SpoolWriter
from tests.collectors.prometheus.test_spool import record
writer = SpoolWriter(Path(sys.argv[1]), 1 << 30)
for number in range(1_000_000):
    writer.append(record(number, number % 50))
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("n_told", [1, 40, 400])
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, n_told: int) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITING, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(n_told):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        last = max([last, *(int(line) for line in process.stdout.read().split() if line)])
    SpoolWriter(tmp_path, 1 << 30).append(record(-1))  # the next process
    found = [one.received_ms for one in SpoolReader(tmp_path).read(Place(), 1 << 30)[0]]
    assert found[-1] == -1
    assert found[:-1] == list(range(len(found) - 1))
    assert len(found) - 1 in (last + 1, last + 2)  # one may have been kept and not told


@pytest.mark.parametrize("kind", ["endless", "pipe", "folder"])
def test_what_is_no_file_holds_up_nothing(tmp_path: Path, kind: str) -> None:
    """A device has no end of a line, and a pipe nobody who writes."""
    folder = tmp_path / "s"
    SpoolWriter(folder, 1 << 20).append(record(1))
    path = folder / "segment-000000000002.jsonl"
    if kind == "endless":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    SpoolWriter(folder, 1 << 20).append(record(3))
    assert (folder / "segment-000000000003.jsonl").is_file()
    reader = SpoolReader(folder)
    records, place, _, problems = ends(lambda: reader.read(Place(), 1 << 20))
    assert (records, problems) == ([record(1), record(3)], [])
    reader.remove_before(place.segment)
    assert path.exists() or path.is_symlink()
