"""Folders that are polled: what is found, when, and with how many calls of the file system."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collectors.base import ProblemLog
from collectors.files import FoundFile
from collectors.folder_watch import GRANULARITY_NS, FolderWatch, WatchOptions

QUIET_MS, REVISIT_MS, POLL_MS = 60_000, 600_000, 10_000
OLD_NS = 1_000_000_000_000_000_000
LATER_NS = OLD_NS + 10 * GRANULARITY_NS
NOW_MS = LATER_NS // 1_000_000 + 10 * QUIET_MS


class Watched:
    """A watch over a folder, with the time of polls and the file system's clock as the test sets them."""

    def __init__(self, root: Path, **options: int) -> None:
        self.now_ms = NOW_MS
        self.clock_ns = LATER_NS
        self.problems = ProblemLog("test")
        self.in_use: Callable[[FoundFile], bool] = lambda _: False
        settings = WatchOptions(QUIET_MS, REVISIT_MS, **options)
        self.watch = FolderWatch(root, self.problems, lambda parts: parts[-1] == "log", settings, lambda: self.clock_ns)

    def poll(self, passed_ms: int = POLL_MS) -> list[str]:
        """The places of the files that were looked at."""
        self.now_ms += passed_ms
        found = self.watch.look(self.now_ms)
        self.watch.settle(self.now_ms, self.in_use)
        return ["/".join(file.parts) for file in found]


def write(path: Path, text: str = "line\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def age(root: Path, ns: int = OLD_NS) -> None:
    """As if nothing below had changed since."""
    for folder, _, names in os.walk(root, topdown=False):
        for path in (*(Path(folder, name) for name in names), Path(folder)):
            os.utime(path, ns=(ns, ns))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the file system was asked what."""
    counted: Counter[str] = Counter()

    def counting(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            counted[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, call)

    for name in ("stat", "scandir"):
        counting(name)
    return counted


def test_polls_ask_for_what_is_in_use_and_a_share_of_the_rest(tmp_path: Path, calls: Counter[str]) -> None:
    n_apps, n_containers = 10, 30
    for app in range(n_apps):
        for container in range(n_containers):
            write(tmp_path / f"app{app}" / f"c{container:02}" / "log")
    age(tmp_path)
    watched = Watched(tmp_path)
    watched.in_use = lambda file: file.parts[:2] == ("app3", "c07")
    calls.clear()
    assert len(watched.poll()) == n_apps * n_containers
    n_folders = 1 + n_apps + n_apps * n_containers
    assert calls == {"scandir": n_folders, "stat": n_folders + n_apps * n_containers}
    in_use = 1 + n_apps + 1 + 1  # folders with folders, the folder of the file in use, the file
    share = -(-(n_apps * n_containers) * POLL_MS // REVISIT_MS)
    for _ in range(REVISIT_MS // POLL_MS):
        calls.clear()
        watched.poll()
        assert calls["scandir"] <= share
        assert calls["stat"] <= in_use + 2 * share


def test_a_line_in_an_old_file_of_an_unchanged_folder_is_seen_within_its_time(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"c{i}" / "log") for i in range(100)]
    age(tmp_path)
    watched = Watched(tmp_path)
    watched.poll()
    for path in paths[17::31]:
        path.write_text("line\nanother\n")
        os.utime(path, ns=(OLD_NS, OLD_NS))
    seen: set[str] = set()
    for _ in range(REVISIT_MS // POLL_MS):
        seen.update(watched.poll())
    assert seen == {f"c{i}/log" for i in range(100)}


def test_a_file_that_a_folder_of_unchanged_time_was_given_is_seen_within_that_time(tmp_path: Path) -> None:
    for i in range(20):
        write(tmp_path / f"c{i}" / "log")
    age(tmp_path)
    watched = Watched(tmp_path)
    watched.poll()
    write(tmp_path / "c9" / "more" / "log")
    age(tmp_path)
    seen: set[str] = set()
    for _ in range(REVISIT_MS // POLL_MS):
        seen.update(watched.poll())
    assert "c9/more/log" in seen


@pytest.mark.parametrize("younger_ns", [0, GRANULARITY_NS - 1])
def test_a_folder_that_was_listed_while_its_time_was_young_is_listed_again(tmp_path: Path, younger_ns: int) -> None:
    """A second file comes within the same tick of the file system's clock: the folder's time stays as it was."""
    write(tmp_path / "c" / "other")
    age(tmp_path)
    watched = Watched(tmp_path)
    watched.clock_ns = OLD_NS + younger_ns
    assert watched.poll() == []
    write(tmp_path / "c" / "log")
    age(tmp_path)
    assert watched.poll() == ["c/log"]


def test_new_files_and_folders_are_seen_by_the_next_poll(tmp_path: Path) -> None:
    write(tmp_path / "app" / "c1" / "log")
    age(tmp_path)
    watched = Watched(tmp_path)
    watched.poll()
    for _ in range(100):
        watched.poll()
    write(tmp_path / "app" / "c2" / "log")
    assert "app/c2/log" in watched.poll()
    write(tmp_path / "app2" / "c1" / "log")
    assert "app2/c1/log" in watched.poll()


def test_a_new_empty_folder_is_looked_at_until_it_has_stayed_so(tmp_path: Path, calls: Counter[str]) -> None:
    watched = Watched(tmp_path)
    age(tmp_path)
    watched.poll()
    (tmp_path / "c").mkdir()
    age(tmp_path, NOW_MS * 1_000_000)
    watched.clock_ns = NOW_MS * 1_000_000 + GRANULARITY_NS
    watched.poll()
    for _ in range(3):
        calls.clear()
        watched.poll()
        assert calls == {"stat": 2}
    write(tmp_path / "c" / "log")
    assert watched.poll() == ["c/log"]


def test_files_that_are_renamed_replaced_and_removed(tmp_path: Path) -> None:
    path = write(tmp_path / "c" / "log")
    other = write(tmp_path / "d" / "log")
    key, other_key = (f"{p.stat().st_dev}:{p.stat().st_ino}" for p in (path, other))
    watched = Watched(tmp_path)
    watched.in_use = lambda _: True
    watched.poll()
    assert watched.watch.keys() == {key, other_key}
    (tmp_path / "e").mkdir()
    path.rename(tmp_path / "e" / "log")
    assert watched.poll() == ["d/log", "e/log"]
    assert watched.watch.take_gone() == set()
    other.unlink()
    (tmp_path / "c").rmdir()
    assert watched.poll() == ["e/log"]
    assert watched.watch.take_gone() == {other_key}
    assert watched.watch.keys() == {key}
    write(tmp_path / "x", "")
    (tmp_path / "x").rename(tmp_path / "e" / "log")
    watched.poll()
    assert watched.watch.take_gone() == {key}


def test_of_many_files_in_use_those_come_first_that_wait_longest(tmp_path: Path) -> None:
    for i in range(5):
        write(tmp_path / f"log{i}" / "log")
    age(tmp_path)
    watched = Watched(tmp_path, max_looks=2)
    watched.in_use = lambda _: True
    watched.poll()
    first_ms = watched.now_ms
    assert watched.poll() == ["log0/log", "log1/log"]
    assert watched.watch.since_ms(watched.now_ms) == first_ms
    assert watched.poll() == ["log2/log", "log3/log"]
    assert watched.poll() == ["log0/log", "log4/log"]
    assert watched.watch.since_ms(watched.now_ms) < watched.now_ms


def test_a_poll_takes_in_a_bounded_number_of_new_files(tmp_path: Path) -> None:
    for i in range(5):
        write(tmp_path / f"c{i}" / "log")
    watched = Watched(tmp_path, max_new=2)
    assert watched.poll() == ["c0/log", "c1/log"]
    assert watched.watch.is_behind
    assert watched.poll(0) == ["c2/log", "c3/log"]
    assert watched.poll(0) == ["c4/log"]
    assert not watched.watch.is_behind


def test_what_cannot_be_listed_is_told_once_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "c" / "log")
    real, refused = os.scandir, [str(tmp_path / "c")]

    def scandir(path: str) -> Any:
        if path in refused:
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    watched = Watched(tmp_path)
    assert (watched.poll(), watched.poll()) == ([], [])
    assert [problem.kind for problem in watched.problems.drain()] == ["unreadable"]
    refused.clear()
    assert watched.poll() == ["c/log"]


def test_links_to_folders_pipes_and_names_with_line_feeds(tmp_path: Path) -> None:
    write(tmp_path / "c" / "log")
    (tmp_path / "c" / "circle").symlink_to(tmp_path)
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "d" / "log")
    assert Watched(tmp_path).poll() == ["c/log"]
