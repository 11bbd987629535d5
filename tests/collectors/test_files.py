"""Walking folders that change meanwhile."""

import re
import shutil
from pathlib import Path

from collectors.base import ProblemLog
from collectors.files import walk
from collectors.folder_watch import FolderWatch, WatchOptions


def test_a_folder_that_is_removed_meanwhile_is_no_problem(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log").write_text("line\n")
    problems = ProblemLog("test")
    found = walk(tmp_path, problems, lambda _: True)
    assert next(found).parts == ("a", "log")
    shutil.rmtree(tmp_path / "b")
    assert list(found) == []
    assert problems.drain() == ()


def test_a_name_with_a_line_feed_is_told(tmp_path: Path) -> None:
    for name in ("a.log", "b\nc.log", "d\ne.txt"):
        (tmp_path / name).write_text("line\n")
    problems = ProblemLog("test")
    found = walk(tmp_path, problems, lambda parts: re.fullmatch(r".*\.log", parts[-1]) is not None)
    assert [file.parts for file in found] == [("a.log",)]
    (problem,) = problems.drain()
    assert (problem.place, problem.kind) == (f"{tmp_path}/b\\nc.log", "bad_name")


def test_files_of_a_rotated_log_are_found_from_the_oldest_on(tmp_path: Path) -> None:
    in_order = [
        "a.log.10", "a.log.2", "a.log.1", "a.log",
        "b.log.2023-11-13", "b.log.2023-11-14-22", "b.log.3", "b.log", "c",
    ]  # fmt: skip
    for name in in_order:
        (tmp_path / name).write_text("line\n")
    problems = ProblemLog("test")
    assert [file.parts[-1] for file in walk(tmp_path, problems, lambda _: True)] == in_order
    watch = FolderWatch(tmp_path, problems, lambda _: True, WatchOptions(1_000, 1_000))
    assert [file.parts[-1] for file in watch.look(0)] == in_order
