"""The real amtool and Alertmanager, where they are installed (deploy/setup/for-tests.sh)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.app.alertmanager.served import TOKEN, Served


def program(*names: str) -> str:
    """The first that is there; skips when none is, but fails where they are demanded."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        reason = f"{names[0]} is not installed (package prometheus-alertmanager)"
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    return found


@dataclass(frozen=True)
class Amtool:
    """It, towards one server."""

    path: str
    url: str
    home: Path

    def run(self, *arguments: str, code: int = 0) -> str:
        """What it prints."""
        done = self.ask(*arguments)
        assert done.returncode == code, done.stderr
        return done.stdout

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What came of it."""
        return subprocess.run(
            [self.path, f"--alertmanager.url={self.url}", "--no-version-check", *arguments],
            env={"HOME": str(self.home), "USER": "tester", "TZ": "UTC"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def lines(self, *arguments: str) -> list[list[str]]:
        """The rows of a table, in words."""
        return [line.split() for line in self.run(*arguments).splitlines()[1:]]


def amtool(api: Served, home: Path, *, as_operator: bool = True) -> Amtool:
    url = api.url.replace("://", f"://mia:{TOKEN}@") if as_operator else api.url
    return Amtool(program("amtool"), url, home)


@contextmanager
def alertmanager(folder: Path, config: str) -> Iterator[str]:
    """A real one with this configuration; gives its address, when it listens."""
    path = program("prometheus-alertmanager", "alertmanager")
    file = folder / "alertmanager.yml"
    file.write_text(config)
    command = [path, f"--config.file={file}", f"--storage.path={folder / 'data'}", "--cluster.listen-address="]
    with subprocess.Popen(
        [*command, "--web.listen-address=127.0.0.1:0", "--log.format=json"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if '"Listening on"' in line:
                    yield "http://" + line.partition('"address":"')[2].partition('"')[0]
                    break
            else:
                raise AssertionError("it does not listen")
        finally:
            process.terminate()
            assert process.stderr is not None
            process.stderr.read()
