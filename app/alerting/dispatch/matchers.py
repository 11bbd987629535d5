"""Matchers over labels, as Alertmanager writes them: `severity="critical"`, `team=~"a|b"`, `host!=""`.

A label that is not there is an empty one. Regular expressions are RE2's (by way of Arrow): they match whole values, and
take time linear in them, whatever the expression. Arrow is loaded when the first is asked for that needs an engine: who
only prints alerts has none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

MAX_MATCHERS = 100
MAX_PATTERN_CHARS = 4_000
MAX_EXPANDED = 500
"""States of a regular expression beyond its length: asking is linear in the value, but compiling is not in the pattern,
and a short one may stand for a million states."""

_CLASSIC_NAME = r"[A-Za-z_:][A-Za-z0-9_:]*"
_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_MATCHER = re.compile(
    rf"\s*(?P<name>{_CLASSIC_NAME}|{_QUOTED})\s*(?P<op>=~|!~|!=|=)\s*"
    rf"(?P<value>{_QUOTED}|[^\s,{{}}\"'`]+(?:[ \t]+[^\s,{{}}\"'`]+)*|)\s*"
)
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\", "t": "\t"}
_LITERAL = re.compile(r"[A-Za-z0-9_ :/@-]*(?:\|[A-Za-z0-9_ :/@-]*)*")
"""A pattern that is an alternative of plain words: most are, and need no engine."""

_COUNTED = re.compile(r"\{(\d{1,4})(?:,(\d{0,4}))?\}")
_ITEM = re.compile(r"\\Q.*?(?:\\E|\Z)|\\[pP]\{[^}]*\}|\\[pP].|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
"""What repetitions may follow: a quoted text, an escape, a class of characters, any character."""
_UNICODE = re.compile(r"\\[pP]")
_UNICODE_STATES = 20

OPERATORS = ("=", "!=", "=~", "!~")


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on one label."""

    name: str
    operator: str
    """One of OPERATORS."""
    value: str
    """Or the regular expression."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fulfil it."""
        found = labels.get(self.name, "")
        match self.operator:
            case "=":
                return found == self.value
            case "!=":
                return found != self.value
            case "=~":
                return matches_whole(self.value, found)
            case _:
                return not matches_whole(self.value, found)

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        name = self.name if re.fullmatch(_CLASSIC_NAME, self.name) else f'"{self.name}"'
        return f'{name}{self.operator}"{escaped}"'


Matchers = tuple[Matcher, ...]
"""All of them have to hold."""


def all_match(matchers: Sequence[Matcher], labels: Mapping[str, str]) -> bool:
    """Whether labels fulfil all of them; true of none."""
    return all(matcher.matches(labels) for matcher in matchers)


def matchers_text(matchers: Sequence[Matcher]) -> str:
    """As Alertmanager prints them: `{a="b",c=~"d"}`."""
    return f"{{{','.join(map(str, matchers))}}}"


def parse_matchers(text: str) -> Matchers:
    """`{a="b", c=~"d"}`, with or without braces; raises ValueError that says where it is wrong."""
    inside = text.strip()
    if inside.startswith("{") != inside.endswith("}"):
        raise ValueError(f'{text!r}: one brace of two; expected matchers such as {{severity="critical"}}')
    if inside.startswith("{"):
        inside = inside[1:-1]
    return tuple(_parsed(inside, text))


def _parsed(inside: str, text: str) -> Iterator[Matcher]:
    at, n_found = 0, 0
    while at < len(inside) and inside[at:].strip():
        match = _MATCHER.match(inside, at)
        if match is None or (match.end() < len(inside) and inside[match.end()] != ","):
            raise ValueError(
                f"{text!r}: {inside[at:].strip()[:50]!r} is no matcher; expected a label, one of = != =~ !~, and a "
                'value in double quotes, as in severity="critical"'
            )
        at, n_found = match.end() + 1, n_found + 1
        if n_found > MAX_MATCHERS:
            raise ValueError(f"more than {MAX_MATCHERS} matchers; expected fewer")
        yield made(_unquoted(match["name"]), match["op"], _unquoted(match["value"]))
    if not n_found and inside.strip():
        raise ValueError(f'{text!r}: no matcher; expected one such as severity="critical"')


def made(name: str, operator: str, value: str) -> Matcher:
    """A matcher whose regular expression was tried; raises ValueError."""
    if not name:
        raise ValueError("a matcher without a label's name")
    if operator in ("=~", "!~"):
        import pyarrow as pa
        import pyarrow.compute as pc

        if len(value) > MAX_PATTERN_CHARS:
            raise ValueError(
                f"a regular expression of more than {MAX_PATTERN_CHARS} characters; expected a shorter one"
            )
        if r"\E" not in value.rpartition(r"\Q")[2] and r"\Q" in value:
            value += r"\E"
        try:
            pc.match_substring_regex("", value)  # by itself: brackets of its own must not close those around it
            matches_whole(value, "")
        except pa.ArrowInvalid as error:
            reason = str(error).removeprefix("Invalid regular expression: ").replace(r"\A(?:", "").replace(r")\z", "")
            raise ValueError(f"{value!r} is no regular expression of RE2: {reason}") from None
        if _expanded(value) > len(value) + MAX_EXPANDED:
            raise ValueError(
                f"{value!r} repeats too much: it is asked for every alert, and is compiled to thousands of states; "
                "expected a regular expression with fewer or smaller repetitions"
            )
    return Matcher(name, operator, value)


def _expanded(pattern: str) -> int:
    """About how many states RE2 makes of it: counted repetitions are written out, classes of Unicode are large."""
    groups = [[0, 0]]  # of each open one: its states, and those of its last item
    at = 0
    while at < len(pattern):
        if (counted := _COUNTED.match(pattern, at)) is not None:
            times = max(int(number) for number in counted.groups(default="0") if number)
            groups[-1][0] += groups[-1][1] * (times - 1)
            groups[-1][1] *= times
            at = counted.end()
            continue
        item = _ITEM.match(pattern, at)
        assert item is not None, "it matches any character"
        at = item.end()
        if item[0] == "(":
            groups.append([0, 0])
        elif item[0] == ")" and len(groups) > 1:
            n_states, _ = groups.pop()
            groups[-1] = [groups[-1][0] + n_states, n_states]
        elif item[0] not in "*+?|^$":
            n_states = 1 + _UNICODE_STATES * len(_UNICODE.findall(item[0]))
            groups[-1] = [groups[-1][0] + n_states, n_states]
    return groups[0][0]


@lru_cache(maxsize=50_000)
def matches_whole(pattern: str, value: str) -> bool:
    """Whether a regular expression of RE2 matches the whole of a value; raises pa.ArrowInvalid for one that is none."""
    if pattern in ("", ".*", ".+") and "\n" not in value:
        return pattern == ".*" or (pattern == "") == (value == "")
    if _LITERAL.fullmatch(pattern):
        return value in _words(pattern)
    import pyarrow.compute as pc

    found: bool = pc.match_substring_regex(value, rf"\A(?:{pattern})\z").as_py()
    return found


def those_matched(pattern: str, values: Collection[str]) -> frozenset[str]:
    """Those of many values that a regular expression matches whole: asked at once, in a tenth of the time of each by
    itself."""
    if pattern in ("", ".*", ".+") or _LITERAL.fullmatch(pattern):
        return frozenset(value for value in values if matches_whole(pattern, value))
    import pyarrow as pa
    import pyarrow.compute as pc

    asked = pa.array(list(values), pa.string())
    return frozenset(asked.filter(pc.match_substring_regex(asked, rf"\A(?:{pattern})\z")).to_pylist())


@lru_cache(maxsize=1_000)
def _words(pattern: str) -> frozenset[str]:
    return frozenset(pattern.split("|"))


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), text[1:-1])


__all__ = [
    "OPERATORS",
    "Matcher",
    "Matchers",
    "all_match",
    "made",
    "matchers_text",
    "matches_whole",
    "parse_matchers",
    "those_matched",
]
