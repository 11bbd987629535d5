"""What is packed for executors: every distribution that the packages there import, and that is installed."""

from __future__ import annotations

import ast
import sys
from importlib.metadata import packages_distributions

from deploy.spark.pack import NEEDED, PACKAGES, ROOT, closure

OF_SPARK = {"pyspark", "py4j"}
"""Each executor has them with Spark."""


ELSEWHERE = ("apprise", "sklearn")
"""Imported by processes that are no job on Spark: the one that tells of alerts where it is installed, and training."""


def imported() -> set[str]:
    """The first names of all modules that the packages import, wherever."""
    found: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    found |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                    found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names)


def test_every_import_is_packed() -> None:
    packed = closure(NEEDED)
    owners = packages_distributions()
    needed = {
        name: {owner.lower().replace("_", "-") for owner in owners.get(name, ())}
        for name in imported() - {*PACKAGES, *OF_SPARK, *ELSEWHERE}
    }
    assert needed
    assert {name for name, of in needed.items() if not of & packed.keys()} == set()
