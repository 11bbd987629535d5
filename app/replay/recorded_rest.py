"""A loopback HTTP server that answers REST requests as the cluster did at the replay's time."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from app.clock import Clock
from app.errors import RecordingError
from app.process.serving.loopback import serving
from collectors.network.bounded_json import loads

IGNORED_PARAMETERS = frozenset({"finishedTimeBegin"})
"""They hold the time of asking."""

MAX_LINE_CHARS = 2**26


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """What a server answered; status 0: it did not answer."""

    status: int
    content_type: str
    body: str
    t_ms: int = 0
    """When it was given."""


@dataclass
class _Answers:
    times_ms: list[int] = field(default_factory=list)
    answers: list[RecordedAnswer] = field(default_factory=list)


class RecordedRest:
    """All answers of a recording by path and query."""

    def __init__(self, path: Path) -> None:
        """Read rest.jsonl.gz; raises RecordingError that names the line."""
        self._by_path: dict[str, _Answers] = {}
        rows: list[tuple[int, int, str, RecordedAnswer]] = []
        try:
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for number, line in enumerate(iter(lambda: lines.readline(MAX_LINE_CHARS + 1), ""), 1):
                    if len(line) > MAX_LINE_CHARS:
                        raise RecordingError(f"{path}:{number}: a line of more than {MAX_LINE_CHARS:,} characters")
                    rows.append((*_read(line, f"{path}:{number}"),))
        except (OSError, EOFError, UnicodeDecodeError) as error:
            raise RecordingError(f"{path}: {error}; expected JSON lines, gzipped") from error
        for t_ms, _, key, answer in sorted(rows, key=lambda row: row[:2]):
            answers = self._by_path.setdefault(key, _Answers())
            answers.times_ms.append(t_ms)
            answers.answers.append(answer)

    def answer(self, target: str, now_ms: int) -> RecordedAnswer:
        """The newest answer at or before now to this path and query, else to the path alone; 404 when there is none."""
        key = path_key(target)
        for candidate in (key, key.partition("?")[0]):
            known = self._by_path.get(candidate)
            idx = bisect_right(known.times_ms, now_ms) - 1 if known else -1
            if known and idx >= 0:
                return known.answers[idx]
        return RecordedAnswer(404, "application/json", '{"RemoteException": {"message": "not recorded"}}', now_ms)


def path_key(target: str) -> str:
    """Path and query without what differs from asking to asking, parameters in order of name."""
    parts = urlsplit(target)
    pairs = sorted(pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in IGNORED_PARAMETERS)
    return f"{parts.path}?{urlencode(pairs)}" if pairs else parts.path


@contextmanager
def serve(recorded: RecordedRest, clock: Clock) -> Iterator[str]:
    """Listen on a free port of loopback; gives the base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body are two writes: without this each answer waits for a delayed acknowledgement.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            now_ms = clock.now_ms()
            answer = recorded.answer(self.path, now_ms)
            if answer.status == 0:
                self.close_connection = True  # no answer was what the recorder got
                return
            body = answer.body.encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type or "application/json")
            self.send_header("Content-Length", str(len(body)))
            # What was recorded a while before the replay's time tells nothing of what happened since.
            self.send_header("Age", str(-(-(now_ms - answer.t_ms) // 1000)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """The collectors' log says enough."""

    with serving(Handler) as url:
        yield url


def _read(line: str, place: str) -> tuple[int, int, str, RecordedAnswer]:
    """(time, line's place in order, key, answer)."""
    try:
        row = loads(line)
        t_ms, path = int(row["t_ms"]), str(row["path"])
        status = 0 if row.get("error") else int(row["status"])
        body = row.get("body") or ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordingError(f"{place}: {error!r}; expected an object with t_ms, path, status and body") from error
    if not isinstance(body, str):
        body = json.dumps(body)
    return (
        t_ms,
        int(place.rpartition(":")[2]),
        path_key(path),
        RecordedAnswer(status, str(row.get("content_type") or ""), body, t_ms),
    )
