"""What is below a path: as the file system has it, whatever names there are, and whatever goes meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.file_statuses import FileStatuses
from spark_jobs.ingest import files as ingest_files
from spark_jobs.ingest.files import list_files
from spark_jobs.session import SparkJobError

NAMES = ("plain", "with a space", "new\nline", "%20", "ü", "a:b", "[x]{y}*?", "_hidden", ".hidden", "'\"\\", "&amp;#1")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files of 0, 1, 2 ... bytes in three levels of folders, an empty folder among them, and links."""
    root = tmp_path / "root"
    n = 0
    for folder in (root, root / "one", root / "with a space" / "new\nline"):
        folder.mkdir(parents=True)
        for name in NAMES:
            if not (folder / name).exists():
                (folder / f"{name}.jhist").write_bytes(b"x" * n)
                n += 1
    (root / "empty").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "f").write_bytes(b"12345")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "nowhere").symlink_to(tmp_path / "gone")
    return root


def below(root: Path) -> dict[str, int]:
    return {
        str(Path(folder, name)): Path(folder, name).stat().st_size
        for folder, _, names in os.walk(root, followlinks=True)
        for name in names
        if Path(folder, name).exists()
    }


def listed(spark: SparkSession, *paths: str) -> dict[str, int]:
    found = list_files(spark, paths)
    assert found.unreadable == ()
    assert [file.url for file in found.files] == sorted(file.url for file in found.files)
    return {file.url.removeprefix("file:"): file.n_bytes for file in found.files}


def test_all_files_below_with_their_lengths(spark: SparkSession, tree: Path) -> None:
    expected = below(tree)
    assert len(expected) == 3 * len(NAMES) + 1
    assert listed(spark, str(tree)) == expected
    assert listed(spark, str(tree / "one"), str(tree), str(tree / "one" / "ü.jhist")) == expected
    assert listed(spark, str(tree.parent / "ro?t" / "empty"), str(tree / "one")) == below(tree / "one")
    assert listed(spark, str(tree / "empty")) == {}


def test_wild_cards_beside_names_that_hadoop_cannot_expand(spark: SparkSession, tree: Path) -> None:
    with pytest.raises(SparkJobError, match=r"o\*: .*a:b\.jhist.*; expected a file, a folder or a URL of one"):
        list_files(spark, [str(tree / "o*")])


def test_folders_that_cannot_be_listed_are_told(
    spark: SparkSession, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = FileStatuses.below

    def without_one(statuses: FileStatuses, system: Any, folders: Any) -> Any:
        if (tree / "empty").exists() and folders.size() > 1:
            (tree / "empty").rmdir()  # since it was listed itself
        return listing(statuses, system, folders)

    monkeypatch.setattr(FileStatuses, "below", without_one)
    found = list_files(spark, [str(tree)])
    assert {file.url.removeprefix("file:"): file.n_bytes for file in found.files} == below(tree)
    [(url, why)] = found.unreadable
    assert url == f"file:{tree}/empty"
    assert "does not exist" in why


def test_endless_folders_have_an_end(spark: SparkSession, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_files, "MAX_DEPTH", 1)
    found = list_files(spark, [str(tree)])
    assert {Path(file.url).parent.name for file in found.files} == {"root"}
    folders = ("empty", "link", "one", "with a space")
    assert sorted(found.unreadable) == [(f"file:{tree}/{name}", "more than 1 folders deep") for name in folders]
