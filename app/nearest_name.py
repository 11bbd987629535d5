"""What somebody may have meant who wrote a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

LEAST_LIKENESS = 0.6
"""Of 0 to 1, by `difflib.SequenceMatcher.ratio`: below it a name is no mistyped one but another."""


def did_you_mean(found: str, known: Iterable[str], after: str = "") -> str:
    """`did you mean 'NAME'?` with the nearest of the known names, behind `after`; empty where none is near."""
    near = nearest(found, known)
    return "" if near is None else f"{after}did you mean {near!r}?"


def nearest(found: str, known: Iterable[str]) -> str | None:
    """The nearest of the known names; None where none is near."""
    import difflib

    return next(iter(difflib.get_close_matches(found, list(known), n=1, cutoff=LEAST_LIKENESS)), None)


def near_query(path: Path) -> str:
    """`; did you mean FILE.cep?`: beside the one that is not there, or among the queries of this folder."""
    beside = [*sorted(path.parent.glob("*.cep")), *sorted(Path("queries").glob("*.cep"))]
    files = {file.stem: file for file in reversed(beside)}
    near = nearest(path.stem, files)
    return "" if near is None else f"; did you mean {files[near]}?"


__all__ = ["did_you_mean", "near_query", "nearest"]
