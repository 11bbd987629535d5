"""pandas is left out of the program's own processes: Arrow imports it with its first array wherever it is installed,
which takes a third of a second and 40 MB, for nothing that we use."""

from __future__ import annotations

import sys

_LEFT_OUT = "pandas"


def leave_out_pandas() -> None:
    """From now on whoever imports pandas is told that it is not there."""
    sys.modules.setdefault(_LEFT_OUT, None)  # type: ignore[arg-type]


def allow_pandas() -> None:
    """For modules of others, which may want it."""
    if sys.modules.get(_LEFT_OUT, sys) is None:
        del sys.modules[_LEFT_OUT]


__all__ = ["allow_pandas", "leave_out_pandas"]
