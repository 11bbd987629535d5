"""One process per store."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from app.errors import AppError
from app.private import private_folder


@contextmanager
def only_process(directory: Path, key: str = "store.directory") -> Iterator[None]:
    """Hold the folder's lock: two processes on one store would undo each other's checkpoints. Raises AppError."""
    with ExitStack() as held:
        try:
            private_folder(directory)
            file = held.enter_context((directory / "lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AppError(f"another clustercep runs with {key} {directory}; stop it first") from None
        except OSError as error:
            found = f"{key} {directory}: {error.strerror}"
            raise AppError(f"{found}; expected a folder that can be written") from error
        yield
