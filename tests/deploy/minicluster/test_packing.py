"""Archives are the same for the same files and cannot write outside their folder."""

import io
import lzma
import os
import tarfile
from pathlib import Path

import pytest

from deploy.minicluster.errors import RecordingError
from deploy.minicluster.recording import packing


def make_recording(folder: Path, names: list[str]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode() * 100)
    return folder


NAMES = ["manifest.yaml", "b/x.log", "a/y.log", "a b/\u00e9.rrd"]


def test_same_files_same_bytes(tmp_path: Path) -> None:
    first = make_recording(tmp_path / "1", NAMES)
    second = make_recording(tmp_path / "2", NAMES[::-1])
    for path in second.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    packing.pack(first, tmp_path / "1.tar.xz")
    packing.pack(second, tmp_path / "2.tar.xz")
    assert (tmp_path / "1.tar.xz").read_bytes() == (tmp_path / "2.tar.xz").read_bytes()


def test_unpack_gives_back_what_was_packed(tmp_path: Path) -> None:
    source = make_recording(tmp_path / "source", NAMES)
    packing.pack(source, tmp_path / "x.tar.xz")
    packing.unpack(tmp_path / "x.tar.xz", tmp_path / "copy")
    found = {str(path.relative_to(tmp_path / "copy")): path.read_bytes() for path in (tmp_path / "copy").rglob("*.*")}
    assert found == {name: name.encode() * 100 for name in NAMES}


def test_links_are_left_out(tmp_path: Path) -> None:
    source = make_recording(tmp_path / "source", NAMES)
    (source / "link").symlink_to("/etc/hostname")
    packing.pack(source, tmp_path / "x.tar.xz")
    with tarfile.open(tmp_path / "x.tar.xz") as tar:
        assert "recording/link" not in tar.getnames()


def member(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = "/etc/passwd" if kind == tarfile.SYMTYPE else ""
    return info


@pytest.mark.parametrize(
    "info",
    [
        member("recording/../../escape"),
        member("/recording/absolute"),
        member("elsewhere/file"),
        member("recording"),
        member("recording/link", tarfile.SYMTYPE),
        member("recording/pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda info: str(info.name),
)
def test_unsafe_members_are_refused(tmp_path: Path, info: tarfile.TarInfo) -> None:
    archive = tmp_path / "x.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        tar.addfile(info, io.BytesIO())
    with pytest.raises(RecordingError, match="recording"):
        packing.unpack(archive, tmp_path / "out")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["x.tar.xz"]


def test_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_recording(tmp_path / "source", NAMES)
    packing.pack(source, tmp_path / "x.tar.xz")
    monkeypatch.setattr(packing, "MAX_UNPACKED_BYTES", 500)
    with pytest.raises(RecordingError, match="500 bytes"):
        packing.unpack(tmp_path / "x.tar.xz", tmp_path / "out")


@pytest.mark.parametrize("content", [b"", b"not an archive", lzma.compress(b"not a tar" * 100)])
def test_damaged_archives_are_errors(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.tar.xz").write_bytes(content)
    with pytest.raises(RecordingError, match="not a readable"):
        packing.unpack(tmp_path / "x.tar.xz", tmp_path / "out")


def test_cut_archive_is_an_error(tmp_path: Path) -> None:
    packing.pack(make_recording(tmp_path / "source", NAMES), tmp_path / "x.tar.xz")
    content = (tmp_path / "x.tar.xz").read_bytes()
    (tmp_path / "x.tar.xz").write_bytes(content[: len(content) // 2])
    with pytest.raises(RecordingError, match="not a readable"):
        packing.unpack(tmp_path / "x.tar.xz", tmp_path / "out")


def test_folders_that_are_in_use_or_no_recording(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"no manifest\.yaml"):
        packing.pack(tmp_path, tmp_path / "x.tar.xz")
    make_recording(tmp_path / "used", ["x.y"])
    with pytest.raises(RecordingError, match="not empty"):
        packing.unpack(tmp_path / "x.tar.xz", tmp_path / "used")
