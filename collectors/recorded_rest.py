"""A transport that answers from a recording: what the servers answered to each path by a given time."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.base import CollectorError, SourceUnavailableError
from collectors.http import Answer


class RecordingError(CollectorError):
    """A recording that cannot be read; says where."""


@dataclass(slots=True)
class _History:
    """Answers to one path in order of time."""

    t_ms: list[int] = field(default_factory=list)
    answers: list[tuple[int, str, bytes]] = field(default_factory=list)
    """(status, content type, body); status 0: there was no answer."""


class RecordedTransport:
    """Answers with the last recorded answer at or before `now_ms`; 404 before the first.

    The file holds JSON lines {"t_ms", "source", "path", "status", "content_type", "body"}, gzipped.
    """

    def __init__(self, path: Path) -> None:
        self._histories: dict[str, _History] = {}
        self._place = str(path)
        try:
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        self._add(line, number)
        except (OSError, EOFError, UnicodeDecodeError) as error:
            raise RecordingError(f"{path}: {error}; expected gzipped JSON lines") from error
        for history in self._histories.values():
            order = sorted(range(len(history.t_ms)), key=history.t_ms.__getitem__)
            history.t_ms = [history.t_ms[i] for i in order]
            history.answers = [history.answers[i] for i in order]

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        """As Transport; without an exact match the answer to the path without its query serves."""
        url = base_url.rstrip("/") + path
        history = self._histories.get(path) or self._histories.get(path.partition("?")[0])
        idx = bisect_right(history.t_ms, now_ms) - 1 if history else -1
        if history is None or idx < 0:
            return Answer(url, 404, "", b"", now_ms)
        status, content_type, body = history.answers[idx]
        if status == 0:
            raise SourceUnavailableError(f"{url}: there was no answer when {self._place} was recorded")
        return Answer(url, status, content_type, body, history.t_ms[idx])

    def _add(self, line: str, number: int) -> None:
        try:
            record: dict[str, Any] = json.loads(line)
            path, t_ms, status = str(record["path"]), int(record["t_ms"]), int(record["status"])
        except (ValueError, KeyError, TypeError) as error:
            raise RecordingError(f"{self._place}:{number}: no recorded answer ({error})") from error
        answer = (status, str(record.get("content_type") or ""), str(record.get("body") or "").encode())
        history = self._histories.setdefault(path, _History())
        if history.answers and history.answers[-1] == answer:
            answer = history.answers[-1]  # most polls see no change: keep one copy
        history.t_ms.append(t_ms)
        history.answers.append(answer)


__all__ = ["RecordedTransport", "RecordingError"]
