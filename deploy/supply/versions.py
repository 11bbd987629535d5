"""Which of two versions is the later one, by the rules of each ecosystem."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from packaging.version import Version

_MAVEN_QUALIFIERS = {
    "alpha": -5, "a": -5, "beta": -4, "b": -4, "milestone": -3, "m": -3, "rc": -2, "cr": -2, "snapshot": -1,
    "": 0, "ga": 0, "final": 0, "release": 0, "sp": 1,
}  # fmt: skip
_OTHER_WORD, _NUMBER = 2, 3
_END = (0, 0, "")
_ZERO = (_NUMBER, 0, "")


def maven_order(version: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts as Maven does (POM reference, "Version Order Specification"), but for its rarest cases."""
    words = [_word(word) for word in re.findall(r"\d+|[a-z]+", version.lower())]
    kept: list[tuple[int, int, str]] = []
    for word in (*words, _END):
        if word[0] != _NUMBER:
            while kept and kept[-1] == _ZERO:  # 1.0 is 1, and 1.0-rc1 is 1-rc1
                kept.pop()
        kept.append(word)
    return tuple(kept)


def pypi_order(version: str) -> Version:
    """By PEP 440; raises ValueError for what is no version."""
    return Version(version)


ORDERS: Mapping[str, Callable[[str], Any]] = {"PyPI": pypi_order, "Maven": maven_order}


def _word(word: str) -> tuple[int, int, str]:
    if word.isdecimal():
        return (_NUMBER, int(word), "")
    rank = _MAVEN_QUALIFIERS.get(word, _OTHER_WORD)
    return (rank, 0, word if rank == _OTHER_WORD else "")


__all__ = ["ORDERS", "maven_order", "pypi_order"]
