"""`make bench BENCH=name`: which names there are."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks


def _defines_main(path: Path) -> bool:
    module = ast.parse(path.read_text(encoding="utf-8"))
    return "main" in {node.name for node in module.body if isinstance(node, ast.FunctionDef)}


def test_names_are_those_of_all_folders() -> None:
    """What is called `tables` or `measure` is none: it has nothing to run."""
    suites = {"imprecise", "precise", "shedding", "spark", "trend_figures"}
    modules = [
        path
        for path in benchmarks.FOLDER.glob("*/*.py")
        if path.parent.name not in suites and path.stem != "__init__" and _defines_main(path)
    ]
    assert sorted(benchmarks.NAMES) == sorted([*suites, *(path.stem for path in modules)])
    assert {"latency", "storm", "store_pages", "sources", "bounds"} <= {*benchmarks.NAMES}
    assert not {"tables", "measure", "own_process", "hadoop_stream"} & {*benchmarks.NAMES}


def test_what_has_a_name_can_be_run() -> None:
    for name, module in (benchmarks.NAMES | benchmarks.PARTS).items():
        spec = find_spec(module)
        assert spec is not None, name
        assert spec.origin is not None, name
        assert _defines_main(Path(spec.origin)), name


def test_an_unknown_name_is_told_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.main(["latenzy"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("no benchmark is called latenzy; there are: api_alerts, bounds, ")
    assert "spark.query" in told
