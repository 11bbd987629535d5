"""The tree: no folder that a newcomer cannot overlook, no modules that need each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PACKAGES = ("app", "collectors", "dashboard", "engine", "spark_jobs")
MOST_MODULES = 21
"""In one folder; `__init__.py` is the folder itself."""


def too_full(modules: Iterable[Path]) -> dict[Path, int]:
    """Folders with more modules than somebody looks through, and how many these are."""
    counted = Counter(path.parent for path in modules if path.name != "__init__.py")
    return {folder: n for folder, n in counted.items() if n > MOST_MODULES}


def circles(modules: Iterable[str], imported_by: Callable[[str], Iterable[str]]) -> Iterator[set[str]]:
    """Modules that need each other: strongly connected components of more than one (Tarjan's algorithm)."""
    lowest: dict[str, int] = {}
    number: dict[str, int] = {}
    open_: list[str] = []

    def visit(module: str) -> Iterator[set[str]]:
        number[module] = lowest[module] = len(number)
        open_.append(module)
        for other in imported_by(module):
            if other not in number:
                yield from visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in open_:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            at = open_.index(module)
            found = set(open_[at:])
            del open_[at:]
            if len(found) > 1:
                yield found

    for module in modules:
        if module not in number:
            yield from visit(module)


def test_circles_are_found() -> None:
    graph = {"a": "b", "b": "cd", "c": "a", "d": "e", "e": "", "f": "df"}
    assert list(circles(graph, lambda module: graph[module])) == [{"a", "b", "c"}]
    assert too_full([Path("x", f"{n}.py") for n in range(MOST_MODULES + 1)]) == {Path("x"): MOST_MODULES + 1}


def test_no_modules_need_each_other() -> None:
    """Imports within functions and for types alone count, too."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    modules = sorted(graph.modules)
    assert len(modules) > 900
    assert list(circles(modules, graph.find_modules_directly_imported_by)) == []


def test_no_folder_is_too_full() -> None:
    folders = (*PACKAGES, "benchmarks", "deploy", "tests")
    assert too_full(path for folder in folders for path in (ROOT / folder).rglob("*.py")) == {}
