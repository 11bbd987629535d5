"""Recordings: manifest, safe unpacking, the growing spool, the REST server of the past."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
import requests

from app.clock import SetClock
from app.errors import RecordingError
from app.replay.recorded_rest import RecordedRest, path_key, serve
from app.replay.recording import Recording, unpack
from app.replay.spool import Spool
from app.settings import Replay
from tests.app.recording_fixtures import JOB, T0_MS, write_recording, write_rest


def archive_of(folder: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(folder, "recording")
    return archive


def test_an_archive_is_what_its_folder_is(tmp_path: Path) -> None:
    folder = write_recording(tmp_path / "in")
    archive = archive_of(folder, tmp_path / "r.tar.xz")
    opened = Recording.open(archive, tmp_path / "out", Replay())
    assert opened.manifest == Recording.open(folder, tmp_path, Replay()).manifest
    assert {p.relative_to(opened.folder) for p in opened.folder.rglob("*")} == {
        p.relative_to(folder) for p in folder.rglob("*")
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../escape", tarfile.REGTYPE),
        ("/tmp/escape", tarfile.REGTYPE),  # refused, never written
        ("link", tarfile.SYMTYPE),
        ("hard", tarfile.LNKTYPE),
        ("device", tarfile.CHRTYPE),
        ("pipe", tarfile.FIFOTYPE),
    ],
)
def test_hostile_archives_write_nothing_outside(tmp_path: Path, name: str, kind: bytes) -> None:
    archive = tmp_path / "r.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.size, member.linkname = kind, 4 if kind == tarfile.REGTYPE else 0, "/etc/passwd"
        tar.addfile(member, io.BytesIO(b"evil"))
    with pytest.raises(RecordingError):
        unpack(archive, tmp_path / "deep" / "out", Replay())
    assert not (tmp_path / "deep" / "escape").exists()
    assert not Path("/tmp/escape").exists()  # as above


def test_limits_of_an_archive(tmp_path: Path) -> None:
    archive = archive_of(write_recording(tmp_path / "in"), tmp_path / "r.tar.xz")
    with pytest.raises(RecordingError, match="more than 3 files"):
        unpack(archive, tmp_path / "a", Replay(max_files=3))
    with pytest.raises(RecordingError, match="and 10 bytes"):
        unpack(archive, tmp_path / "b", Replay(max_size_bytes=10))


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\xfd7zXZ\x00broken"])
def test_what_is_no_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r.tar.xz").write_bytes(content)
    with pytest.raises(RecordingError):
        unpack(tmp_path / "r.tar.xz", tmp_path / "out", Replay())


def test_a_missing_recording_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="not there"):
        Recording.open(tmp_path / "none.tar.xz", tmp_path, Replay())
    with pytest.raises(RecordingError, match="expected a recording with its manifest"):
        Recording.open(tmp_path, tmp_path, Replay())


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        ({"started_ms": "soon"}, "started_ms"),
        ({"poll_interval_ms": 0}, "poll_interval_ms"),
        ({"ground_truth": [{"fault": "x"}]}, "ground_truth.0.query"),
        ({"ended_ms": 0}, "before it starts"),
    ],
)
def test_a_wrong_manifest_names_the_key(tmp_path: Path, manifest: dict[str, object], complaint: str) -> None:
    folder = write_recording(tmp_path / "r", **manifest)
    with pytest.raises(RecordingError, match=complaint):
        Recording.open(folder, tmp_path, Replay())


def test_the_spool_grows_with_time(tmp_path: Path) -> None:
    recording = Recording.open(write_recording(tmp_path / "r"), tmp_path, Replay())
    spool = Spool(recording, tmp_path / "spool")
    (source,) = recording.folder.rglob("syslog")
    log = tmp_path / "spool" / source.relative_to(recording.folder)
    history = tmp_path / "spool/history"
    lines = source.read_text().splitlines(keepends=True)

    def state(after_ms: int) -> tuple[int, int]:
        spool.advance(T0_MS + after_ms)
        written = log.read_text() if log.exists() else ""
        assert source.read_text().startswith(written)
        return len(written.splitlines()), len(list(history.glob("job_*")))

    assert state(0) == (0, 0)
    assert state(999) == (0, 0)
    assert state(1_000) == (3, 0)
    assert state(9_999) == (3, 0)
    assert state(11_999) == (4, 0)
    assert state(12_000) == (len(lines), 2)
    assert {p.name for p in history.iterdir()} == {p.name for p in (recording.folder / "history").iterdir()}
    assert (history / f"{JOB}_conf.xml").read_text() == "<configuration/>"


def test_an_unknown_zone_is_explained(tmp_path: Path) -> None:
    recording = Recording.open(write_recording(tmp_path / "r", timezone="Mars/Olympus"), tmp_path, Replay())
    with pytest.raises(RecordingError, match="Mars/Olympus"):
        Spool(recording, tmp_path / "spool")


def test_the_server_answers_as_of_its_clock(tmp_path: Path) -> None:
    folder = write_recording(tmp_path / "r")
    clock = SetClock(T0_MS)
    query = "applicationTypes=MAPREDUCE&finishedTimeBegin=12345&states=RUNNING"
    with serve(RecordedRest(folder / "rest.jsonl.gz"), clock) as base:
        url = f"{base}/ws/v1/cluster/apps?{query}"
        assert requests.get(url, timeout=10).status_code == 404
        clock.advance_to(T0_MS + 9_999)
        assert requests.get(url, timeout=10).json() == {}
        clock.advance_to(T0_MS + 10_000)
        with pytest.raises(requests.ConnectionError):
            requests.get(url, timeout=10)
        clock.advance_to(T0_MS + 60_000)
        failed = requests.get(url, timeout=10)
        assert (failed.status_code, failed.content.decode()) == (503, "é")
        assert requests.get(f"{base}/ws/v1/cluster/info?x=1", timeout=10).json() == {"clusterInfo": {"id": 1}}
        assert requests.get(f"{base}/else", timeout=10).status_code == 404


def test_path_keys_ignore_the_order_of_parameters() -> None:
    assert path_key("/a?b=2&a=1&finishedTimeBegin=9") == path_key("/a?a=1&b=2") == "/a?a=1&b=2"
    assert path_key("/a?finishedTimeBegin=9") == "/a"


@pytest.mark.parametrize("row", [{}, {"t_ms": "x", "path": "/", "status": 200}, {"t_ms": 1, "path": "/"}])
def test_a_damaged_line_is_named(tmp_path: Path, row: dict[str, object]) -> None:
    write_rest(tmp_path, [{"t_ms": 1, "path": "/", "status": 200, "body": ""}, row])
    with pytest.raises(RecordingError, match=r"rest\.jsonl\.gz:2"):
        RecordedRest(tmp_path / "rest.jsonl.gz")


def test_rest_that_is_not_gzip(tmp_path: Path) -> None:
    (tmp_path / "rest.jsonl.gz").write_bytes(b"plain")
    with pytest.raises(RecordingError, match="gzipped"):
        RecordedRest(tmp_path / "rest.jsonl.gz")
