"""What Python calls says of every array that it takes which numbers it holds and how many dimensions it has.

Arrays are what a kernel indexes or asks for its shape. They are told in its docstring or its module's, or in those of
the modules that these name. Records of arrays have their types in their annotations.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[3] / "engine"
KERNELS = ENGINE / "kernels"
WAYS = {"kernel", "leaf", "inlined", "apart"}
DTYPE = re.compile(r"\b(?:u?int(?:8|16|32|64)|float64|bool)\b[^()]{0,40}\(")
ELSEWHERE = re.compile(r"`[\w.]+`")


@cache
def tree_of(path: Path) -> ast.Module:
    """A parsed module."""
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    """The dotted name of a module of the engine."""
    return ".".join(path.relative_to(ENGINE.parent).with_suffix("").parts)


def called_from_outside() -> set[tuple[str, str]]:
    """Module and name of what the engine beside its kernels imports of them, or reads of their modules."""
    found = set()
    for path in ENGINE.rglob("*.py"):
        if path.is_relative_to(KERNELS) or "engine.kernels" not in path.read_text():
            continue
        modules = {}
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("engine.kernels"):
                found |= {(str(node.module), alias.name) for alias in node.names}
                modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                found.add((modules[node.value.id], node.attr))
    return found


def public_kernels() -> Iterator[tuple[Path, ast.FunctionDef]]:
    """The kernels that Python calls."""
    called = called_from_outside()
    for path in sorted(KERNELS.rglob("*.py")):
        for node in tree_of(path).body:
            if isinstance(node, ast.FunctionDef) and (name_of(path), node.name) in called:
                ways = {way.id for way in node.decorator_list if isinstance(way, ast.Name)}
                if ways & WAYS:
                    yield path, node


def arrays_of(kernel: ast.FunctionDef) -> list[str]:
    """The parameters that a kernel indexes or asks for their shape."""
    used = set()
    for node in ast.walk(kernel):
        is_array = isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "shape")
        if is_array and isinstance(node.value, ast.Name):  # type: ignore[attr-defined]
            used.add(node.value.id)  # type: ignore[attr-defined]
    return [argument.arg for argument in kernel.args.args if argument.arg in used]


def documentation(path: Path, docstring: str) -> str:
    """A docstring with its module's, and those of the kernel modules that these name, and so on."""
    texts, waiting, seen = [docstring], [path], {path}
    while waiting:
        tree = tree_of(waiting.pop())
        texts.append(ast.get_docstring(tree) or "")
        for name in re.findall(r"`(engine\.kernels\.[\w.]+)`", "\n".join(texts)):
            named = ENGINE.parent / Path(*name.split(".")).with_suffix(".py")
            if named.is_file() and named not in seen:
                seen.add(named)
                waiting.append(named)
    return "\n".join(texts)


def has_notice(array: str, text: str) -> bool:
    """Whether a clause says which numbers `array` holds and its shape, or where that stands."""
    for found in re.finditer(rf"(?<![.\w]){array}\b(?![\[(])", text):
        clause = re.split(r"\.(?=\s|$)|;", text[found.end() : found.end() + 200])[0]
        if DTYPE.search(clause) or ELSEWHERE.search(clause):
            return True
    return False


def test_a_clause_tells_an_array() -> None:
    text = "rows: int64 (n,), ascending. t_ms, stack float64 (MAX_STACK,): scratch; kinds: see `slots`. heads[k] is one"
    assert [name for name in ("rows", "t_ms", "stack", "kinds", "heads", "ms") if has_notice(name, text)] == [
        "rows",
        "t_ms",
        "stack",
        "kinds",
    ]


@pytest.mark.parametrize(
    ("path", "kernel"), [pytest.param(*found, id=f"{found[0].stem}.{found[1].name}") for found in public_kernels()]
)
def test_kernels_tell_their_arrays(path: Path, kernel: ast.FunctionDef) -> None:
    text = documentation(path, ast.get_docstring(kernel) or "")
    assert [array for array in arrays_of(kernel) if not has_notice(array, text)] == []


def test_all_are_looked_at() -> None:
    assert len(list(public_kernels())) > 80
