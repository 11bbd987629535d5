"""Walking folders that change meanwhile."""

import re
import shutil
from pathlib import Path

from collectors.base import ProblemLog
from collectors.files import walk


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
