"""Processes of clustercep for campaigns: forked by a server that has imported everything, so they start at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

MAX_S = 300.0
"""After this a process that hangs is ended, and the campaign fails."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "app.cli",
        "app.commands.process",
        "app.process.supervisor",
        "app.alertmanager.listener",
        "app.replay.demo",
        "app.replay.replay",
        "spark_jobs.stream.job",
    ]
)


class Life:
    """One process; killed at the end if it still runs, with all that it started."""

    def __init__(
        self,
        words: Sequence[str],
        log: Path,
        *,
        host: str | None = None,
        environment: Any = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        """`words`: the command line; `host`: the machine that it believes to run on; `prepare`: called there first."""
        self.log = log
        self._told, told = _context.Pipe(duplex=False)
        log.write_bytes(b"")
        given = (tuple(words), log, host, told, environment or {}, prepare)
        self._process = _context.Process(target=_live, args=given)
        self._process.start()
        told.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def owns(self) -> bool:
        """Wait until it has become a store's owner; False when it ended without."""
        try:
            return self._told.poll(MAX_S) and self._told.recv() == "owns"
        except EOFError:
            return False

    def ended(self) -> int | None:
        """Wait for its end; its exit code, None when it does not end."""
        self._process.join(MAX_S)
        return self._process.exitcode

    def is_alive(self) -> bool:
        """Whether it runs, or is suspended."""
        return self._process.is_alive()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9, and wait for the end."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self._process.is_alive():
            self._process.kill()
        self._process.join(MAX_S)

    def words(self) -> str:
        """What it printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def _live(
    words: Sequence[str],
    log: Path,
    host: str | None,
    told: Connection,
    environment: dict[str, str],
    prepare: Callable[[], None] | None,
) -> None:
    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.environ.update(environment)
    _tell_ownership(told)
    if host is not None:
        _be_on(host)
    if prepare is not None:
        prepare()
    if words[0] == "stream":
        from spark_jobs.stream import job as stream

        sys.exit(stream.main(words[1:]))
    from app.cli import cli

    cli(list(words))


def _tell_ownership(told: Connection) -> None:
    from app.store.api import Store

    own = Store.own

    def owning(self: Store, *args: Any, **options: Any) -> None:
        own(self, *args, **options)
        told.send("owns")

    Store.own = owning  # type: ignore[method-assign]  # whoever started it waits for that


def _be_on(host: str) -> None:
    from app.process import lock as process_lock
    from app.process import owned_store
    from app.store.owner import Claimant, this_process

    def there(command: str, folder: Path, lock: str) -> Claimant:
        return replace(this_process(command, folder, lock), host=host, boot=f"kernel of {host}")

    vars(owned_store).update(this_process=there, RENEW_S=0.1)
    vars(process_lock).update(_host=lambda: host)
