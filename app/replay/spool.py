"""A folder that grows as a recording's time moves: what collectors saw on the day, they see again."""

from __future__ import annotations

import re
import shutil
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from app.errors import RecordingError
from app.replay.recording import Recording
from collectors.client.lines import wrapped_time
from collectors.logs.times import parse_time

_FINISH = re.compile(rb'"finishTime"\s*:\s*([0-9]{10,15})')

HISTORY, USERLOGS, DAEMONS, RRDS = "history", "userlogs", "daemons", "rrds"
CONSOLES = "consoles"
"""What clients of jobs printed; not every recording has them."""


@dataclass
class _GrowingLog:
    """A log file, with the time of every piece of it."""

    source: Path
    target: Path
    times_ms: list[int] = field(default_factory=list)
    ends_bytes: list[int] = field(default_factory=list)
    """Where the lines up to each time end: `ends_bytes[i]` belongs to `times_ms[i]`, both increase."""
    n_written_bytes: int = 0

    def advance(self, now_ms: int) -> None:
        """Append the lines that had been written by then."""
        idx = bisect_right(self.times_ms, now_ms) - 1
        end = self.ends_bytes[idx] if idx >= 0 else 0
        if end <= self.n_written_bytes:
            return
        self.target.parent.mkdir(parents=True, exist_ok=True)
        with self.source.open("rb") as source, self.target.open("ab") as target:
            source.seek(self.n_written_bytes)
            target.write(source.read(end - self.n_written_bytes))
        self.n_written_bytes = end


class Spool:
    """Log lines come by their time stamps, histories at their job's end; RRDs are there from the start, for their
    collector gives nothing later than its clock."""

    def __init__(self, recording: Recording, folder: Path) -> None:
        self._folder = folder
        zone = _zone(recording.manifest.timezone)
        self._logs = [
            _growing(path, folder / path.relative_to(recording.folder), zone, recording.manifest.started_ms)
            for part in (USERLOGS, DAEMONS, CONSOLES)
            for path in _files(recording.folder / part)
        ]
        self._histories = _histories(recording)
        for part in (HISTORY, USERLOGS, DAEMONS, RRDS):
            (folder / part).mkdir(parents=True, exist_ok=True)
        if (recording.folder / CONSOLES).is_dir():
            (folder / CONSOLES).mkdir(exist_ok=True)
        if (recording.folder / RRDS).is_dir():
            shutil.copytree(recording.folder / RRDS, folder / RRDS, dirs_exist_ok=True)

    def advance(self, now_ms: int) -> None:
        """Bring the folder to what it was at `now_ms`."""
        for log in self._logs:
            log.advance(now_ms)
        while self._histories and self._histories[-1][0] <= now_ms:
            _, path = self._histories.pop()
            target = self._folder / HISTORY / path.name
            part = target.with_name(f".{path.name}.part")
            shutil.copyfile(path, part)
            part.replace(target)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _growing(source: Path, target: Path, zone: ZoneInfo, started_ms: int) -> _GrowingLog:
    """Lines without a stamp belong to the line before; a stamp that goes back takes the time of the one before."""
    log = _GrowingLog(source, target)
    now_ms, end = started_ms, 0
    with source.open("rb") as lines:
        for line in lines:
            time_ms = _time_of(line, zone)
            if time_ms is not None and time_ms > now_ms:
                _add(log, now_ms, end)
                now_ms = time_ms
            end += len(line)
    _add(log, now_ms, end)
    return log


def _time_of(line: bytes, zone: ZoneInfo) -> int | None:
    """The latest that its stamp may mean: the daemon's own, or what a scheduler put before the line of a client."""
    begin = line[:40].decode("ascii", "replace")
    stamp = parse_time(begin[:32], zone)
    if stamp is not None:
        return stamp[1]
    wrapped = wrapped_time(begin, zone)
    return None if wrapped is None else wrapped[1]


def _add(log: _GrowingLog, time_ms: int, end: int) -> None:
    if end and (not log.ends_bytes or end > log.ends_bytes[-1]):
        log.times_ms.append(time_ms)
        log.ends_bytes.append(end)


def _histories(recording: Recording) -> list[tuple[int, Path]]:
    """(when it is there, file), the latest first; configurations come with their history."""
    paths = _files(recording.folder / HISTORY)
    ends = {_job_of(path): _finish_ms(path, recording.manifest.ended_ms) for path in paths if path.suffix == ".jhist"}
    return sorted(((ends.get(_job_of(path), recording.manifest.ended_ms), path) for path in paths), reverse=True)


def _job_of(path: Path) -> str:
    """job_1_2-... .jhist and job_1_2_conf.xml -> job_1_2."""
    return path.name.partition("-")[0].removesuffix("_conf.xml")


def _finish_ms(path: Path, otherwise_ms: int) -> int:
    """The last finish that the history tells of: its job's."""
    return max(map(int, _FINISH.findall(path.read_bytes())), default=otherwise_ms)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise RecordingError(f"manifest: timezone {name!r} is unknown; expected a name such as 'UTC'") from error


__all__: Sequence[str] = ["CONSOLES", "DAEMONS", "HISTORY", "RRDS", "USERLOGS", "Spool"]
