"""The working folder is emptied only when it is the cluster's own and nobody uses it."""

import dataclasses
from pathlib import Path

import pytest

from deploy.minicluster.cluster import MARKER, lock_work_dir, prepare_work_dir
from deploy.minicluster.errors import StartError
from deploy.minicluster.settings import Settings, load


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    library = tmp_path / "library"
    library.mkdir()
    (library / "hadoop-common-1.jar").write_bytes(b"jar")
    return dataclasses.replace(load(), work_dir=tmp_path / "work", library_dir=library)


def test_a_run_starts_with_an_empty_folder(settings: Settings) -> None:
    prepare_work_dir(settings)
    (settings.work_dir / "left.over").touch()
    prepare_work_dir(settings)
    assert not (settings.work_dir / "left.over").exists()
    assert (settings.work_dir / MARKER).exists()
    jar = settings.work_dir / "lib" / "hadoop-common-1.jar"
    assert jar.resolve() == jar
    assert jar.read_bytes() == b"jar"
    assert (settings.work_dir / "tasks" / "emit.py").exists()


def test_somebody_elses_folder_is_left_alone(settings: Settings) -> None:
    settings.work_dir.mkdir()
    (settings.work_dir / "precious").touch()
    with pytest.raises(StartError, match="was not made by the mini cluster"):
        prepare_work_dir(settings)
    assert (settings.work_dir / "precious").exists()


def test_missing_jars_are_told_before_anything_is_removed(settings: Settings) -> None:
    prepare_work_dir(settings)
    (settings.work_dir / "left.over").touch()
    with pytest.raises(StartError, match=r"run deploy/minicluster/install\.sh"):
        prepare_work_dir(dataclasses.replace(settings, library_dir=settings.work_dir))
    assert (settings.work_dir / "left.over").exists()


def test_one_cluster_a_folder(settings: Settings) -> None:
    with lock_work_dir(settings.work_dir), pytest.raises(StartError, match="another mini cluster is running"):
        lock_work_dir(settings.work_dir)
    lock_work_dir(settings.work_dir).close()
