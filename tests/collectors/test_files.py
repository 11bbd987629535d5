"""Walking folders that change meanwhile."""

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
