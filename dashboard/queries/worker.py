"""`python -m dashboard.queries.worker`: one query in a process of its own, which can be stopped at any instant.

One JSON object on standard input (the request and its limits), messages of `app.queries.messages` as JSON lines on
standard output. The process ends when standard input does: nobody listens any more. It gives way to the live process
in time and memory.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import engine
from app.chosen_store import in_chosen_store, store_url
from app.config import load_settings
from app.errors import AppError
from app.live.assembly import open_event_log
from app.process.give_way import give_way
from app.queries.aggregates import register_configured
from app.queries.messages import Failure, Message, RunLimits, as_json, read_request
from app.store.api import open_store
from collectors.schema import load_event_types
from dashboard.queries.run import Log, run_query

GRACE_MS = 3_000
"""How much longer than its time limit a run may take before the process is ended: no kernel can be asked to stop."""

IDLE_S = 660.0
"""So long it waits for its request: it may have been started before there is one."""

FIRST = "PATTERN MapEnd a WHERE skip_till_any_match { a.period_ms > 0 } WITHIN 1 second"
"""A query of which nobody wants the rows."""

MEMORY_HEADROOM_BYTES = 2**30
"""Between the limit that a run keeps by itself and the one that the system keeps."""


def main() -> int:
    """Run the request; 0 when the run said how it ended, or nobody asked."""
    signal.setitimer(signal.ITIMER_REAL, IDLE_S)
    load_engine()
    line = sys.stdin.readline()
    if not line:
        return 0
    request, limits = read_request(line)
    be_modest(limits)
    threading.Thread(target=_end_with, args=(sys.stdin,), daemon=True).start()
    try:
        for problem in register_configured(load_settings().queries.aggregates):
            print(problem, file=sys.stderr)  # a query that needs it is refused by its name
        with opened_log() as log:
            for message in run_query(request, log, limits):
                tell(message, sys.stdout)
    except AppError as error:
        tell(Failure(str(error)), sys.stdout)
    except BrokenPipeError:
        return 1
    return 0


def load_engine() -> None:
    """What every query needs: it is loaded when it is first used, and that takes longer than most queries do."""
    schema = load_event_types()
    engine.Engine([engine.compile_query(FIRST, schema)], schema)


def tell(message: Message, out: TextIO) -> None:
    """One line, at once."""
    out.write(json.dumps(as_json(message), allow_nan=False) + "\n")
    out.flush()


def be_modest(limits: RunLimits) -> None:
    """Give way: the live process matters more than this one."""
    give_way()
    most = limits.max_memory_bytes + MEMORY_HEADROOM_BYTES
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    signal.setitimer(signal.ITIMER_REAL, (limits.timeout_ms + GRACE_MS) / 1000)  # ends the process by itself


@contextmanager
def opened_log() -> Iterator[Log]:
    """The event log of the configured store, or of $CLUSTERCEP_STORE; raises AppError."""
    settings = in_chosen_store(load_settings())
    with open_store(store_url(settings), make=False) as store:
        yield open_event_log(settings, store)


def _end_with(stream: TextIO) -> None:
    while stream.read(1):
        pass
    os._exit(1)


if __name__ == "__main__":
    os._exit(main())  # all is told and closed; to take down the interpreter and all it has loaded takes half a second
