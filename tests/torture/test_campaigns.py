"""`make torture` lists the campaigns that there are, and each can be run."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.torture.__main__ import CAMPAIGNS


def test_each_module_of_a_campaign_is_listed_and_can_be_run() -> None:
    modules = {
        path.stem: ast.parse(path.read_text(encoding="utf-8"))
        for path in (Path(__file__).parent / "campaigns").glob("*.py")
        if path.stem != "__init__"
    }
    assert {*CAMPAIGNS} == {*modules}
    for name, module in modules.items():
        assert "run" in {node.name for node in module.body if isinstance(node, ast.FunctionDef)}, name
