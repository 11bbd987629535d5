"""The campaign's short form: two rounds of one seed; and that it can fail."""

from __future__ import annotations

from pathlib import Path

from collectors.base import Problem
from tests.torture.campaigns.poison import KINDS, N_POLLS, Seen, one_round, rows_of_files


def test_poisoned_folders(tmp_path: Path) -> None:
    seen = Seen()
    for seed in (3, 4):
        one_round(seed, tmp_path / str(seed), seen)
    assert seen.failures == []
    assert seen.n_polls == 2 * len(KINDS) * N_POLLS
    assert len(seen.n_files) >= 10


def test_rows_of_one_file_are_counted_together() -> None:
    problems = [Problem("s", f"/a/x.log:{line}", "bad", "m") for line in (1, 2, 2)] + [
        Problem("s", "/a/y.log", "bad", "m")
    ]
    assert rows_of_files(problems) == {"/a/x.log": 2, "/a/y.log": 1}
