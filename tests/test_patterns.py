"""Every regular expression takes time in proportion to what it reads, whoever wrote that.

For each repetition of each pattern texts are made that go through it again and again and then fail. At a quarter of the
longest line that is read, a pattern that is quadratic takes minutes: the limit is no timing, but tells it from one that
takes milliseconds.
"""

from __future__ import annotations

import ast
import importlib
import multiprocessing
import re
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # the way in which Python itself reads a pattern
from re import _parser as parser
from typing import Any

import pytest

from collectors.logs.daemon_log import NAME_PATTERN
from collectors.logs.path_layout import PathLayout
from collectors.logs.tail import MAX_LINE_BYTES

ROOT = Path(__file__).parents[1]
PACKAGES = ("app", "collectors", "dashboard", "engine", "spark_jobs")
LENGTH = MAX_LINE_BYTES // 4
LIMIT_S = 15
"""Of processor time for one text: a hundred times what a linear pattern takes on a busy machine; another takes minutes
at least, of the whole line sixteen times as long."""
LENGTHS = {"daemon_log.name_pattern": 255}
"""Of what is no line: names of files."""
USES = ("match", "fullmatch", "search", "sub", "finditer", "findall", "split")
MENTIONED = re.compile(rf"\bre\.|\.(?:{'|'.join(USES)})\(")
"""What has none of this uses no pattern, and is not parsed: every worker asks for all uses when it collects tests."""
PROBES = "aA0 .:/_-#(){}[]<>=,;'\"\\!@*`\n\x00"
MOST = 1_000
"""A repetition that ends before has no room to be slow."""

Use = tuple[str, "re.Pattern[Any]", str]


def uses() -> Iterator[Use]:
    """Place, pattern and method of each use of a pattern, and of those that are put together from options."""
    methods: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # by module and name
    places: list[tuple[str, str]] = []
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        if not MENTIONED.search(text):
            continue
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner, method = node.func.value, node.func.attr
            if isinstance(owner, ast.Name) and owner.id == "re" and method in USES:
                if isinstance(node.args[0], ast.Constant):  # else an operator's own
                    yield f"{module}:{node.lineno}", re.compile(node.args[0].value), method
            elif isinstance(owner, ast.Name) and method in USES:
                methods[module, owner.id].add(method)
        for statement in tree.body:
            value = getattr(statement, "value", None)
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "re.compile":
                assert isinstance(statement, ast.Assign | ast.AnnAssign)
                (name,) = [statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets
                assert isinstance(name, ast.Name)
                places.append((module, name.id))
    for module, constant in places:
        # Who uses a name that another module defines has it from there; one that is defined twice is not mistaken.
        users = (used for used in methods if used[1] == constant and (used == (module, constant) or used not in places))
        for method in sorted({method for used in users for method in methods[used]}):
            yield f"{module}.{constant}", getattr(importlib.import_module(module), constant), method
    yield "daemon_log.name_pattern", re.compile(NAME_PATTERN), "fullmatch"
    yield (
        "path_layout",
        PathLayout.of("{host}/{user}/{application}/{container}/{role}", frozenset()).pattern,
        "fullmatch",
    )


# -------------------------------------------------------------------- texts


def fits(part: Any, character: str, flags: int = 0) -> bool:
    """Whether a part of a pattern that matches one character matches this one."""
    pattern = parser.State()
    pattern.flags = flags
    compiled = parser.SubPattern(pattern, [part])
    return re._compiler.compile(compiled).match(character) is not None  # type: ignore[attr-defined]


def kinds(parsed: Any) -> str:
    """One of `PROBES` for each kind: those that every part of a pattern takes, or refuses, alike cost it the same."""
    parts = [(codes.LITERAL, ord("\n")), (codes.IN, [(codes.CATEGORY, codes.CATEGORY_WORD)]), *_single(parsed)]
    found: dict[tuple[bool, ...], str] = {}
    for character in PROBES:
        alike = tuple(fits(part, character, flags) for part in parts for flags in (0, re.IGNORECASE, re.DOTALL))
        found.setdefault(alike, character)
    return "".join(found.values())


def _single(parsed: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a pattern that match one character."""
    single = (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY)
    if isinstance(parsed, tuple) and any(parsed[:1] and parsed[0] is code for code in single):
        yield parsed
    elif isinstance(parsed, tuple | list | parser.SubPattern):
        for inner in parsed:
            yield from _single(inner)


def members(items: Any, characters: str) -> str:
    """Those of a class, of different kinds."""
    return "".join(character for character in characters if fits((codes.IN, items), character)) or "\u00e9"


def shortest(parts: Any) -> str:
    """A text that these parts of a pattern match, for want of better the shortest."""
    return "".join(map(_shortest_of, parts))


def _shortest_of(part: tuple[Any, Any]) -> str:
    code, what = part
    if code is codes.LITERAL:
        return chr(what)
    if code is codes.NOT_LITERAL:
        return next(character for character in PROBES if ord(character) != what)
    if code is codes.IN:
        return members(what, PROBES)[0]
    if code is codes.ANY:
        return "a"
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return shortest(what[2]) * int(what[0])
    if code is codes.SUBPATTERN:
        return shortest(what[3])
    if code is codes.ATOMIC_GROUP:
        return shortest(what)
    if code is codes.BRANCH:
        return shortest(what[1][0])
    return ""  # places between characters, and what is looked at ahead


def repeated(parts: Any, characters: str, before: str = "") -> Iterator[tuple[str, str]]:
    """For each repetition without a near end what comes before it and what it repeats."""
    for part in parts:
        code, what = part
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            _, most, body = what
            if most >= MOST:
                yield from ((before, once) for once in once_each(body, characters))
            yield from repeated(body, characters, before)
        elif code is codes.SUBPATTERN:
            yield from repeated(what[3], characters, before)
        elif code is codes.ATOMIC_GROUP:
            yield from repeated(what, characters, before)
        elif code is codes.BRANCH:
            for branch in what[1]:
                yield from repeated(branch, characters, before)
        before += _shortest_of(part)


def once_each(body: Any, characters: str) -> Iterator[str]:
    """Texts that a repeated part matches once."""
    if len(body) == 1 and body[0][0] is codes.IN:
        yield from members(body[0][1], characters)
    elif len(body) == 1 and body[0][0] is codes.ANY:
        yield from "a "
    elif len(body) == 1 and body[0][0] is codes.BRANCH:
        for branch in body[0][1][1]:
            yield from once_each(branch, characters)
    elif len(body) == 1 and body[0][0] is codes.SUBPATTERN:
        yield from once_each(body[0][1][3], characters)
    yield shortest(body)


def hostile(pattern: re.Pattern[Any], length: int = LENGTH) -> Iterator[str]:
    """Texts of this length that go through a repetition, or come to one again and again, and then fail."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    parsed = parser.parse(text, pattern.flags & ~re.UNICODE)
    seen = {(before, once) for before, once in repeated(parsed, kinds(parsed)) if once}
    ways = {
        way
        for before, once in seen
        for way in ((before, once), ("", before + once), ("", (before or once)[:-1] or once))
    }
    for start, pump in sorted(ways):
        whole = start + pump * ((length - len(start)) // len(pump))
        yield from (whole, whole + "\x00", whole + "\n\x00")


# -------------------------------------------------------------------- search


def _go_through(pattern: re.Pattern[Any], method: str, length: int, limit_s: int) -> None:
    for text in hostile(pattern, length):
        spent_s = int(time.process_time()) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (spent_s + limit_s, resource.RLIM_INFINITY))
        given: Any = text if isinstance(pattern.pattern, str) else text.encode("utf-8", "replace")
        if method == "sub":
            pattern.sub(type(given)(), given)
        elif method == "finditer":
            for _ in pattern.finditer(given):
                pass
        else:
            getattr(pattern, method)(given)


def is_linear(pattern: re.Pattern[Any], method: str, length: int = LENGTH, limit_s: int = LIMIT_S) -> bool:
    process = multiprocessing.get_context("fork").Process(target=_go_through, args=(pattern, method, length, limit_s))
    process.start()
    process.join()
    return process.exitcode == 0


@pytest.mark.in_turn(of=3)
@pytest.mark.parametrize(
    ("place", "pattern", "method"), [pytest.param(*use, id=f"{use[0]} {use[2]}") for use in uses()]
)
def test_time_grows_with_the_length_of_the_text(place: str, pattern: re.Pattern[Any], method: str) -> None:
    assert is_linear(pattern, method, LENGTHS.get(place, LENGTH))


def test_patterns_that_are_not_linear_are_told() -> None:
    assert is_linear(re.compile("a+b"), "match", limit_s=5)
    assert not is_linear(re.compile("a+b"), "search", limit_s=1)
    assert not is_linear(re.compile("(?:a|b|ab)+c"), "match", limit_s=1)
    assert not is_linear(re.compile(r"Container \[(\d+)\] is (.*?) limits"), "search", limit_s=1)


def test_characters_of_one_kind_are_those_that_a_pattern_does_not_tell_apart() -> None:
    assert kinds(parser.parse("[a-z]+!")) == "aA0 !\n"
    assert kinds(parser.parse("(?i:[a-f]x)|[^0-9]*")) == "aA0 _\n"
