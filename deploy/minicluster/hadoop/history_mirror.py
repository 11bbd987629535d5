"""Copies what the JobHistoryServer keeps in HDFS to a local folder, where those without HDFS can read it."""

from __future__ import annotations

import http.client
from pathlib import Path

from deploy.minicluster.errors import MiniClusterError
from deploy.minicluster.hadoop.hadoop_api import HadoopApi

HISTORY_FOLDER = "/mr-history"
SUFFIXES = (".jhist", "_conf.xml")


class HistoryMirror:
    """Histories and configurations of jobs, flat in `folder`, under the names the JobHistoryServer gave them."""

    def __init__(self, api: HadoopApi, folder: Path) -> None:
        """Nothing is asked yet; `folder` must be there."""
        self._api = api
        self._folder = folder
        self.n_failed = 0

    def copy_new(self) -> None:
        """Copy what is not there yet; a file appears whole. Raises MiniClusterError when HDFS refuses."""
        for path in self._api.walk(HISTORY_FOLDER):
            name = path.rpartition("/")[2]
            target = self._folder / name
            if name.endswith(SUFFIXES) and not target.exists():
                part = target.with_name(f".{name}.part")
                part.write_text(self._api.read_file(path), encoding="utf-8")
                part.rename(target)

    def try_to_copy(self) -> None:
        """As copy_new; what failed (a file that was moved between listing and reading) is there the next time."""
        try:
            self.copy_new()
        except (MiniClusterError, OSError, http.client.HTTPException, ValueError):
            self.n_failed += 1
