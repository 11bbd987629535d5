"""A PostgreSQL server of one's own for the tests: in a temporary folder, reached through a socket in it alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BINARIES = "/usr/lib/postgresql"
USER = "postgres"
_RUNUSER = "runuser"


def binaries() -> Path | None:
    """The folder of the latest server's programs; None when there is none."""
    found = sorted(Path(BINARIES).glob("*/bin/initdb"), key=lambda path: float(path.parent.parent.name))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).resolve().parent


def why_not() -> str | None:
    """Why no server can be started here; None when one can."""
    if binaries() is None:
        return "PostgreSQL's server is not installed (package postgresql)"
    if os.geteuid() == 0 and shutil.which(_RUNUSER) is None:
        return f"as root the server needs {_RUNUSER} to run as {USER}"
    return None


@contextmanager
def server() -> Iterator[str]:
    """The folder of the socket of a running server."""
    programs = binaries()
    assert programs is not None, why_not()
    # Sockets have short names: the folder is not below pytest's.
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        folder = Path(name)
        data = folder / "data"
        if os.geteuid() == 0:
            shutil.chown(folder, USER, USER)
        _run(
            programs / "initdb",
            "-D",
            data,
            "-U",
            USER,
            "--auth",
            "trust",
            "--encoding",
            "UTF8",
            "--no-sync",
            cwd=folder,
        )
        waiting = ("-D", data, "-w", "-t", "300")  # by itself a minute
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off -c max_connections=50"
        _run(programs / "pg_ctl", *waiting, "-l", folder / "log", "-o", options, "start", cwd=folder)
        try:
            yield name
        finally:
            _run(programs / "pg_ctl", *waiting, "-m", "immediate", "stop", cwd=folder)


def url_of(folder: str, database: str) -> str:
    """Of a database behind a socket."""
    return f"postgresql+psycopg://{USER}@/{database}?host={folder}"


def _run(*words: str | Path, cwd: Path) -> None:
    command = [str(word) for word in words]
    if os.geteuid() == 0:
        command = [_RUNUSER, "-u", USER, "--", *command]
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
