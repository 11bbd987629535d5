"""One process per folder: a lock that the kernel holds for a process and gives back with its end."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from app.errors import AppError
from app.process.private import private_folder

MAX_CHARS = 400
"""Of what stands in the lock."""


@contextmanager
def only_process(directory: Path, key: str = "store.directory", command: str = "run") -> Iterator[str]:
    """Hold the folder's lock: two processes on one folder would undo each other's checkpoints. Raises AppError.

    Gives what tells this lock from all others of this machine, however the folder is named.
    """
    with ExitStack() as held:
        try:
            private_folder(directory)
            descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"'clustercep {command}' with pid {os.getpid()} on host {_host()}".encode(), 0)
        except BlockingIOError:
            who = os.pread(descriptor, MAX_CHARS, 0).decode(errors="replace") or "of an earlier version"
            raise AppError(f"another clustercep runs with {key} {directory}: {who}; stop it first") from None
        except OSError as error:
            found = f"{key} {directory}: {error.strerror}"
            raise AppError(f"{found}; expected a folder that can be written") from error
        place = os.fstat(descriptor)
        yield f"{place.st_dev}:{place.st_ino}"


def _host() -> str:
    return socket.gethostname()
