"""What a process does that matters less than the live one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def give_way() -> None:
    """Take the processor when nobody else wants it, and be the first to go when memory runs out; children too."""
    os.nice(10)
    with suppress(OSError):  # no such file outside of Linux
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


__all__ = ["give_way"]
