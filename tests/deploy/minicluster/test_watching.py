"""What clustercep needs to watch the mini cluster: its configuration and local copies of the histories."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from app.config import load_settings
from app.live.sources import build_sources
from app.queries.loading import load_queries
from deploy.minicluster import watch_config
from deploy.minicluster.errors import MiniClusterError
from deploy.minicluster.hadoop.hadoop_api import HadoopApi
from deploy.minicluster.hadoop.history_mirror import HistoryMirror
from deploy.minicluster.settings import load


def test_the_configuration_enables_every_source_at_the_ports_that_were_chosen(tmp_path: Path) -> None:
    settings = dataclasses.replace(load(), work_dir=tmp_path)
    ports = dict(settings.ports) | {"resourcemanager_http": 20001, "jobhistory_http": 20002}
    read = load_settings(watch_config.write(settings, ports), {})
    assert set(build_sources(read)) == {"yarn_rest", "job_history", "container_log", "daemon_log", "ganglia_rrd"}
    assert read.sources.yarn_rest.resource_managers == ("http://127.0.0.1:20001",)
    assert read.sources.yarn_rest.history_server == "http://127.0.0.1:20002"
    assert read.sources.job_history.directories == (settings.history_dir,)
    assert read.store.directory.is_relative_to(tmp_path)


def test_its_queries_and_parameters_are_those_of_the_project(tmp_path: Path) -> None:
    settings = dataclasses.replace(load(), work_dir=tmp_path)
    read = load_settings(watch_config.write(settings, settings.ports), {})
    loaded = load_queries(read.queries, read.alerting.group_gap_ms)
    assert loaded.problems == ()
    assert len(loaded.compiled) == len(list(watch_config.QUERIES.glob("*.cep")))


class FakeHdfs(HadoopApi):
    """Files by path; reading one of `moved` fails, as when it is moved after it was listed."""

    def __init__(self, files: dict[str, str], moved: tuple[str, ...] = ()) -> None:
        super().__init__("127.0.0.1", {})
        self.files = files
        self.moved = moved
        self.n_read = 0

    def walk(self, path: str):  # type: ignore[no-untyped-def]
        yield from (name for name in self.files if name.startswith(f"{path}/"))

    def read_file(self, path: str) -> str:
        self.n_read += 1
        if path in self.moved:
            raise MiniClusterError(f"HDFS refused OPEN of {path}: HTTP 404")
        return self.files[path]


JHIST = "/mr-history/done_intermediate/hadoop/job_1_0001-1-hadoop-name-2-1-1-SUCCEEDED-default-1.jhist"


def test_histories_are_copied_once_and_whole(tmp_path: Path) -> None:
    done = JHIST.replace("done_intermediate/hadoop", "done/2026/11/20/000000")
    hdfs = FakeHdfs({JHIST: "history", "/mr-history/done_intermediate/hadoop/job_1_0001.summary": "", "/other/x": ""})
    mirror = HistoryMirror(hdfs, tmp_path)
    mirror.copy_new()
    hdfs.files[done] = hdfs.files.pop(JHIST)
    mirror.copy_new()
    assert [path.name for path in tmp_path.iterdir()] == [JHIST.rpartition("/")[2]]
    assert (tmp_path / JHIST.rpartition("/")[2]).read_text() == "history"
    assert hdfs.n_read == 1


def test_a_history_that_is_moved_meanwhile_is_copied_the_next_time(tmp_path: Path) -> None:
    hdfs = FakeHdfs({JHIST: "history"}, moved=(JHIST,))
    mirror = HistoryMirror(hdfs, tmp_path)
    with pytest.raises(MiniClusterError, match="refused OPEN"):
        mirror.copy_new()
    mirror.try_to_copy()
    assert (list(tmp_path.iterdir()), mirror.n_failed) == ([], 1)
    hdfs.moved = ()
    mirror.try_to_copy()
    assert len(list(tmp_path.iterdir())) == 1
