"""Files in a collector's folders that it does not read: looked into once, so that none is passed over in silence."""

from __future__ import annotations

from collections.abc import Callable

from collectors.base import ProblemLog
from collectors.file_kinds import MAX_LOOKED_AT_BYTES
from collectors.files import FoundFile, read_chunks

KIND = "other_kind"
"""Of the problems."""

MAX_PER_POLL = 100
"""Files that one poll looks into; the others' turn comes with later ones."""


class FilesLeftOut:
    """What the files that a collector leaves out are, each told once for the content that it begins with."""

    def __init__(self, problems: ProblemLog, say: Callable[[bytes], str | None]) -> None:
        """`say`: what to tell of a file that begins so; None: nothing, it may well lie there."""
        self._problems = problems
        self._say = say
        self._looked_at: set[str] = set()
        self._seen: set[str] = set()
        self._n_left = MAX_PER_POLL

    def found(self, file: FoundFile) -> None:
        """Look into a file unless that was done; an empty one waits until something is in it."""
        self._seen.add(file.key)
        if file.key in self._looked_at or not file.n_bytes or not self._n_left:
            return
        self._n_left -= 1
        self._looked_at.add(file.key)
        unread = ProblemLog(self._problems.source)  # what nobody wanted to be read may well be private
        begin = b"".join(read_chunks(file.path, 0, MAX_LOOKED_AT_BYTES, unread))
        if unread.drain():
            return
        told = self._say(begin)
        if told is not None:
            self._problems.report(file.path, KIND, told)

    def end_poll(self) -> None:
        """All files have been found; those that are gone are forgotten."""
        self._looked_at &= self._seen
        self._seen, self._n_left = set(), MAX_PER_POLL


__all__ = ["KIND", "FilesLeftOut"]
