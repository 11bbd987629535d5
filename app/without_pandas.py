"""pandas is left out of the program's own processes: Arrow imports it with its first array wherever it is installed,
which takes a third of a second and 40 MB, for nothing that we use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _NotThere(MetaPathFinder):
    def find_spec(self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out here", name=fullname)


_FINDER = _NotThere()


def leave_out_pandas() -> None:
    """From now on whoever imports pandas is told that it is not there."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def allow_pandas() -> None:
    """For modules of others, which may want it."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)


__all__ = ["allow_pandas", "leave_out_pandas"]
