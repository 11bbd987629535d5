"""Packs a recording into one archive, with the same bytes for the same files, and unpacks it safely."""

from __future__ import annotations

import lzma
import tarfile
from pathlib import Path, PurePosixPath

from deploy.minicluster.errors import RecordingError

ROOT = "recording"
MAX_UNPACKED_BYTES = 512 * 1024 * 1024
MAX_MEMBERS = 20_000


def pack(folder: Path, archive: Path) -> None:
    """Write `folder` as recording/... into `archive` (.tar.xz): sorted names, no owners, no times, plain files only."""
    if not (folder / "manifest.yaml").is_file():
        raise RecordingError(f"{folder} has no manifest.yaml: not a recording")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (
        lzma.open(archive, "wb", preset=9) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(folder.rglob("*"), key=lambda p: p.relative_to(folder).parts):
            if path.is_symlink() or not path.is_file():
                continue
            member = tarfile.TarInfo(f"{ROOT}/{path.relative_to(folder).as_posix()}")
            member.size = path.stat().st_size
            member.mode = 0o644
            with path.open("rb") as content:
                tar.addfile(member, content)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack recording/... of `archive` into `folder`, which must not hold anything yet.

    Raises RecordingError for anything but plain files below recording/, for too many or too large
    files and for a damaged archive; nothing is ever written outside `folder`.
    """
    if folder.exists() and any(folder.iterdir()):
        raise RecordingError(f"{folder} is not empty; unpack into a new folder")
    n_bytes = 0
    try:
        with tarfile.open(archive, "r:xz") as tar:
            for n_members, member in enumerate(tar, 1):
                n_bytes += member.size
                if n_members > MAX_MEMBERS or n_bytes > MAX_UNPACKED_BYTES:
                    raise RecordingError(f"{archive}: more than {MAX_MEMBERS} files or {MAX_UNPACKED_BYTES} bytes")
                target = folder / checked_name(archive, member)
                target.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(member)
                assert content is not None, "checked_name only lets plain files pass"
                target.write_bytes(content.read())
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise RecordingError(f"{archive}: not a readable .tar.xz: {error}") from error


def checked_name(archive: Path, member: tarfile.TarInfo) -> PurePosixPath:
    """The member's path below recording/. Raises RecordingError for links, devices and paths that lead elsewhere."""
    path = PurePosixPath(member.name)
    if not member.isreg():
        raise RecordingError(f"{archive}: {member.name!r} is not a plain file")
    if path.is_absolute() or ".." in path.parts or len(path.parts) < 2 or path.parts[0] != ROOT:
        raise RecordingError(f"{archive}: {member.name!r} does not lie in {ROOT}/")
    return PurePosixPath(*path.parts[1:])
