"""Recordings of a cluster: a folder or a .tar.xz with a manifest and what was seen."""

from __future__ import annotations

import lzma
import os
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.errors import RecordingError
from app.settings import Replay
from app.yaml_text import load_yaml

MANIFEST = "manifest.yaml"
MAX_MANIFEST_BYTES = 2**22


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class RecordedHost(_Part):
    """A host of the cluster."""

    name: str
    address: str = ""


class RecordedJob(_Part):
    """A job of the workload."""

    job_id: str
    name: str = ""
    kind: str = ""
    healthy: bool = True


class Fault(_Part):
    """An injected fault and the query that is meant to find it; times inclusive."""

    fault: str
    query: str
    job_id: str | None = None
    task_ids: tuple[str, ...] = ()
    attempt_ids: tuple[str, ...] = ()
    host: str | None = None
    hosts: tuple[str, ...] = ()
    application_id: str | None = None
    """The application that it hit, where that is no job."""
    from_ms: int
    to_ms: int
    note: str = ""

    @property
    def names(self) -> frozenset[str]:
        """Tasks and attempts it hit; without any, its job."""
        return frozenset((*self.task_ids, *self.attempt_ids))

    @property
    def all_hosts(self) -> frozenset[str]:
        """Hosts it hit."""
        return frozenset((*self.hosts, *([self.host] if self.host else [])))


class Manifest(_Part):
    """What a recording says of itself."""

    started_ms: int
    ended_ms: int
    poll_interval_ms: int = Field(gt=0)
    step_s: int = Field(default=15, gt=0)
    timezone: str = "UTC"
    versions: dict[str, str] = Field(default_factory=dict)
    hosts: tuple[RecordedHost, ...] = ()
    jobs: tuple[RecordedJob, ...] = ()
    ground_truth: tuple[Fault, ...] = ()


class Recording:
    """An unpacked recording."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest

    @classmethod
    def open(cls, place: Path, unpack_into: Path, limits: Replay) -> Recording:
        """A folder as it is, an archive unpacked; raises RecordingError."""
        folder = place if place.is_dir() else unpack(place, unpack_into, limits)
        return cls(folder, read_manifest(folder / MANIFEST))


def read_manifest(path: Path) -> Manifest:
    """Read and check; raises RecordingError with the keys that are wrong."""
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            raise RecordingError(f"{path}: more than {MAX_MANIFEST_BYTES} bytes; expected a manifest")
        content: Any = load_yaml(path.read_text(encoding="utf-8"))
        manifest = Manifest.model_validate(content)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}; expected a recording with its manifest") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RecordingError(f"{path}: not YAML: {error}") from error
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
        raise RecordingError(f"{path}: {wrong}") from error
    if manifest.ended_ms < manifest.started_ms:
        raise RecordingError(f"{path}: ends at {manifest.ended_ms} ms, before it starts at {manifest.started_ms} ms")
    return manifest


def _take_out(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    """A file or a folder, with its time; raises ValueError for a name that leads out. The filters of `tarfile` that do
    the same came with Python 3.11.4, and Debian 12 has 3.11.2."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise ValueError(f"{member.name!r} leads out of the folder")
    place = into / name
    if member.isdir():
        place.mkdir(parents=True, exist_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member)
    assert content is not None, "it is a file"
    with content, place.open("wb") as file:
        shutil.copyfileobj(content, file)
    os.utime(place, (member.mtime, member.mtime))


def unpack(archive: Path, into: Path, limits: Replay) -> Path:
    """Unpack a .tar.xz (or other tar) into a folder; returns the folder that holds the manifest.

    Nothing is written outside `into`: links out of it, devices and absolute paths are refused, as is more than the
    limits allow. Raises RecordingError.
    """
    if not archive.is_file():
        raise RecordingError(f"{archive}: not there; expected a recording (folder or .tar.xz)")
    into.mkdir(parents=True, exist_ok=True)
    n_files, n_bytes = 0, 0
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                n_files, n_bytes = n_files + 1, n_bytes + member.size
                if n_files > limits.max_files or n_bytes > limits.max_size_bytes:
                    allowed = f"{limits.max_files} files and {limits.max_size_bytes} bytes"
                    raise RecordingError(f"{archive}: more than {allowed}; see replay in the configuration")
                if not (member.isfile() or member.isdir()):
                    raise RecordingError(f"{archive}: {member.name!r} is neither file nor folder; expected only these")
                _take_out(tar, member, into)
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError, ValueError, OverflowError) as error:
        raise RecordingError(f"{archive}: cannot be unpacked: {error}") from error
    for folder in (into, *sorted(path for path in into.iterdir() if path.is_dir())):
        if (folder / MANIFEST).is_file():
            return folder
    raise RecordingError(f"{archive}: no {MANIFEST} at its top; expected a recording")
