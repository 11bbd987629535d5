"""What was tried, how long it took and what was wrong; what an attempt of each kind may take."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

LIMIT_S = 0.5
"""Of an attempt at a document, and of one to tell a receiver."""
SLACK_S = 2.0
"""For a machine that has other things to do."""
MASTER_S, POLL_S = 1.0, 3.0
ANSWER_S = 5.0
"""Within which endpoints have to answer beside so many."""
CONNECT_S = 300.0
"""Within which those many are connected, and after which an answer is no longer waited for: no part of what is
tried."""

Tls = tuple[ssl.SSLContext, Path]


@dataclass
class Tally:
    """What was tried, and the longest of each kind."""

    n_attempts: int = 0
    longest_s: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @contextmanager
    def timed(self, kind: str, name: str, limit_s: float) -> Iterator[None]:
        """What is done inside has to end within its limit."""
        started_s = time.monotonic()
        yield
        took_s = time.monotonic() - started_s
        self.n_attempts += 1
        self.longest_s[kind] = max(self.longest_s.get(kind, 0.0), took_s)
        if took_s > limit_s + SLACK_S:
            self.failures.append(f"{kind}, a server that {name}: {took_s:.1f} s, its limit is {limit_s:g} s")
