"""The shipped recording again and again, each time later and of other jobs: a cluster that is as busy for hours."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.replay.recorded_rest import RecordedAnswer, RecordedRest
from app.replay.recording import MANIFEST, Manifest, Recording
from app.replay.spool import DAEMONS, HISTORY, RRDS, USERLOGS, Spool
from collectors.ganglia.rrd_header import LIVE_HEAD, read_header

LOOP_S = 840
"""Of which the recording takes 767: 91 % of its bytes and keys per hour. A multiple of what all archives of its RRDs
are aligned to, so that their rows keep their places."""

KEPT_LOOPS = 5
"""For so many loops files stay; a cluster removes what is old, too."""

_STAMP = re.compile(rb"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.MULTILINE)
_EPOCH_MS = re.compile(rb"(?<!\d)17951\d{8}(?!\d)")
"""Times and, within ids, the start of the ResourceManager."""


class Moved:
    """Content of the recording, so much later."""

    def __init__(self, by_ms: int) -> None:
        self.by_ms = by_ms
        self._stamps: dict[bytes, bytes] = {}

    def text(self, content: bytes) -> bytes:
        """With other times and ids."""
        return _EPOCH_MS.sub(lambda found: b"%d" % (int(found[0]) + self.by_ms), content)

    def log(self, content: bytes) -> bytes:
        """And other times at the beginnings of lines."""
        return self.text(_STAMP.sub(lambda found: self._stamp(found[0]), content))

    def rrd(self, path: Path, target: Path) -> None:
        """Its values, later."""
        content = bytearray(path.read_bytes())
        header = read_header(str(path))
        LIVE_HEAD.pack_into(content, len(header.fixed), header.updated_s + self.by_ms // 1000, 0)
        target.write_bytes(content)

    def _stamp(self, stamp: bytes) -> bytes:
        known = self._stamps.get(stamp)
        if known is None:
            at = datetime.strptime(stamp.decode(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
            known = (at + timedelta(milliseconds=self.by_ms)).strftime("%Y-%m-%d %H:%M:%S").encode()
            self._stamps[stamp] = known
        return known


class LoopedRecording:
    """Grows a spool folder, and answers for the REST interfaces."""

    def __init__(self, recording: Recording, folder: Path) -> None:
        self.recording = recording
        self._folder = folder
        self.spool_folder = folder / "spool"
        self._rest: RecordedRest | None = None
        self._made: list[list[Path]] = []

    def answer(self, target: str, now_ms: int) -> RecordedAnswer:
        """As RecordedRest."""
        assert self._rest is not None, "no loop has begun"
        return self._rest.answer(target, now_ms)

    def begin(self, number: int) -> Spool:
        """The spool of this loop; earlier ones have ended."""
        folder = self._folder / "loop"
        shutil.rmtree(folder, ignore_errors=True)
        manifest = self._write(folder, Moved(1000 * LOOP_S * number))
        self._rest = RecordedRest(folder / "rest.jsonl.gz")
        shutil.rmtree(self.spool_folder / RRDS, ignore_errors=True)
        self._made.append([*_names(folder / HISTORY, self.spool_folder / HISTORY)])
        self._made[-1] += [
            self.spool_folder / path.relative_to(folder) for path in (folder / USERLOGS).glob("*/*") if path.is_dir()
        ]
        if len(self._made) > KEPT_LOOPS:
            for path in self._made.pop(0):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return Spool(Recording(folder, manifest), self.spool_folder)

    def _write(self, folder: Path, moved: Moved) -> Manifest:
        source = self.recording.folder
        for path in sorted(source.rglob("*")):
            if not path.is_file() or path.name in (MANIFEST, "gmetad.jsonl.gz"):
                continue
            part = path.relative_to(source).parts[0]
            target = folder / moved.text(str(path.relative_to(source)).encode()).decode()
            target.parent.mkdir(parents=True, exist_ok=True)
            if part == RRDS:
                moved.rrd(path, target)
            elif part in (DAEMONS, USERLOGS):
                target.write_bytes(moved.log(path.read_bytes()))
            elif path.suffix == ".gz":
                target.write_bytes(gzip.compress(moved.text(gzip.decompress(path.read_bytes())), 1))
            else:
                target.write_bytes(moved.text(path.read_bytes()))
        known = self.recording.manifest
        later = {"started_ms": known.started_ms + moved.by_ms, "ended_ms": known.ended_ms + moved.by_ms}
        return known.model_copy(update=later)


def _names(folder: Path, target: Path) -> Iterator[Path]:
    return (target / path.name for path in folder.iterdir())


__all__ = ["LOOP_S", "LoopedRecording", "Moved"]
