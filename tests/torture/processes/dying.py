"""A process that ends in the middle of what it writes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any


def armed_after(n_statements: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What makes calls deadly: from the first of them on statements of all databases are counted, and the process kills
    itself with the n-th."""
    from sqlalchemy import Engine, event

    left: list[int] = []

    def count(*_arguments: Any) -> None:
        if left:
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def armed(call: Callable[..., Any]) -> Callable[..., Any]:
        def reached(*arguments: Any, **named: Any) -> Any:
            left.append(n_statements)
            return call(*arguments, **named)

        return reached

    event.listen(Engine, "after_cursor_execute", count)
    return armed


__all__ = ["armed_after"]
