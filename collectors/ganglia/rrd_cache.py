"""rrdcached, which holds back what gmetad writes: it is asked to write the files that are about to be read.

Its protocol has a line for a command and a line for the answer, "0 ..." where it is done; commands are sent without
waiting for answers. rrdtool's own client would wait for ever.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from collectors.base import OptionError, SourceUnavailableError
from collectors.network.deadlines import remaining_s
from collectors.network.http_attempt import connected, limited
from collectors.printable import printable

DEFAULT_PORT = 42217
MAX_ANSWER_BYTES = 1 << 12
"""Of one answer: a line."""
N_AT_ONCE = 256
"""Commands whose answers are on their way: both sides' buffers hold so many."""
_TCP = re.compile(
    r"(?P<host>[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(:(?P<port>\d{1,5}))?"
)
_QUOTED = re.compile(r'[\\" ]')


@dataclass(slots=True)
class Flushed:
    """What became of the files."""

    n_done: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    """By path why it was not written."""


class RrdCache:
    """One daemon, asked over a connection of its own each time."""

    def __init__(self, address: str, timeout_s: float = 5.0) -> None:
        """`address`: unix:/PATH, /PATH or HOST[:PORT]; raises OptionError."""
        self.address, self._timeout_s = address, timeout_s
        path = address.removeprefix("unix:")
        self._path = path if path.startswith("/") and path.isprintable() else None
        found = _TCP.fullmatch(address)
        port = int(found["port"] or DEFAULT_PORT) if found is not None else 0
        if self._path is None and (found is None or not 0 < port <= 65_535):
            raise OptionError(f"ganglia: daemon {printable(address, 100)!r}; expected unix:/PATH or HOST:PORT")
        self._host, self._port = ("", 0) if found is None else (found["host"].strip("[]"), port)

    def flush(self, paths: Sequence[str]) -> Flushed:
        """Have these files written; raises SourceUnavailableError where not all are answered in time."""
        flushed, pending = Flushed(), [path for path in paths if path.isprintable()]
        if not pending:
            return flushed
        try:
            with limited(self._timeout_s, MAX_ANSWER_BYTES * len(pending)), self._connected() as link:
                answers = _lines(link)
                for at in range(0, len(pending), N_AT_ONCE):
                    part = pending[at : at + N_AT_ONCE]
                    link.sendall("".join(f"FLUSH {_quoted(path)}\n" for path in part).encode())
                    for path in part:
                        self._note(flushed, path, next(answers))
        except (OSError, UnicodeError, StopIteration) as error:
            reason = str(error) or "it does not answer, or not all in time"
            raise SourceUnavailableError(f"rrdcached at {self.address}: {printable(reason, 200)}") from error
        return flushed

    def _note(self, flushed: Flushed, path: str, answer: str) -> None:
        if answer.startswith("0 "):
            flushed.n_done += 1
        elif re.match(r"-\d+ ", answer):
            flushed.refused[path] = printable(answer, 200)
        else:
            raise OSError(f"it answers {printable(answer, 60)!r}; expected a number and a text: is it an rrdcached?")

    @contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        if self._path is None:
            with connected(self._host, self._port, self._timeout_s) as link:
                yield link
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as local:
            local.settimeout(max(0.001, remaining_s()))
            local.connect(self._path)
            yield local


def _quoted(path: str) -> str:
    return _QUOTED.sub(r"\\\g<0>", path)


def _lines(link: socket.socket) -> Iterator[str]:
    """Until it closes; raises OSError for a line that is too long, and past the deadline."""
    held = b""
    while True:
        line, ended, rest = held.partition(b"\n")
        if ended:
            held = rest
            yield line.decode("utf-8", "replace")
            continue
        if len(held) > MAX_ANSWER_BYTES:
            raise OSError(f"an answer of more than {MAX_ANSWER_BYTES} bytes; is it an rrdcached?")
        if remaining_s() <= 0:
            raise TimeoutError("its answers did not come in time")
        if link.family == socket.AF_UNIX:
            link.settimeout(max(0.001, remaining_s()))
        piece = link.recv(1 << 16)
        if not piece:
            return
        held += piece


__all__ = ["Flushed", "RrdCache"]
