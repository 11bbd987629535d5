"""Recordings: manifest, safe unpacking, the growing spool, the REST server of the past."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
import requests

from app.clock import SetClock
from app.errors import RecordingError
from app.live.sources import build_sources
from app.replay.recorded_rest import RecordedRest, path_key, serve
from app.replay.recording import Recording, unpack
from app.replay.replay import settings_for
from app.replay.spool import Spool
from app.settings import Replay, Settings
from tests.app.recording_fixtures import JOB, T0_MS, write_recording, write_rest
from tests.collectors.client import consoles


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
        ("in/../../escape", tarfile.REGTYPE),
        ("../escape", tarfile.DIRTYPE),
        ("/tmp/escape", tarfile.DIRTYPE),
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


@pytest.mark.parametrize("mtime", [0, 1_700_000_000, 2**70])
def test_files_have_their_time_where_it_is_one(tmp_path: Path, mtime: int) -> None:
    """Logs are read as of a day that their file's time may tell."""
    archive = tmp_path / "r.tar"
    with tarfile.open(archive, "w") as tar:
        for name, content in (("r/log", b"one\n"), ("r/manifest.yaml", b"")):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), mtime
            tar.addfile(member, io.BytesIO(content))
    if mtime > 2**63:
        with pytest.raises(RecordingError, match="cannot be unpacked"):
            unpack(archive, tmp_path / "out", Replay())
    else:
        log = unpack(archive, tmp_path / "out", Replay()) / "log"
        assert (log.read_bytes(), log.stat().st_mtime) == (b"one\n", mtime)


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


@pytest.mark.parametrize(
    ("form", "prefix"),
    [("{date} {level} {logger}: {message}", ""), ("{short} {level} {logger}: {message}", ""),
     ("{level} {logger}: {message}", "[2023-11-14T00:00:{second:02}.000+0000] {{bash.py:88}} INFO - ")],
)  # fmt: skip
def test_what_clients_printed_is_seen_as_it_was_on_the_day(tmp_path: Path, form: str, prefix: str) -> None:
    """By the client's own time, or that which a scheduler put before the line."""
    folder = write_recording(tmp_path / "r", started_ms=consoles.DAY_MS, ended_ms=consoles.DAY_MS + 30_000)
    second, lines = 0, []
    for line in consoles.HADOOP3:
        second = second if isinstance(line, str) else line[0]
        text = consoles.console([line], form).removesuffix("\n")
        lines.append(f"{prefix.format(second=second)}{text}\n")
    (folder / "consoles" / "nightly").mkdir(parents=True)
    source = folder / "consoles" / "nightly" / "sort.log"
    source.write_text("".join(lines))
    recording, place = Recording.open(folder, tmp_path, Replay()), tmp_path / "spool"
    spool = Spool(recording, place)
    settings = settings_for(recording, Settings(), place, "http://127.0.0.1:1")
    collector = build_sources(settings)["job_client_log"].source
    polls = []
    for ms in range(0, 35_000, 5_000):
        spool.advance(consoles.DAY_MS + ms)
        polls.append(collector.poll(consoles.DAY_MS + ms))
        written = place / "consoles" / "nightly" / "sort.log"
        text = written.read_text() if written.exists() else ""
        assert source.read_text().startswith(text)
        assert (f"{consoles.JOB} completed" in text) is (ms > 21_000)
    types = [name for polled in polls for name in polled.events.strings("type").to_pylist()]
    assert types.count("ClientJobEnd") == types.count("ClientJobStart") == types.count("ClientJobCounters") == 1
    assert "ClientJobEnd" not in [name for one in polls[:4] for name in one.events.strings("type").to_pylist()]


def test_a_recording_without_consoles_has_no_source_of_them(tmp_path: Path) -> None:
    recording, place = Recording.open(write_recording(tmp_path / "r"), tmp_path, Replay()), tmp_path / "spool"
    Spool(recording, place)
    assert "job_client_log" not in build_sources(settings_for(recording, Settings(), place, "http://127.0.0.1:1"))


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
        assert requests.get(url, timeout=120).status_code == 404
        clock.advance_to(T0_MS + 9_999)
        assert requests.get(url, timeout=120).json() == {}
        clock.advance_to(T0_MS + 10_000)
        with pytest.raises(requests.ConnectionError):
            requests.get(url, timeout=120)
        clock.advance_to(T0_MS + 60_000)
        failed = requests.get(url, timeout=120)
        assert (failed.status_code, failed.content.decode()) == (503, "é")
        assert requests.get(f"{base}/ws/v1/cluster/info?x=1", timeout=120).json() == {"clusterInfo": {"id": 1}}
        assert requests.get(f"{base}/else", timeout=120).status_code == 404


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
